// SPDX-License-Identifier: MIT
#include <limits>

#include "cpu/sampling.h"
#include "layers/collective/best_of_ranks.h"
#include "layers/collective/group_of.h"
#include "layers/reduction/token_rows.h"

namespace oort {
namespace {

/// The likeliest token where each rank has the logits of a part of the vocabulary.
class RankArgmax final : public Layer {
 public:
  explicit RankArgmax(const LayerInit& init)
      : name_(NameInGroup(init)),
        index_(init.Arg("index")),
        first_(init.Int("first")),
        kernels_(SamplingKernelsFor(init.isa())) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& shape = args.shape(0);
    if (args.Has(index_)) {
      if (args.shape(index_) == shape) return {Tensor::Meta(DType::kI32, shape)};
      throw Error(ErrorCode::kInvalidArgument, "expected an index for each of " + shape.ToString() +
                                                   ", got " + args.tensor(index_).ToString());
    }
    return InferTokenOfRows(args.tensor(0), first_);
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Collective& group = GroupOfRun();
    const Tensor& x = args.tensor(0);
    Tensor& y = outputs[0].AsTensor();
    int32_t* tokens = y.data<int32_t>();
    std::vector<Best> mine(static_cast<size_t>(y.elements()));
    if (args.Has(index_)) {
      TakeFound(x, args.tensor(index_), mine);
    } else {
      FindIn(context, x, mine);
    }
    // Of equal ones the lowest stays, which comes from the lowest rank.
    TakeBestOfRanks(group, name_, std::span<Best>(mine),
                    [](const Best& one, const Best& other) { return one.logit > other.logit; });
    for (size_t row = 0; row < mine.size(); ++row) tokens[row] = mine[row].token;
  }

 private:
  struct Best {
    float logit = -std::numeric_limits<float>::infinity();
    int32_t token = -1;
  };

  void FindIn(const Context& context, const Tensor& x, std::vector<Best>& mine) const {
    const int64_t count = x.dim(-1);
    const float* logits = x.data<float>();
    const int64_t rows = static_cast<int64_t>(mine.size());
    context.ParallelFor(rows, 65536 / (count + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* from = logits + row * count;
        const int32_t best = ArgmaxOf(kernels_, from, count);
        if (best < 0) continue;
        mine[static_cast<size_t>(row)] = {from[best], static_cast<int32_t>(first_) + best};
      }
    });
  }
  /// What was found already, by an operator that has no need of all logits.
  void TakeFound(const Tensor& x, const Tensor& index, std::vector<Best>& mine) const {
    for (size_t row = 0; row < mine.size(); ++row) {
      const int32_t best = index.data<int32_t>()[row];
      if (best < 0) continue;
      mine[row] = {x.data<float>()[row], static_cast<int32_t>(first_) + best};
    }
  }

  std::string name_;
  int index_;
  int64_t first_;
  const SamplingKernels& kernels_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(rank_argmax) {
  using namespace oort;
  OperatorSchema schema({"oort.RankArgmax"},
                        "oort.Argmax of rows of which each rank has a part, that of this one "
                        "from `first` on; with index, input has the largest logit of each row "
                        "already. One rank's part of a model has it");
  schema.Tensor("input", kF32Only).OptionalTensor("index", DTypeSet(DType::kI32));
  schema.Int("first", 0).AtLeast(0);
  registry.Add(schema, Create<RankArgmax>());
}
