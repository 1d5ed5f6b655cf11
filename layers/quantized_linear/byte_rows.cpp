// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/byte_rows.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"

namespace oort {
namespace {

/// The unit in which all numbers of a row are of e4m3, where there is one. The largest of them is
/// then one of the eight mantissas times a power of two, so it tells which units are left to try.
std::optional<float> UnitOfE4m3(const float* values, int64_t count, float largest) {
  constexpr float kTolerance = 1e-6f;  // of products that were rounded to f32
  for (int mantissa = 8; mantissa < 16; ++mantissa) {
    // 15 * 32 would be above the largest number.
    const float unit = largest / static_cast<float>(mantissa * (mantissa < 15 ? 32 : 16));
    const bool fits = std::all_of(values, values + count, [&](float value) {
      const float size = value / unit;
      return std::abs(size - ValueOfE4m3(E4m3Of(size))) <= kTolerance * std::abs(size);
    });
    if (fits) return unit;
  }
  return std::nullopt;
}

/// Takes a row of i8 with one scale as it is.
std::optional<float> CopyWhole(const StoredMatrix& matrix, const GroupLayout& layout, int64_t row,
                               uint8_t* bytes) {
  std::vector<float> scales(static_cast<size_t>(matrix.columns / layout.group));
  ReadGroups(matrix, row, row + 1, reinterpret_cast<int8_t*>(bytes), scales.data(), nullptr);
  const bool one = std::ranges::all_of(
      scales, [&](float scale) { return scale == scales[0] && std::isfinite(scale); });
  return one ? std::optional(scales[0]) : std::nullopt;
}

}  // namespace

std::optional<ByteKind> ByteKindNamed(std::string_view name) {
  if (name == "int8") return ByteKind::kInt8;
  if (name == "fp8") return ByteKind::kFp8;
  return std::nullopt;
}

bool BecomesBytes(const StoredMatrix& matrix) {
  constexpr int64_t kMostColumns = int64_t{1} << 17;  // times 127 * 128 it is below 2^31
  return matrix.columns <= kMostColumns && LayoutOf(matrix).bits != 4;
}

uint8_t ByteOf(ByteKind kind, float value) {
  if (kind == ByteKind::kFp8) return E4m3Of(value);
  if (std::isnan(value)) return 0;
  return static_cast<uint8_t>(
      static_cast<int8_t>(std::nearbyint(std::clamp(value, -127.0f, 127.0f))));
}

float ValueOfByte(ByteKind kind, uint8_t byte) {
  return kind == ByteKind::kFp8 ? ValueOfE4m3(byte) : static_cast<float>(static_cast<int8_t>(byte));
}

namespace {

/// NaN where one of them is.
float LargestOf(const float* values, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count && !std::isnan(largest); ++i) {
    const float size = std::abs(values[i]);
    if (!(size <= largest)) largest = size;
  }
  return largest;
}

float RoundBy(float unit, ByteKind kind, const float* values, int64_t count, uint8_t* bytes) {
  const float factor = 1 / unit;
  for (int64_t i = 0; i < count; ++i) bytes[i] = ByteOf(kind, values[i] * factor);
  return unit;
}

}  // namespace

float RoundActivations(ByteKind kind, const float* values, int64_t count, uint8_t* bytes) {
  return RoundBy(ByteUnit(kind, LargestOf(values, count)), kind, values, count, bytes);
}

float RoundWeights(ByteKind kind, const float* values, int64_t count, uint8_t* bytes) {
  const float largest = LargestOf(values, count);
  float unit = ByteUnit(kind, largest);
  if (kind == ByteKind::kFp8 && unit == largest / kLargestE4m3) {  // neither zeros nor NaN
    unit = UnitOfE4m3(values, count, largest).value_or(unit);
  }
  return RoundBy(unit, kind, values, count, bytes);
}

float RoundWeights(ByteKind kind, const StoredMatrix& matrix, int64_t row,
                   std::vector<float>& values, uint8_t* bytes) {
  const GroupLayout layout = LayoutOf(matrix);
  if (kind == ByteKind::kInt8 && layout.bits == 8 && !layout.has_minimum) {
    if (const auto unit = CopyWhole(matrix, layout, row, bytes)) return *unit;
  }
  values.resize(static_cast<size_t>(matrix.columns));
  ReadRows(matrix, row, row + 1, values.data());
  return RoundWeights(kind, values.data(), matrix.columns, bytes);
}

StoredMatrix AsBytes(const StoredMatrix& matrix, int threads) {
  StoredMatrix bytes;
  bytes.format = WeightFormat::kInt8;
  bytes.rows = matrix.rows;
  bytes.columns = matrix.columns;
  bytes.data = Tensor(DType::kI8, Shape{matrix.rows, matrix.columns});
  bytes.scale = Tensor(DType::kF32, Shape{matrix.rows, 1});
  ParallelFor(threads, matrix.rows, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> values;
    for (int64_t row = begin; row < end; ++row) {
      auto* const to = reinterpret_cast<uint8_t*>(bytes.data.raw()) + row * matrix.columns;
      bytes.scale.data<float>()[row] = RoundWeights(ByteKind::kInt8, matrix, row, values, to);
    }
  });
  return bytes;
}

}  // namespace oort
