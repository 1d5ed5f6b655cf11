// SPDX-License-Identifier: MIT
#include "cpu/gemm.h"
#include "cpu/activation_epilogue.h"
#include "cpu/gemm_tile.h"
#include "cpu/vec.h"

namespace oort::OORT_ISA {
namespace {

/// How a tile's sums end: each kind is compiled for itself, so that a row takes a few instructions.
enum class End { kPlain, kAccumulate, kRowBias, kColumnBias };

/// Adds to each row of sums what belongs to it and writes finish(sum) to `target`.
template <End end, bool has_addend, typename Finish>
void FinishRows(const GemmTile& tile, const float* sums, float* target, int64_t stride,
                const Finish& finish) {
  const int whole = tile.columns / Vec::kWidth * Vec::kWidth;
  const int rest = tile.columns - whole;
  const auto add = [&](Vec sum, Vec other, Vec addend) {
    if constexpr (end != End::kPlain) sum = sum + other;
    if constexpr (has_addend) sum = sum + addend;
    return finish(sum);
  };
  const float *c = tile.c, *addend = tile.addend;
  for (int r = 0; r < tile.rows; ++r, sums += kGemmColumns, c += tile.ldc, target += stride) {
    const Vec row_bias = end == End::kRowBias ? Vec(tile.row_bias[r]) : Vec::Zero();
    const float* other = end == End::kAccumulate ? c : tile.column_bias;
    constexpr bool kLoads = end == End::kAccumulate || end == End::kColumnBias;
    for (int i = 0; i < whole; i += Vec::kWidth) {
      const Vec added = kLoads ? Vec::Load(other + i) : row_bias;
      const Vec last = has_addend ? Vec::Load(addend + i) : Vec::Zero();
      add(Vec::Load(sums + i), added, last).Store(target + i);
    }
    if (rest > 0) {
      const Vec added = kLoads ? Vec::LoadPartial(other + whole, rest) : row_bias;
      const Vec last = has_addend ? Vec::LoadPartial(addend + whole, rest) : Vec::Zero();
      add(Vec::Load(sums + whole), added, last).StorePartial(target + whole, rest);
    }
    if constexpr (has_addend) addend += tile.addend_stride;
  }
}

/// The cheap activations on the way to C; the others from the buffer of the sums, which is in the
/// L1 cache.
template <End end, bool has_addend>
void FinishAs(const GemmTile& tile, float* sums) {
  const ActivationSpec& activation = tile.activation;
  const Vec low = Vec(activation.a), high = Vec(activation.b);
  const auto finish_rows = [&](auto finish) {
    FinishRows<end, has_addend>(tile, sums, tile.c, tile.ldc, finish);
  };
  switch (activation.kind) {
    case Activation::kNone: return finish_rows([](Vec x) { return x; });
    case Activation::kRelu: return finish_rows([](Vec x) { return formulas::Relu(x); });
    case Activation::kClamp:
      return finish_rows([&](Vec x) { return formulas::Clamp(x, low, high); });
    default: break;
  }
  const ActivationBlock block{tile.rows, tile.columns, tile.c, tile.ldc};
  if constexpr (end != End::kPlain || has_addend) {
    FinishRows<end, has_addend>(tile, sums, sums, kGemmColumns, [](Vec x) { return x; });
  }
  ActivateBlock<kGemmVectors>(activation, block, ActivationSource{sums, kGemmColumns});
}

template <End end>
void FinishAs(const GemmTile& tile, float* sums) {
  if (tile.addend != nullptr) return FinishAs<end, true>(tile, sums);
  FinishAs<end, false>(tile, sums);
}

void Finish(const GemmTile& tile, float* sums) {
  if (tile.accumulate) return FinishAs<End::kAccumulate>(tile, sums);
  if (tile.row_bias != nullptr) return FinishAs<End::kRowBias>(tile, sums);
  if (tile.column_bias != nullptr) return FinishAs<End::kColumnBias>(tile, sums);
  FinishAs<End::kPlain>(tile, sums);
}

using ComputeFunction = void (*)(int64_t k, const float* a, const float* b, float* out);

template <int rows, int... v>
ComputeFunction ForVectors(int vectors, std::integer_sequence<int, v...>) {
  static constexpr ComputeFunction kTable[] = {Compute<rows, v + 1>...};
  return kTable[vectors - 1];
}

/// Most tiles are whole: their sums never leave the registers before they are complete.
bool IsWhole(const GemmTile& tile) {
  return tile.rows == kGemmRows && tile.columns == kGemmColumns && tile.k > 0 &&
         (tile.accumulate || tile.row_bias == nullptr);
}

/// Cheap activations are applied there, too; the others to what is in the L1 cache. The sums are
/// the same in both cases, so that fusing an activation changes no bit.
void TileInRegisters(const GemmTile& tile) {
  alignas(64) static constexpr float kZeros[kGemmColumns] = {};
  alignas(64) float sums[kGemmRows * kGemmColumns];
  const ActivationSpec& activation = tile.activation;
  const bool relu = activation.kind == Activation::kRelu;
  const bool clamp = relu || activation.kind == Activation::kClamp;
  const bool direct = clamp || activation.kind == Activation::kNone;
  WholeTile whole;
  whole.k = tile.k;
  whole.a = tile.a;
  whole.b = tile.b;
  whole.c = direct ? tile.c : sums;
  whole.ldc = direct ? tile.ldc : kGemmColumns;
  if (tile.accumulate) {
    whole.init = tile.c;
    whole.init_stride = tile.ldc;
  } else {
    whole.init = tile.column_bias != nullptr ? tile.column_bias : kZeros;
  }
  whole.addend = tile.addend;
  whole.addend_stride = tile.addend_stride;
  whole.clamp = clamp;
  whole.low = relu ? 0.0f : activation.a;
  whole.high = relu ? __builtin_inff() : activation.b;
  ComputeWhole(whole);
  if (direct) return;
  ActivateBlock<kGemmVectors>(activation, {tile.rows, tile.columns, tile.c, tile.ldc},
                              ActivationSource{sums, kGemmColumns});
}

void Tile(const GemmTile& tile) {
  if (IsWhole(tile)) return TileInRegisters(tile);
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
