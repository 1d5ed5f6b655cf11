// SPDX-License-Identifier: MIT
// The part of row_pairs.mmla.cpp that is for weights of 4 to 6 bits as K-quants have them.
#pragma once

#include "layers/quantized_linear/cpu/row_pairs.h"

namespace oort::OORT_ISA {

void PairsOfLowBits32(const ByteRows& rows, int64_t first, int count_rows, const LowPairs<32>& to);
void PairsOfLowBits16(const ByteRows& rows, int64_t first, int count_rows, const LowPairs<16>& to);
void DotLowPairs32(const LowPairDot<32>& dot);
void DotLowPairs16(const LowPairDot<16>& dot);

}  // namespace oort::OORT_ISA
