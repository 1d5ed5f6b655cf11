// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/checked.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

class FlattenLayer final : public StridedLayer {
 public:
  explicit FlattenLayer(const LayerInit& init)
      : StridedLayer(init), start_(init.Arg("start_dim")), end_(init.Arg("end_dim")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    const int start = NormalizeAxis(args[start_].AsInt(), input.rank());
    const int end = NormalizeAxis(args[end_].AsInt(), input.rank());
    if (start > end) {
      throw Error(ErrorCode::kInvalidArgument, "start_dim " + args[start_].ToString() +
                                                   " lies behind end_dim " + args[end_].ToString());
    }
    Shape shape;
    for (int i = 0; i < start; ++i) shape.Append(input[i]);
    shape.Append(input.Product(start, std::min(end + 1, input.rank())));
    for (int i = end + 1; i < input.rank(); ++i) shape.Append(input[i]);
    return {Reshaped(input, shape)};
  }

 private:
  int start_, end_;
};

class UnflattenLayer final : public StridedLayer {
 public:
  explicit UnflattenLayer(const LayerInit& init)
      : StridedLayer(init),
        dim_(init.Arg("dim")),
        sizes_(init.Arg(init.Arg("sizes") >= 0 ? "sizes" : "unflattened_size")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    const int dim = NormalizeAxis(args[dim_].AsInt(), input.rank());
    if (input.rank() == 0) {
      throw Error(ErrorCode::kInvalidArgument, "expected a rank of at least 1, got 0");
    }
    Shape shape = input;
    shape.Erase(dim);
    int at = dim;
    for (int64_t extent : Sizes(input[dim], args[sizes_])) shape.Insert(at++, extent);
    return {Reshaped(input, shape)};
  }

 private:
  static std::vector<int64_t> Sizes(int64_t extent, const Value& wanted) {
    std::vector<int64_t> sizes = wanted.AsInts();
    int64_t known = 1;
    int64_t* free_size = nullptr;
    bool valid = !sizes.empty();
    for (int64_t& size : sizes) {
      if (size == -1) {
        valid = valid && free_size == nullptr;
        free_size = &size;
      } else {
        valid = valid && size >= 0;
        known = CheckedMultiply(known, size);
      }
    }
    if (valid && free_size != nullptr && known != 0) {
      *free_size = extent / known;
      known *= *free_size;
    }
    if (!valid || known != extent) {
      throw Error(
          ErrorCode::kInvalidArgument,
          "cannot unflatten an axis of " + std::to_string(extent) + " to " + wanted.ToString());
    }
    return sizes;
  }
  int dim_, sizes_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(flatten) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.flatten"}, "Axes start_dim to end_dim become one")
                   .Tensor("input", kAllDTypes)
                   .Int("start_dim", 0)
                   .Dynamic()
                   .Int("end_dim", -1)
                   .Dynamic()
                   .KeepsDType()
                   .F16OnCpu(),
               Create<FlattenLayer>());
  registry.Add(OperatorSchema({"nn.Flatten"}, "Axes start_dim to end_dim become one")
                   .Tensor("input", kAllDTypes)
                   .Int("start_dim", 1)
                   .Int("end_dim", -1)
                   .KeepsDType()
                   .F16OnCpu(),
               Create<FlattenLayer>());
  registry.Add(OperatorSchema({"Tensor.unflatten", "torch.unflatten"},
                              "Axis dim becomes several; -1 takes what is left")
                   .Tensor("input", kAllDTypes)
                   .Int("dim")
                   .Dynamic()
                   .Ints("sizes")
                   .Dynamic(),
               Create<UnflattenLayer>());
  registry.Add(OperatorSchema({"nn.Unflatten"}, "Axis dim becomes several; -1 takes what is left")
                   .Tensor("input", kAllDTypes)
                   .Int("dim")
                   .Ints("unflattened_size"),
               Create<UnflattenLayer>());
}
