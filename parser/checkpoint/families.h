// SPDX-License-Identifier: MIT
// The families of decoders that can be read, and what all members of one have in common.
#pragma once

#include <string>
#include <string_view>

#include "parser/checkpoint/decoder_config.h"

namespace oort {

/// What all members of a family have in common, and what the readers of its files must know. Who
/// adds a family adds a row of these to the table in families.cpp; no other code compares names.
struct Family {
  /// Products that have a bias: kAsked those that config.json asks for (attention_bias).
  enum class Bias : unsigned char { kNone, kAsked, kAttentionInputs, kAll };
  /// Layers that see a window where config.json does not list them (layer_types): kLater those from
  /// max_window_layers on.
  enum class Windows : unsigned char { kNone, kAll, kEven, kLater };

  std::string_view name;  ///< model_type of config.json, general.architecture of GGUF

  // What its graph is like: see DecoderConfig.
  DecoderConfig::Norm norm = DecoderConfig::Norm::kRms;
  Activation activation = Activation::kSilu;
  bool gated = true;
  bool tied_head = false;
  bool query_key_norm = false;
  bool post_norms = false;
  bool learned_positions = false;
  bool scaled_embeddings = false;  ///< by the root of the hidden size
  bool softcaps = false;           ///< of attention and logits; queries have a scale of their own
  Bias bias = Bias::kAsked;
  bool mlp_bias = false;  ///< config.json may ask for biases of the feed-forward

  // What its files leave out.
  int64_t context = 2048;
  int64_t head_dim = 0;  ///< 0: hidden / heads
  double norm_epsilon = 1e-6;
  Windows windows = Windows::kNone;
  int64_t window = 0;
  bool window_asked = false;      ///< use_sliding_window says whether there are windows
  bool layer_types = true;        ///< layer_types is looked at
  int64_t original_context = 0;   ///< of rope scaling; 0: the context
  bool partial_rotary = false;    ///< partial_rotary_factor is looked at
  bool yarn_is_longrope = false;  ///< "su" and "yarn" are old names of longrope
  std::string_view activation_key = "hidden_act";
  bool gelu_is_tanh = false;  ///< "gelu" means gelu_pytorch_tanh

  // How its files store weights.
  bool gpt2_layout = false;       ///< keys and tensors are named as gpt2's, matrices transposed
  bool offset_norms = false;      ///< norms multiply with 1 + weight
  bool gguf_interleaved = false;  ///< rows of q and k are in the order of interleaved rotation
  bool gguf_window = false;       ///< attention.sliding_window is looked at
  /// Special tokens but the first, unknown and last take the white space behind them.
  bool gguf_specials_rstrip = false;
};

/// Null where the family cannot be read.
const Family* FindFamily(std::string_view name);
/// The family of a config that RequireFamily began.
const Family& FamilyOf(const DecoderConfig& config);
/// "gemma, gemma2, … and qwen3", for messages.
std::string SupportedFamilies();
/// What the family's name alone says of the graph, or an Error that tells which families there are.
DecoderConfig RequireFamily(std::string_view family);

/// Sets what follows from the rest (attention_scale, windows), then throws kInvalidModel unless all
/// numbers can be worked with: positive, not absurdly large, divisible where they must be.
void FinishConfig(DecoderConfig& config);

}  // namespace oort
