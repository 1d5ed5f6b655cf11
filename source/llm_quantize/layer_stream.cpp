// SPDX-License-Identifier: MIT
#include "llm_quantize/layer_stream.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "oort/kv_cache.h"

namespace oort::llm_quantize {
namespace {

std::shared_ptr<const RuntimeGraph> Built(Graph graph, const std::stop_token& stop) {
  LoadOptions load;
  load.disabled_passes = {"narrow-floats"};
  load.stop = stop;
  return RuntimeGraph::Build(std::move(graph), load);
}

Tensor Positions(int64_t count) {
  Tensor positions(DType::kI32, {count});
  std::iota(positions.data<int32_t>(), positions.data<int32_t>() + count, 0);
  return positions;
}

}  // namespace

std::vector<int32_t> CutIntoWindows(std::span<const int32_t> tokens, int64_t window,
                                    int64_t most_tokens, int64_t vocabulary) {
  const auto count = static_cast<int64_t>(tokens.size());
  if (window < 1) throw Error(ErrorCode::kInvalidArgument, "a window has at least one token");
  if (count < window) {
    throw Error(ErrorCode::kInvalidArgument,
                "the text to calibrate with has " + std::to_string(count) +
                    " tokens, less than one window of " + std::to_string(window) +
                    ": give a longer text or a smaller --window");
  }
  const int64_t windows = std::max<int64_t>(1, std::min(count, most_tokens) / window);
  const auto used = tokens.first(static_cast<size_t>(windows * window));
  for (const int32_t token : used) {
    if (token >= 0 && token < vocabulary) continue;
    throw Error(ErrorCode::kInvalidArgument, "the text has the token " + std::to_string(token) +
                                                 ", but the model knows " +
                                                 std::to_string(vocabulary) + " tokens");
  }
  return {used.begin(), used.end()};
}

LayerStream::LayerStream(const Checkpoint& checkpoint, std::vector<int32_t> tokens, int64_t window,
                         int threads, std::stop_token stop)
    : checkpoint_(checkpoint),
      tokens_(std::move(tokens)),
      window_(window),
      threads_(threads),
      stop_(std::move(stop)) {}

/// All windows one by one through one stage.
std::vector<Tensor> LayerStream::RunStage(DecoderStage stage, int64_t layer,
                                          const std::vector<Tensor>& inputs, bool with_positions,
                                          const std::vector<int64_t>& widths) const {
  const DecoderConfig& config = checkpoint_.config();
  Session session(Built(BuildStage(checkpoint_, stage, layer), stop_), {.threads = threads_});
  const auto rows = static_cast<int64_t>(tokens_.size());
  std::vector<Tensor> outputs;
  for (const int64_t width : widths) outputs.emplace_back(DType::kF32, Shape{rows, width});
  const int64_t blocks = KvCache::BlocksFor(window_);
  KvCache cache({1, config.kv_heads, config.head_dim, KvType::kF32},
                stage == DecoderStage::kAttention ? blocks : 1);
  std::vector<int32_t> places(static_cast<size_t>(blocks));
  std::iota(places.begin(), places.end(), 0);
  const SequenceSlice slice{0, window_, 0, places, window_};
  const SequenceBatch batch({&slice, 1}, &cache);
  RunOptions run;
  run.stop = stop_;
  if (stage == DecoderStage::kAttention) run.state = &batch;
  for (int64_t begin = 0; begin < rows; begin += window_) {
    std::vector<Tensor> given;
    for (const Tensor& input : inputs) given.push_back(input.Rows(begin, begin + window_));
    if (with_positions) given.push_back(Positions(window_));
    std::vector<Tensor> into;
    for (const Tensor& output : outputs) into.push_back(output.Rows(begin, begin + window_));
    session.ForwardInto(given, into, run);
  }
  return outputs;
}

void LayerStream::Run(const Visit& visit) {
  const DecoderConfig& config = checkpoint_.config();
  const int64_t hidden = config.hidden, heads = config.heads * config.head_dim;
  const Tensor tokens = Tensor::Borrow(tokens_.data(), {static_cast<int64_t>(tokens_.size())});
  Tensor x = RunStage(DecoderStage::kEmbed, 0, {tokens}, config.learned_positions, {hidden})[0];
  const bool turns = config.rotary.dims > 0;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer);
    const auto of = [&](std::initializer_list<const char*> parts) {
      std::vector<std::string> names;
      for (const char* part : parts) names.push_back(name + part);
      return names;
    };
    Tensor in = RunStage(DecoderStage::kAttentionNorm, layer, {x}, false, {hidden})[0];
    visit(of({".self_attn.q_proj.weight", ".self_attn.k_proj.weight", ".self_attn.v_proj.weight"}),
          in);
    in = RunStage(DecoderStage::kAttention, layer, {in}, turns, {heads})[0];
    visit(of({".self_attn.o_proj.weight"}), in);
    auto sums = RunStage(DecoderStage::kAttentionOutput, layer, {in, x}, false, {hidden, hidden});
    x = sums[0];
    in = sums[1];
    sums.clear();
    visit(config.gated ? of({".mlp.gate_proj.weight", ".mlp.up_proj.weight"})
                       : of({".mlp.up_proj.weight"}),
          in);
    in = RunStage(DecoderStage::kHidden, layer, {in}, false, {config.intermediate})[0];
    visit(of({".mlp.down_proj.weight"}), in);
    x = RunStage(DecoderStage::kOutput, layer, {in, x}, false, {hidden})[0];
  }
  const std::vector<std::string> head = {config.tied_head ? "model.embed_tokens.weight"
                                                          : "lm_head.weight"};
  x = RunStage(DecoderStage::kFinalNorm, 0, {x}, false, {hidden})[0];
  visit(head, x);
}

}  // namespace oort::llm_quantize
