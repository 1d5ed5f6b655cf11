// SPDX-License-Identifier: MIT
#pragma once

#include "core/activation.h"
#include "cpu/kernels.h"

namespace oort {

/// A sum of two tensors of bytes: round(a * scale_a + b * scale_b + rest), from `low` to `high`,
/// plus the zero point. The bits of a byte that a flip has set are turned around: 0x80 makes u8 of
/// i8 and back, and the other numbers are those of u8.
struct ByteSum {
  const uint8_t* a;
  const uint8_t* b;
  uint8_t flip_a, flip_b, flip_out;
  float scale_a, scale_b, rest;
  float low, high;
  int32_t zero_point;
  uint8_t* out;
};

/// A product of two tensors of bytes: round((a - zero_a) * (b - zero_b) * scale), from `low` to
/// `high`, plus the zero point. The product of integers is exact, so that only `scale` rounds.
/// Flips are those of a sum; zero points of factors are those of u8.
struct ByteProduct {
  const uint8_t* a;
  const uint8_t* b;
  uint8_t flip_a, flip_b, flip_out;
  int32_t zero_a, zero_b;
  float scale;
  float low, high;
  int32_t zero_point;
  uint8_t* out;
};

/// Bytes from numbers and back. Rounding is to the nearest integer, half to even.
struct QuantizeKernels {
  /// clamp(round(x * inverse) + zero_point) as bytes from `least` to `most`; i8 where least < 0.
  void (*quantize)(const float* x, int64_t count, float inverse, int32_t zero_point, int32_t least,
                   int32_t most, void* bytes);
  void (*dequantize_u8)(const uint8_t* bytes, int64_t count, float scale, int32_t zero_point,
                        float* y);
  void (*dequantize_i8)(const int8_t* bytes, int64_t count, float scale, int32_t zero_point,
                        float* y);
  void (*add)(const ByteSum& sum, int64_t count);
  void (*multiply)(const ByteProduct& product, int64_t count);
  /// Bytes that a table has for round(x * inverse), from `low` to `high`; `table` is that of 0.
  void (*look_up)(const float* x, int64_t count, float inverse, float low, float high,
                  const uint8_t* table, uint8_t* bytes);
  /// x[i] = activation of x[i].
  void (*activate)(const ActivationSpec& spec, float* x, int count);
};
OORT_DECLARE_KERNELS(QuantizeKernels)

}  // namespace oort
