// SPDX-License-Identifier: MIT
// How keys are turned before they are rounded to 8 bits, for the layers of all devices.
//
// Some elements of a key are large in all tokens alike, and with one scale for a head they drown
// the rest. So keys are multiplied by an orthogonal matrix that spreads every element over all
// (QuaRot, Ashkboos et al. 2024), and queries by the same one, which leaves their products what
// they were. It is Hadamard's, symmetric and of sums and differences alone: head_dim * log2(width)
// of them for a head. The errors of values are a fortieth of those of keys, so values stay.
//
// Before that a centre is taken from the keys of a head where the model has one, which all scores
// of a query change by alike: so their softmax does not (as in SageAttention, Zhang et al. 2024).
#pragma once

#include <algorithm>
#include <cstdint>

#include "oort/kv_cache.h"

namespace oort {

/// Of how many neighbouring elements each gets a part of all: the largest power of two that divides
/// the head, as far as it is of use. 1: keys are kept as they are.
constexpr int64_t KvSpreadWidth(KvType type, int64_t head_dim) {
  constexpr int64_t kLeast = 16, kMost = 256;
  const int64_t width = std::min(head_dim & -head_dim, kMost);
  return type == KvType::kInt8 && width >= kLeast ? width : 1;
}

}  // namespace oort
