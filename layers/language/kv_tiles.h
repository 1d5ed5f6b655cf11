// SPDX-License-Identifier: MIT
// What attention of many rows shares between the units that multiply tiles of bf16.
// Only for kv_tiles*.
#pragma once

#include "layers/language/kv_kernels.h"
#include "layers/language/kv_load.h"
#include "layers/language/kv_softmax.h"

namespace oort::OORT_ISA {

inline constexpr int kStepTokens = static_cast<int>(kKvTileTokens);
inline constexpr int kStepBlocks = kStepTokens / kTokens;
}  // namespace oort::OORT_ISA
