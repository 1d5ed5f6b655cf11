// SPDX-License-Identifier: MIT
// Matrix products on units for bf16: the factors are rounded when panels are packed, the sums are
// f32. Compiled once for each kind of unit (cmake/OortSimd.cmake).
#include "cpu/gemm.h"
#include "cpu/bf16.h"
#include "cpu/gemm_finish.h"
#include "cpu/gemm_whole_tile.h"

#if defined(OORT_UNIT_neon_bf16)
#include "cpu/gemm_bf16_neon.h"
#elif defined(OORT_UNIT_amx)
#include "cpu/gemm_bf16_amx.h"
#include "cpu/gemm_windows_amx.h"
#else
#include "cpu/gemm_bf16_avx512.h"
#endif

namespace oort::OORT_ISA {
namespace {

void Tile(const GemmTile& tile) {
#if defined(OORT_UNIT_neon_bf16)
  if (IsWhole<kUnitRows, kUnitColumns>(tile)) {
    return TilesInRegisters<kUnitRows, kUnitColumns>(tile, 1, 0, UnitWhole);
  }
#endif
#if defined(OORT_UNIT_amx)
  UnitTile(tile);
#else
  alignas(64) float sums[kUnitRows * kUnitColumns];
  UnitProduct(tile, sums);
  Finish<kUnitColumns>(tile, sums);
#endif
}

#if defined(OORT_UNIT_neon_bf16)
bool Tiles(const GemmTile& tile, int64_t count, int64_t b_step) {
  if (!IsWhole<kUnitRows, kUnitColumns>(tile)) return false;
  TilesInRegisters<kUnitRows, kUnitColumns>(tile, count, b_step, UnitWhole);
  return true;
}

bool TilesBelow(const GemmTile& tile, int64_t count, int64_t a_step) {
  if (!IsWhole<kUnitRows, kUnitColumns>(tile) || !IsDirect(tile.activation)) return false;
  WholeTile whole = WholeTileOf<kUnitRows, kUnitColumns>(tile, nullptr);
  whole.count = count;
  whole.a_step = a_step;
  UnitWhole(whole);
  return true;
}
#else
constexpr bool (*Tiles)(const GemmTile&, int64_t, int64_t) = nullptr;
constexpr bool (*TilesBelow)(const GemmTile&, int64_t, int64_t) = nullptr;
#endif
#if defined(OORT_UNIT_amx)
constexpr const GemmWindowKernels* kWindows = &kWindowKernels;
constexpr bool kScales = true;
#else
constexpr const GemmWindowKernels* kWindows = nullptr;
constexpr bool kScales = false;
#endif

constexpr int UnitGroup(GemmSide side) { return side == GemmSide::kA ? kUnitGroupA : kUnitGroupB; }

/// y = panel^T x + bias and so on; x stays f32.
template <int width, int group>
void Gemv(const GemvPanel& p) {
  alignas(64) float total[width];
  UnitGemv<width, group>(p.k, static_cast<const uint16_t*>(p.panel), p.x, total);
  for (int i = 0; i < p.count; ++i) {
    if (p.bias != nullptr) total[i] += p.bias[i];
    if (p.addend != nullptr) total[i] += p.addend[i * p.addend_stride];
  }
  ActivateInPlace(p.activation, total, p.count);
  for (int i = 0; i < p.count; ++i) p.y[i * p.y_stride] = total[i];
}

void Convert(const float* from, int64_t k, const PanelPart& part) {
  const int64_t group = UnitGroup(part.side), width = part.width;
  uint16_t* to = static_cast<uint16_t*>(part.panel);
  const int64_t padded = (k + kUnitK - 1) / kUnitK * kUnitK;
#if !defined(OORT_UNIT_neon_bf16)
  if (group == 2 && width % 16 == 0) return ConvertPairs(from, k, padded, part.width, to);
#endif
  for (int64_t block = 0; block < padded; block += group) {
    for (int64_t i = 0; i < width; ++i) {
      for (int64_t j = 0; j < group; ++j) {
        const int64_t step = block + j;
        *to++ = step < k ? RoundToBf16(from[step * width + i]) : uint16_t{0};
      }
    }
  }
}

/// Steps of k that are no whole group.
void PackEnds(const float* const* rows, int count, int64_t from, int64_t to, int64_t first,
              const PanelPart& part) {
  if (from == to || UnitPackEnds(rows, count, from, to, first, part)) return;
  const int64_t group = UnitGroup(part.side);
  uint16_t* panel = static_cast<uint16_t*>(part.panel);
  for (int64_t k = from; k < to; ++k) {
    const int64_t step = first + k;
    uint16_t* element = panel + step / group * group * part.width + step % group;
    for (int i = 0; i < part.width; ++i, element += group) {
      *element = i < count ? RoundToBf16(rows[i][k]) : uint16_t{0};
    }
  }
}

void PackRows(const float* const* rows, int count, int64_t first, int64_t depth,
              const PanelPart& part) {
  const int64_t group = UnitGroup(part.side);
  // Whole groups begin at `head` and end at `tail`.
  const int64_t into = first % group;
  int64_t head = into == 0 ? 0 : group - into;
  if (head > depth) head = depth;
  const int64_t tail = head + (depth - head) / group * group;
  PackEnds(rows, count, 0, head, first, part);
  if (tail > head) {
    uint16_t* panel = static_cast<uint16_t*>(part.panel) + (first + head) * part.width;
    UnitPackGroups(rows, count, head, tail, part, panel);
  }
  PackEnds(rows, count, tail, depth, first, part);
}

void PackF32(const StridedMatrix& m, int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width,
             float* panel) {
  const float* source = m.data + k0 * m.k_stride + i0 * m.i_stride;
  const int count = static_cast<int>(i1 - i0);
  for (int64_t k = k0; k < k1; ++k, source += m.k_stride, panel += width) {
    if (m.i_stride == 1) {
      __builtin_memcpy(panel, source, static_cast<size_t>(count) * sizeof(float));
    } else {
      for (int i = 0; i < count; ++i) panel[i] = source[i * m.i_stride];
    }
    for (int i = count; i < width; ++i) panel[i] = 0.0f;
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(
    GemmKernels,
    {.format = {.element = 2, .a_group = kUnitGroupA, .b_group = kUnitGroupB, .k_multiple = kUnitK},
     .rows = kUnitRows,
     .columns = kUnitColumns,
     .depth = kUnitDepth,
     .tile = Tile,
     .gemv_rows = Gemv<kUnitRows, kUnitGroupA>,
     .gemv_columns = Gemv<kUnitColumns, kUnitGroupB>,
     .pack = PackF32,
     .convert = Convert,
     .pack_rows = PackRows,
     .scales = kScales,
     .begin = kUnitBegin,
     .end = kUnitEnd,
     .tiles = Tiles,
     .tiles_below = TilesBelow,
     .windows = kWindows})
