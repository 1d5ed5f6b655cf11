// SPDX-License-Identifier: MIT
// The families of decoders that can be read, and what all members of one have in common.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "parser/checkpoint/decoder_config.h"

namespace oort {

/// What a file calls a tensor, and what it is called here: without ".weight" and ".bias", or, where
/// `ours` ends with one of them, as a whole.
struct RenamedTensor {
  std::string_view file, ours;
};

/// What all members of a family have in common, and what the readers of its files must know. Who
/// adds a family adds a row of these to the table in families.cpp; no other code compares names.
struct Family {
  /// Products that have a bias: kAsked… those if config.json says so under `bias_key`.
  enum class Bias : unsigned char {
    kNone,
    kAsked,  ///< those of attention
    kAskedInputs,
    kAskedAll,
    kAttentionInputs,
    kAll
  };
  /// Layers that see a window where config.json does not list them (layer_types): kLater those from
  /// max_window_layers on, kMost all but the last of every `window_period`.
  enum class Windows : unsigned char { kNone, kAll, kEven, kLater, kMost };
  /// All experts of a layer are one tensor (experts, inputs, outputs): outputs of gate and up
  /// alternate, or those of gate come first. kRows: (experts, outputs, inputs), gate first.
  enum class FusedExperts : unsigned char { kNone, kAlternating, kHalves, kRows };

  std::string_view name;            ///< model_type of config.json
  std::string_view gguf_name = {};  ///< general.architecture of GGUF where that is another

  // What its graph is like: see DecoderConfig.
  DecoderConfig::Norm norm = DecoderConfig::Norm::kRms;
  Activation activation = Activation::kSilu;
  bool gated = true;
  bool tied_head = false;
  DecoderConfig::Block block = DecoderConfig::Block::kSequential;
  DecoderConfig::QueryKeyNorm query_key_norm = DecoderConfig::QueryKeyNorm::kNone;
  bool pre_norms = true;
  bool post_norms = false;
  bool sinks = false;
  bool attention_gate = false;  ///< rows of a gate follow those of each head's query
  bool learned_positions = false;
  bool scaled_embeddings = false;  ///< by the root of the hidden size
  bool softcaps = false;           ///< of attention and logits; queries have a scale of their own
  bool query_scale = false;        ///< queries have a scale of their own (query_pre_attn_scalar)
  /// Embeddings, residuals, attention and logits have multipliers (granite).
  bool multipliers = false;
  double logit_scale = 0;  ///< of the logits where config.json does not say it; 0: there is none
  bool interleaved_rotary = false;  ///< pairs (2i, 2i+1) in all files
  int64_t state_period = 0;         ///< the last of every so many layers has no state, unless told
  int64_t rotary_period = 0;        ///< the last of every so many layers has no rotary embedding
  double local_rotary_base = 0;     ///< layers with a window turn by another base; 0: by the same
  Bias bias = Bias::kAsked;
  std::string_view bias_key = "attention_bias";
  bool bias_default = false;
  bool head_bias = false;
  bool experts = false;  ///< its members are mixtures of experts
  bool normalized_experts = false;
  bool scales_expert_inputs = false;
  bool shared_expert = false;
  bool shared_expert_gated = true;
  bool shared_alone = false;  ///< members without other experts have the shared one all the same
  /// Keys of experts and layers are DeepSeek's, and attention is latent.
  bool deepseek_layout = false;
  bool sigmoid_experts = false;
  bool expert_bias = false;  ///< of the router, too
  double expert_limit = 0;   ///< of gate and up; 0: there is none
  /// There are several residual streams, and keys are Gemma 3n's.
  bool altup = false;
  /// Layers have a state instead of attention, and keys are Mamba-2's.
  bool state_space = false;
  /// Some layers do, and keys of the state begin with "mamba_"; behind it is a feed-forward.
  bool hybrid = false;
  /// What they have is a delta rule, and keys of the state begin with "linear_".
  bool delta = false;
  /// All layers have both, and products have multipliers, which GGUF has in the weights.
  bool hybrid_layers = false;
  bool chunked_windows = false;
  TemperatureConfig temperature = {};  ///< unless its files say otherwise
  bool mlp_bias = false;               ///< config.json may ask for biases of the feed-forward

  // What its files leave out.
  int64_t context = 2048;
  int64_t head_dim = 0;  ///< 0: hidden / heads
  double norm_epsilon = 1e-6;
  Windows windows = Windows::kNone;
  int64_t window = 0;
  int64_t window_period = 0;
  bool window_asked = false;     ///< use_sliding_window says whether there are windows
  bool layer_types = true;       ///< layer_types is looked at
  int64_t original_context = 0;  ///< of rope scaling; 0: the context
  double partial_rotary = 0;     ///< share of a head that turns; 0: all, whatever the file says
  double rotary_base = 10000;
  bool yarn_truncated = true;     ///< in GGUF: yarn's ramp begins and ends at whole dimensions
  bool yarn_is_longrope = false;  ///< "su" and "yarn" are old names of longrope
  std::string_view window_key = "sliding_window";
  /// The size of layers without experts. Where there is such a key, intermediate_size is that of an
  /// expert and of the shared one.
  std::string_view dense_key = {};
  std::string_view shared_key = "shared_expert_intermediate_size";
  std::string_view rotary_key = {};          ///< layers turn only where it says "rope"
  std::string_view query_key_norm_key = {};  ///< false says that there are none
  std::string_view activation_key = "hidden_act";
  std::string_view epsilon_key = "rms_norm_eps";
  /// Says whether halves of a layer are parallel; "" where `block` alone does.
  std::string_view parallel_key = {};
  bool parallel_default = false;
  DecoderConfig::Block parallel_block = DecoderConfig::Block::kSequential;  ///< if it says so
  std::string_view head_norm_key = {};  ///< asks for norms of heads that cannot be computed
  bool gelu_is_tanh = false;            ///< "gelu" means gelu_pytorch_tanh

  // How its files store weights.
  std::string_view hub_prefix = "model.", hub_layers = "layers.";
  std::span<const RenamedTensor> hub_names = {};  ///< "mlp.fc1", …: where they are not llama's
  FusedExperts fused_experts = FusedExperts::kNone;
  /// Tensors that are not looked at: they begin like this.
  std::span<const std::string_view> hub_skipped = {};
  /// Rows of a fused q, k and v: for each head of keys its queries, the key, the value.
  bool grouped_qkv = false;
  bool gpt2_layout = false;          ///< keys are gpt2's, matrices transposed
  bool falcon_layout = false;        ///< keys that say how a layer is built are falcon's
  bool offset_norms = false;         ///< norms multiply with 1 + weight
  bool gguf_interleaved = false;     ///< rows of q and k are in the order of interleaved rotation
  bool gguf_window = false;          ///< attention.sliding_window is looked at
  bool gguf_experts = false;         ///< some files of this architecture are mixtures of experts
  bool gguf_logits_divided = false;  ///< logit_scale divides
  /// Special tokens but the first, unknown and last take the white space behind them.
  bool gguf_specials_rstrip = false;
  /// config.json has the language model in text_config, which says that it is of this family.
  std::string_view text_family = {};
  bool vision = false;  ///< it reads pictures, too
};

/// Null where the family cannot be read. By model_type, and by the architecture of a GGUF.
const Family* FindFamily(std::string_view name);
const Family* FindGgufFamily(std::string_view architecture);
/// The family of a config that RequireFamily began.
const Family& FamilyOf(const DecoderConfig& config);
/// "gemma, gemma2, … and qwen3", for messages.
std::string SupportedFamilies();
/// What the family's name alone says of the graph, or an Error that tells which families there are.
DecoderConfig RequireFamily(std::string_view family);
DecoderConfig RequireGgufFamily(std::string_view architecture);
/// Whether a layer sees a window only, by the rule of its family; kLater has none of its own.
bool IsWindowed(const Family& family, int64_t layer, int64_t period);

/// Sets what follows from the rest (attention_scale, windows), then throws kInvalidModel unless all
/// numbers can be worked with: positive, not absurdly large, divisible where they must be.
void FinishConfig(DecoderConfig& config);

}  // namespace oort
