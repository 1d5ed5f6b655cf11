// SPDX-License-Identifier: MIT
// Products whose rows of A are read where they lie: in an image of bf16 whose neighbouring pixels
// are neighbouring rows. For units that load a tile of rows by one address and a stride.
#pragma once

#include <cstdint>

#include "cpu/activation.h"

namespace oort {

/// Up to kHalfRows neighbouring rows of A and where their sums go.
struct GemmWindowHalf {
  const void* a = nullptr;
  int rows = 0;  ///< that are wanted; the others are readable all the same
  float* c = nullptr;
  const float* addend = nullptr;
};

struct GemmWindowTile {
  int64_t steps = 0;                 ///< of 32 factors each
  const int64_t* offsets = nullptr;  ///< bytes from a row's begin, for each step
  int64_t a_stride = 0;              ///< bytes from one row to the next
  GemmWindowHalf halves[2];          ///< the second may have no rows
  const void* b = nullptr;           ///< a panel of packed filters
  int columns = 0;
  int64_t ldc = 0, addend_stride = 0;
  const float* bias = nullptr;  ///< for each column, or null
  ActivationSpec activation;
  const void* soon = nullptr;  ///< what is fetched on the way, or null
  int64_t soon_bytes = 0;
};

struct GemmWindowKernels {
  static constexpr int kHalfRows = 16, kStep = 32;
  /// Rounds to bf16; returns whether all are finite.
  bool (*round)(const float* from, int64_t count, uint16_t* to);
  void (*tile)(const GemmWindowTile& tile);
};

}  // namespace oort
