// SPDX-License-Identifier: MIT
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

class PermuteLayer final : public StridedLayer {
 public:
  explicit PermuteLayer(const LayerInit& init) : StridedLayer(init), dims_(init.Arg("dims")) {}

 protected:
  std::vector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    const std::vector<int> order = NormalizeAxes(args[dims_], input.rank());
    if (static_cast<int>(order.size()) != input.rank()) {
      throw Error(ErrorCode::kInvalidArgument, "expected an order of " +
                                                   std::to_string(input.rank()) + " axes, got " +
                                                   args[dims_].ToString());
    }
    return {Strided(input).Permuted(order)};
  }

 private:
  int dims_;
};

class TransposeLayer final : public StridedLayer {
 public:
  explicit TransposeLayer(const LayerInit& init)
      : StridedLayer(init), dim0_(init.Arg("dim0")), dim1_(init.Arg("dim1")) {}

 protected:
  std::vector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    const int a = NormalizeAxis(args[dim0_].AsInt(), input.rank());
    const int b = NormalizeAxis(args[dim1_].AsInt(), input.rank());
    return {input.rank() == 0 ? Strided(input) : Strided(input).Swapped(a, b)};
  }

 private:
  int dim0_, dim1_;
};

/// torch.t: a matrix is transposed, less than a matrix stays.
class MatrixTransposeLayer final : public StridedLayer {
 public:
  using StridedLayer::StridedLayer;

 protected:
  std::vector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    if (input.rank() > 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a rank of at most 2, got shape " + input.ToString());
    }
    return {input.rank() < 2 ? Strided(input) : Strided(input).Swapped(0, 1)};
  }
};

}  // namespace
}  // namespace oort

OORT_LAYERS(permute) {
  using namespace oort;
  registry.Add(OperatorSchema({"Tensor.permute", "torch.permute"},
                              "Axis i of the output is axis dims[i] of the input")
                   .Tensor("input", kAllDTypes)
                   .Ints("dims")
                   .Nullable(),
               Create<PermuteLayer>());
  registry.Add(OperatorSchema({"torch.transpose"}, "Swaps two axes")
                   .Tensor("input", kAllDTypes)
                   .Int("dim0")
                   .Int("dim1"),
               Create<TransposeLayer>());
  registry.Add(OperatorSchema({"torch.t"}, "Transposes a matrix").Tensor("input", kAllDTypes),
               Create<MatrixTransposeLayer>());
}
