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
#include "parser/huggingface/vision.h"
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

/// So small that products of several stay exact.
int64_t CheckedSize(std::string_view name, int64_t value, int64_t most) {
  if (value >= 1 && value <= most) return value;
  throw Error(ErrorCode::kInvalidModel, "config.json: " + std::string(name) +
                                            " must be from 1 to " + std::to_string(most) +
                                            ", not " + std::to_string(value));
}

int64_t SizeOr(const json::Object& config, Names names, int64_t most, int64_t otherwise) {
  const auto value = FirstInteger(config, names);
  return value ? CheckedSize(*names.begin(), *value, most) : otherwise;
}

/// Numbers of the norms of queries and keys in a layer.
int64_t HeadNorms(DecoderConfig::QueryKeyNorm norm, const ModelShape& shape) {
  switch (norm) {
    case DecoderConfig::QueryKeyNorm::kHead: return 2 * shape.head_dim;
    case DecoderConfig::QueryKeyNorm::kAllHeads:
      return (shape.heads + shape.kv_heads) * shape.head_dim;
    case DecoderConfig::QueryKeyNorm::kTurned:
    case DecoderConfig::QueryKeyNorm::kNone: break;
  }
  return 0;
}

constexpr int64_t kMostWide = 10'000'000;
constexpr int64_t kMostLayers = 100'000;
constexpr int64_t kMostWords = 1'000'000'000;

void ReadExperts(const json::Object& config, const Family& family, ModelShape& shape) {
  const auto count = FirstInteger(config, {"num_local_experts", "num_experts", "n_routed_experts"});
  if (count.value_or(0) != 0) {
    shape.experts = CheckedSize("num_local_experts", *count, kMostLayers);
  }
  const int64_t intermediate = shape.intermediate;
  if (!family.dense_key.empty()) {  // intermediate_size is that of an expert
    shape.intermediate =
        CheckedSize(family.dense_key, config.RequireInteger(family.dense_key), kMostWide);
  }
  if (shape.experts <= 1) {
    shape.experts = 0;
    return;
  }
  const auto used =
      FirstInteger(config, {"num_experts_per_tok", "num_experts_per_token", "moe_top_k"});
  shape.experts_used = CheckedSize("num_experts_per_tok", used.value_or(0), shape.experts);
  shape.expert_intermediate = SizeOr(config, {"moe_intermediate_size"}, kMostWide, intermediate);
  if (!family.dense_key.empty()) {
    shape.shared_intermediate = shape.expert_intermediate;
    shape.dense_layers =
        std::ranges::count(huggingface::ReadDenseLayers(config, shape.layers), true);
    return;
  }
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
      old("gpt_bigcode", true, true, Bias::kAll),
      old("gpt_neo", true, true, Bias::kAll),
      old("gptj", false, false, Bias::kAll),
      old("mpt", false, false, Bias::kAll),
      old("opt", true, true, Bias::kAll),
      {.name = "gemma3",
       .tied_head = true,
       .query_key_norm = DecoderConfig::QueryKeyNorm::kHead,
       .post_norms = true},
  });
}();

Family FamilyNamed(std::string_view name, const json::Object& config) {
  if (const Family* known = FindFamily(name)) return *known;
  const auto* const other = std::ranges::find(kOthers, name, &Family::name);
  Family family = other != kOthers.end()
                      ? *other
                      : Family{.name = name, .tied_head = name.starts_with("gemma")};
  // Of those that nobody has looked at, all that a file may say is believed.
  family.context = 0;
  family.mlp_bias = true;
  family.windows = Family::Windows::kAll;
  family.window_asked = family.window_asked || config.Find("use_sliding_window") != nullptr;
  return family;
}

/// Of a model that Oort cannot run.
ModelShape ReadAnyShape(const json::Object& config, std::string name) {
  const Family family = FamilyNamed(name, config);
  const huggingface::Sizes sizes = huggingface::ReadSizes(config, family);
  const huggingface::Biases biases = huggingface::ReadBiases(config, family);
  ModelShape shape;
  shape.family = std::move(name);
  shape.vocabulary = CheckedSize("vocab_size", sizes.vocabulary, kMostWords);
  shape.hidden = CheckedSize("hidden_size", sizes.hidden, kMostWide);
  shape.layers = CheckedSize("num_hidden_layers", sizes.layers, kMostLayers);
  shape.heads = CheckedSize("num_attention_heads", sizes.heads, kMostWide);
  shape.kv_heads = CheckedSize("num_key_value_heads", sizes.kv_heads, shape.heads);
  if (shape.heads % shape.kv_heads != 0) {
    throw Error(ErrorCode::kInvalidModel, "config.json: " + std::to_string(shape.heads) +
                                              " heads cannot share " +
                                              std::to_string(shape.kv_heads) + " keys and values");
  }
  shape.head_dim = CheckedSize("head_dim", sizes.head_dim, kMostWide);
  shape.intermediate = CheckedSize("intermediate_size", sizes.intermediate, kMostWide);
  shape.context = std::max<int64_t>(sizes.context, 0);
  shape.gated = family.gated;
  shape.tied_head = config.Bool("tie_word_embeddings").value_or(family.tied_head);
  shape.qkv_bias = biases.attention_inputs || config.Bool("add_qkv_bias").value_or(false);
  shape.output_bias = biases.attention_output;
  shape.mlp_bias = biases.mlp;
  shape.norm_width = shape.hidden * (family.norm == DecoderConfig::Norm::kLayer ? 2 : 1);
  shape.norms = family.post_norms ? 4 : 2;
  shape.query_key_norm = HeadNorms(family.query_key_norm, shape);
  if (family.learned_positions) shape.positions = std::min(shape.context, kMostWords);
  ReadExperts(config, family, shape);
  shape.windows = huggingface::ReadWindows(config, family, shape.layers);
  shape.chunked_windows = family.chunked_windows;
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
    shape.state_bias = biases.mixer;
    return shape;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return {};
  }
}

/// The language model's part, as the reader of checkpoints wants it; where Oort cannot run it, the
/// config as it stands.
json::Json LanguagePart(json::Json document) {
  try {
    return huggingface::LanguageConfig(document);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return document;
  }
}

[[noreturn]] void RefuseLatent() {
  throw Error(ErrorCode::kUnsupported, "the compressed cache of latent attention is not modelled");
}

}  // namespace

ModelShape ReadModelShape(std::string_view config_json) {
  const json::Json document = LanguagePart(json::Parse(config_json, "config.json"));
  const json::Object whole(document, "config.json");
  const std::optional<json::Object> inner = whole.Member("text_config");
  const json::Object& config = inner ? *inner : whole;
  if (config.Find("kv_lora_rank")) RefuseLatent();
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

namespace {

void SetStreams(const DecoderConfig& config, ModelShape& shape) {
  const AltUpConfig& altup = config.altup;
  shape.shared_layers = config.shared_layers;
  if (altup.streams == 0) return;
  const int64_t hidden = config.hidden, streams = altup.streams;
  const int64_t inputs = config.layers * altup.per_layer;
  const int64_t layer = streams * hidden + streams * streams * (streams + 1) +
                        2 * hidden * (altup.laurel + altup.per_layer);
  shape.stream_products =
      config.layers * layer + hidden * inputs + 2 * (streams - 1) * hidden * hidden;
  // Of a layer's router, Laurel and what is added, and a scale; layers that share have no keys.
  shape.stream_norms =
      config.layers * 4 * hidden + altup.per_layer - config.shared_layers * config.head_dim;
  shape.stream_table = altup.vocabulary * inputs;
}

}  // namespace

ModelShape ShapeOf(const DecoderConfig& config) {
  if (config.latent.rank > 0) RefuseLatent();
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
  shape.norms = (config.pre_norms ? 2 : 0) + (config.post_norms ? 2 : 0);
  if (config.block == DecoderConfig::Block::kParallelOneNorm) --shape.norms;
  shape.query_key_norm = HeadNorms(config.query_key_norm, shape);
  shape.context = config.context;
  shape.positions = config.learned_positions ? config.context : 0;
  shape.experts = config.experts.count;
  shape.experts_used = config.experts.used;
  shape.expert_intermediate = config.experts.intermediate;
  shape.shared_intermediate = config.experts.shared_intermediate;
  shape.dense_layers = std::ranges::count(config.experts.dense, true);
  shape.windows = config.windows;
  shape.chunked_windows = config.chunked_windows;
  shape.attention_gate = config.attention_gate;
  shape.shared_gate = config.experts.shared_gated && config.experts.shared_intermediate > 0;
  SetStreams(config, shape);
  if (config.state_space.heads == 0) return shape;
  shape.state_delta = config.state_space.delta;
  shape.state_size = config.state_space.size;
  shape.state_groups = config.state_space.groups;
  shape.state_taps = config.state_space.taps;
  shape.state_heads = config.state_space.heads;
  shape.state_head_dim = config.state_space.head_dim;
  for (int64_t i = 0; i < config.layers; ++i) {
    shape.state_layers += config.state_space.IsAt(i) ? 1 : 0;
  }
  shape.state_beside = config.state_space.beside_attention;
  shape.state_norm = config.state_space.norm;
  shape.state_alone = !config.state_space.feed_forward;
  if (shape.state_alone) shape.norms = 1;
  return shape;
}

}  // namespace oort::limits
