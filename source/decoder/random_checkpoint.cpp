// SPDX-License-Identifier: MIT
#include "decoder/random_checkpoint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "core/checked.h"
#include "core/cpu_limits.h"
#include "core/parallel.h"
#include "parser/checkpoint/families.h"
#include "parser/checkpoint/tokenizer_source.h"
#include "weights/quantize_weights.h"

namespace oort {
namespace {

/// One of so many layers has attention, the others such heads with a state.
struct HybridShape {
  int64_t period = 0, heads = 0, head_dim = 0, groups = 1;
};

struct NamedShape {
  std::string_view name, family;
  int64_t vocabulary, hidden, layers, heads, kv_heads, head_dim, intermediate, context;
  double rotary_base;
  bool tied;
  int64_t experts = 0, experts_used = 0, expert_intermediate = 0, shared_intermediate = 0;
  int64_t state_size = 0;
  int64_t shared_layers = 0;  ///< of families with several residual streams
  HybridShape hybrid = {};
};

constexpr NamedShape Hybrid(NamedShape shape, int64_t state_size, const HybridShape& hybrid) {
  shape.state_size = state_size;
  shape.hybrid = hybrid;
  return shape;
}

constexpr std::array<NamedShape, 21> kNamedShapes = {{
    {"smollm2-135m", "llama", 49152, 576, 30, 9, 3, 64, 1536, 8192, 1e5, true},
    {"llama3.2-1b", "llama", 128256, 2048, 16, 32, 8, 64, 8192, 131072, 5e5, true},
    {"qwen2.5-0.5b", "qwen2", 151936, 896, 24, 14, 2, 64, 4864, 32768, 1e6, true},
    {"qwen2.5-7b", "qwen2", 152064, 3584, 28, 28, 4, 128, 18944, 32768, 1e6, false},
    {"llama2-7b", "llama", 32000, 4096, 32, 32, 32, 128, 11008, 4096, 1e4, false},
    {"llama2-70b", "llama", 32000, 8192, 80, 64, 8, 128, 28672, 4096, 1e4, false},
    {"mistral-7b", "mistral", 32000, 4096, 32, 32, 8, 128, 14336, 32768, 1e4, false},
    {"llama3-8b", "llama", 128256, 4096, 32, 32, 8, 128, 14336, 8192, 5e5, false},
    {"olmoe-1b-7b", "olmoe", 50304, 2048, 16, 16, 16, 128, 1024, 4096, 1e4, false, 64, 8, 1024},
    {"qwen3-30b-a3b", "qwen3_moe", 151936, 2048, 48, 32, 4, 128, 6144, 40960, 1e6, false, 128, 8,
     768},
    Hybrid({"qwen3-next-80b-a3b", "qwen3_next", 151936, 2048, 48, 16, 2, 256, 5120, 262144, 1e7,
            false, 512, 10, 512, 512},
           128, {4, 32, 128, 16}),
    Hybrid({"qwen3.5-0.8b", "qwen3_5_text", 248320, 1024, 24, 8, 2, 256, 3584, 262144, 1e7, true},
           128, {4, 16, 128, 16}),
    {"gpt-oss-20b", "gpt_oss", 201088, 2880, 24, 64, 8, 64, 2880, 131072, 1.5e5, false, 32, 4,
     2880},
    {"llama4-scout", "llama4_text", 202048, 5120, 48, 40, 8, 128, 16384, 10485760, 5e5, false, 16,
     1, 8192, 8192},
    Hybrid({"granite4-h-micro", "granitemoehybrid", 100352, 2048, 40, 32, 8, 64, 8192, 131072, 0,
            true},
           128, {10, 64, 64}),
    Hybrid({"granite4-h-tiny", "granitemoehybrid", 100352, 1536, 40, 12, 4, 128, 512, 131072, 0,
            true, 64, 6, 512, 1024},
           128, {10, 48, 64}),
    {"mamba2-130m", "mamba2", 50288, 768, 24, 24, 24, 64, 1536, 1048576, 0, true, 0, 0, 0, 0, 128},
    {"mamba2-2.7b", "mamba2", 50288, 2560, 64, 80, 80, 64, 5120, 1048576, 0, true, 0, 0, 0, 0, 128},
    {"gemma3n-e2b", "gemma3n_text", 262400, 2048, 30, 8, 2, 256, 8192, 32768, 1e6, true, 0, 0, 0, 0,
     0, 10},
    {"gemma3n-e4b", "gemma3n_text", 262400, 2048, 35, 8, 2, 256, 16384, 32768, 1e6, true, 0, 0, 0,
     0, 0, 15},
    {"mixtral-8x7b", "mixtral", 32000, 4096, 32, 32, 8, 128, 14336, 32768, 1e6, false, 8, 2, 14336},
}};

RotaryConfig RotaryOf(const NamedShape& shape, double base) {
  RotaryConfig rotary;
  const Family& family = *FindFamily(shape.family);
  const double dims =
      static_cast<double>(shape.head_dim) * (family.partial_rotary > 0 ? family.partial_rotary : 1);
  rotary.dims = static_cast<int64_t>(dims);
  rotary.interleaved = family.interleaved_rotary;
  for (int64_t i = 0; i < rotary.dims; i += 2) {
    rotary.frequencies.push_back(
        static_cast<float>(std::pow(base, -static_cast<double>(i) / dims)));
  }
  return rotary;
}

/// As the published models of Gemma 3n have them.
void SetStreams(const NamedShape& shape, DecoderConfig& config) {
  constexpr int64_t kCutLayers = 10;
  constexpr float kCutoffOf95Percent = 1.6448536F;
  config.altup = {.streams = 4, .laurel = 64, .per_layer = 256, .vocabulary = 262144};
  config.shared_layers = shape.shared_layers;
  config.gate_cutoffs.assign(static_cast<size_t>(config.layers),
                             -std::numeric_limits<float>::infinity());
  std::fill_n(config.gate_cutoffs.begin(), kCutLayers, kCutoffOf95Percent);
  config.attention_scale = 1;
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  config.final_softcap = 30;
}

DecoderConfig ConfigOf(const NamedShape& shape) {
  DecoderConfig config = RequireFamily(shape.family);
  config.vocabulary = shape.vocabulary;
  config.hidden = shape.hidden;
  config.layers = shape.layers;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.intermediate = shape.intermediate;
  config.context = shape.context;
  config.tied_head = shape.tied;
  config.experts.count = shape.experts;
  config.experts.used = shape.experts_used;
  config.experts.intermediate = shape.expert_intermediate;
  config.experts.shared_intermediate = shape.shared_intermediate;
  config.experts.shared_gated = FamilyOf(config).shared_expert_gated;
  config.experts.sigmoid = FamilyOf(config).sigmoid_experts;
  config.experts.normalized = FamilyOf(config).normalized_experts;
  config.experts.limit = static_cast<float>(FamilyOf(config).expert_limit);
  config.attention_scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
  if (FamilyOf(config).multipliers) config.residual_scale = 0.22F;
  if (shape.state_size > 0) {
    const bool hybrid = shape.hybrid.period > 0, delta = config.state_space.delta;
    config.state_space = {.delta = delta,
                          .heads = hybrid ? shape.hybrid.heads : shape.heads,
                          .head_dim = hybrid ? shape.hybrid.head_dim : shape.head_dim,
                          .size = shape.state_size,
                          .groups = shape.hybrid.groups,
                          .taps = 4,
                          .feed_forward = hybrid};
    config.state_space.norm_before_gate = delta;
    const int64_t period = shape.hybrid.period, place = delta ? period - 1 : period / 2;
    for (int64_t i = 0; hybrid && i < shape.layers; ++i) {
      config.state_space.attention.push_back(i % period == place);
    }
    if (shape.rotary_base > 0) config.rotary = RotaryOf(shape, shape.rotary_base);
    FinishConfig(config);
    return config;
  }
  const Family& family = FamilyOf(config);
  config.rotary = RotaryOf(shape, shape.rotary_base);
  if (family.local_rotary_base > 0) config.local_rotary = RotaryOf(shape, family.local_rotary_base);
  if (family.altup) SetStreams(shape, config);
  if (config.chunked_windows || family.altup) {
    for (int64_t i = 0; i < config.layers; ++i) {
      config.windows.push_back(IsWindowed(family, i, family.window_period) ? family.window : 0);
    }
  }
  FinishConfig(config);
  return config;
}

/// A part of memory that several buffers look at: to everybody else they are different.
class PoolView final : public Buffer {
 public:
  PoolView(std::shared_ptr<Buffer> pool, size_t bytes)
      : Buffer(pool->data(), bytes, Device::Cpu()), pool_(std::move(pool)) {}

 private:
  std::shared_ptr<Buffer> pool_;
};

class RandomCheckpoint final : public Checkpoint {
 public:
  RandomCheckpoint(const NamedShape& shape, const QuantizeOptions& weights)
      : config_(ConfigOf(shape)), weights_(weights) {
    const int64_t columns = config_.hidden;
    const int64_t rows = std::max(
        {config_.vocabulary, config_.intermediate, config_.heads * config_.head_dim,
         config_.state_space.channels(), config_.experts.count * config_.experts.intermediate,
         config_.altup.vocabulary * config_.layers * config_.altup.per_layer / columns});
    const StoredMatrix largest = AllocateStored(weights_, rows, columns);
    data_ = largest.data;
    scale_ = largest.scale;
    Fill();
  }

  const DecoderConfig& config() const override { return config_; }
  bool Has(std::string_view name) const override {
    const bool biased = FamilyOf(config_).bias == Family::Bias::kAttentionInputs;
    return biased && (name.ends_with("q_proj.bias") || name.ends_with("k_proj.bias") ||
                      name.ends_with("v_proj.bias"));
  }

  StoredMatrix Matrix(std::string_view name) const override {
    const auto [rows, columns] = ShapeOf(name);
    if (scale_.defined() && columns % weights_.group != 0) return Plain(rows, columns);
    StoredMatrix matrix;
    matrix.format = weights_.format;
    matrix.rows = rows;
    matrix.columns = columns;
    matrix.data = View(data_, Shape{rows, RowBytes(weights_.format, columns) /
                                              static_cast<int64_t>(ItemSize(data_.dtype()))});
    if (scale_.defined()) {
      matrix.scale = View(scale_, Shape{rows, columns / weights_.group});
    }
    Check(matrix);
    return matrix;
  }

  Tensor Vector(std::string_view name) const override {
    if (name.find(".mixer.") != std::string_view::npos) return MixerVector(name);
    const bool norm = name.find("norm") != std::string_view::npos;
    int64_t count = config_.hidden;
    if (name.ends_with("q_proj.bias")) count = config_.heads * config_.head_dim;
    if (name.ends_with("k_proj.bias") || name.ends_with("v_proj.bias")) {
      count = config_.kv_heads * config_.head_dim;
    }
    if (name.ends_with("sinks.weight")) count = config_.heads;
    if (name.ends_with("per_layer_projection_norm.weight")) count = config_.altup.per_layer;
    const bool whole = config_.query_key_norm == DecoderConfig::QueryKeyNorm::kAllHeads;
    if (name.ends_with("q_norm.weight")) count = config_.head_dim * (whole ? config_.heads : 1);
    if (name.ends_with("k_norm.weight")) count = config_.head_dim * (whole ? config_.kv_heads : 1);
    Tensor vector(DType::kF32, Shape{count});
    std::fill_n(vector.data<float>(), count, norm ? 1.0f : 0.01f);
    return vector;
  }

  size_t file_bytes() const override { return 0; }
  const TokenizerSource& tokenizer() const override { return tokenizer_; }
  const std::vector<NamedTemplate>& chat_templates() const override { return templates_; }
  const std::vector<int32_t>& end_tokens() const override { return end_tokens_; }

 private:
  /// Of columns that are no whole groups: little ones.
  static StoredMatrix Plain(int64_t rows, int64_t columns) {
    StoredMatrix matrix;
    matrix.format = WeightFormat::kF32;
    matrix.rows = rows;
    matrix.columns = columns;
    matrix.data = Tensor(DType::kF32, Shape{rows, columns});
    std::fill_n(matrix.data.data<float>(), matrix.data.elements(), 0.01F);
    return matrix;
  }

  Tensor MixerVector(std::string_view name) const {
    const StateSpaceConfig& space = config_.state_space;
    const bool norm = name.ends_with("norm.weight"), rate = name.ends_with("rate.weight");
    const int64_t count = norm                            ? space.norm_size()
                          : name.ends_with("conv.weight") ? space.channels() * space.taps
                                                          : space.heads;
    Tensor vector(DType::kF32, Shape{count});
    std::fill_n(vector.data<float>(), count, norm ? 1.0f : rate ? -1.0f : 0.1f);
    return vector;
  }

  std::pair<int64_t, int64_t> ShapeOf(std::string_view name) const {
    const StateSpaceConfig& space = config_.state_space;
    const int64_t queries = config_.heads * config_.head_dim;
    const int64_t keys = config_.kv_heads * config_.head_dim;
    const auto is = [&](std::string_view part) {
      return name.find(part) != std::string_view::npos;
    };
    if (is("mixer.gate_proj")) return {space.inner(), config_.hidden};
    if (is("mixer.conv_proj")) return {space.channels(), config_.hidden};
    if (is("mixer.step_proj") || is("mixer.beta_proj")) return {space.heads, config_.hidden};
    if (is("self_attn.gate_proj")) return {queries, config_.hidden};
    if (is("shared_expert_gate")) return {1, config_.hidden};
    if (is("mixer.out_proj")) return {config_.hidden, space.inner()};
    const AltUpConfig& altup = config_.altup;
    if (is("embed_tokens_per_layer")) return {altup.vocabulary, config_.layers * altup.per_layer};
    if (is("per_layer_model_projection")) return {config_.layers * altup.per_layer, config_.hidden};
    if (is("altup_projections") || is("altup_unembed")) return {config_.hidden, config_.hidden};
    if (is("altup.modality_router")) return {altup.streams, config_.hidden};
    if (is("altup.prediction_coefs")) return {altup.streams * altup.streams, altup.streams};
    if (is("altup.correction_coefs")) return {altup.streams, altup.streams};
    if (is("laurel.linear_left")) return {altup.laurel, config_.hidden};
    if (is("laurel.linear_right")) return {config_.hidden, altup.laurel};
    if (is("per_layer_input_gate")) return {altup.per_layer, config_.hidden};
    if (is("per_layer_projection")) return {config_.hidden, altup.per_layer};
    if (is("q_proj")) return {queries, config_.hidden};
    if (is("k_proj") || is("v_proj")) return {keys, config_.hidden};
    if (is("o_proj")) return {config_.hidden, queries};
    const ExpertsConfig& experts = config_.experts;
    if (is(".shared_expert.down_proj")) return {config_.hidden, experts.shared_intermediate};
    if (is(".shared_expert.")) return {experts.shared_intermediate, config_.hidden};
    if (is("mlp.gate.")) return {experts.count, config_.hidden};
    if (is(".experts.down_proj")) return {experts.count * config_.hidden, experts.intermediate};
    if (is(".experts.")) return {experts.count * experts.intermediate, config_.hidden};
    if (is("gate_proj") || is("up_proj")) return {config_.intermediate, config_.hidden};
    if (is("down_proj")) return {config_.hidden, config_.intermediate};
    return {config_.vocabulary, config_.hidden};
  }

  static Tensor View(const Tensor& pool, const Shape& shape) {
    const size_t bytes =
        CheckedMultiply(static_cast<size_t>(shape.elements()), ItemSize(pool.dtype()));
    return {pool.dtype(), shape, std::make_shared<PoolView>(pool.buffer(), bytes)};
  }

  /// Numbers of about 1/sqrt(hidden), so that activations stay in range.
  void Fill() {
    const float size = 1 / std::sqrt(static_cast<float>(config_.hidden));
    uint16_t* words = reinterpret_cast<uint16_t*>(data_.raw());
    const int64_t count = static_cast<int64_t>(data_.bytes() / 2);
    const bool floats = !scale_.defined();
    ParallelFor(AvailableThreads(), count, 1 << 16, [&](int64_t begin, int64_t end) {
      std::minstd_rand random(static_cast<unsigned>(begin / 2 + 1));
      for (int64_t i = begin; i < end; ++i) {
        const unsigned bits = random();
        const float value = (static_cast<float>(bits % 4096) / 2048 - 1) * size;
        words[i] = !floats                                  ? static_cast<uint16_t>(bits >> 8)
                   : weights_.format == WeightFormat::kBf16 ? BFloat16(value).bits
                                                            : Half(value).bits;
      }
    });
    if (!floats) {
      const float steps = weights_.format == WeightFormat::kInt8 ? 128.0f : 8.0f;
      std::fill_n(scale_.data<Half>(), scale_.elements(), Half(size / steps));
    }
  }

  DecoderConfig config_;
  QuantizeOptions weights_;
  Tensor data_, scale_;  // of the largest matrix; the others look at the same
  TokenizerSource tokenizer_;
  std::vector<NamedTemplate> templates_;
  std::vector<int32_t> end_tokens_;
};

}  // namespace

std::vector<std::string_view> RandomModelNames() {
  std::vector<std::string_view> names;
  for (const NamedShape& shape : kNamedShapes) names.push_back(shape.name);
  return names;
}

std::unique_ptr<Checkpoint> MakeRandomCheckpoint(std::string_view name, std::string_view weights,
                                                 int64_t group) {
  const auto found = std::find_if(kNamedShapes.begin(), kNamedShapes.end(),
                                  [&](const NamedShape& shape) { return shape.name == name; });
  if (found == kNamedShapes.end()) {
    std::string names;
    for (const NamedShape& shape : kNamedShapes) {
      names += (names.empty() ? "" : ", ") + std::string(shape.name);
    }
    throw Error(ErrorCode::kInvalidArgument,
                "no shape of a model is called '" + std::string(name) + "'; there are " + names);
  }
  const auto format = WeightFormatNamed(weights);
  const bool known = format == WeightFormat::kBf16 || format == WeightFormat::kF16 ||
                     format == WeightFormat::kInt8 || format == WeightFormat::kInt4;
  if (!known || (group != 32 && group != 64 && group != 128)) {
    throw Error(ErrorCode::kInvalidArgument,
                "random weights are bf16, f16, int8 or int4 in groups of 32, 64 or 128");
  }
  QuantizeOptions options;
  options.format = *format;
  options.group = group;
  return std::make_unique<RandomCheckpoint>(*found, options);
}

}  // namespace oort
