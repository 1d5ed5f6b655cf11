// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include "layers/attention/attention_core.h"
#include "oort/kv_cache.h"

namespace oort {
namespace {

/// Attention of an encoder-decoder's new tokens to the text that their sequence is about.
class TextAttention final : public Layer {
 public:
  explicit TextAttention(const LayerInit& init)
      : query_(init.Arg("query")),
        layer_(init.Int("layer")),
        heads_(init.Int("heads")),
        head_dim_(init.Int("head_dim")),
        scale_(static_cast<float>(init.Float("scale"))),
        kernels_(init) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& query = args.shape(query_);
    const Shape expected{query.rank() > 0 ? query[0] : 0, heads_ * head_dim_};
    if (query != expected) {
      ThrowAttention("expected queries " + expected.ToString() + ", got " + query.ToString());
    }
    return {Tensor::Meta(DType::kF32, query)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const SequenceBatch* const batch = SequenceBatch::Of(context);
    if (batch == nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  "attention to a text needs a SequenceBatch as RunOptions::state");
    }
    const Tensor& query = args.tensor(query_);
    float* const out = outputs[0].AsTensor().data<float>();
    ScratchVector<float> scratch;  // how long texts are shows only now
    for (const SequenceSlice& slice : batch->slices()) {
      CheckRows(slice, query.dim(0));
      if (slice.count == 0) continue;
      const AttentionProblem<float> problem = ProblemOf(slice, query.data<float>(), out);
      const int64_t floats = AttentionWorkspace(kernels_, problem, context.threads());
      if (static_cast<int64_t>(scratch.size()) < floats) {
        scratch.resize(static_cast<size_t>(floats));
      }
      RunAttention(kernels_, problem, context.threads(), scratch.data());
    }
  }

 private:
  static void CheckRows(const SequenceSlice& slice, int64_t rows) {
    if (slice.first >= 0 && slice.count >= 0 && slice.first <= rows - slice.count) return;
    ThrowAttention("a sequence of the batch has rows that the input does not have");
  }

  const Tensor& SideOf(const std::vector<Tensor>& sides, int64_t tokens) const {
    const auto layer = static_cast<size_t>(layer_);
    const bool fits = layer < sides.size() && sides[layer].dtype() == DType::kF32 &&
                      sides[layer].shape() == Shape{1, heads_, tokens, head_dim_};
    if (!fits) ThrowAttention("the text of a sequence was read by another model");
    return sides[layer];
  }

  AttentionProblem<float> ProblemOf(const SequenceSlice& slice, const float* query,
                                    float* out) const {
    if (slice.text == nullptr || slice.text->keys.empty() || slice.text->keys[0].rank() != 4) {
      ThrowAttention("a sequence of the batch has no text");
    }
    const int64_t tokens = slice.text->keys[0].dim(2), row = heads_ * head_dim_;
    AttentionProblem<float> problem;
    problem.count = heads_;
    problem.queries = slice.count;
    problem.keys = tokens;
    problem.dim = problem.value_dim = head_dim_;
    problem.q = {query + slice.first * row, row, Offsets(head_dim_)};
    const int64_t side = tokens * head_dim_;
    problem.k = {SideOf(slice.text->keys, tokens).data<float>(), head_dim_, Offsets(side)};
    problem.v = {SideOf(slice.text->values, tokens).data<float>(), head_dim_, Offsets(side)};
    problem.scale = scale_;
    problem.output = out + slice.first * row;
    problem.output_row = row;
    problem.output_offsets = Offsets(head_dim_);
    return problem;
  }

  /// Where each head begins.
  ScratchVector<int64_t> Offsets(int64_t step) const {
    ScratchVector<int64_t> offsets(static_cast<size_t>(heads_));
    for (int64_t head = 0; head < heads_; ++head) offsets[static_cast<size_t>(head)] = head * step;
    return offsets;
  }

  int query_;
  int64_t layer_, heads_, head_dim_;
  float scale_;
  AttentionKernels kernels_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(text_attention) {
  using namespace oort;
  registry.Add(OperatorSchema({"oort.TextAttention"},
                              "Attention of queries (tokens, heads * head_dim) to the whole text "
                              "that each sequence is about, whose keys and values for `layer` come "
                              "with the run: cross-attention of encoder-decoders")
                   .Tensor("query", kF32Only)
                   .Int("layer")
                   .AtLeast(0)
                   .Int("heads")
                   .AtLeast(1)
                   .Int("head_dim")
                   .AtLeast(1)
                   .Float("scale"),
               Create<TextAttention>());
}
