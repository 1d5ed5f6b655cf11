// SPDX-License-Identifier: MIT
// Products of f16 on AMX, and what becomes of their sums.
#include "cpu/lanes.h"
#include "cpu/tiles_f16.h"

#if defined(OORT_UNIT_avx512_f16)

#include "cpu/amx_tiles.h"

namespace oort::OORT_ISA {
namespace {

constexpr int kPanel = TileKernelsF16::kColumns, kRows = TileKernelsF16::kHalfRows;

void BeginF16(int step) {
  const TileConfig config(step);
  SettleMemory(&config);
  _tile_loadconfig(&config);
}

/// 32 at a time; whether none has all bits of its exponent set.
bool CopyHalves(const Half* from, int64_t count, Half* to) {
  const __m512i exponent = _mm512_set1_epi16(0x7c00);
  __mmask32 special = 0;
  for (int64_t i = 0; i < count; i += HalfVec::kWidth) {
    const int64_t left = count - i;
    const __mmask32 mask = left < HalfVec::kWidth ? FirstHalfLanes(static_cast<int>(left)) : ~0u;
    const __m512i x = _mm512_maskz_loadu_epi16(mask, from + i);
    special |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
    _mm512_mask_storeu_epi16(to + i, mask, x);
  }
  return special == 0;
}

/// Sums, what is added to them, and finish() of that, rounded.
template <bool has_addend, typename Finish>
void FinishRows(const TileF16& tile, const TileRowsF16& half, const float* sums,
                const Finish& finish) {
  Half* c = half.c;
  const Half* addend = half.addend;
  for (int r = 0; r < half.rows; ++r, sums += kPanel, c += tile.ldc) {
    Vec low = Vec::Load(sums), high = Vec::Load(sums + Vec::kWidth);
    if constexpr (has_addend) {
      const HalfVec more = HalfVec::LoadPartial(addend, tile.columns);
      low = low + Low(more);
      high = high + High(more);
      addend += tile.addend_stride;
    }
    finish(Narrow(low, high)).StorePartial(c, tile.columns);
  }
}

/// Long formulas go over what is written.
template <bool has_addend>
void FinishHalf(const TileF16& tile, const TileRowsF16& half, const float* sums) {
  const ActivationSpec& spec = tile.activation;
  const HalfVec low = HalfVec(spec.kind == Activation::kClamp ? spec.a : 0.0f), high = spec.b;
  const auto rows = [&](auto finish) { FinishRows<has_addend>(tile, half, sums, finish); };
  switch (spec.kind) {
    case Activation::kRelu: return rows([=](HalfVec x) { return AtLeast(x, low); });
    case Activation::kClamp: return rows([=](HalfVec x) { return Limit(x, low, high); });
    case Activation::kHardswish:
      return rows([=](HalfVec x) { return Activate<Activation::kHardswish>(x, x, x); });
    default: break;
  }
  rows([](HalfVec x) { return x; });
  ActivateRows(spec, half.c, tile.ldc, half.rows, tile.columns);
}

void MultiplyTileF16(const TileF16& tile) {
  alignas(64) float sums[2 * kRows * kPanel];
  constexpr int64_t kStride = kPanel * sizeof(float);
  TileFactors factors;
  factors.upper = static_cast<const char*>(tile.halves[0].a);
  factors.lower = static_cast<const char*>(tile.halves[1].a);
  factors.a_stride = tile.a_stride;
  factors.b = static_cast<const char*>(tile.b);
  factors.b_step = tile.b_step;
  factors.steps = tile.steps;
  factors.soon = static_cast<const char*>(tile.soon);
  factors.soon_bytes = tile.soon_bytes;
  const int64_t* offsets = tile.offsets;
  MultiplyTiles<F16Products>(
      factors, tile.halves[1].rows > 0, tile.columns > 16, {tile.bias, 0, sums, kStride},
      {tile.bias, 0, sums + kRows * kPanel, kStride}, [=](int64_t step) { return offsets[step]; });
  for (int i = 0; i < 2; ++i) {
    const TileRowsF16& half = tile.halves[i];
    if (half.rows == 0) continue;
    const float* mine = sums + i * kRows * kPanel;
    half.addend != nullptr ? FinishHalf<true>(tile, half, mine)
                           : FinishHalf<false>(tile, half, mine);
  }
}

}  // namespace

const TileKernelsF16* TileKernelsF16Get() {
  static constexpr TileKernelsF16 kTable = {
      .begin = BeginF16, .end = EndTiles, .copy = CopyHalves, .tile = MultiplyTileF16};
  return &kTable;
}

}  // namespace oort::OORT_ISA

#else

namespace oort::OORT_ISA {
const TileKernelsF16* TileKernelsF16Get() { return nullptr; }
}  // namespace oort::OORT_ISA

#endif
