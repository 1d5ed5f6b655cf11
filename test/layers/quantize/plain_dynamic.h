// SPDX-License-Identifier: MIT
// Rows that become bytes while a network runs, and their products with weights of bytes, as plain
// loops: what docs/quantization.md says, to the last bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "oort/testing.h"

namespace oort::testing {

/// One row as bytes: their integers, and what they mean.
struct PlainRow {
  float scale = 1;
  int zero_point = 0;
  std::vector<int> bytes;
};

inline PlainRow PlainDynamicRow(const float* x, int64_t count, bool symmetric) {
  float low = 0, high = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (x[i] < low) low = x[i];
    if (x[i] > high) high = x[i];
  }
  PlainRow row;
  row.scale = symmetric ? std::max(-low, high) / 127 : high / 255 - low / 255;
  if (row.scale < 0x1p-100f) row.scale = 1;
  row.zero_point = symmetric ? 0 : static_cast<int>(std::nearbyint(-low / row.scale));
  const float least = symmetric ? -127 : 0, most = symmetric ? 127 : 255;
  const float inverse = 1 / row.scale;
  for (int64_t i = 0; i < count; ++i) {
    const float steps = std::isnan(x[i]) ? 0 : std::nearbyint(x[i] * inverse);
    const float byte = steps + static_cast<float>(row.zero_point);
    row.bytes.push_back(static_cast<int>(std::min(std::max(byte, least), most)));
  }
  return row;
}

/// x W^T + b of one row; the bias may be undefined.
inline std::vector<float> PlainDynamicProduct(const float* x, const Tensor& weight,
                                              const Tensor& scales, const Tensor& bias,
                                              bool symmetric) {
  const int64_t in = weight.dim(1);
  const PlainRow row = PlainDynamicRow(x, in, symmetric);
  std::vector<float> y;
  for (int64_t c = 0; c < weight.dim(0); ++c) {
    int64_t sum = 0, weights = 0;
    for (int64_t k = 0; k < in; ++k) {
      const int64_t w = weight.data<int8_t>()[c * in + k];
      sum += row.bytes[static_cast<size_t>(k)] * w;
      weights += w;
    }
    const float scale = scales.data<float>()[c];
    const float step =
        static_cast<float>(static_cast<double>(weights) * static_cast<double>(scale));
    const float product = static_cast<float>(sum) * scale;
    y.push_back(std::fma(std::fma(-static_cast<float>(row.zero_point), step, product), row.scale,
                         bias.defined() ? bias.data<float>()[c] : 0.0f));
  }
  return y;
}

/// A weight with a scale for each of its rows.
struct ByteMatrix {
  Tensor weight, scales;

  static ByteMatrix Random(int64_t out, int64_t in, uint64_t seed, double size = 0.6) {
    return {RandomTensor(DType::kI8, {out, in}, seed, -127, 127),
            RandomTensor(DType::kF32, {out}, seed + 1, size / 254, size / 127)};
  }
  /// The numbers that it stands for.
  Tensor Floats() const {
    Tensor floats(DType::kF32, weight.shape());
    for (int64_t i = 0; i < floats.elements(); ++i) {
      floats.data<float>()[i] =
          static_cast<float>(weight.data<int8_t>()[i]) * scales.data<float>()[i / weight.dim(1)];
    }
    return floats;
  }
};

}  // namespace oort::testing
