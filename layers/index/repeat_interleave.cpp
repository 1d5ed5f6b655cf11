// SPDX-License-Identifier: MIT
#include "core/checked.h"
#include "layers/index/index_plan.h"
#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

class RepeatInterleaveLayer final : public Layer {
 public:
  explicit RepeatInterleaveLayer(const LayerInit& init)
      : input_(init.Arg("input")), repeats_(init.Arg("repeats")), dim_(init.Arg("dim")) {}

  std::vector<Value> Infer(const Args& args) const override {
    if (!args[repeats_].IsConcrete() || !args[dim_].IsConcrete()) return {Value::Deferred()};
    return {Tensor::Meta(args.tensor(input_).dtype(), ResultShape(args))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    const Shape shape = Extents(args);
    const int dim = Axis(args, shape);
    const size_t item = ItemSize(input.dtype());
    Tensor& output = OutputTensor(outputs[0], input.dtype(), ResultShape(args));
    const std::vector<int64_t> counts = Counts(args, shape[dim]);
    if (counts.size() == 1) {
      CopyStrided(context, item, input.raw(), Strided(shape).Repeated(dim + 1, counts[0]),
                  output.raw());
      return;
    }
    std::vector<int64_t> indices;
    for (size_t i = 0; i < counts.size(); ++i) {
      indices.insert(indices.end(), static_cast<size_t>(counts[i]), static_cast<int64_t>(i));
    }
    CopyIndexed(context, item, input.raw(), PlanSelect(shape, dim, std::move(indices)),
                output.raw());
  }

 private:
  /// Without an axis the tensor counts as flat; so does a scalar.
  Shape Extents(const Args& args) const {
    const Shape& input = args.shape(input_);
    return args.Has(dim_) && input.rank() > 0 ? input : Shape{input.elements()};
  }
  int Axis(const Args& args, const Shape& shape) const {
    return args.Has(dim_) ? NormalizeAxis(args[dim_].AsInt(), shape.rank()) : 0;
  }

  /// One count for all positions, or one for each.
  std::vector<int64_t> Counts(const Args& args, int64_t extent) const {
    const Value& repeats = args[repeats_];
    const std::vector<int64_t> counts =
        repeats.IsTensor() ? ReadIndices(repeats.AsTensor()) : repeats.AsInts();
    if (counts.size() != 1 && static_cast<int64_t>(counts.size()) != extent) {
      throw Error(ErrorCode::kInvalidArgument, "expected 1 or " + std::to_string(extent) +
                                                   " counts, got " + std::to_string(counts.size()));
    }
    for (int64_t count : counts) {
      if (count < 0) {
        throw Error(ErrorCode::kInvalidArgument,
                    "expected counts of at least 0, got " + std::to_string(count));
      }
    }
    return counts;
  }

  Shape ResultShape(const Args& args) const {
    Shape shape = Extents(args);
    const int dim = Axis(args, shape);
    const std::vector<int64_t> counts = Counts(args, shape[dim]);
    int64_t total = counts.size() == 1 ? CheckedMultiply(shape[dim], counts[0]) : 0;
    for (size_t i = 0; counts.size() != 1 && i < counts.size(); ++i) {
      total = CheckedAdd(total, counts[i]);
    }
    shape[dim] = total;
    return shape;
  }

  int input_, repeats_, dim_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(repeat_interleave) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.repeat_interleave"},
                              "Each position of `dim` (of the flat tensor, without it) repeats "
                              "times in a row")
                   .Tensor("input", kAllDTypes)
                   .Ints("repeats")
                   .Dynamic()
                   .Int("dim")
                   .Nullable()
                   .Dynamic()
                   .Ignored("output_size"),
               Create<RepeatInterleaveLayer>());
}
