// SPDX-License-Identifier: MIT
// The part of row_pairs.mmla.cpp that is for weights of 4 bits.
#pragma once

#include "layers/quantized_linear/cpu/row_pairs.h"

namespace oort::OORT_ISA {

void PairFromNibbles(const NibbleRows& rows, int count_rows, int pair, const NibblePairs& to);
void DotNibblePairs(const NibblePairDot& dot);

}  // namespace oort::OORT_ISA
