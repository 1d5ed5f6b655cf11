// SPDX-License-Identifier: MIT
// What tests of device kernels share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "cuda/device.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace oort::cuda {

inline bool HasDevice() {
  std::string reason;
  static const bool has = !Devices(&reason).empty();
  return has;
}
#define OORT_SKIP_WITHOUT_GPU() \
  if (!::oort::cuda::HasDevice()) GTEST_SKIP() << "no GPU"

/// Numbers around zero, rounded to `dtype`, as f32 on the host.
inline Tensor RandomValues(DType dtype, const Shape& shape, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  Tensor values(DType::kF32, shape);
  for (int64_t i = 0; i < values.elements(); ++i) values.data<float>()[i] = normal(random);
  return values.To(dtype).To(DType::kF32);
}

inline Tensor OnDevice(const Tensor& values, DType dtype) {
  return ToDevice(values.To(dtype), Device::Cuda(0));
}

/// A tensor on the device full of bits that are NaN in all floats.
inline Tensor Poisoned(Stream& stream, DType dtype, const Shape& shape) {
  Tensor tensor = DeviceTensor(dtype, shape, Device::Cuda(0));
  stream.Fill(tensor.raw(), 0xff, tensor.bytes());
  return tensor;
}

inline Tensor Fetch(Stream& stream, const Tensor& tensor) {
  stream.Synchronize();
  return ToHost(tensor).To(DType::kF32);
}

/// Relative to the largest: sums of many products lose most where they cancel.
inline void ExpectNear(const Tensor& results, const std::vector<double>& expected,
                       double tolerance) {
  ASSERT_EQ(static_cast<size_t>(results.elements()), expected.size());
  double largest = 1e-30;
  for (double x : expected) largest = std::max(largest, std::isfinite(x) ? std::fabs(x) : 0.0);
  int wrong = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double got = results.data<float>()[i];
    if (std::fabs(got - expected[i]) <= tolerance * largest || got == expected[i]) continue;
    if (++wrong > 3) break;
    ADD_FAILURE() << "element " << i << ": " << got << ", expected " << expected[i];
  }
}

inline double ToleranceOf(DType dtype) {
  return dtype == DType::kF32 ? 2e-6 : dtype == DType::kF16 ? 6e-4 : 5e-3;
}

}  // namespace oort::cuda
