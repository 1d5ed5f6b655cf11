// SPDX-License-Identifier: MIT
// What a checkpoint says of a decoder-only transformer, whatever file it came from.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
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

/// Feed-forward layers of which each token goes through a few.
struct ExpertsConfig {
  int64_t count = 0;  ///< 0: there is one feed-forward, which all tokens go through
  int64_t used = 0;   ///< by a token
  int64_t intermediate = 0;
  int64_t shared_intermediate = 0;  ///< of one that all tokens go through besides; 0: there is none
  bool normalized = false;          ///< the weights of the chosen ones sum to 1
  float limit = 0;            ///< gate and up are held to it, as gpt-oss has it; 0: they are not
  bool shared_gated = false;  ///< a gate says how much of the shared one counts
  bool sigmoid = false;       ///< scores are sigmoids of logits; else a softmax
  bool corrected = false;     ///< a correction is added to the scores that experts are chosen by
  /// Experts are chosen from the best `groups_used` of so many groups.
  int64_t groups = 1, groups_used = 1;
  float scale = 1;             ///< of the weights
  bool scales_inputs = false;  ///< weights scale what goes into an expert, not what it gives
  std::vector<bool> dense;     ///< layers without experts; empty: there are none

  bool IsAt(int64_t layer) const {
    const auto index = static_cast<size_t>(layer);
    return count > 0 && !(index < dense.size() && dense[index]);
  }
};

/// Latent attention (DeepSeek-V2): the cache holds a latent vector and a key that turns for all
/// heads together. To attention that is one head of keys, and values are the keys.
struct LatentConfig {
  int64_t rank = 0;        ///< of the latent; 0: attention is the usual one
  int64_t query_rank = 0;  ///< queries come through a latent of their own; 0: they do not
  int64_t plain = 0;       ///< elements of a head's query and key that do not turn
  int64_t turned = 0;      ///< those that do
  int64_t value = 0;       ///< elements of a head's value
};

/// Queries of layers without a rotary embedding grow with their position:
/// 1 + scale log(1 + floor((position + 1) / length)), as llama4 has it.
struct TemperatureConfig {
  int64_t length = 0;  ///< 0: they do not
  float scale = 0;
};

/// Layers that have a state in the place of attention: a selective state space (Mamba-2), which is
/// a short convolution of x, b and c, a recurrence of each head, and a norm of what gates let
/// through; or the same with a gated delta rule of queries, keys and values (Qwen3-Next).
struct StateSpaceConfig {
  bool delta = false;  ///< which of the two
  int64_t heads = 0;   ///< 0: all layers have attention
  int64_t head_dim = 0;
  int64_t size = 0;               ///< of b and c, or keys and queries: columns of a head's state
  int64_t groups = 1;             ///< of heads that share these, and of numbers that share a norm
  int64_t taps = 0;               ///< of the convolution
  float least_step = 0;           ///< dt is between these
  float most_step = 0;            ///< 0: it has no limit
  bool feed_forward = false;      ///< there is one behind it, as there is behind attention
  std::vector<bool> attention;    ///< layers that have that; empty: none of them
  bool beside_attention = false;  ///< all layers have both, which see the same x
  bool norm = true;               ///< there is one
  bool norm_before_gate = false;
  /// What comes out of the first products is multiplied with these (falcon_h1).
  float gate_scale = 1, x_scale = 1, b_scale = 1, c_scale = 1, step_scale = 1;

  bool IsAt(int64_t layer) const {
    const auto index = static_cast<size_t>(layer);
    return heads > 0 && !(index < attention.size() && attention[index]);
  }
  int64_t inner() const { return heads * head_dim; }
  int64_t channels() const { return inner() + 2 * groups * size; }
  /// Of the norm: behind a delta rule all heads have the same one.
  int64_t norm_size() const { return delta ? head_dim : inner(); }
};

/// Several residual streams (Gemma 3n): a layer computes with one of them, and the others follow
/// it.
struct AltUpConfig {
  int64_t streams = 0;     ///< 0: there is one, as usual
  int64_t active = 0;      ///< the one that layers compute with
  bool scaled = true;      ///< a layer's result has a factor for each number
  int64_t laurel = 0;      ///< rank of the second residual
  int64_t per_layer = 0;   ///< numbers of a token's embedding for each layer
  int64_t vocabulary = 0;  ///< tokens that have such embeddings; others have those of token 0
};

/// What a layer's products are multiplied with (falcon_h1).
struct ProductScales {
  float attention = 1;     ///< what attention adds to x
  float state = 1;         ///< what a state does
  float gate = 1;          ///< of the feed-forward, before its activation
  float feed_forward = 1;  ///< what that adds to x
};

struct DecoderConfig {
  enum class Norm : unsigned char { kRms, kLayer, kLayerWithoutBias };
  /// How a layer's two halves follow each other. kParallel: attention and feed-forward see the same
  /// x, each behind a norm of its own; kParallelOneNorm: behind the same one.
  enum class Block : unsigned char { kSequential, kParallel, kParallelOneNorm };
  /// Norms of queries and keys before the rotary embedding: of each head, or of all heads at once.
  /// kTurned: of each head behind it, without weights, in layers that have such an embedding.
  enum class QueryKeyNorm : unsigned char { kNone, kHead, kAllHeads, kTurned };
  /// Which rotary embedding a layer has.
  enum class LayerRotary : unsigned char { kUsual, kLocal, kNone };

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
  Block block = Block::kSequential;
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  bool pre_norms = true;           ///< norms before attention and before the feed-forward
  bool post_norms = false;         ///< norms after attention and after the feed-forward (gemma2)
  bool sinks = false;              ///< attention has a score without a value for each head
  bool attention_gate = false;     ///< what attention gives goes through gates of its queries' size
  bool learned_positions = false;  ///< a table of positions is added to the embeddings (gpt2)
  float embedding_scale = 1;
  float residual_scale = 1;  ///< of what attention and feed-forward add to x
  ProductScales scales;      ///< besides
  float logit_scale = 1;
  float attention_scale = 0;     ///< of query times key; 1/sqrt(head_dim) for most
  float attention_softcap = 0;   ///< c: scores become c * tanh(score / c); 0: none
  float final_softcap = 0;       ///< the same of the logits
  std::vector<int64_t> windows;  ///< of each layer: a key is seen iff query - key < window; 0: all
  /// Windows do not slide: a key is seen iff key / window == query / window.
  bool chunked_windows = false;
  TemperatureConfig temperature;
  LatentConfig latent;  ///< then kv_heads is 1, and head_dim is the latent and what turns
  ExpertsConfig experts;
  AltUpConfig altup;
  /// The last so many layers have no keys and values of their own: see KeysOf.
  int64_t shared_layers = 0;
  bool value_norms = false;  ///< values have a norm of each head, without a weight
  /// Of each layer: gates below their mean plus so many standard deviations are 0, and the others
  /// lose that much; -infinity: all stay. Empty: of no layer.
  std::vector<float> gate_cutoffs;
  /// Where all layers are nothing else, heads, head_dim and intermediate are those of it.
  StateSpaceConfig state_space;
  RotaryConfig rotary;
  RotaryConfig local_rotary;              ///< of the layers that say kLocal
  std::vector<LayerRotary> layer_rotary;  ///< of each layer; empty: kUsual

  LayerRotary RotaryOf(int64_t layer) const {
    const auto index = static_cast<size_t>(layer);
    return index < layer_rotary.size() ? layer_rotary[index] : LayerRotary::kUsual;
  }
  /// The layer whose keys and values a layer sees: its own, or of those that share, the last one
  /// with keys that has a window if they have one; -1: there is none.
  int64_t KeysOf(int64_t layer) const {
    const auto windowed = [&](int64_t i) {
      const auto index = static_cast<size_t>(i);
      return index < windows.size() && windows[index] > 0;
    };
    if (layer < layers - shared_layers) return layer;
    int64_t source = layers - shared_layers - 1;
    while (source >= 0 && windowed(source) != windowed(layer)) --source;
    return source;
  }
  bool CutsGates(int64_t layer) const {
    const auto index = static_cast<size_t>(layer);
    return index < gate_cutoffs.size() && std::isfinite(gate_cutoffs[index]);
  }
  /// The place of what a layer keeps of a sequence: layers before it that keep the same, be it a
  /// state or keys and values.
  int64_t KeptIndexOf(int64_t layer) const {
    int64_t before = 0;
    for (int64_t i = 0; i < layer; ++i) {
      before += state_space.IsAt(i) == state_space.IsAt(layer) ? 1 : 0;
    }
    return before;
  }
  bool HasAttention(int64_t layer) const {
    return !state_space.IsAt(layer) || state_space.beside_attention;
  }
  bool HasFeedForward(int64_t layer) const {
    return !state_space.IsAt(layer) || state_space.feed_forward;
  }
  /// The norm before the feed-forward, below the name of a layer; empty where there is none.
  std::string_view FeedForwardNorm() const {
    if (!pre_norms) return {};
    if (block == Block::kParallelOneNorm) return "input_layernorm";
    return post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm";
  }
};

}  // namespace oort
