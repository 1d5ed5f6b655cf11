// SPDX-License-Identifier: MIT
// Columns that meet large inputs are made larger and these inputs smaller, so that both fit eight
// bits with one scale for a row (SmoothQuant: Xiao, Lin and others, 2023).
#pragma once

#include <span>
#include <vector>

#include "oort/tensor.h"
#include "weights/weight_format.h"

namespace oort::llm_quantize {

/// Factors for the columns of matrices with the same inputs, (tokens, columns): powers of two, so
/// that weights and what gives the inputs lose nothing by them. Of several shares of the inputs'
/// size that weights can take over, the one by which products of rows of i8 lose least; all 1 where
/// none helps.
std::vector<float> SmoothFactors(std::span<const StoredMatrix> matrices, const Tensor& inputs);

}  // namespace oort::llm_quantize
