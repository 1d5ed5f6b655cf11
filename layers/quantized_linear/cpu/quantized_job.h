// SPDX-License-Identifier: MIT
// What the ways of multiplying have in common. Only for quantized_*product.cpp.
#pragma once

#include <algorithm>

#include "core/checked.h"
#include "layers/quantized_linear/cpu/quantized_matrix.h"

namespace oort {

inline constexpr int64_t kProductSlack = 512;  // bytes behind panels that kernels may read

inline int64_t AlignLine(int64_t bytes) {
  return static_cast<int64_t>(AlignUp(static_cast<size_t>(bytes), 64));
}

inline bool AllQuantized(const QuantizedProduct& product) {
  return std::all_of(product.matrices.begin(), product.matrices.end(),
                     [](const auto& matrix) { return matrix->layout().quantized(); });
}

/// `row` is the first of the rows of x, `column` the first of the result.
inline void FinishColumns(const QuantizedKernels& kernels, const QuantizedProduct& product,
                          size_t result, int64_t row, int64_t column, int columns,
                          QuantizedFinish finish) {
  const auto at = [&](const float* p) { return p == nullptr ? nullptr : p + column; };
  finish.columns = columns;
  finish.bias = at(product.biases[result]);
  if (product.gated) finish.up_bias = at(product.biases[1]);
  const int64_t width = product.matrices[result]->rows();
  if (result == 0) {
    finish.activation = product.activation;
    if (product.addend != nullptr) finish.addend = product.addend + row * width + column;
    finish.addend_stride = width;
  }
  finish.y = product.y[result] + row * width + column;
  finish.y_stride = width;
  kernels.finish(finish);
}

struct QuantizedMultiplier::Job {
  const QuantizedProduct& product;
  int threads;
  std::byte* workspace;
  int64_t k;
  size_t results;  // 1 where gated

  Job(const QuantizedProduct& p, int t, std::byte* w)
      : product(p),
        threads(t),
        workspace(w),
        k(p.matrices[0]->columns()),
        results(p.gated ? 1 : p.matrices.size()) {}
};

/// Counts stretches of rows of all results: which result, and from which row on.
struct Stretch {
  size_t result;
  int64_t row;
};

inline int64_t CountStretches(const QuantizedProduct& product, size_t results, int64_t width) {
  int64_t count = 0;
  for (size_t i = 0; i < results; ++i) count += CeilDivide(product.matrices[i]->rows(), width);
  return count;
}

inline Stretch StretchAt(const QuantizedProduct& product, int64_t width, int64_t index) {
  size_t result = 0;
  for (;; ++result) {
    const int64_t here = CeilDivide(product.matrices[result]->rows(), width);
    if (index < here) return {result, index * width};
    index -= here;
  }
}

inline int64_t PackedRowsBytes(const GemmKernels& gemm, int64_t rows, int64_t k) {
  return AlignLine(PackedBytes(gemm, GemmSide::kA, rows, k) + kProductSlack);
}

/// What one thread needs for the kernels on tiles: a piece of a stretch of columns, and the sums of
/// one or two stretches.
struct TileScratch {
  int64_t padded;
  int64_t piece;  ///< steps of k, about as many in each
  int64_t piece_bytes, sums_bytes, bytes;
  TileScratch(const GemmKernels& gemm, int64_t rows, int64_t k, bool gated)
      : padded(gemm.format.Padded(k)),
        piece(CeilDivide(padded, 32 * CeilDivide(padded, kTilePiece)) * 32),
        piece_bytes(piece * kTileColumns * 2),
        sums_bytes(static_cast<int64_t>(AlignUp(static_cast<size_t>(rows), 16)) * kTileColumns * 4),
        bytes(piece_bytes + (gated ? 2 : 1) * sums_bytes) {}
};

}  // namespace oort
