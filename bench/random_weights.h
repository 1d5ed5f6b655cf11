// SPDX-License-Identifier: MIT
// Random weights of layers that are measured on a GPU, and how long a run takes.
#pragma once

#include <algorithm>
#include <chrono>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "oort/session.h"
#include "weights/weight_format.h"

namespace oort::bench {

/// How weights are quantized.
struct Weights {
  WeightFormat format;
  int64_t group;
};
/// By the name that programs are called with.
inline Weights WeightsNamed(const std::string& format, int64_t group) {
  return {format == "int4"   ? WeightFormat::kInt4
          : format == "int8" ? WeightFormat::kInt8
                             : WeightFormat::kBf16,
          group};
}

inline Tensor RandomBytes(DType dtype, Shape shape) {
  static std::mt19937 random(1);
  Tensor bytes(dtype, shape);
  for (size_t i = 0; i + 4 <= bytes.bytes(); i += 4) {
    const uint32_t word = random();
    std::copy_n(reinterpret_cast<const std::byte*>(&word), 4, bytes.raw() + i);
  }
  return bytes;
}

/// Small numbers of either sign: a step of several layers stays finite.
inline Tensor SmallNumbers(DType dtype, Shape shape, float unit) {
  static std::mt19937 random(2);
  Tensor numbers(DType::kF32, shape);
  for (int64_t i = 0; i < numbers.elements(); ++i) {
    numbers.data<float>()[i] = (static_cast<float>(random() >> 8) * 0x1p-23f - 1) * unit;
  }
  return numbers.To(dtype);
}

inline StoredMatrix Matrix(const Weights& weights, int64_t rows, int64_t columns) {
  StoredMatrix stored;
  stored.format = weights.format;
  stored.rows = rows;
  stored.columns = columns;
  switch (weights.format) {
    case WeightFormat::kInt4: stored.data = RandomBytes(DType::kU8, {rows, columns / 2}); break;
    case WeightFormat::kInt8: stored.data = RandomBytes(DType::kI8, {rows, columns}); break;
    default: stored.data = SmallNumbers(DType::kBF16, {rows, columns}, 0.02f); return stored;
  }
  const float unit = weights.format == WeightFormat::kInt4 ? 4e-3f : 3e-4f;
  stored.scale = SmallNumbers(DType::kF16, {rows, columns / weights.group}, unit);
  return stored;
}

/// Of a run of a recorded session.
inline double MedianMicroseconds(Session& session, std::span<const Tensor> inputs, Tensor& output) {
  constexpr int kWarm = 5, kRuns = 60;
  std::vector<double> times;
  for (int i = 0; i < kWarm + kRuns; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    session.ForwardInto(inputs, {&output, 1});
    const std::chrono::duration<double, std::micro> spent =
        std::chrono::steady_clock::now() - begin;
    if (i >= kWarm) times.push_back(spent.count());
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

}  // namespace oort::bench
