// SPDX-License-Identifier: MIT
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

class PermuteLayer final : public StridedLayer {
 public:
  explicit PermuteLayer(const LayerInit& init) : StridedLayer(init), dims_(init.Arg("dims")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    const ScratchVector<int> order = NormalizeAxes(args[dims_], input.rank());
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
  ScratchVector<StridedOutput> Views(const Args& args) const override {
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
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    if (input.rank() > 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a rank of at most 2, got shape " + input.ToString());
    }
    return {input.rank() < 2 ? Strided(input) : Strided(input).Swapped(0, 1)};
  }
};

/// torch.movedim: axes `source` go to the places `destination`, the others keep their order.
class MovedimLayer final : public StridedLayer {
 public:
  explicit MovedimLayer(const LayerInit& init)
      : StridedLayer(init), source_(init.Arg("source")), destination_(init.Arg("destination")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    const ScratchVector<int> from = NormalizeAxes(args[source_], input.rank());
    const ScratchVector<int> to = NormalizeAxes(args[destination_], input.rank());
    if (from.size() != to.size()) {
      throw Error(ErrorCode::kInvalidArgument, "expected as many places as axes, got " +
                                                   args[source_].ToString() + " and " +
                                                   args[destination_].ToString());
    }
    if (input.rank() == 0) return {Strided(input)};
    std::vector<int> order(static_cast<size_t>(input.rank()), -1);
    std::vector<bool> moved(order.size(), false);
    for (size_t i = 0; i < from.size(); ++i) {
      order[static_cast<size_t>(to[i])] = from[i];
      moved[static_cast<size_t>(from[i])] = true;
    }
    size_t next = 0;
    for (int& axis : order) {
      if (axis >= 0) continue;
      while (moved[next]) ++next;
      axis = static_cast<int>(next++);
    }
    return {Strided(input).Permuted(order)};
  }

 private:
  int source_, destination_;
};

/// x.mT swaps the last two axes.
class MatrixTransposeLastLayer final : public StridedLayer {
 public:
  using StridedLayer::StridedLayer;

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    if (input.rank() < 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a rank of at least 2, got shape " + input.ToString());
    }
    return {Strided(input).Swapped(input.rank() - 2, input.rank() - 1)};
  }
};

/// x.T reverses the order of the axes.
class ReverseAxesLayer final : public StridedLayer {
 public:
  using StridedLayer::StridedLayer;

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    std::vector<int> order;
    for (int i = input_shape(args).rank(); i-- > 0;) order.push_back(i);
    return {Strided(input_shape(args)).Permuted(order)};
  }
};

}  // namespace
}  // namespace oort

OORT_LAYERS(permute) {
  using namespace oort;
  registry.Add(OperatorSchema({"Tensor.permute", "torch.permute", "aten::permute"},
                              "Axis i of the output is axis dims[i] of the input")
                   .Tensor("input", kAllDTypes)
                   .Ints("dims")
                   .Nullable()
                   .KeepsDType(),
               Create<PermuteLayer>());
  registry.Add(
      OperatorSchema({"torch.transpose", "aten::transpose", "aten::swapaxes", "aten::swapdims"},
                     "Swaps two axes")
          .Tensor("input", kAllDTypes)
          .Int("dim0")
          .Int("dim1")
          .KeepsDType(),
      Create<TransposeLayer>());
  registry.Add(
      OperatorSchema({"torch.t", "aten::t"}, "Transposes a matrix").Tensor("input", kAllDTypes),
      Create<MatrixTransposeLayer>());
  registry.Add(OperatorSchema({"aten::movedim", "aten::moveaxis"},
                              "The axes `source` go to the places `destination`")
                   .Tensor("input", kAllDTypes)
                   .Ints("source")
                   .Ints("destination"),
               Create<MovedimLayer>());
  registry.Add(OperatorSchema({"aten::mT"}, "Swaps the last two axes").Tensor("input", kAllDTypes),
               Create<MatrixTransposeLastLayer>());
  registry.Add(OperatorSchema({"aten::numpy_T"}, "Reverses the order of the axes")
                   .Tensor("input", kAllDTypes),
               Create<ReverseAxesLayer>());
}
