// SPDX-License-Identifier: MIT
// What attention of many rows shares between the units that multiply tiles of bf16.
// Only for kv_tiles*.
#pragma once

#include "layers/attention/paged/cpu/kv_kernels.h"
#include "layers/attention/paged/cpu/kv_load.h"
#include "layers/attention/paged/cpu/kv_softmax.h"

namespace oort::OORT_ISA {

inline constexpr int kStepTokens = static_cast<int>(kKvTileTokens);
inline constexpr int kStepBlocks = kStepTokens / kTokens;
}  // namespace oort::OORT_ISA
