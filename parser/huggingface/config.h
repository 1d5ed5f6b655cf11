// SPDX-License-Identifier: MIT
// config.json of Hugging Face.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "parser/checkpoint/decoder_config.h"
#include "parser/checkpoint/families.h"
#include "parser/checkpoint/rotary.h"
#include "text/json.h"

namespace oort {

/// The model that the text of a config.json describes; weights are not needed. `what` names it in
/// messages. Throws kUnsupported for families that cannot be read.
DecoderConfig ReadDecoderConfig(std::string_view text, const std::string& what = "config.json");

namespace huggingface {

DecoderConfig ReadConfig(const json::Object& config);

/// Read under any of the names that families give them; what the file leaves out is as the family
/// has it. Nothing is checked.
struct Sizes {
  int64_t vocabulary = 0, hidden = 0, layers = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t intermediate = 0, context = 0;
};
Sizes ReadSizes(const json::Object& config, const Family& family);

/// The activation that transformers calls so; throws kUnsupported for one that is not known.
Activation ActivationNamed(std::string_view name);

/// The window of each layer, 0 where it sees everything; empty where all do.
std::vector<int64_t> ReadWindows(const json::Object& config, const Family& family, int64_t layers);

/// Of a model with experts, the layers that have none: all but those that are listed (moe_layers),
/// or all but every so manieth; and those that are listed as such (mlp_only_layers).
std::vector<bool> ReadDenseLayers(const json::Object& config, int64_t layers);

/// Which products have a bias.
struct Biases {
  bool attention_inputs = false;  ///< q, k and v
  bool attention_output = false;
  bool mlp = false;
  bool head = false;
  bool mixer = false;  ///< those of layers with a state
};
Biases ReadBiases(const json::Object& config, const Family& family);

/// Rotary embeddings: rope_theta and rope_scaling of old files, rope_parameters of new ones.
void ReadRotary(const json::Object& config, DecoderConfig& decoder);
/// What rope scaling multiplies the scores of latent attention with (mscale_all_dim), 1 for none.
double ReadAttentionMagnitude(const json::Object& config, const DecoderConfig& decoder);
/// What config.json of a folder, which was read as `decoder`, says of the layers that see all.
RotarySource ReadRotarySource(const std::filesystem::path& folder, const DecoderConfig& decoder);

}  // namespace huggingface
}  // namespace oort
