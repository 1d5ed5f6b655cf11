// SPDX-License-Identifier: MIT
// What the inputs of a matrix are like: which of its columns matter, and how they go together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "oort/tensor.h"

namespace oort::llm_quantize {

/// Means of the squares of each column of f32 rows: the importance of a matrix's columns. Sums are
/// f64 in an order that no number of threads changes. Throws kInvalidArgument for what is not
/// finite.
std::vector<float> MeanSquares(const Tensor& inputs);

/// H = mean of x xᵀ over the rows x, symmetric, as f64. Needs LAPACK.
std::vector<double> HessianOf(const Tensor& inputs, int threads);

/// The upper triangle U with H⁻¹ = Uᵀ U, where `damping` times the mean of H's diagonal was added
/// to that; ten times as much where H has no such factor, up to all of it. Rows and columns without
/// any input count as independent of all others. Throws kInvalidArgument where nothing helps.
/// Needs LAPACK.
std::vector<float> InverseFactor(std::vector<double> hessian, int64_t size, double damping,
                                 int threads);

/// d H dᵀ of each row d of (rows, size). Needs LAPACK.
std::vector<double> QuadraticForms(std::span<const float> rows, std::span<const float> hessian,
                                   int64_t size);

}  // namespace oort::llm_quantize
