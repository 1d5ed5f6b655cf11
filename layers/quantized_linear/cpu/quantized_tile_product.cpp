// SPDX-License-Identifier: MIT
// Many rows times quantized weights on tiles of 16-bit numbers: stretches of two panels in pieces
// of k.
#include <vector>

#include "core/parallel.h"
#include "layers/quantized_linear/cpu/quantized_job.h"

namespace oort {

/// Stretches of columns, one after the other on one thread.
struct QuantizedMultiplier::TileRun {
  const QuantizedMultiplier& multiplier;
  const QuantizedTileKernels& kernels;
  const Job& job;
  const TileScratch& scratch;
  const std::byte* a;
  std::byte* own;
  int64_t begin, end;  ///< of the stretches

  int sides() const { return job.product.gated ? 2 : 1; }
  float* sums(int side) const {
    return reinterpret_cast<float*>(own + scratch.piece_bytes + side * scratch.sums_bytes);
  }

  /// `start` is what the sums begin with, as wide as `to`; null for zeros. Between pieces of k the
  /// sums are kept in a dense buffer.
  void Multiply(int64_t index, int side, float* to, int64_t stride, const float* start = nullptr) {
    constexpr int64_t kStepOfA = kTileColumns * sizeof(uint16_t);  // 32 rows of a panel
    const auto [result, column] = StretchAt(job.product, kTileColumns, index);
    const QuantizedMatrix& matrix = *job.product.matrices[result + static_cast<size_t>(side)];
    const int64_t panel = column / kPanelRows;
    QuantizedTiles tiles;
    tiles.rows = job.product.rows;
    tiles.a_panel = scratch.padded * kStepOfA;
    tiles.piece.layout = matrix.layout();
    tiles.piece.panels[0] = matrix.panel(panel);
    if (panel + 1 < matrix.panels()) tiles.piece.panels[1] = matrix.panel(panel + 1);
    tiles.piece.ahead = 2 * matrix.panel_bytes();  // the next stretch of columns
    tiles.piece.to = reinterpret_cast<uint16_t*>(own);
    for (int64_t k0 = 0; k0 < scratch.padded; k0 += scratch.piece) {
      const bool first = k0 == 0, last = k0 + scratch.piece >= scratch.padded;
      tiles.piece.k0 = k0;
      tiles.piece.padded = std::min(k0 + scratch.piece, scratch.padded);
      tiles.piece.k = std::min(tiles.piece.padded, job.k);
      tiles.a = a + k0 * kStepOfA;
      tiles.start = first ? start : sums(side);
      tiles.start_stride = first ? stride : kTileColumns;
      tiles.sums = last ? to : sums(side);
      tiles.stride = last ? stride : kTileColumns;
      kernels.multiply(tiles);
    }
  }

  /// Whether sums of whole tiles, begun with the addend, are the result.
  bool IsPlain(size_t result, int64_t columns) const {
    const QuantizedProduct& product = job.product;
    const bool changed = product.gated || product.biases[result] != nullptr ||
                         (result == 0 && product.activation.kind != Activation::kNone);
    return !changed && columns == kTileColumns && product.rows % 16 == 0;
  }

  void Run() {
    kernels.begin();
    for (int64_t index = begin; index < end; ++index) {
      const auto [result, column] = StretchAt(job.product, kTileColumns, index);
      const int64_t width = job.product.matrices[result]->rows();
      const int64_t columns = std::min<int64_t>(kTileColumns, width - column);
      if (IsPlain(result, columns)) {
        const float* addend = result == 0 ? job.product.addend : nullptr;
        Multiply(index, 0, job.product.y[result] + column, width,
                 addend == nullptr ? nullptr : addend + column);
        continue;
      }
      for (int side = 0; side < sides(); ++side) Multiply(index, side, sums(side), kTileColumns);
      QuantizedFinish finish;
      finish.rows = static_cast<int>(job.product.rows);
      finish.z = sums(0);
      finish.up = job.product.gated ? sums(1) : nullptr;
      finish.z_stride = kTileColumns;
      FinishColumns(multiplier.kernels_, job.product, result, 0, column, static_cast<int>(columns),
                    finish);
    }
    kernels.end();
  }
};

bool QuantizedMultiplier::MultipliesF16(const QuantizedProduct& product) const {
  return f16_tiles_ != nullptr && AllQuantized(product) &&
         std::all_of(product.matrices.begin(), product.matrices.end(),
                     [](const auto& matrix) { return matrix->fits_f16(); });
}

/// Computes rows that f16 cannot hold, each on its own, so that its result does not depend on its
/// neighbours.
void QuantizedMultiplier::RunAlone(const Job& job, std::span<const bool> fits,
                                   std::byte* workspace) const {
  const QuantizedProduct& all = job.product;
  for (int64_t row = 0; row < all.rows; ++row) {
    if (fits[static_cast<size_t>(row)]) continue;
    std::vector<float*> y(job.results);
    for (size_t i = 0; i < job.results; ++i) y[i] = all.y[i] + row * all.matrices[i]->rows();
    QuantizedProduct alone = all;
    alone.rows = 1;
    alone.x += row * all.x_stride;
    alone.y = y;
    if (all.addend != nullptr) alone.addend += row * all.matrices[0]->rows();
    RunGemv(Job(alone, job.threads, workspace));
  }
}

void QuantizedMultiplier::RunTiles(const Job& job) const {
  const QuantizedProduct& product = job.product;
  const TileScratch scratch(gemm_, product.rows, job.k, product.gated);
  const bool f16 = MultipliesF16(product);
  const QuantizedTileKernels& kernels = f16 ? *f16_tiles_ : *tiles_;
  bool* const fits = reinterpret_cast<bool*>(job.workspace);
  std::byte* a = job.workspace + (f16 ? AlignLine(product.rows) : 0);
  std::byte* own = a + PackedRowsBytes(gemm_, product.rows, job.k);
  if (f16) {
    const int64_t panels = CeilDivide(product.rows, 32);
    ParallelFor(job.threads, panels, 1, [&](int64_t begin, int64_t end) {
      kernels.pack({product.x, product.x_stride, begin * 32, end * 32, product.rows, job.k,
                    scratch.padded, a, fits});
    });
  } else {
    const MatrixSource source(gemm_, {product.x, 1, product.x_stride});
    PackMatrix(gemm_, GemmSide::kA, product.rows, job.k, source, job.threads, a);
  }
  const int64_t all = CountStretches(product, job.results, kTileColumns);
  ParallelPlaces(job.threads, all, kManyGrains, [&](int place, int64_t begin, int64_t end) {
    TileRun{*this, kernels, job, scratch, a, own + place * scratch.bytes, begin, end}.Run();
  });
  if (f16) RunAlone(job, {fits, static_cast<size_t>(product.rows)}, a);
}

}  // namespace oort
