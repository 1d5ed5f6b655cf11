// SPDX-License-Identifier: MIT
#include "limits/model_shape.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "oort/error.h"
#include "oort/source.h"
#include "parser/checkpoint/checkpoint.h"
#include "parser/checkpoint/families.h"
#include "parser/huggingface/config.h"
#include "text/json.h"

namespace oort::limits {
namespace {

using Names = std::initializer_list<std::string_view>;

std::optional<int64_t> FirstInteger(const json::Object& config, Names names) {
  for (const std::string_view name : names) {
    if (const auto value = config.Integer(name)) return value;
  }
  return {};
}

/// A size of the model, under any of its names; so small that products of several stay exact.
int64_t NeedSize(const json::Object& config, Names names, int64_t most) {
  const auto value = FirstInteger(config, names);
  if (!value) {
    throw Error(ErrorCode::kInvalidModel, config.what() + " has no " + std::string(*names.begin()));
  }
  if (*value < 1 || *value > most) {
    throw Error(ErrorCode::kInvalidModel, config.what() + ": " + std::string(*names.begin()) +
                                              " must be from 1 to " + std::to_string(most) +
                                              ", not " + std::to_string(*value));
  }
  return *value;
}

int64_t SizeOr(const json::Object& config, Names names, int64_t most, int64_t otherwise) {
  return FirstInteger(config, names) ? NeedSize(config, names, most) : otherwise;
}

constexpr int64_t kMostWide = 10'000'000;
constexpr int64_t kMostLayers = 100'000;
constexpr int64_t kMostWords = 1'000'000'000;

void ReadExperts(const json::Object& config, ModelShape& shape) {
  shape.experts =
      SizeOr(config, {"num_local_experts", "num_experts", "n_routed_experts"}, kMostLayers, 0);
  if (shape.experts <= 1) {
    shape.experts = 0;
    return;
  }
  shape.experts_used = NeedSize(
      config, {"num_experts_per_tok", "num_experts_per_token", "moe_top_k"}, shape.experts);
  shape.expert_intermediate =
      SizeOr(config, {"moe_intermediate_size"}, kMostWide, shape.intermediate);
  shape.shared_intermediate = SizeOr(config, {"shared_expert_intermediate_size"}, kMostWide, 0);
  const auto shared = config.Integer("n_shared_experts");
  if (shared && *shared > 0 && *shared <= kMostLayers)
    shape.shared_intermediate = *shared * shape.expert_intermediate;
  shape.dense_layers =
      std::clamp<int64_t>(config.Integer("first_k_dense_replace").value_or(0), 0, shape.layers);
}

/// Families that Oort cannot run, as its table of families (parser/checkpoint/families.h) would
/// have them.
constexpr auto kOthers = [] {
  using Bias = Family::Bias;
  constexpr auto old = [](std::string_view name, bool tied, bool positions, Bias bias) {
    Family family{.name = name};
    family.norm = DecoderConfig::Norm::kLayer;
    family.gated = false;
    family.tied_head = tied;
    family.learned_positions = positions;
    family.bias = bias;
    return family;
  };
  return std::to_array<Family>({
      old("biogpt", false, true, Bias::kAll),
      old("bloom", true, false, Bias::kAll),
      old("codegen", false, false, Bias::kAll),
      old("falcon", false, false, Bias::kAsked),
      old("gpt_bigcode", true, true, Bias::kAll),
      old("gpt_neo", true, true, Bias::kAll),
      old("gpt_neox", false, false, Bias::kAll),
      old("gptj", false, false, Bias::kAll),
      old("mpt", false, false, Bias::kAll),
      old("opt", true, true, Bias::kAll),
      old("phi", false, false, Bias::kAll),
      old("starcoder2", false, false, Bias::kAll),
      {.name = "gemma3", .tied_head = true, .query_key_norm = true, .post_norms = true},
      {.name = "gemma3_text", .tied_head = true, .query_key_norm = true, .post_norms = true},
      {.name = "qwen2_moe", .bias = Bias::kAttentionInputs, .window_asked = true},
      {.name = "qwen3_moe", .query_key_norm = true, .window_asked = true},
  });
}();

Family TraitsOf(std::string_view name) {
  if (const Family* known = FindFamily(name)) return *known;
  for (const Family& other : kOthers) {
    if (other.name == name) return other;
  }
  return {.name = name, .tied_head = name.starts_with("gemma")};
}

void ReadWindows(const json::Object& config, const Family& family, ModelShape& shape) {
  const auto window = config.Integer("sliding_window");
  const bool used = config.Bool("use_sliding_window").value_or(!family.window_asked);
  if (!window || *window < 1 || !used) return;
  shape.windows.assign(static_cast<size_t>(shape.layers), 0);
  const json::Json* types = config.Find("layer_types");
  for (size_t i = 0; i < shape.windows.size(); ++i) {
    bool local = family.windows != Family::Windows::kEven || i % 2 == 0;
    if (types && types->is_array() && i < types->size() && (*types)[i].is_string()) {
      local = (*types)[i].get_ref<const std::string&>().find("sliding") != std::string::npos;
    }
    if (local) shape.windows[i] = *window;
  }
}

/// What follows from the family, as its files may change it.
void ReadDetails(const json::Object& config, const Family& family, ModelShape& shape) {
  using Bias = Family::Bias;
  shape.gated = family.gated;
  shape.tied_head = config.Bool("tie_word_embeddings").value_or(family.tied_head);
  const bool inputs_alone = family.bias == Bias::kAttentionInputs;
  const bool attention_bias = config.Bool("attention_bias").value_or(family.bias == Bias::kAll);
  shape.qkv_bias = attention_bias || inputs_alone || config.Bool("add_qkv_bias").value_or(false);
  shape.output_bias = attention_bias && !inputs_alone;
  shape.mlp_bias = config.Bool("mlp_bias").value_or(family.bias == Bias::kAll);
  shape.norm_width = shape.hidden * (family.norm == DecoderConfig::Norm::kLayer ? 2 : 1);
  shape.norms = family.post_norms ? 4 : 2;
  shape.query_key_norm = family.query_key_norm;
  shape.context = std::max<int64_t>(
      FirstInteger(config, {"max_position_embeddings", "n_positions", "seq_length"}).value_or(0),
      0);
  if (family.learned_positions) shape.positions = std::min(shape.context, kMostWords);
}

/// Sizes under any of the names that families give them, of a model that Oort cannot run.
ModelShape ReadAnyShape(const json::Object& config, std::string family) {
  ModelShape shape;
  shape.family = std::move(family);
  shape.vocabulary = NeedSize(config, {"vocab_size", "padded_vocab_size"}, kMostWords);
  shape.hidden = NeedSize(config, {"hidden_size", "n_embd", "d_model", "dim"}, kMostWide);
  shape.layers =
      NeedSize(config, {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, kMostLayers);
  shape.heads =
      NeedSize(config, {"num_attention_heads", "n_head", "n_heads", "num_heads"}, kMostWide);
  const bool one_kv_head = config.Bool("multi_query").value_or(false);
  shape.kv_heads = SizeOr(config, {"num_key_value_heads", "n_kv_heads", "num_kv_heads"},
                          shape.heads, one_kv_head ? 1 : shape.heads);
  if (shape.heads % shape.kv_heads != 0) {
    throw Error(ErrorCode::kInvalidModel, "config.json: " + std::to_string(shape.heads) +
                                              " heads cannot share " +
                                              std::to_string(shape.kv_heads) + " keys and values");
  }
  shape.head_dim = SizeOr(config, {"head_dim", "kv_channels"}, kMostWide,
                          std::max<int64_t>(shape.hidden / shape.heads, 1));
  shape.intermediate =
      SizeOr(config, {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "hidden_dim"},
             kMostWide, 4 * shape.hidden);
  const Family traits = TraitsOf(shape.family);
  ReadDetails(config, traits, shape);
  ReadExperts(config, shape);
  ReadWindows(config, traits, shape);
  return shape;
}

/// By the reader of checkpoints; nothing of models that Oort cannot run.
std::optional<ModelShape> ReadRunnableShape(const json::Object& config) {
  if (!config.Text("model_type")) return {};
  try {
    const DecoderConfig read = huggingface::ReadConfig(config);
    const huggingface::Biases biases = huggingface::ReadBiases(config, FamilyOf(read));
    ModelShape shape = ShapeOf(read);
    shape.qkv_bias = biases.attention_inputs;
    shape.output_bias = biases.attention_output;
    shape.mlp_bias = biases.mlp;
    return shape;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return {};
  }
}

}  // namespace

ModelShape ReadModelShape(std::string_view config_json) {
  const json::Json document = json::Parse(config_json, "config.json");
  const json::Object whole(document, "config.json");
  const std::optional<json::Object> inner = whole.Member("text_config");
  const json::Object& config = inner ? *inner : whole;
  if (config.Find("kv_lora_rank")) {
    throw Error(ErrorCode::kUnsupported,
                "config.json: the compressed cache of latent attention is not modelled");
  }
  const std::string family(
      config.Text("model_type").value_or(whole.Text("model_type").value_or("")));
  if (!inner) {
    if (auto shape = ReadRunnableShape(config)) return *shape;
  }
  return ReadAnyShape(config, family);
}

ModelShape ShapeOfModel(const std::filesystem::path& model) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(model, ignored);
  if (!folder && LooksLikeCheckpoint(model)) return ShapeOf(Checkpoint::Open(model)->config());
  const auto source = ByteSource::File(folder ? model / "config.json" : model);
  std::string text(static_cast<size_t>(source->size()), ' ');
  source->ReadAt(0, std::as_writable_bytes(std::span(text)));
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{') {
    throw Error(ErrorCode::kInvalidModel, "'" + source->name() +
                                              "' is no language model: expected a GGUF file, a "
                                              "config.json, or a folder that holds one");
  }
  return ReadModelShape(text);
}

ModelShape ShapeOf(const DecoderConfig& config) {
  ModelShape shape;
  shape.family = config.family;
  shape.vocabulary = config.vocabulary;
  shape.hidden = config.hidden;
  shape.layers = config.layers;
  shape.heads = config.heads;
  shape.kv_heads = config.kv_heads;
  shape.head_dim = config.head_dim;
  shape.intermediate = config.intermediate;
  shape.gated = config.gated;
  shape.tied_head = config.tied_head;
  const Family::Bias bias = FamilyOf(config).bias;
  shape.output_bias = shape.mlp_bias = bias == Family::Bias::kAll;
  shape.qkv_bias = shape.output_bias || bias == Family::Bias::kAttentionInputs;
  shape.norm_width = config.hidden * (config.norm == DecoderConfig::Norm::kLayer ? 2 : 1);
  shape.norms = config.post_norms ? 4 : 2;
  shape.query_key_norm = config.query_key_norm;
  shape.context = config.context;
  shape.positions = config.learned_positions ? config.context : 0;
  shape.windows = config.windows;
  return shape;
}

}  // namespace oort::limits
