// SPDX-License-Identifier: MIT
#include "parser/huggingface/config.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/guard.h"
#include "core/problems.h"
#include "parser/checkpoint/families.h"

namespace oort {
namespace huggingface {
namespace {

Activation ActivationNamed(std::string_view name) {
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") {
    return Activation::kGeluTanh;
  }
  if (name == "relu") return Activation::kRelu;
  throw Error(ErrorCode::kUnsupported, "the activation " + Quote(name) +
                                           " is not known; silu, gelu, gelu_new, " +
                                           "gelu_pytorch_tanh and relu are");
}

void ReadActivation(const json::Object& file, DecoderConfig& config) {
  const Family& family = FamilyOf(config);
  const auto name = file.Text(family.activation_key);
  if (!name || (family.gelu_is_tanh && *name == "gelu")) return;
  config.activation = ActivationNamed(*name);
}

void ReadGpt2Sizes(const json::Object& file, DecoderConfig& config) {
  config.hidden = file.RequireInteger("n_embd");
  config.layers = file.RequireInteger("n_layer");
  config.heads = config.kv_heads = file.RequireInteger("n_head");
  config.head_dim = config.heads > 0 ? config.hidden / config.heads : 0;
  config.context = file.Integer("n_positions").value_or(FamilyOf(config).context);
  const auto inner = file.Integer("n_inner");
  config.intermediate = inner ? *inner : CheckedMultiply<int64_t>(4, config.hidden);
  const double epsilon = FamilyOf(config).norm_epsilon;
  config.norm_epsilon = static_cast<float>(file.Number("layer_norm_epsilon").value_or(epsilon));
  if (!file.Bool("scale_attn_weights").value_or(true)) config.attention_scale = 1;
  if (file.Bool("scale_attn_by_inverse_layer_idx").value_or(false)) {
    throw Error(ErrorCode::kUnsupported, "attention scaled by the index of the layer");
  }
}

void ReadSizes(const json::Object& file, DecoderConfig& config) {
  const Family& family = FamilyOf(config);
  config.hidden = file.RequireInteger("hidden_size");
  config.layers = file.RequireInteger("num_hidden_layers");
  config.heads = file.RequireInteger("num_attention_heads");
  config.kv_heads = file.Integer("num_key_value_heads").value_or(config.heads);
  config.intermediate = file.RequireInteger("intermediate_size");
  config.context = file.Integer("max_position_embeddings").value_or(family.context);
  const int64_t whole = config.heads > 0 ? config.hidden / config.heads : 0;
  const int64_t usual = family.head_dim > 0 ? family.head_dim : whole;
  // Written as null, it follows from the others, whatever the family.
  const bool is_null = file.IsNull("head_dim");
  config.head_dim = file.Integer("head_dim").value_or(is_null ? whole : usual);
  const double epsilon = file.Number("rms_norm_eps").value_or(family.norm_epsilon);
  config.norm_epsilon = static_cast<float>(epsilon);
}

/// Of files that have the key: null is none.
int64_t WindowOf(const json::Object& file, int64_t otherwise) {
  if (file.IsNull("sliding_window")) return 0;
  return file.Integer("sliding_window").value_or(otherwise);
}

/// Which layers look at a window only.
std::vector<bool> WindowedLayers(const json::Object& file, const DecoderConfig& config) {
  std::vector<bool> windowed(static_cast<size_t>(config.layers), true);
  const Family& family = FamilyOf(config);
  const json::Json* types = family.layer_types ? file.Find("layer_types") : nullptr;
  if (types != nullptr && (!types->is_array() || types->size() != windowed.size())) {
    file.ThrowWrongType("layer_types", "a list of as many strings as there are layers");
  }
  const int64_t first = family.windows == Family::Windows::kLater
                            ? file.Integer("max_window_layers").value_or(28)
                            : 0;
  for (size_t i = 0; i < windowed.size(); ++i) {
    if (types == nullptr) {
      const bool later = static_cast<int64_t>(i) >= first;
      windowed[i] = family.windows == Family::Windows::kAll ||
                    (family.windows == Family::Windows::kEven ? i % 2 == 0 : later);
      continue;
    }
    const json::Json& item = (*types)[i];
    const std::string type = item.is_string() ? item.get<std::string>() : "";
    windowed[i] = type == "sliding_attention";
    if (!windowed[i] && type != "full_attention") {
      file.ThrowWrongType("layer_types", "sliding_attention or full_attention for every layer");
    }
  }
  return windowed;
}

void ReadWindows(const json::Object& file, DecoderConfig& config) {
  const Family& family = FamilyOf(config);
  const bool asked = !family.window_asked || file.Bool("use_sliding_window").value_or(false);
  if (family.windows == Family::Windows::kNone || !asked) return;
  const int64_t window = WindowOf(file, family.window);
  if (window == 0 || config.layers < 1 || config.layers > 4096) return;
  for (const bool windowed : WindowedLayers(file, config)) {
    config.windows.push_back(windowed ? window : 0);
  }
}

/// 0 where the file says null.
float SoftcapOf(const json::Object& file, std::string_view key, double otherwise) {
  if (file.IsNull(key)) return 0;
  return static_cast<float>(file.Number(key).value_or(otherwise));
}

/// Of embeddings, attention and logits.
void ReadScales(const json::Object& file, DecoderConfig& config) {
  const Family& family = FamilyOf(config);
  if (!family.scaled_embeddings && !family.softcaps) return;
  if (file.Bool("use_bidirectional_attention").value_or(false)) {
    throw Error(ErrorCode::kUnsupported, "attention in both directions");
  }
  if (family.scaled_embeddings) {
    config.embedding_scale = std::sqrt(static_cast<float>(std::max<int64_t>(0, config.hidden)));
  }
  if (!family.softcaps) return;
  config.attention_softcap = SoftcapOf(file, "attn_logit_softcapping", 50);
  config.final_softcap = SoftcapOf(file, "final_logit_softcapping", 30);
  const double scalar = file.Number("query_pre_attn_scalar").value_or(256);
  if (!(scalar > 0)) file.ThrowWrongType("query_pre_attn_scalar", "a number above 0");
  config.attention_scale = static_cast<float>(1 / std::sqrt(scalar));
}

}  // namespace

DecoderConfig ReadConfig(const json::Object& file) {
  const auto family = file.Text("model_type");
  if (!family) {
    throw Error(ErrorCode::kInvalidModel, file.what() + ": 'model_type' is missing");
  }
  DecoderConfig config = RequireFamily(*family);
  if (file.Find("quantization_config") != nullptr) {
    throw Error(ErrorCode::kUnsupported,
                file.what() +
                    ": the weights are quantized (quantization_config); those in f32, f16 "
                    "and bf16 can be read, and quantized ones from GGUF");
  }
  config.vocabulary = file.RequireInteger("vocab_size");
  config.tied_head = file.Bool("tie_word_embeddings").value_or(config.tied_head);
  if (FamilyOf(config).gpt2_layout) {
    ReadGpt2Sizes(file, config);
  } else {
    ReadSizes(file, config);
  }
  ReadActivation(file, config);
  ReadWindows(file, config);
  ReadScales(file, config);
  if (!config.learned_positions) config.rotary = ReadRotary(file, config);
  FinishConfig(config);
  return config;
}

Biases ReadBiases(const json::Object& file, const Family& family) {
  switch (family.bias) {
    case Family::Bias::kNone: return {};
    case Family::Bias::kAttentionInputs: return {true, false, false};
    case Family::Bias::kAll: return {true, true, true};
    case Family::Bias::kAsked: break;
  }
  const bool attention = file.Bool("attention_bias").value_or(false);
  return {attention, attention, family.mlp_bias && file.Bool("mlp_bias").value_or(false)};
}

}  // namespace huggingface

DecoderConfig ReadDecoderConfig(std::string_view text, const std::string& what) {
  return Guarded([&] {
    const json::Json config = json::Parse(text, what);
    return huggingface::ReadConfig(json::Object(config, what));
  });
}

}  // namespace oort
