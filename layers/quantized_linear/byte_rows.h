// SPDX-License-Identifier: MIT
// Rows of numbers as rows of bytes, each with a unit of its own: how activations and weights are
// rounded where products are of bytes (LanguageModelOptions::activations).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/e4m3.h"
#include "core/host_device.h"
#include "weights/weight_format.h"

namespace oort {

enum class ByteKind : unsigned char { kInt8, kFp8 };

/// Of oort.QuantizedLinear. It is not in files: language models set it, where they are told to.
inline constexpr char kActivationsParam[] = "activations";
/// None for "floats".
std::optional<ByteKind> ByteKindNamed(std::string_view name);

/// Whether products with these weights may be of bytes: they do not have fewer bits, and sums have
/// room in 32 bits.
bool BecomesBytes(const StoredMatrix& matrix);

/// What the largest number of a row becomes.
OORT_HOST_DEVICE constexpr float LargestByte(ByteKind kind) {
  return kind == ByteKind::kInt8 ? 127.0f : kLargestE4m3;
}

/// What a row is divided by. Bytes of a row that has a number that is not finite mean nothing: its
/// unit is NaN, and so are all products with it.
OORT_HOST_DEVICE constexpr float ByteUnit(ByteKind kind, float largest) {
  constexpr float kLeast = 1e-30f;  // so that what is divided by it stays finite
  constexpr float kMost = 3.402823466e38f;
  if (!(largest <= kMost)) return largest - largest;
  const float unit = largest / LargestByte(kind);
  return unit < kLeast ? kLeast : unit;
}

/// The byte of a number in its row's unit: i8, or e4m3.
uint8_t ByteOf(ByteKind kind, float value);
float ValueOfByte(ByteKind kind, uint8_t byte);

/// Rounds a row of activations, as kernels do; returns its unit.
float RoundActivations(ByteKind kind, const float* values, int64_t count, uint8_t* bytes);
/// The same of weights. Rows that were e4m3 times one number stay what they are, as far as f32
/// shows it.
float RoundWeights(ByteKind kind, const float* values, int64_t count, uint8_t* bytes);
/// A row of a matrix likewise. Rows that were i8 times one number keep their bytes. `values` is
/// scratch.
float RoundWeights(ByteKind kind, const StoredMatrix& matrix, int64_t row,
                   std::vector<float>& values, uint8_t* bytes);
/// All rows as i8, each a group with an f32 scale.
StoredMatrix AsBytes(const StoredMatrix& matrix, int threads);

}  // namespace oort
