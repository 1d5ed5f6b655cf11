// SPDX-License-Identifier: MIT
// What of a decoder decides how much it reads and computes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace oort {
struct DecoderConfig;
}

namespace oort::limits {

struct ModelShape {
  std::string family;
  int64_t vocabulary = 0, hidden = 0, layers = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t intermediate = 0;
  bool gated = true;  ///< gate, up and down; else up and down
  bool tied_head = false;
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  int64_t norm_width = 0;      ///< numbers of a norm: hidden, or twice that with a bias
  int64_t norms = 2;           ///< in a layer
  int64_t query_key_norm = 0;  ///< numbers of the norms of queries and keys in a layer
  int64_t positions = 0;       ///< rows of a learned table of positions
  int64_t context = 0;         ///< that the model was made for; 0: unknown
  /// Mixture of experts: of `experts` in a layer a token uses `experts_used`; 0: none.
  int64_t experts = 0, experts_used = 0, expert_intermediate = 0;
  int64_t shared_intermediate = 0;  ///< of what every token uses beside them
  int64_t dense_layers = 0;         ///< the first ones have no experts
  std::vector<int64_t> windows;     ///< of each layer; 0: all positions are seen
  bool chunked_windows = false;     ///< a position sees its chunk up to itself: half on average
  /// The last so many layers see the keys and values of earlier ones, and have none.
  int64_t shared_layers = 0;
  /// What several residual streams have in all layers (Gemma 3n): numbers that every token
  /// multiplies with, those of norms, and a table of embeddings for layers.
  int64_t stream_products = 0, stream_norms = 0, stream_table = 0;
  /// Some layers have a state of state_heads * state_head_dim * state_size numbers, in front of it
  /// a convolution of so many taps; 0: none.
  int64_t state_size = 0, state_groups = 0, state_taps = 0;
  int64_t state_heads = 0, state_head_dim = 0;
  int64_t state_layers = 0;     ///< so many of them
  bool state_alone = false;     ///< these have no feed-forward
  bool state_beside = false;    ///< these have attention, too; else they do without
  bool state_norm = true;       ///< these have a norm of what comes out
  bool state_bias = false;      ///< their products have biases
  bool state_delta = false;     ///< these have a delta rule instead of a state space
  bool attention_gate = false;  ///< what attention gives goes through a gate of its queries' size
  bool shared_gate = false;     ///< a gate says how much the shared expert counts

  int64_t attention_layers() const { return state_beside ? layers : layers - state_layers; }
};

/// From the text of a Hugging Face config.json of any decoder-only transformer; also where Oort
/// cannot run it. Throws kInvalidModel, or kUnsupported for attention that these sums do not fit.
ModelShape ReadModelShape(std::string_view config_json);
/// The same of a config.json, a folder that holds one, a GGUF file or a llama2.c checkpoint.
ModelShape ShapeOfModel(const std::filesystem::path& model);
ModelShape ShapeOf(const DecoderConfig& config);

}  // namespace oort::limits
