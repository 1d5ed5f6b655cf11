// SPDX-License-Identifier: MIT
#include "parser/huggingface/packed_parts.h"

#include <cmath>
#include <span>

#include "core/e4m3.h"
#include "core/problems.h"
#include "weights/weight_format.h"

namespace oort::huggingface {
namespace {

DType FloatType(WeightFormat format) {
  if (format == WeightFormat::kF32) return DType::kF32;
  return format == WeightFormat::kF16 ? DType::kF16 : DType::kBF16;
}

}  // namespace

void FailPacked(const std::string& name, const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, Quote(name) + ": " + message);
}

const PackedPart* FindPart(const PackedParts& parts, const std::string& part) {
  const auto at = parts.find(part);
  return at == parts.end() ? nullptr : &at->second;
}

const PackedPart& RequirePart(const std::string& name, const PackedParts& parts,
                              const std::string& part) {
  const PackedPart* found = FindPart(parts, part);
  if (found == nullptr) FailPacked(name, "it has no " + part);
  return *found;
}

std::string ShapeOf(const safetensors::Entry& entry) {
  std::string text = "(";
  for (const int64_t dim : entry.shape) text += (text.size() > 1 ? "," : "") + std::to_string(dim);
  return text + ") of " + entry.dtype;
}

std::vector<std::byte> ReadBytes(const PackedPart& part) {
  std::vector<std::byte> bytes(static_cast<size_t>(part.entry.bytes));
  part.source->ReadAt(part.entry.offset, bytes);
  return bytes;
}

std::vector<uint32_t> ReadWords(const PackedPart& part) {
  std::vector<uint32_t> words(static_cast<size_t>(part.entry.bytes / sizeof(uint32_t)));
  part.source->ReadAt(part.entry.offset, std::as_writable_bytes(std::span(words)));
  return words;
}

std::vector<float> ReadFinite(const std::string& name, const PackedPart& part) {
  std::vector<float> values;
  if (part.entry.dtype == "F8_E4M3") {
    for (const std::byte byte : ReadBytes(part)) {
      values.push_back(ValueOfE4m3(std::to_integer<uint8_t>(byte)));
    }
  } else if (part.entry.format && *part.entry.format <= WeightFormat::kBf16) {
    const DType dtype = FloatType(*part.entry.format);
    const auto count = static_cast<int64_t>(part.entry.bytes / ItemSize(dtype));
    Tensor data(dtype, {1, count});
    part.source->ReadAt(part.entry.offset, {data.raw(), data.bytes()});
    values.resize(static_cast<size_t>(count));
    if (count > 0) ReadRows({*part.entry.format, 1, count, data, {}, {}}, 0, 1, values.data());
  } else {
    FailPacked(name, "scales should be floating point, but are " + ShapeOf(part.entry));
  }
  for (const float value : values) {
    if (!std::isfinite(value)) FailPacked(name, "a scale is not finite");
  }
  return values;
}

}  // namespace oort::huggingface
