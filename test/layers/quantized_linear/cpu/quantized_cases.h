// SPDX-License-Identifier: MIT
// Random weights of 32 to 4 bits.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "layers/quantized_linear/cpu/quantized_matrix.h"

namespace oort {

struct StoredKind {
  WeightFormat format;
  int group = 0;           // of Oort's own formats
  bool f16_scale = false;  // of these, too
  int multiple = 1;        // of the columns
  ScaleStorage scales = ScaleStorage::kStored;

  bool byte_scales() const { return scales == ScaleStorage::kBytes; }
  std::string Describe() const {
    return std::string(Name(format)) + " group " + std::to_string(group) +
           (f16_scale ? " f16 scales" : "") + (byte_scales() ? " in bytes" : "");
  }
};

inline constexpr StoredKind kStoredKinds[] = {
    {WeightFormat::kF32},
    {WeightFormat::kF16},
    {WeightFormat::kBf16},
    {WeightFormat::kInt8, 16, true, 16},
    {WeightFormat::kInt8, 64, false, 64},
    {WeightFormat::kUint8, 32, true, 32},
    {WeightFormat::kUint8, 48, false, 48},
    {WeightFormat::kInt4, 32, true, 32},
    {WeightFormat::kInt4, 128, false, 128},
    {WeightFormat::kInt4, 8, false, 8},
    {WeightFormat::kUint4, 16, false, 16},
    {WeightFormat::kUint4, 32, false, 32},
    {WeightFormat::kUint4, 64, true, 64},
    {WeightFormat::kQ4_0, 0, false, 32},
    {WeightFormat::kQ4_1, 0, false, 32},
    {WeightFormat::kQ5_0, 0, false, 32},
    {WeightFormat::kQ5_1, 0, false, 32},
    {WeightFormat::kQ8_0, 0, false, 32},
    {WeightFormat::kQ2K, 0, false, 256},
    {WeightFormat::kQ3K, 0, false, 256},
    {WeightFormat::kQ4K, 0, false, 256},
    {WeightFormat::kQ5K, 0, false, 256},
    {WeightFormat::kQ6K, 0, false, 256},
    {WeightFormat::kIq4Xs, 0, false, 256},
    {WeightFormat::kIq1S, 0, false, 256},
    {WeightFormat::kIq2Xs, 0, false, 256},
    {WeightFormat::kIq3S, 0, false, 256},
    {WeightFormat::kUint4, 16, false, 16, ScaleStorage::kBytes},
    {WeightFormat::kUint4, 64, true, 64, ScaleStorage::kBytes},
    {WeightFormat::kQ4_1, 0, false, 32, ScaleStorage::kBytes},
};

/// Small numbers, the same for the same seed.
class QuantizedNumbers {
 public:
  explicit QuantizedNumbers(unsigned seed) : engine_(seed) {}
  float Next() { return static_cast<float>(static_cast<int>(engine_() % 2001) - 1000) / 1000.0f; }
  std::byte Byte() { return static_cast<std::byte>(engine_() & 255u); }
  std::vector<float> Many(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = Next();
    return values;
  }

 private:
  std::minstd_rand engine_;
};

/// Where the f16 scales of a block stand.
struct BlockScales {
  int64_t bytes;
  std::vector<int64_t> at;
};

inline BlockScales ScalesOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_0: return {18, {0}};
    case WeightFormat::kQ4_1: return {20, {0, 2}};
    case WeightFormat::kQ5_0: return {22, {0}};
    case WeightFormat::kQ5_1: return {24, {0, 2}};
    case WeightFormat::kQ8_0: return {34, {0}};
    case WeightFormat::kQ2K: return {84, {80, 82}};
    case WeightFormat::kQ3K: return {110, {108}};
    case WeightFormat::kQ4K: return {144, {0, 2}};
    case WeightFormat::kQ5K: return {176, {0, 2}};
    case WeightFormat::kIq4Xs: return {136, {0}};
    case WeightFormat::kIq1S: return {50, {0}};
    case WeightFormat::kIq2Xs: return {74, {0}};
    case WeightFormat::kIq3S: return {110, {0}};
    default: return {210, {208}};
  }
}

inline void PutHalf(std::byte* to, float value) {
  const uint16_t half = FloatToHalf(value);
  std::memcpy(to, &half, 2);
}

/// `positive`: of about one size, as bytes take them.
inline Tensor RandomScales(QuantizedNumbers& numbers, Shape shape, bool f16,
                           bool positive = false) {
  Tensor tensor(f16 ? DType::kF16 : DType::kF32, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const float value = (numbers.Next() + (positive ? 1.5f : 0.0f)) / 8;
    if (f16) {
      PutHalf(tensor.raw() + 2 * i, value);
    } else {
      tensor.data<float>()[i] = value;
    }
  }
  return tensor;
}

inline StoredMatrix RandomStored(const StoredKind& kind, int64_t rows, int64_t columns,
                                 unsigned seed) {
  QuantizedNumbers numbers(seed);
  StoredMatrix stored;
  stored.format = kind.format;
  stored.rows = rows;
  stored.columns = columns;
  const auto bytes = [&](DType dtype, Shape shape) {
    Tensor tensor(dtype, shape);
    for (size_t i = 0; i < tensor.bytes(); ++i) tensor.raw()[i] = numbers.Byte();
    return tensor;
  };
  const auto grouped = [&](DType dtype, int64_t width, bool minimum) {
    stored.data = bytes(dtype, {rows, width});
    stored.scale =
        RandomScales(numbers, {rows, columns / kind.group}, kind.f16_scale, kind.byte_scales());
    if (minimum) {
      stored.minimum = RandomScales(numbers, {rows, columns / kind.group}, kind.f16_scale);
    }
  };
  switch (kind.format) {
    case WeightFormat::kF32: stored.data = RandomScales(numbers, {rows, columns}, false); break;
    case WeightFormat::kF16: stored.data = RandomScales(numbers, {rows, columns}, true); break;
    case WeightFormat::kBf16:
      stored.data = RandomScales(numbers, {rows, columns}, false).To(DType::kBF16);
      break;
    case WeightFormat::kInt8: grouped(DType::kI8, columns, false); break;
    case WeightFormat::kUint8: grouped(DType::kU8, columns, true); break;
    case WeightFormat::kInt4: grouped(DType::kU8, columns / 2, false); break;
    case WeightFormat::kUint4: grouped(DType::kU8, columns / 2, true); break;
    default: {
      const BlockScales scales = ScalesOf(kind.format);
      stored.data = bytes(DType::kU8, {rows, RowBytes(kind.format, columns)});
      for (int64_t i = 0; i < static_cast<int64_t>(stored.data.bytes()); i += scales.bytes) {
        for (int64_t at : scales.at) {
          const float start = kind.byte_scales() && at == 0 ? 1.5f : 0.0f;
          PutHalf(stored.data.raw() + i + at, (numbers.Next() + start) / 32);
        }
      }
    }
  }
  return stored;
}

/// What the weights stand for: rounded scales are read back.
inline std::vector<float> ValuesOf(const StoredKind& kind, const StoredMatrix& stored) {
  std::vector<float> values(static_cast<size_t>(stored.rows * stored.columns));
  if (!kind.byte_scales()) {
    ReadRows(stored, 0, stored.rows, values.data());
    return values;
  }
  const QuantizedMatrix matrix(stored, 1, kind.scales);
  EXPECT_EQ(matrix.layout().scales, ScaleType::kByte);
  for (int64_t row = 0; row < stored.rows; ++row) {
    matrix.ReadRow(row, values.data() + row * stored.columns);
  }
  return values;
}

inline int64_t ColumnsOf(const StoredKind& kind, int64_t at_least) {
  return (at_least + kind.multiple - 1) / kind.multiple * kind.multiple;
}

}  // namespace oort
