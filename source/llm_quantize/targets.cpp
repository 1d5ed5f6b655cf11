// SPDX-License-Identifier: MIT
#include "llm_quantize/targets.h"

#include <algorithm>

#include "core/problems.h"
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
        "weights can be int4, int8, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k or q6_k, not " +
            Quote(options.weights));
  }
  if (options.group || options.asymmetric) {
    throw Error(ErrorCode::kInvalidArgument, "--group and --asymmetric are for int4 and int8: " +
                                                 options.weights + " has its own");
  }
  return {*format, kDefaultGroup, DType::kF16};
}

}  // namespace

Targets::Targets(const LanguageQuantizeOptions& options, bool as_gguf)
    : layers_(LayerOptions(options, as_gguf)),
      tables_(layers_),
      group_is_given_(options.group.has_value()) {
  if (BlockFormatOf(layers_.format) != nullptr) {
    tables_.format = WeightFormat::kQ8_0;
  } else {
    tables_.format = options.asymmetric ? WeightFormat::kUint8 : WeightFormat::kInt8;
  }
}

std::optional<QuantizeOptions> Targets::For(std::string_view name, const StoredMatrix& from) const {
  if (name == "model.embed_positions.weight") return std::nullopt;
  const bool is_table = name == "model.embed_tokens.weight" || name == "lm_head.weight";
  if (is_table && HasEightBitsOrLess(from)) return std::nullopt;
  QuantizeOptions target = is_table ? tables_ : layers_;
  const BlockFormat* block = BlockFormatOf(target.format);
  if (block != nullptr && from.columns % block->elements != 0) {
    target.format = WithoutSpans(target.format);
  }
  if (!group_is_given_ && from.columns % kDefaultGroup != 0) return std::nullopt;
  const bool same_group =
      block != nullptr || (from.scale.defined() && OptionsOf(from).group == target.group);
  if (from.format == target.format && same_group) return std::nullopt;
  return target;
}

}  // namespace oort::llm_quantize
