// SPDX-License-Identifier: MIT
#include "parser/huggingface/quantization.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/problems.h"

namespace oort::huggingface {
namespace {

/// Formats of compressed-tensors; a mixture names one for each group of layers.
constexpr std::array<std::string_view, 8> kCompressedFormats = {
    "dense",           "pack-quantized",       "int-quantized",        "naive-quantized",
    "float-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mixed-precision"};

constexpr int64_t kLargestBlock = int64_t{1} << 24;

[[noreturn]] void RefuseMethod(const json::Object& given, const std::string& how) {
  throw Error(ErrorCode::kUnsupported,
              given.what() + ": weights quantized by " + how +
                  "; those in f32, f16 and bf16, of GPTQ in 4 and 8 bits, of AWQ (gemm) in 4 bits, "
                  "of compressed-tensors, in FP8 (e4m3) and MXFP4, and of GGUF can be read");
}

/// [128, 128]: the blocks that share a scale.
void ReadBlock(const json::Object& given, const char* key, Quantization& quantization) {
  const json::Json* block = given.Find(key);
  if (block == nullptr) return;
  const bool fits = block->is_array() && block->size() == 2 &&
                    std::ranges::all_of(*block, [](const json::Json& size) {
                      return size.is_number_integer() && size.get<int64_t>() > 0 &&
                             size.get<int64_t>() <= kLargestBlock;
                    });
  if (!fits) given.ThrowWrongType(key, "two sizes of a block");
  quantization.block_rows = (*block)[0].get<int64_t>();
  quantization.block_columns = (*block)[1].get<int64_t>();
}

void RequireCompressedFormat(const json::Object& given) {
  const auto format = given.Text("format");
  if (!format || std::ranges::find(kCompressedFormats, *format) != kCompressedFormats.end()) return;
  RefuseMethod(given, "compressed-tensors as " + Quote(*format));
}

Quantization ReadCompressed(const json::Object& given) {
  Quantization quantization;
  quantization.kind = Quantization::Kind::kCompressed;
  RequireCompressedFormat(given);
  if (const auto sparsity = given.Member("sparsity_config")) RequireCompressedFormat(*sparsity);
  const json::Json* groups = given.Find("config_groups");
  if (groups == nullptr) return quantization;
  if (!groups->is_object()) given.ThrowWrongType("config_groups", "an object");
  for (const auto& [name, value] : groups->items()) {
    const json::Object group(value, given.what() + ": " + name);
    RequireCompressedFormat(group);
    if (const auto weights = group.Member("weights")) {
      ReadBlock(*weights, "block_structure", quantization);
    }
  }
  return quantization;
}

Quantization ReadFp8(const json::Object& given) {
  Quantization quantization;
  quantization.kind = Quantization::Kind::kFp8;
  const auto format = given.Text("fmt").value_or("e4m3");
  if (format != "e4m3") RefuseMethod(given, "fp8 as " + Quote(format));
  ReadBlock(given, "weight_block_size", quantization);
  return quantization;
}

}  // namespace

Quantization ReadQuantization(const json::Object& config) {
  Quantization quantization;
  const json::Json* value = config.Find("quantization_config");
  if (value == nullptr) return quantization;
  const json::Object given(*value, config.what() + ": quantization_config");
  const std::string method(given.Text("quant_method").value_or("no known method"));
  if (method == "compressed-tensors") return ReadCompressed(given);
  if (method == "fp8" || method == "fbgemm_fp8") return ReadFp8(given);
  if (method == "mxfp4") {
    quantization.kind = Quantization::Kind::kMxfp4;
    return quantization;
  }
  quantization.bits = static_cast<int>(given.Integer("bits").value_or(4));
  quantization.group = given.Integer("group_size").value_or(128);
  if (quantization.group == -1) quantization.group = 0;
  const bool is_gptq = method == "gptq", is_awq = method == "awq";
  const bool bits_fit = quantization.bits == 4 || (is_gptq && quantization.bits == 8);
  const auto version = given.Text("version").value_or("gemm");
  if ((!is_gptq && !is_awq) || !bits_fit || quantization.group < 0 ||
      (is_awq && version != "gemm" && version != "GEMM")) {
    RefuseMethod(given, Quote(method) + " in " + std::to_string(quantization.bits) + " bits");
  }
  quantization.kind = is_gptq ? Quantization::Kind::kGptq : Quantization::Kind::kAwq;
  quantization.zero_less_one =
      is_gptq && given.Text("checkpoint_format").value_or("gptq") != "gptq_v2";
  return quantization;
}

}  // namespace oort::huggingface
