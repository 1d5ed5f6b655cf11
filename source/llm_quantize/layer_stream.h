// SPDX-License-Identifier: MIT
// A text goes through a language model layer by layer, all of it through one before the next, so
// that only one layer's weights are in memory and somebody can change them on the way.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "decoder/decoder_stages.h"
#include "oort/session.h"

namespace oort::llm_quantize {

/// Cuts a text into windows of so many tokens, and drops what is left over. Throws kInvalidArgument
/// where the text is shorter than one window, or a token is none of the vocabulary.
std::vector<int32_t> CutIntoWindows(std::span<const int32_t> tokens, int64_t window,
                                    int64_t most_tokens, int64_t vocabulary);

class LayerStream {
 public:
  /// `tokens` are whole windows; each begins a sequence of its own. The checkpoint is asked for a
  /// stage's matrices when all that they multiply has been visited.
  LayerStream(const Checkpoint& checkpoint, std::vector<int32_t> tokens, int64_t window,
              int threads, std::stop_token stop);

  /// Sees what the matrices of these names multiply: f32, a row for each token. It may change the
  /// rows, as long as the checkpoint has matrices for the changed ones then.
  using Visit = std::function<void(std::span<const std::string> names, Tensor& inputs)>;
  /// Also visits "lm_head.weight" (or the embeddings that are the head) at the end, which is not
  /// run.
  void Run(const Visit& visit);

 private:
  std::vector<Tensor> RunStage(DecoderStage stage, int64_t layer, const std::vector<Tensor>& inputs,
                               bool with_positions, const std::vector<int64_t>& widths) const;

  const Checkpoint& checkpoint_;
  std::vector<int32_t> tokens_;
  int64_t window_;
  int threads_;
  std::stop_token stop_;
};

}  // namespace oort::llm_quantize
