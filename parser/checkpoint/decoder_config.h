// SPDX-License-Identifier: MIT
// What a checkpoint says of a decoder-only transformer, whatever file it came from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/activation.h"

namespace oort {

/// How positions turn queries and keys. The scaling rules of the files (linear, llama3, yarn,
/// longrope) are worked out by who reads the file: here are the frequencies that they give.
struct RotaryConfig {
  int64_t dims = 0;                ///< how much of each head is turned; 0: no rotary embedding
  bool interleaved = false;        ///< pairs (2i, 2i+1); else (i, i + dims/2)
  std::vector<float> frequencies;  ///< radians a position, dims / 2 of them
  float magnitude = 1;             ///< cosine and sine are multiplied with it
  /// For sequences longer than `original_context` (0: none such), as longrope has them.
  std::vector<float> long_frequencies;
  float long_magnitude = 1;
  int64_t original_context = 0;
};

struct DecoderConfig {
  enum class Norm : unsigned char { kRms, kLayer };

  std::string family;  ///< "llama", "qwen2", "gemma2", …: for people
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t intermediate = 0;
  int64_t context = 0;  ///< longest sequence that the model was made for

  Norm norm = Norm::kRms;
  float norm_epsilon = 1e-5F;
  Activation activation = Activation::kSilu;  ///< of the feed-forward
  bool gated = true;                          ///< act(gate(x)) * up(x), else act(up(x))
  bool tied_head = false;                     ///< the head multiplies with the embeddings
  bool query_key_norm = false;     ///< norms of each head before the rotary embedding (qwen3)
  bool post_norms = false;         ///< norms after attention and after the feed-forward (gemma2)
  bool learned_positions = false;  ///< a table of positions is added to the embeddings (gpt2)
  float embedding_scale = 1;
  float attention_scale = 0;     ///< of query times key; 1/sqrt(head_dim) for most
  float attention_softcap = 0;   ///< c: scores become c * tanh(score / c); 0: none
  float final_softcap = 0;       ///< the same of the logits
  std::vector<int64_t> windows;  ///< of each layer: a key is seen iff query - key < window; 0: all
  RotaryConfig rotary;
};

}  // namespace oort
