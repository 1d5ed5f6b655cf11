// SPDX-License-Identifier: MIT
// The epilogue of a matrix product: from the sums of a tile to C. Only for kernels of such
// products.
#pragma once

#include "cpu/activation_epilogue.h"
#include "cpu/gemm.h"
#include "cpu/vec.h"

namespace oort::OORT_ISA {

/// The kinds of epilogues. Each is compiled separately, so that a row takes a few instructions.
enum class End { kPlain, kAccumulate, kRowBias, kColumnBias };

/// Adds to each row of sums what belongs to it and writes finish(sum) to `target`.
template <End end, bool has_addend, int columns, typename Finish>
inline void FinishRows(const GemmTile& tile, const float* sums, float* target, int64_t stride,
                       const Finish& finish) {
  const int whole = tile.columns / Vec::kWidth * Vec::kWidth;
  const int rest = tile.columns - whole;
  const auto add = [&](Vec sum, Vec other, Vec addend) {
    if constexpr (end != End::kPlain) sum = sum + other;
    if constexpr (has_addend) sum = sum + addend;
    return finish(sum);
  };
  const float *c = tile.c, *addend = tile.addend;
  for (int r = 0; r < tile.rows; ++r, sums += columns, c += tile.ldc, target += stride) {
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

/// Applies cheap activations on the way to C, and the others to the buffer of the sums, which is in
/// the L1 cache.
template <End end, bool has_addend, int columns>
inline void FinishTile(const GemmTile& tile, float* sums) {
  const ActivationSpec& activation = tile.activation;
  const Vec low = Vec(activation.a), high = Vec(activation.b);
  const auto finish_rows = [&](auto finish) {
    FinishRows<end, has_addend, columns>(tile, sums, tile.c, tile.ldc, finish);
  };
  switch (activation.kind) {
    case Activation::kNone: return finish_rows([](Vec x) { return x; });
    case Activation::kRelu: return finish_rows([](Vec x) { return FastMax(0.0f, x); });
    case Activation::kClamp: return finish_rows([&](Vec x) { return Limit(x, low, high); });
    default: break;
  }
  const ActivationBlock block{tile.rows, tile.columns, tile.c, tile.ldc};
  if constexpr (end != End::kPlain || has_addend) {
    FinishRows<end, has_addend, columns>(tile, sums, sums, columns, [](Vec x) { return x; });
  }
  ActivateBlock<columns / Vec::kWidth>(activation, block, ActivationSource{sums, columns});
}

template <End end, int columns>
inline void FinishAs(const GemmTile& tile, float* sums) {
  if (tile.addend != nullptr) return FinishTile<end, true, columns>(tile, sums);
  FinishTile<end, false, columns>(tile, sums);
}

/// Adds what belongs to a tile's sums[rows][columns], applies the activation and writes C.
template <int columns>
inline void Finish(const GemmTile& tile, float* sums) {
  if (tile.accumulate) return FinishAs<End::kAccumulate, columns>(tile, sums);
  if (tile.row_bias != nullptr) return FinishAs<End::kRowBias, columns>(tile, sums);
  if (tile.column_bias != nullptr) return FinishAs<End::kColumnBias, columns>(tile, sums);
  FinishAs<End::kPlain, columns>(tile, sums);
}

}  // namespace oort::OORT_ISA
