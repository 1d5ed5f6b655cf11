// SPDX-License-Identifier: MIT
#include "llm_quantize/targets.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>

#include "core/problems.h"
#include "parser/gguf/gguf_names.h"
#include "text/recipe_json.h"
#include "weights/weight_blocks.h"
#include "weights/weight_grid.h"

namespace oort::llm_quantize {
namespace {

constexpr int64_t kDefaultGroup = 32;

WeightFormat OwnFormat(const LanguageQuantizeOptions& options) {
  if (options.weights == "int8") {
    return options.asymmetric ? WeightFormat::kUint8 : WeightFormat::kInt8;
  }
  return options.asymmetric ? WeightFormat::kUint4 : WeightFormat::kInt4;
}

/// The type of a GGUF with the same codes.
WeightFormat BlocksFor(WeightFormat own) {
  switch (own) {
    case WeightFormat::kInt4: return WeightFormat::kQ4_0;
    case WeightFormat::kUint4: return WeightFormat::kQ4_1;
    case WeightFormat::kInt8: return WeightFormat::kQ8_0;
    default:
      throw Error(ErrorCode::kInvalidArgument,
                  "a GGUF has no 8 bits with minimums: leave out --asymmetric");
  }
}

WeightFormat WithoutSpans(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4K: return WeightFormat::kQ5_0;
    case WeightFormat::kQ5K: return WeightFormat::kQ5_1;
    case WeightFormat::kQ6K: return WeightFormat::kQ8_0;
    default: return format;
  }
}

/// llama.cpp's names for types that depend on the matrix.
struct NamedMixture {
  const char *name, *base;
  WeightFormat better;
  bool small;
};
constexpr NamedMixture kMixtures[] = {{"q4_k_m", "q4_k", WeightFormat::kQ6K, false},
                                      {"q4_k_s", "q4_k", WeightFormat::kQ5K, true},
                                      {"q5_k_m", "q5_k", WeightFormat::kQ6K, false}};

const NamedMixture* MixtureNamed(std::string_view name) {
  const auto at = std::ranges::find(kMixtures, name, &NamedMixture::name);
  return at == std::end(kMixtures) ? nullptr : at;
}

bool HasEightBitsOrLess(const StoredMatrix& matrix) { return LayoutOf(matrix).bits != 0; }

QuantizeOptions LayerOptions(const LanguageQuantizeOptions& options, bool as_gguf) {
  const int64_t group = options.group.value_or(kDefaultGroup);
  if (options.weights == "int4" || options.weights == "int8") {
    const WeightFormat own = OwnFormat(options);
    if (!as_gguf) return {own, group, DType::kF16};
    if (group != kDefaultGroup) {
      throw Error(ErrorCode::kInvalidArgument, "groups of a GGUF have 32 weights, not " +
                                                   std::to_string(group) +
                                                   ": leave out --group, or write a .pnnx.param");
    }
    return {BlocksFor(own), kDefaultGroup, DType::kF16};
  }
  const auto format = WeightFormatNamed(options.weights);
  if (!format || BlockFormatOf(*format) == nullptr || !CanWriteFormat(*format)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "weights can be int4, int8, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k, q4_k_m, q4_k_s "
        "or q5_k_m, not " +
            Quote(options.weights));
  }
  if (options.group || options.asymmetric) {
    throw Error(ErrorCode::kInvalidArgument, "--group and --asymmetric are for int4 and int8: " +
                                                 options.weights + " has its own");
  }
  return {*format, kDefaultGroup, DType::kF16};
}

bool HasFusedValues(const DecoderConfig& config) {
  const gguf::WrittenFamily* family = gguf::FindWrittenFamily(config.family);
  return family != nullptr && family->has_fused_qkv;
}

}  // namespace

Targets::Targets(const LanguageQuantizeOptions& options, const DecoderConfig& config, bool as_gguf)
    : rules_(options.rules),
      picked_(options.picked.begin(), options.picked.end()),
      layer_count_(config.layers),
      tied_head_(config.tied_head),
      as_gguf_(as_gguf),
      fused_values_(as_gguf && HasFusedValues(config)),
      group_is_given_(options.group.has_value()),
      keeps_all_(options.method == Method::kSmooth) {
  if (keeps_all_) return;
  LanguageQuantizeOptions base = options;
  if (const NamedMixture* mixture = MixtureNamed(options.weights)) {
    base.weights = mixture->base;
    better_ = mixture->better;
    small_mixture_ = mixture->small;
  }
  layers_ = LayerOptions(base, as_gguf);
  tables_ = layers_;
  if (BlockFormatOf(layers_.format) != nullptr) {
    tables_.format = WeightFormat::kQ8_0;
  } else {
    tables_.format = options.asymmetric ? WeightFormat::kUint8 : WeightFormat::kInt8;
  }
}

const MatrixType* Targets::RuleFor(std::string_view name) const {
  const auto rule = std::ranges::find_if(
      rules_, [&](const MatrixRule& each) { return GlobMatches(each.match, name); });
  return rule == rules_.end() ? nullptr : &rule->type;
}

/// Of what is named "model.layers.7.self_attn.v_proj.weight": as llama.cpp's mixtures of K types
/// have it, values and what ends a feed-forward get more bits where errors cost most.
QuantizeOptions Targets::Usual(std::string_view name) const {
  QuantizeOptions usual = layers_;
  if (!better_) return usual;
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) {
    const bool is_head = name == "lm_head.weight" || tied_head_;
    if (is_head) usual.format = WeightFormat::kQ6K;
    return usual;
  }
  const bool is_values = name.ends_with(".v_proj.weight");
  if (is_values && fused_values_) return usual;
  if (!is_values && !name.ends_with(".down_proj.weight")) return usual;
  int64_t layer = 0;
  std::from_chars(name.data() + kLayers.size(), name.data() + name.size(), layer);
  const int64_t eighth = layer_count_ / 8;
  const bool more =
      small_mixture_ ? layer < (is_values ? 4 : eighth)
                     : layer < eighth || layer >= 7 * layer_count_ / 8 || (layer - eighth) % 3 == 2;
  if (more) usual.format = *better_;
  return usual;
}

std::optional<QuantizeOptions> Targets::Said(const MatrixType& type,
                                             const StoredMatrix& from) const {
  if (!type.format) return std::nullopt;
  const BlockFormat* block = BlockFormatOf(*type.format);
  if (block == nullptr && as_gguf_) {
    throw Error(ErrorCode::kInvalidArgument, "a GGUF has no " + std::string(Name(*type.format)) +
                                                 ": take one of its own types, such as q4_0");
  }
  QuantizeOptions target{*type.format, type.group == 0 ? kDefaultGroup : type.group, DType::kF16};
  if (block != nullptr && from.columns % block->elements != 0) {
    target.format = WithoutSpans(target.format);
  }
  return target;
}

std::optional<QuantizeOptions> Targets::For(std::string_view name, const StoredMatrix& from) const {
  if (keeps_all_ || name == "model.embed_positions.weight") return std::nullopt;
  std::optional<QuantizeOptions> target;
  const auto picked = picked_.find(name);
  const MatrixType* said = RuleFor(name);
  if (said == nullptr && picked != picked_.end()) said = &picked->second;
  const bool is_table = name == "model.embed_tokens.weight" || name == "lm_head.weight";
  if (said != nullptr) {
    target = Said(*said, from);
    if (!target) return std::nullopt;
  } else {
    if (is_table && !better_ && HasEightBitsOrLess(from)) return std::nullopt;
    target = is_table && !better_ ? tables_ : Usual(name);
    const BlockFormat* block = BlockFormatOf(target->format);
    if (block != nullptr && from.columns % block->elements != 0) {
      target->format = WithoutSpans(target->format);
    }
    if (!group_is_given_ && from.columns % kDefaultGroup != 0) return std::nullopt;
  }
  const bool same_group = BlockFormatOf(target->format) != nullptr ||
                          (from.scale.defined() && OptionsOf(from).group == target->group);
  if (from.format == target->format && same_group) return std::nullopt;
  return target;
}

void Targets::CheckNames(const std::vector<std::string>& names) const {
  ProblemList problems;
  for (size_t i = 0; i < rules_.size(); ++i) {
    const bool used = std::ranges::any_of(
        names, [&](const std::string& name) { return GlobMatches(rules_[i].match, name); });
    if (used) continue;
    problems.Add(ErrorCode::kInvalidArgument, "rule " + std::to_string(i + 1) + " (" +
                                                  Quote(rules_[i].match) + ") matches no matrix");
  }
  for (const auto& [name, type] : picked_) {
    if (std::ranges::find(names, name) != names.end()) continue;
    problems.Add(ErrorCode::kInvalidArgument, "the model has no matrix " + Quote(name));
  }
  problems.Throw("the recipe is for another model");
}

std::vector<QuantizeOptions> Targets::Ladder(int64_t columns) const {
  constexpr WeightFormat kSpans[] = {WeightFormat::kQ4K, WeightFormat::kQ5K, WeightFormat::kQ6K,
                                     WeightFormat::kQ8_0};
  constexpr WeightFormat kBlocks[] = {WeightFormat::kQ4_0, WeightFormat::kQ4_1, WeightFormat::kQ5_0,
                                      WeightFormat::kQ5_1, WeightFormat::kQ8_0};
  std::vector<QuantizeOptions> ladder;
  const auto add = [&](WeightFormat format, int64_t group) {
    const BlockFormat* block = BlockFormatOf(format);
    if (columns % (block != nullptr ? block->elements : group) != 0) return;
    ladder.push_back({format, group, DType::kF16});
  };
  if (!as_gguf_) {
    for (const int64_t group : {128, 64, 32}) {
      if (!group_is_given_ || group == layers_.group) add(WeightFormat::kInt4, group);
    }
  }
  const bool spans = columns % 256 == 0;
  for (const WeightFormat format : spans ? std::span<const WeightFormat>(kSpans) : kBlocks) {
    if (as_gguf_ || format != WeightFormat::kQ4_0) add(format, kDefaultGroup);
  }
  return ladder;
}

}  // namespace oort::llm_quantize
