// SPDX-License-Identifier: MIT
#include "cpu/gemm.h"
#include "cpu/gemm_tile.h"
#include "cpu/vec.h"

namespace oort::OORT_ISA {
namespace {

Vec Clamp(Vec x, float low, float high) {
  return Min(Max(x, Vec(low)), Vec(high));
}

/// The rest of a tile's work on one vector of C, of `count` elements: what is to be added to the
/// sums, and the limits.
template <typename Load, typename Store>
void FinishVector(const GemmTile& tile, int row, int column, Vec sum, Load load, Store store) {
  float* c = tile.c + row * tile.ldc + column;
  if (tile.accumulate) {
    sum = sum + load(c);
  } else if (tile.row_bias != nullptr) {
    sum = sum + Vec(tile.row_bias[row]);
  } else if (tile.column_bias != nullptr) {
    sum = sum + load(tile.column_bias + column);
  }
  if (tile.clamp) sum = Clamp(sum, tile.low, tile.high);
  store(sum, c);
}

void Finish(const GemmTile& tile, const float* sums) {
  const int whole = tile.columns / Vec::kWidth * Vec::kWidth;
  const int rest = tile.columns - whole;
  for (int r = 0; r < tile.rows; ++r, sums += kGemmColumns) {
    for (int c = 0; c < whole; c += Vec::kWidth) {
      FinishVector(
          tile, r, c, Vec::Load(sums + c), [](const float* p) { return Vec::Load(p); },
          [](Vec v, float* p) { v.Store(p); });
    }
    if (rest > 0) {
      FinishVector(
          tile, r, whole, Vec::Load(sums + whole),
          [rest](const float* p) { return Vec::LoadPartial(p, rest); },
          [rest](Vec v, float* p) { v.StorePartial(p, rest); });
    }
  }
}

using ComputeFunction = void (*)(int64_t k, const float* a, const float* b, float* out);

template <int rows, int... v>
ComputeFunction ForVectors(int vectors, std::integer_sequence<int, v...>) {
  static constexpr ComputeFunction kTable[] = {Compute<rows, v + 1>...};
  return kTable[vectors - 1];
}

void Tile(const GemmTile& tile) {
  alignas(64) float sums[kGemmRows * kGemmColumns];
  const int vectors = (tile.columns + Vec::kWidth - 1) / Vec::kWidth;
  constexpr auto kVectors = std::make_integer_sequence<int, kGemmVectors>{};
  constexpr int kHalf = kGemmRows / 2;
  const ComputeFunction compute = tile.rows <= kHalf ? ForVectors<kHalf>(vectors, kVectors)
                                                     : ForVectors<kGemmRows>(vectors, kVectors);
  compute(tile.k, tile.a, tile.b, sums);
  Finish(tile, sums);
}

/// Reads up to a vector beyond the panel, which the slack behind packed matrices allows.
template <int width>
void Gemv(const GemvPanel& p) {
  constexpr int kVectors = (width + Vec::kWidth - 1) / Vec::kWidth;
  constexpr int kSteps = 4;  // independent sums, so that additions do not wait for each other
  Vec sums[kSteps][kVectors];
  Unroll<kSteps>([&](auto s) { Unroll<kVectors>([&](auto v) { sums[s][v] = Vec::Zero(); }); });
  const float* panel = p.panel;
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
    const Vec y = Vec(total[i] + (p.bias != nullptr ? p.bias[i] : 0.0f));
    Clamp(y, p.low, p.high).StorePartial(p.y + i * p.y_stride, 1);
  }
}

/// i contiguous in memory: whole rows of the panel are copied.
template <int width>
void PackRows(const float* source, int64_t stride, int64_t k, float* panel) {
  for (; k > 0; --k, source += stride, panel += width) {
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
  for (int64_t j = 0; j < k; ++j, panel += width) {
    for (int i = 0; i < width; ++i) panel[i] = source[i * stride + j];
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

void Pack(const StridedMatrix& m, int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width,
          float* panel) {
  if (k0 == k1) return;
  const float* source = m.data + k0 * m.k_stride + i0 * m.i_stride;
  const int count = static_cast<int>(i1 - i0);
  if (count == width) {
    if (width == kGemmRows && PackWhole<kGemmRows>(m, source, k1 - k0, panel)) return;
    if (width == kGemmColumns && PackWhole<kGemmColumns>(m, source, k1 - k0, panel)) return;
  }
  for (int64_t k = k0; k < k1; ++k, source += m.k_stride, panel += width) {
    for (int i = 0; i < count; ++i) panel[i] = source[i * m.i_stride];
    for (int i = count; i < width; ++i) panel[i] = 0.0f;
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(GemmKernels, {.rows = kGemmRows,
                                  .columns = kGemmColumns,
                                  .depth = kGemmDepth,
                                  .tile = Tile,
                                  .gemv_rows = Gemv<kGemmRows>,
                                  .gemv_columns = Gemv<kGemmColumns>,
                                  .pack = Pack})
