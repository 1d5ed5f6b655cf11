// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <string>

#include "core/cpu_limits.h"
#include "layers/collective/best_of_ranks.h"
#include "layers/collective/group_of.h"
#include "layers/precision_param.h"
#include "layers/quantized_linear/cpu/argmax_row.h"
#include "layers/quantized_linear/stored_weight.h"

namespace oort {
namespace {

/// The token that greedy sampling picks, for who does not want the logits.
class QuantizedArgmax final : public Layer {
 public:
  explicit QuantizedArgmax(const LayerInit& init)
      : QuantizedArgmax(init,
                        ReadStored(init, 0, init.Int("out_features"), init.Int("in_features"))) {}

  QuantizedArgmax(const LayerInit& init, const StoredMatrix& stored)
      : name_(NameInGroup(init)),
        input_(init.Arg("input")),
        head_(init.isa(), ReadPrecision(init), QuantizedMatrix::Shared(stored, AvailableThreads())),
        gives_products_(init.op().outputs.size() > 1),
        shares_bests_(gives_products_ && ArgmaxRow::MayTakeCoarse(stored, ReadPrecision(init))),
        packed_(StoredArguments(init, 1)) {
    if (head_.matrix().rows() > std::numeric_limits<int32_t>::max()) {
      throw Error(ErrorCode::kInvalidModel, "out_features is at most 2^31 - 1");
    }
  }

  void Settle() override { head_.MakeCoarse(AvailableThreads()); }

  std::span<const std::byte> WeightBytes() const override {
    return (head_.coarse() != nullptr ? *head_.coarse() : head_.matrix()).data();
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& shape = args.shape(input_);
    const int64_t columns = head_.matrix().columns();
    if (shape.rank() == 0 || shape[shape.rank() - 1] != columns) {
      throw Error(ErrorCode::kInvalidArgument, "expected an input whose last axis is " +
                                                   std::to_string(columns) + ", got " +
                                                   shape.ToString());
    }
    Shape rows;
    for (int i = 0; i + 1 < shape.rank(); ++i) rows.Append(shape[i]);
    if (!gives_products_) return {Tensor::Meta(DType::kI32, rows)};
    return {Tensor::Meta(DType::kI32, rows), Tensor::Meta(DType::kF32, rows)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& y = outputs[0].AsTensor();
    const float* x = args.tensor(input_).data<float>();
    int32_t* found = y.data<int32_t>();
    Find(context, x, y.elements(), found);
    if (!gives_products_) return;
    float* products = outputs[1].AsTensor().data<float>();
    for (int64_t row = 0; row < y.elements(); ++row, x += head_.matrix().columns()) {
      products[row] = found[row] < 0 ? -std::numeric_limits<float>::infinity()
                                     : head_.ProductOf(x, found[row], context.workspace());
    }
  }

  size_t Workspace(const Args& args, int threads) const override {
    return head_.Workspace(Rows(args), threads);
  }

  bool Packs(int argument) const override { return IsAmong(packed_, argument); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    const QuantizedMatrix& matrix = head_.matrix();
    const bool coarse = head_.coarse() != nullptr && Rows(args) == 1;
    Cost cost;
    cost.flops = 2 * static_cast<double>(Rows(args)) * static_cast<double>(matrix.rows()) *
                 static_cast<double>(matrix.columns());
    cost.bytes = static_cast<double>((coarse ? *head_.coarse() : matrix).bytes() +
                                     args.tensor(input_).bytes() + outputs[0].AsTensor().bytes());
    return cost;
  }

 private:
  using CoarseBest = ArgmaxRow::CoarseBest;

  /// A rank that has a part of the rows learns how good those of others are: it looks at all bits
  /// of what may be better than the best of all, not than its own best.
  void Find(const Context& context, const float* x, int64_t rows, int32_t* found) const {
    Collective* const group = shares_bests_ ? GroupScope::Current() : nullptr;
    const auto take_best = [&](std::span<CoarseBest> bests) {
      TakeBestOfRanks(*group, name_, bests, [](const CoarseBest& one, const CoarseBest& other) {
        return std::isnan(one.product) || one.product > other.product;
      });
    };
    const ArgmaxRow::ShareBests share = take_best;
    head_.Find(x, rows, context.threads(), context.workspace(), found,
               group != nullptr ? &share : nullptr);
  }

  int64_t Rows(const Args& args) const {
    const Shape& shape = args.shape(input_);
    return shape.Product(0, shape.rank() - 1);
  }

  std::string name_;
  int input_;
  ArgmaxRow head_;
  bool gives_products_;
  bool shares_bests_;  ///< the same on all ranks
  std::vector<int> packed_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(quantized_argmax) {
  using namespace oort;
  OperatorSchema schema(
      {"oort.QuantizedArgmax"},
      "The row of a weight of 32 to 4 bits whose product with x (the last axis) is the largest, "
      "the "
      "lowest of equal ones; NaN is never picked, -1 where nothing is above -infinity. Of weights "
      "of 8 bits, precision=bf16 looks through 4 bits first, and then through all bits of the rows "
      "that those leave open. A second output, if there is one, gets these products: of one rank's "
      "part of the rows, which is not looked through for what another rank has better");
  schema.Tensor("input", kF32Only);
  schema.Int("in_features").AtLeast(1).Int("out_features").AtLeast(1);
  AddStoredWeight(schema, 0);
  schema.Outputs(1, 2);
  AddPrecisionParam(schema);
  registry.Add(schema, Create<QuantizedArgmax>());
}
