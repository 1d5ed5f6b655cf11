// SPDX-License-Identifier: MIT
#include "parser/huggingface/config.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numbers>
#include <optional>

#include "core/checked.h"
#include "core/guard.h"
#include "core/problems.h"
#include "parser/checkpoint/families.h"
#include "parser/huggingface/quantization.h"
#include "parser/huggingface/state_space.h"
#include "parser/huggingface/vision.h"

namespace oort {
namespace huggingface {
namespace {

void ReadActivation(const json::Object& file, DecoderConfig& config) {
  const Family& family = FamilyOf(config);
  const auto name = file.Text(family.activation_key);
  if (!name || (family.gelu_is_tanh && *name == "gelu")) return;
  config.activation = ActivationNamed(*name);
}

using Names = std::initializer_list<std::string_view>;

std::optional<int64_t> FirstInteger(const json::Object& file, Names names) {
  for (const std::string_view name : names) {
    if (const auto value = file.Integer(name)) return value;
  }
  return {};
}

/// The first name is the one that messages tell.
int64_t RequireFirst(const json::Object& file, Names names) {
  const auto value = FirstInteger(file, names);
  return value ? *value : file.RequireInteger(*names.begin());
}

/// Of files that have the key: null is none.
int64_t WindowOf(const json::Object& file, const Family& family) {
  if (file.IsNull(family.window_key)) return 0;
  return file.Integer(family.window_key).value_or(family.window);
}

/// Layers with a rotary embedding: those that the file lists, or all but every so manieth.
std::vector<bool> TurningLayers(const json::Object& file, const Family& family, int64_t layers) {
  std::vector<bool> turning(static_cast<size_t>(std::clamp<int64_t>(layers, 0, 4096)), true);
  if (family.rotary_period == 0) return turning;
  const int64_t period = file.Integer("no_rope_layer_interval").value_or(family.rotary_period);
  if (period < 1) file.ThrowWrongType("no_rope_layer_interval", "a number above 0");
  const json::Json* list = file.Find("no_rope_layers");
  const bool listed = list != nullptr && !(list->is_array() && list->empty());
  if (listed && (!list->is_array() || list->size() < turning.size())) {
    file.ThrowWrongType("no_rope_layers", "a list with a number for every layer");
  }
  for (size_t i = 0; i < turning.size(); ++i) {
    if (listed && !(*list)[i].is_number_integer()) {
      file.ThrowWrongType("no_rope_layers", "a list of 0 and 1");
    }
    turning[i] =
        listed ? (*list)[i].get<int64_t>() != 0 : (static_cast<int64_t>(i) + 1) % period != 0;
  }
  return turning;
}

/// Which layers look at a window only.
std::vector<bool> WindowedLayers(const json::Object& file, const Family& family, int64_t layers) {
  std::vector<bool> windowed(static_cast<size_t>(layers), true);
  const json::Json* types = family.layer_types ? file.Find("layer_types") : nullptr;
  if (types != nullptr && (!types->is_array() || types->size() != windowed.size())) {
    file.ThrowWrongType("layer_types", "a list of as many strings as there are layers");
  }
  const int64_t first = family.windows == Family::Windows::kLater
                            ? file.Integer("max_window_layers").value_or(28)
                            : 0;
  const int64_t period = file.Integer("sliding_window_pattern").value_or(family.window_period);
  if (types == nullptr && family.chunked_windows) return TurningLayers(file, family, layers);
  const std::string windowed_type =
      family.chunked_windows ? "chunked_attention" : "sliding_attention";
  for (size_t i = 0; i < windowed.size(); ++i) {
    if (types == nullptr) {
      const auto layer = static_cast<int64_t>(i);
      windowed[i] = family.windows == Family::Windows::kLater ? layer >= first
                                                              : IsWindowed(family, layer, period);
      continue;
    }
    const json::Json& item = (*types)[i];
    const std::string type = item.is_string() ? item.get<std::string>() : "";
    windowed[i] = type == windowed_type;
    if (!windowed[i] && type != "full_attention") {
      file.ThrowWrongType("layer_types", windowed_type + " or full_attention for every layer");
    }
  }
  return windowed;
}

/// 0 where the file says null.
float SoftcapOf(const json::Object& file, std::string_view key, double otherwise) {
  if (file.IsNull(key)) return 0;
  return static_cast<float>(file.Number(key).value_or(otherwise));
}

/// A multiplier that is there in every file of its family, 1 where it is not.
float MultiplierOf(const json::Object& file, std::string_view key) {
  const double number = file.Number(key).value_or(1);
  if (!(number > 0)) file.ThrowWrongType(key, "a number above 0");
  return static_cast<float>(number);
}

void ReadMultipliers(const json::Object& file, DecoderConfig& config) {
  config.embedding_scale = MultiplierOf(file, "embedding_multiplier");
  config.residual_scale = MultiplierOf(file, "residual_multiplier");
  config.attention_scale = MultiplierOf(file, "attention_multiplier");
  config.logit_scale = 1 / MultiplierOf(file, "logits_scaling");
}

/// Whether a layer's halves see the same x, and behind which norms.
void ReadBlock(const json::Object& file, DecoderConfig& config) {
  using Block = DecoderConfig::Block;
  const Family& family = FamilyOf(config);
  if (!family.parallel_key.empty()) {
    const bool parallel = file.Bool(family.parallel_key).value_or(family.parallel_default);
    config.block = parallel ? family.parallel_block : Block::kSequential;
  }
  if (!family.falcon_layout) return;
  if (file.Bool("alibi").value_or(false)) {
    throw Error(ErrorCode::kUnsupported, "positions by ALiBi cannot be computed");
  }
  if (file.Bool("new_decoder_architecture").value_or(false)) {
    const bool one = file.Integer("num_ln_in_parallel_attn").value_or(2) == 1;
    config.block = one ? Block::kParallelOneNorm : Block::kParallel;
    return;
  }
  config.kv_heads = file.Bool("multi_query").value_or(true) ? 1 : config.heads;
  if (!file.Bool("parallel_attn").value_or(true)) config.block = Block::kSequential;
}

void ReadLayersWithoutRotary(const json::Object& file, DecoderConfig& config) {
  const Family& family = FamilyOf(config);
  if (family.rotary_period == 0) return;
  for (const bool turns : TurningLayers(file, family, config.layers)) {
    config.layer_rotary.push_back(turns ? DecoderConfig::LayerRotary::kUsual
                                        : DecoderConfig::LayerRotary::kNone);
  }
}

/// Whether queries grow with their position, and how.
void ReadTemperature(const json::Object& file, DecoderConfig& config) {
  TemperatureConfig& temperature = config.temperature;
  constexpr std::string_view kKey = "attn_temperature_tuning";
  if (temperature.length == 0) return;
  const json::Json* asked = file.Find(kKey);  // older files have a number
  const bool given = asked != nullptr;
  if (given && !asked->is_boolean() && !asked->is_number_integer()) {
    file.ThrowWrongType(kKey, "true or false");
  }
  const bool off =
      given && (asked->is_boolean() ? !asked->get<bool>() : asked->get<int64_t>() == 0);
  if (off) {
    temperature = {};
    return;
  }
  temperature.length = file.Integer("floor_scale").value_or(temperature.length);
  if (temperature.length < 1) file.ThrowWrongType("floor_scale", "a number above 0");
  temperature.scale = static_cast<float>(file.Number("attn_scale").value_or(temperature.scale));
}

/// A size of latent attention or of DeepSeek's experts.
int64_t SizeOf(const json::Object& file, std::string_view key, int64_t otherwise) {
  const int64_t size = file.Integer(key).value_or(otherwise);
  if (size < 0 || size > int64_t{1} << 24) file.ThrowWrongType(key, "a sensible number");
  return size;
}

void ReadDeepseekExperts(const json::Object& file, DecoderConfig& config) {
  ExpertsConfig& experts = config.experts;
  const bool sigmoid = experts.sigmoid;
  experts.shared_intermediate = CheckedMultiply(SizeOf(file, "n_shared_experts", sigmoid ? 1 : 2),
                                                std::max<int64_t>(0, experts.intermediate));
  experts.scale =
      static_cast<float>(file.Number("routed_scaling_factor").value_or(sigmoid ? 2.5 : 1));
  // The older models choose from groups only if they say so, and never divide by the sum.
  const auto method = file.Text("topk_method").value_or(sigmoid ? "noaux_tc" : "greedy");
  if (!sigmoid && method != "greedy" && method != "group_limited_greedy") {
    throw Error(ErrorCode::kUnsupported,
                file.what() + ": experts chosen by the topk_method " + Quote(std::string(method)));
  }
  if (sigmoid || method != "greedy") {
    experts.groups = SizeOf(file, "n_group", sigmoid ? 8 : 1);
    experts.groups_used = SizeOf(file, "topk_group", sigmoid ? 4 : 1);
  }
  if (!sigmoid) experts.normalized = false;
  if (file.Integer("moe_layer_freq").value_or(1) != 1) {
    throw Error(ErrorCode::kUnsupported, file.what() + ": a moe_layer_freq other than 1");
  }
}

/// Attention whose keys and values come from one latent vector.
void ReadLatent(const json::Object& file, DecoderConfig& config) {
  if (!FamilyOf(config).deepseek_layout) return;
  LatentConfig& latent = config.latent;
  latent.rank = SizeOf(file, "kv_lora_rank", 512);
  latent.query_rank = file.IsNull("q_lora_rank") ? 0 : SizeOf(file, "q_lora_rank", 1536);
  latent.plain = SizeOf(file, "qk_nope_head_dim", 128);
  latent.turned = SizeOf(file, "qk_rope_head_dim", 64);
  latent.value = SizeOf(file, "v_head_dim", 128);
  if (latent.rank < 1) file.ThrowWrongType("kv_lora_rank", "a number above 0");
  if (file.Bool("rope_interleave").value_or(true)) return;
  throw Error(ErrorCode::kUnsupported, file.what() + ": a rope_interleave that is false");
}

/// What attention is like once the frequencies of what turns are known.
void FinishLatent(const json::Object& file, DecoderConfig& config) {
  const LatentConfig& latent = config.latent;
  if (latent.rank == 0) return;
  config.head_dim = latent.rank + latent.turned;
  config.kv_heads = 1;
  const double size = static_cast<double>(latent.plain) + static_cast<double>(latent.turned);
  config.attention_scale =
      static_cast<float>(ReadAttentionMagnitude(file, config) / std::sqrt(std::max(1.0, size)));
}

void ReadExperts(const json::Object& file, DecoderConfig& config) {
  const Family& family = FamilyOf(config);
  if (!family.experts) return;
  ExpertsConfig& experts = config.experts;
  experts.count = RequireFirst(file, {"num_experts", "num_local_experts", "n_routed_experts"});
  if (experts.count == 0) {  // what else the file says of experts says nothing then
    if (!family.dense_key.empty()) config.intermediate = file.RequireInteger(family.dense_key);
    if (family.shared_alone) config.intermediate = file.RequireInteger(family.shared_key);
    return;
  }
  experts.used = file.RequireInteger("num_experts_per_tok");
  experts.intermediate = file.Integer("moe_intermediate_size").value_or(config.intermediate);
  experts.normalized = file.Bool("norm_topk_prob").value_or(family.normalized_experts);
  if (family.expert_limit > 0) {
    experts.limit = static_cast<float>(file.Number("swiglu_limit").value_or(family.expert_limit));
    if (!(experts.limit > 0)) file.ThrowWrongType("swiglu_limit", "a number above 0");
    if (file.Number("swiglu_alpha").value_or(1.702) != 1.702) {
      throw Error(ErrorCode::kUnsupported, file.what() + ": a swiglu_alpha other than 1.702");
    }
  }
  experts.sigmoid = family.sigmoid_experts;
  experts.shared_gated = family.shared_expert_gated;
  if (family.deepseek_layout) {
    experts.corrected = experts.sigmoid;
    ReadDeepseekExperts(file, config);
  } else if (!family.dense_key.empty()) {
    experts.shared_intermediate = experts.intermediate = config.intermediate;
    config.intermediate = file.RequireInteger(family.dense_key);
  } else if (family.shared_expert) {
    experts.shared_intermediate = file.RequireInteger(family.shared_key);
  }
  if (file.Find("clip_qkv") != nullptr) {
    throw Error(ErrorCode::kUnsupported, file.what() + ": queries that are clipped (clip_qkv)");
  }
  std::vector<bool> dense = ReadDenseLayers(file, config.layers);
  if (family.deepseek_layout) {
    const int64_t first = SizeOf(file, "first_k_dense_replace", experts.sigmoid ? 3 : 0);
    std::fill_n(dense.begin(), std::min<int64_t>(first, std::ssize(dense)), true);
  }
  if (std::ranges::find(dense, true) != dense.end()) experts.dense = dense;
}

/// The x below which a normally distributed number is with that probability.
float NormalQuantile(double probability) {
  double low = -40, high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::numbers::sqrt2) / 2 < probability ? low : high) = middle;
  }
  return static_cast<float>(high);
}

/// Shares of gates that are cut off, of each layer; files of other sizes leave out that the first
/// ten lose 0.95 of them.
void ReadGateCutoffs(const json::Object& file, DecoderConfig& config) {
  constexpr std::string_view kKey = "activation_sparsity_pattern";
  constexpr int64_t kUsualLayers = 10;
  const json::Json* const shares = file.Find(kKey);
  const bool given = shares != nullptr && !shares->is_null();
  if (given && (!shares->is_array() || std::ssize(*shares) != config.layers)) {
    file.ThrowWrongType(kKey, "a list with a number for every layer");
  }
  for (int64_t i = 0; i < config.layers; ++i) {
    const size_t place = static_cast<size_t>(i);
    double share = !given && config.layers > kUsualLayers && i < kUsualLayers ? 0.95 : 0;
    if (given && (*shares)[place].is_number()) {
      share = (*shares)[place].get<double>();
    } else if (given) {
      file.ThrowWrongType(kKey, "a list of numbers");
    }
    if (!(share >= 0 && share < 1))
      file.ThrowWrongType(kKey, "a list of numbers from 0 to below 1");
    config.gate_cutoffs.push_back(share == 0 ? -std::numeric_limits<float>::infinity()
                                             : NormalQuantile(share));
  }
}

/// What is Gemma 3n's alone.
void ReadStreams(const json::Object& file, DecoderConfig& config) {
  if (!FamilyOf(config).altup) return;
  AltUpConfig& altup = config.altup;
  altup.streams = file.Integer("altup_num_inputs").value_or(4);
  if (altup.streams < 1) file.ThrowWrongType("altup_num_inputs", "a number above 0");
  altup.active = file.Integer("altup_active_idx").value_or(0);
  altup.scaled = file.Bool("altup_correct_scale").value_or(true);
  altup.laurel = file.Integer("laurel_rank").value_or(64);
  altup.per_layer = file.Integer("hidden_size_per_layer_input").value_or(256);
  altup.vocabulary = file.Integer("vocab_size_per_layer_input").value_or(262144);
  config.shared_layers = file.Integer("num_kv_shared_layers").value_or(15);
  config.attention_scale = 1;
  config.final_softcap = SoftcapOf(file, "final_logit_softcapping", 30);
  if (config.layers >= 1 && config.layers <= 4096) ReadGateCutoffs(file, config);
}

/// One number, or a list that has the same one for every layer.
std::optional<int64_t> IntermediateOf(const json::Object& file) {
  constexpr std::string_view kKey = "intermediate_size";
  const json::Json* const sizes = file.Find(kKey);
  if (sizes == nullptr || !sizes->is_array()) {
    return FirstInteger(file, {kKey, "n_inner", "ffn_dim", "ffn_hidden_size", "hidden_dim"});
  }
  const auto is_first = [&](const json::Json& size) { return size == (*sizes)[0]; };
  if (sizes->empty() || !(*sizes)[0].is_number_integer()) {
    file.ThrowWrongType(kKey, "an integer, or a list of them");
  }
  if (!std::ranges::all_of(*sizes, is_first)) {
    throw Error(ErrorCode::kUnsupported,
                file.what() + ": an intermediate_size that differs from layer to layer");
  }
  return (*sizes)[0].get<int64_t>();
}

/// Of embeddings, attention and logits.
void ReadScales(const json::Object& file, DecoderConfig& config) {
  const Family& family = FamilyOf(config);
  if (family.gpt2_layout && !file.Bool("scale_attn_weights").value_or(true)) {
    config.attention_scale = 1;
  }
  if (family.gpt2_layout && file.Bool("scale_attn_by_inverse_layer_idx").value_or(false)) {
    throw Error(ErrorCode::kUnsupported, "attention scaled by the index of the layer");
  }
  if (family.multipliers) ReadMultipliers(file, config);
  if (family.logit_scale > 0) {
    config.logit_scale =
        static_cast<float>(file.Number("logit_scale").value_or(family.logit_scale));
  }
  if (!family.scaled_embeddings && !family.softcaps) return;
  if (file.Bool("use_bidirectional_attention").value_or(false)) {
    throw Error(ErrorCode::kUnsupported, "attention in both directions");
  }
  if (family.scaled_embeddings) {
    config.embedding_scale = std::sqrt(static_cast<float>(std::max<int64_t>(0, config.hidden)));
  }
  if (!family.query_scale) return;
  config.attention_softcap = SoftcapOf(file, "attn_logit_softcapping", family.softcaps ? 50 : 0);
  config.final_softcap = SoftcapOf(file, "final_logit_softcapping", family.softcaps ? 30 : 0);
  const double scalar = file.Number("query_pre_attn_scalar").value_or(256);
  if (!(scalar > 0)) file.ThrowWrongType("query_pre_attn_scalar", "a number above 0");
  config.attention_scale = static_cast<float>(1 / std::sqrt(scalar));
}

/// The same that a reader of checkpoints wants of them.
void TakeSizes(const json::Object& file, DecoderConfig& config) {
  const Family& family = FamilyOf(config);
  const Sizes sizes = ReadSizes(file, family);
  config.vocabulary = sizes.vocabulary;
  config.hidden = sizes.hidden;
  config.layers = sizes.layers;
  config.heads = sizes.heads;
  config.kv_heads = sizes.kv_heads;
  config.head_dim = sizes.head_dim;
  config.intermediate = sizes.intermediate;
  config.context = sizes.context;
  const auto epsilon = file.Number(family.epsilon_key);
  config.norm_epsilon = static_cast<float>(epsilon.value_or(family.norm_epsilon));
}

}  // namespace

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

Sizes ReadSizes(const json::Object& file, const Family& family) {
  Sizes sizes;
  sizes.vocabulary = RequireFirst(file, {"vocab_size", "padded_vocab_size"});
  sizes.hidden = RequireFirst(file, {"hidden_size", "n_embd", "d_model", "dim"});
  sizes.layers = RequireFirst(file, {"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  sizes.heads = RequireFirst(file, {"num_attention_heads", "n_head", "n_heads", "num_heads"});
  const bool one_kv_head = file.Bool("multi_query").value_or(false);
  sizes.kv_heads = FirstInteger(file, {"num_key_value_heads", "n_kv_heads", "num_kv_heads"})
                       .value_or(one_kv_head ? 1 : sizes.heads);
  const int64_t whole = sizes.heads > 0 ? sizes.hidden / sizes.heads : 0;
  // Written as null, it follows from the others, whatever the family.
  const bool follows = family.head_dim == 0 || file.IsNull("head_dim");
  sizes.head_dim =
      FirstInteger(file, {"head_dim", "kv_channels"}).value_or(follows ? whole : family.head_dim);
  const auto intermediate = IntermediateOf(file);
  if (family.state_space) {  // there is no feed-forward
    sizes.intermediate = CheckedMultiply(sizes.heads, sizes.head_dim);
  } else if (intermediate) {
    sizes.intermediate = *intermediate;
  } else if (const auto expert = file.Integer("moe_intermediate_size"); family.experts && expert) {
    sizes.intermediate = *expert;  // where all layers have experts
  } else if (family.gated) {
    sizes.intermediate = file.RequireInteger("intermediate_size");
  } else {
    sizes.intermediate = CheckedMultiply<int64_t>(4, sizes.hidden);
  }
  sizes.context = FirstInteger(file, {"max_position_embeddings", "n_positions", "seq_length"})
                      .value_or(family.context);
  return sizes;
}

std::vector<int64_t> ReadWindows(const json::Object& file, const Family& family, int64_t layers) {
  const bool asked = !family.window_asked || file.Bool("use_sliding_window").value_or(false);
  if (family.windows == Family::Windows::kNone && family.window_asked && asked) {
    throw Error(ErrorCode::kUnsupported, "use_sliding_window: windows of models of the family " +
                                             Quote(std::string(family.name)) +
                                             " cannot be computed");
  }
  if (family.windows == Family::Windows::kNone || !asked) return {};
  const int64_t window = WindowOf(file, family);
  if (window == 0 || layers < 1 || layers > 4096) return {};
  std::vector<int64_t> windows;
  for (const bool windowed : WindowedLayers(file, family, layers)) {
    windows.push_back(windowed ? window : 0);
  }
  return windows;
}

std::vector<bool> ReadDenseLayers(const json::Object& file, int64_t layers) {
  std::vector<bool> dense(static_cast<size_t>(std::clamp<int64_t>(layers, 0, 4096)), true);
  const auto set = [&](std::string_view key, bool to) {
    const json::Json* listed = file.Find(key);
    if (listed == nullptr) return false;
    if (!listed->is_array()) file.ThrowWrongType(key, "a list of layers");
    for (const json::Json& item : *listed) {
      if (!item.is_number_integer()) file.ThrowWrongType(key, "a list of layers");
      const auto layer = item.get<int64_t>();
      if (layer >= 0 && layer < std::ssize(dense)) dense.at(static_cast<size_t>(layer)) = to;
    }
    return true;
  };
  if (!set("moe_layers", false)) {
    const int64_t step =
        FirstInteger(file, {"decoder_sparse_step", "interleave_moe_layer_step"}).value_or(1);
    if (step < 1) file.ThrowWrongType("decoder_sparse_step", "a number above 0");
    for (size_t i = 0; i < dense.size(); ++i) {
      dense[i] = (static_cast<int64_t>(i) + 1) % step != 0;
    }
  }
  set("mlp_only_layers", true);
  return dense;
}

DecoderConfig ReadConfig(const json::Object& file) {
  const auto family = file.Text("model_type");
  if (!family) {
    throw Error(ErrorCode::kInvalidModel, file.what() + ": 'model_type' is missing");
  }
  DecoderConfig config = RequireFamily(*family);
  ReadQuantization(file);  // throws for what cannot be read
  config.tied_head = file.Bool("tie_word_embeddings").value_or(config.tied_head);
  TakeSizes(file, config);
  ReadActivation(file, config);
  ReadBlock(file, config);
  ReadExperts(file, config);
  ReadStateSpace(file, config);
  const Family& members = FamilyOf(config);
  if (!members.head_norm_key.empty() && file.Bool(members.head_norm_key).value_or(false)) {
    throw Error(ErrorCode::kUnsupported, file.what() + ": " + std::string(members.head_norm_key) +
                                             " asks for a norm of its own for every head, which "
                                             "cannot be computed");
  }
  if (!members.query_key_norm_key.empty() &&
      !file.Bool(members.query_key_norm_key).value_or(true)) {
    config.query_key_norm = DecoderConfig::QueryKeyNorm::kNone;
  }
  config.windows = ReadWindows(file, FamilyOf(config), config.layers);
  ReadTemperature(file, config);
  ReadScales(file, config);
  ReadStreams(file, config);
  ReadLatent(file, config);
  if (config.latent.rank > 0) config.head_dim = config.latent.turned;
  const bool turns = members.rotary_key.empty() || file.Text(members.rotary_key) == "rope";
  if (turns && !config.learned_positions && !members.state_space) ReadRotary(file, config);
  FinishLatent(file, config);
  if (config.layers >= 1 && config.layers <= 4096) ReadLayersWithoutRotary(file, config);
  FinishConfig(config);
  return config;
}

namespace {

/// But for those of layers with a state.
Biases ReadUsualBiases(const json::Object& file, const Family& family) {
  switch (family.bias) {
    case Family::Bias::kNone: return {};
    case Family::Bias::kAttentionInputs: return {true, false, false};
    case Family::Bias::kAll: return {true, true, true, family.head_bias};
    default: break;
  }
  const bool asked = file.Bool(family.bias_key).value_or(family.bias_default);
  if (family.bias == Family::Bias::kAskedAll) return {asked, asked, asked};
  if (family.bias == Family::Bias::kAskedInputs) return {asked, false, false};
  const bool mlp = family.mlp_bias && file.Bool("mlp_bias").value_or(false);
  return {asked, asked, mlp || family.expert_bias};
}

}  // namespace

Biases ReadBiases(const json::Object& file, const Family& family) {
  Biases biases = ReadUsualBiases(file, family);
  const auto has = [&](std::string_view key) { return file.Bool(key).value_or(false); };
  biases.mixer = family.hybrid ? has("mamba_proj_bias") || has("projectors_bias")
                               : family.state_space && biases.attention_inputs;
  return biases;
}

}  // namespace huggingface

DecoderConfig ReadDecoderConfig(std::string_view text, const std::string& what) {
  return Guarded([&] {
    const json::Json config = huggingface::LanguageConfig(json::Parse(text, what));
    return huggingface::ReadConfig(json::Object(config, what));
  });
}

}  // namespace oort
