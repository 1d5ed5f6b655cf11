// SPDX-License-Identifier: MIT
#include "cpu/gemm.h"
#include "cpu/activation_epilogue.h"
#include "cpu/bf16.h"
#include "cpu/gemm_tile.h"
#include "cpu/interleave_fours.h"
#include "cpu/vec.h"

namespace oort::OORT_ISA {
namespace {

void Tile(const GemmTile& tile) {
  if (IsWhole<kLeastWholeRows, kGemmColumns>(tile)) {
    return TilesInRegisters<kGemmRows, kGemmColumns>(tile, 1, 0, ComputeTile);
  }
  if (!ComputeFewRows(tile)) EdgeInRegisters<kGemmRows, kGemmColumns>(tile, ComputeTile);
}

bool Tiles(const GemmTile& tile, int64_t count, int64_t b_step) {
  if (!IsWhole<kLeastWholeRows, kGemmColumns>(tile)) return false;
  TilesInRegisters<kGemmRows, kGemmColumns>(tile, count, b_step, ComputeTile);
  return true;
}

/// Reads up to a vector beyond the panel, which the slack behind packed matrices allows.
template <int width>
void Gemv(const GemvPanel& p) {
  constexpr int kVectors = (width + Vec::kWidth - 1) / Vec::kWidth;
  constexpr int kSteps = 4;  // independent sums, so that additions do not wait for each other
  Vec sums[kSteps][kVectors];
  Unroll<kSteps>([&](auto s) { Unroll<kVectors>([&](auto v) { sums[s][v] = Vec::Zero(); }); });
  const float* panel = static_cast<const float*>(p.panel);
  int64_t k = 0;
  for (; k + kSteps <= p.k; k += kSteps, panel += kSteps * width) {
    Unroll<kSteps>([&](auto s) {
      const Vec x = Vec::Broadcast(p.x[k + s]);
      Unroll<kVectors>([&](auto v) {
        sums[s][v] = Fma(Vec::Load(panel + s * width + v * Vec::kWidth), x, sums[s][v]);
      });
    });
  }
  for (; k < p.k; ++k, panel += width) {
    const Vec x = Vec::Broadcast(p.x[k]);
    Unroll<kVectors>(
        [&](auto v) { sums[0][v] = Fma(Vec::Load(panel + v * Vec::kWidth), x, sums[0][v]); });
  }
  float total[kVectors * Vec::kWidth];
  Unroll<kVectors>([&](auto v) {
    const Vec sum = (sums[0][v] + sums[1][v]) + (sums[2][v] + sums[3][v]);
    sum.Store(total + v * Vec::kWidth);
  });
  for (int i = 0; i < p.count; ++i) {
    if (p.bias != nullptr) total[i] += p.bias[i];
    if (p.addend != nullptr) total[i] += p.addend[i * p.addend_stride];
  }
  ActivateInPlace(p.activation, total, p.count);
  for (int i = 0; i < p.count; ++i) p.y[i * p.y_stride] = total[i];
}

/// i contiguous in memory: whole rows of the panel are copied.
template <int width>
void PackRows(const float* source, int64_t stride, int64_t k, float* panel) {
  for (; k > 0; --k, source += stride, panel += width) {
    __builtin_prefetch(source + 2 * width);  // the next panel reads on from here
    if constexpr (width % Vec::kWidth == 0) {
      Unroll<width / Vec::kWidth>(
          [&](auto v) { Vec::Load(source + v * Vec::kWidth).Store(panel + v * Vec::kWidth); });
    } else {
      for (int i = 0; i < width; ++i) panel[i] = source[i];
    }
  }
}

/// k contiguous in memory: `width` streams are interleaved.
template <int width>
void PackColumns(const float* source, int64_t stride, int64_t k, float* panel) {
  const float* rows[width];
  for (int i = 0; i < width; ++i) rows[i] = source + i * stride;
  for (int64_t j = InterleaveFours<width>(rows, width, k, panel); j < k; ++j) {
    for (int i = 0; i < width; ++i) panel[j * width + i] = rows[i][j];
  }
}

template <int width>
bool PackWhole(const StridedMatrix& m, const float* source, int64_t k, float* panel) {
  if (m.i_stride == 1) {
    PackRows<width>(source, m.k_stride, k, panel);
  } else if (m.k_stride == 1) {
    PackColumns<width>(source, m.i_stride, k, panel);
  } else {
    return false;
  }
  return true;
}

/// A whole panel of rows that is narrower than the widest.
template <int... w>
bool PackNarrow(const StridedMatrix& m, const float* source, int64_t k, int width, float* panel,
                std::integer_sequence<int, w...>) {
  static constexpr bool (*kTable[])(const StridedMatrix&, const float*, int64_t,
                                    float*) = {PackWhole<w + 1>...};
  return width <= static_cast<int>(sizeof...(w)) && kTable[width - 1](m, source, k, panel);
}

void Pack(const StridedMatrix& m, int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width,
          float* panel) {
  if (k0 == k1) return;
  const float* source = m.data + k0 * m.k_stride + i0 * m.i_stride;
  const int count = static_cast<int>(i1 - i0);
  if (count == width) {
    if (width == kGemmRows && PackWhole<kGemmRows>(m, source, k1 - k0, panel)) return;
    if (width == kGemmColumns && PackWhole<kGemmColumns>(m, source, k1 - k0, panel)) return;
    constexpr auto kNarrow = std::make_integer_sequence < int, kAnyWidth ? kGemmRows - 1 : 1 > {};
    if (PackNarrow(m, source, k1 - k0, width, panel, kNarrow)) return;
  }
  for (int64_t k = k0; k < k1; ++k, source += m.k_stride, panel += width) {
    for (int i = 0; i < count; ++i) panel[i] = source[i * m.i_stride];
    for (int i = count; i < width; ++i) panel[i] = 0.0f;
  }
}

void RoundPanel(const float* from, int64_t k, const PanelPart& part) {
  float* to = static_cast<float*>(part.panel);
  for (int64_t i = 0; i < k * part.width; ++i) to[i] = FloatOf(RoundToBf16(from[i]));
}

constexpr GemmKernels kKernels = {.rows = kGemmRows,
                                  .columns = kGemmColumns,
                                  .depth = kGemmDepth,
                                  .any_width = kAnyWidth,
                                  .tile = Tile,
                                  .gemv_rows = Gemv<kGemmRows>,
                                  .gemv_columns = Gemv<kGemmColumns>,
                                  .pack = Pack,
                                  .tiles = Tiles};

constexpr GemmKernels Rounded(GemmKernels kernels) {
  kernels.convert = RoundPanel;
  return kernels;
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(GemmKernels, kKernels)
OORT_DEFINE_KERNELS(RoundedGemmKernels, {.gemm = Rounded(kKernels)})
