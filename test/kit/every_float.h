// SPDX-License-Identifier: MIT
// One test for the float dtypes other than f32.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "oort/testing.h"

namespace oort::testing {

/// Converts a tensor, or leaves one that is undefined.
using Convert = std::function<Tensor(const Tensor&)>;

/// For f64, f16 and bf16: `make` builds the case of tensors that it converts, and must answer what
/// `reference` computes in f64 of the same tensors, rounded to that dtype.
inline void ExpectEveryFloat(
    const std::function<OperatorCase(const Convert& convert)>& make,
    const std::function<std::vector<Tensor>(const Convert& convert)>& reference,
    Tolerance tolerance = {}) {
  for (DType dtype : {DType::kF64, DType::kF16, DType::kBF16}) {
    SCOPED_TRACE("dtype " + std::string(Name(dtype)));
    const auto convert = [dtype](const Tensor& x) { return x.defined() ? x.To(dtype) : x; };
    std::vector<Tensor> expected =
        reference([&](const Tensor& x) { return x.defined() ? convert(x).To(DType::kF64) : x; });
    for (Tensor& x : expected) x = x.To(dtype);
    make(convert).ExpectOutputs(expected, dtype == DType::kF64 ? Tolerance{} : tolerance);
  }
}

/// An element of a tensor of f32 or f64.
inline double Element(const Tensor& x, int64_t i) {
  return x.dtype() == DType::kF64 ? x.data<double>()[i] : static_cast<double>(x.data<float>()[i]);
}

}  // namespace oort::testing
