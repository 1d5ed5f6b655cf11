// SPDX-License-Identifier: MIT
// Products of f16 on units that load a tile of rows by one address and a stride. Sums are f32.
#pragma once

#include <cstdint>

#include "cpu/activation.h"
#include "cpu/lanes_kernels.h"

namespace oort {

/// Up to kHalfRows neighbouring rows of A, and where their sums go.
struct TileRowsF16 {
  const void* a = nullptr;
  int rows = 0;  ///< that are wanted; the others are readable all the same
  Half* c = nullptr;
  const Half* addend = nullptr;
};

struct TileF16 {
  int64_t steps = 0;                 ///< of so many factors as the unit was begun with
  const int64_t* offsets = nullptr;  ///< bytes from a row's begin, for each step
  int64_t a_stride = 0;              ///< bytes from one row to the next
  TileRowsF16 halves[2];             ///< the second may have no rows
  const void* b = nullptr;           ///< a panel of filters, pairs of steps side by side
  int64_t b_step = 0;                ///< bytes of a step
  int columns = 0;
  int64_t ldc = 0, addend_stride = 0;
  const float* bias = nullptr;  ///< for all columns of the panel
  ActivationSpec activation;
  const void* soon = nullptr;  ///< what is fetched on the way, or null
  int64_t soon_bytes = 0;
};

struct TileKernelsF16 {
  static constexpr int kHalfRows = 16, kStep = 32, kColumns = 32;
  /// Before and behind tiles of one thread; `step` is even and at most kStep.
  void (*begin)(int step);
  void (*end)();
  /// Returns whether all are finite.
  bool (*copy)(const Half* from, int64_t count, Half* to);
  void (*tile)(const TileF16& tile);
};

/// Null where the processor has no such unit.
const TileKernelsF16* FindTileKernelsF16(Isa isa);

#if defined(OORT_F16_UNIT)
namespace OORT_F16_UNIT {
/// Null where units of this kind have none.
const TileKernelsF16* TileKernelsF16Get();
}  // namespace OORT_F16_UNIT
#endif

}  // namespace oort
