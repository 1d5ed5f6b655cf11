// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/checked.h"
#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// The diagonal number `diagonal` of a matrix: 0 is the main one, positive ones lie above it.
struct DiagonalSpec {
  int64_t row, column;  // where it starts
  explicit DiagonalSpec(int64_t diagonal)
      : row(diagonal < 0 ? -diagonal : 0), column(diagonal > 0 ? diagonal : 0) {}
};

class DiagLayer final : public Layer {
 public:
  explicit DiagLayer(const LayerInit& init)
      : input_(init.Arg("input")), diagonal_(init.Arg("diagonal")) {}

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    if (!args[diagonal_].IsConcrete()) return {Value::Deferred()};
    return {Tensor::Meta(args.tensor(input_).dtype(), Result(args))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    const Shape shape = Result(args);
    Tensor& output = OutputTensor(outputs[0], input.dtype(), shape);
    const DiagonalSpec spec = Spec(args);
    const Strided dense(input.shape());
    if (input.rank() == 1) {
      ClearBytes(context, output.raw(), output.bytes());
      CopyStrided(context, ItemSize(input.dtype()), input.raw(), dense, output.raw(),
                  Strided(shape).Diagonal(spec.row, spec.column, input.elements()));
    } else {
      CopyStrided(context, ItemSize(input.dtype()), input.raw(),
                  dense.Diagonal(spec.row, spec.column, shape[0]), output.raw());
    }
  }

 private:
  DiagonalSpec Spec(const Args& args) const {
    const int64_t diagonal = args[diagonal_].AsInt();
    if (diagonal == INT64_MIN) throw Error(ErrorCode::kInvalidArgument, "a size overflows");
    return DiagonalSpec(diagonal);
  }

  /// A vector gives the matrix that has it on its diagonal, a matrix gives its diagonal.
  Shape Result(const Args& args) const {
    const Shape& input = args.shape(input_);
    const DiagonalSpec spec = Spec(args);
    if (input.rank() == 1) {
      const int64_t size = CheckedAdd(input[0], spec.row + spec.column);
      return {size, size};
    }
    if (input.rank() != 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a vector or a matrix, got shape " + input.ToString());
    }
    return {std::max<int64_t>(0, std::min(input[0] - spec.row, input[1] - spec.column))};
  }

  int input_, diagonal_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(diag) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.diag"},
                              "The diagonal of a matrix, or a matrix with a vector as diagonal")
                   .Tensor("input", kAllDTypes)
                   .Int("diagonal", 0)
                   .Dynamic(),
               Create<DiagLayer>());
}
