// SPDX-License-Identifier: MIT
// Many rows times quantized weights on tiles of bf16: stretches of two panels in pieces of k, of
// which one is multiplied while the next is unpacked.
#include "core/parallel.h"
#include "cpu/compact/compact_job.h"

namespace oort {

/// One thread's stretches of columns, one after the other.
struct CompactMultiplier::TileRun {
  const CompactMultiplier& multiplier;
  const Job& job;
  const TileScratch& scratch;
  const std::byte* a;
  std::byte* own;
  int64_t begin, end;  ///< of the stretches
  int buffer = 0;      ///< which one holds what is multiplied

  int sides() const { return job.product.gated ? 2 : 1; }
  int64_t pieces() const { return CeilDivide(scratch.padded, scratch.piece); }
  float* sums(int side) const {
    return reinterpret_cast<float*>(own + 2 * scratch.piece_bytes + side * scratch.sums_bytes);
  }

  /// Which weights are multiplied at a time, in order.
  struct Place {
    int64_t index;  ///< of the stretch
    int side;
    int64_t piece;
  };
  Place After(Place place) const {
    if (++place.piece < pieces()) return place;
    place.piece = 0;
    if (++place.side < sides()) return place;
    return {place.index + 1, 0, 0};
  }

  TileStretch At(const Place& place, int to) const {
    const auto [result, column] = StretchAt(job.product, kTileColumns, place.index);
    const CompactMatrix& matrix = *job.product.matrices[result + static_cast<size_t>(place.side)];
    const int64_t panel = column / kCompactRows;
    TileStretch stretch;
    stretch.layout = matrix.layout();
    stretch.k0 = place.piece * scratch.piece;
    stretch.padded = std::min(stretch.k0 + scratch.piece, scratch.padded);
    stretch.k = std::min(stretch.padded, job.k);
    stretch.panels[0] = matrix.panel(panel);
    if (panel + 1 < matrix.panels()) stretch.panels[1] = matrix.panel(panel + 1);
    stretch.ahead = 2 * matrix.panel_bytes();  // the next stretch of columns
    stretch.to = reinterpret_cast<uint16_t*>(own + to * scratch.piece_bytes);
    return stretch;
  }

  /// `start`: what the sums begin with, as wide as `to`; null for zeros. Between pieces they are
  /// kept where they are near each other.
  void Multiply(int64_t index, int side, float* to, int64_t stride, const float* start = nullptr) {
    constexpr int64_t kStepOfA = kTileColumns * sizeof(uint16_t);  // 32 rows of a panel
    CompactTiles tiles;
    tiles.rows = job.product.rows;
    tiles.a_panel = scratch.padded * kStepOfA;
    for (Place place{index, side, 0}; place.index == index && place.side == side;) {
      const Place after = After(place);
      const int64_t k0 = place.piece * scratch.piece;
      TileStretch next;
      if (after.index < end) next = At(after, 1 - buffer);
      tiles.next = after.index < end ? &next : nullptr;
      tiles.a = a + k0 * kStepOfA;
      tiles.b = reinterpret_cast<const uint16_t*>(own + buffer * scratch.piece_bytes);
      tiles.steps = std::min(scratch.piece, scratch.padded - k0);
      const bool first = place.piece == 0, last = after.piece == 0;
      tiles.start = first ? start : sums(side);
      tiles.start_stride = first ? stride : kTileColumns;
      tiles.sums = last ? to : sums(side);
      tiles.stride = last ? stride : kTileColumns;
      multiplier.tiles_->multiply(tiles);
      buffer = 1 - buffer;
      place = after;
    }
  }

  /// Whether sums of whole tiles, begun with the addend, are the result.
  bool IsPlain(size_t result, int64_t columns) const {
    const CompactProduct& product = job.product;
    const bool changed = product.gated || product.biases[result] != nullptr ||
                         (result == 0 && product.activation.kind != Activation::kNone);
    return !changed && columns == kTileColumns && product.rows % 16 == 0;
  }

  void Run() {
    if (begin == end) return;
    multiplier.tiles_->begin();
    multiplier.tiles_->unpack(At({begin, 0, 0}, buffer));
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
      CompactFinish finish;
      finish.rows = static_cast<int>(job.product.rows);
      finish.z = sums(0);
      finish.up = job.product.gated ? sums(1) : nullptr;
      finish.z_stride = kTileColumns;
      FinishColumns(multiplier.kernels_, job.product, result, column, static_cast<int>(columns),
                    finish);
    }
    multiplier.tiles_->end();
  }
};

void CompactMultiplier::RunTiles(const Job& job) const {
  const CompactProduct& product = job.product;
  const TileScratch scratch(gemm_, product.rows, job.k, product.gated);
  std::byte* a = job.workspace;
  std::byte* own = a + PackedRowsBytes(gemm_, product.rows, job.k);
  const MatrixSource source(gemm_, {product.x, 1, product.x_stride});
  PackMatrix(gemm_, GemmSide::kA, product.rows, job.k, source, job.threads, a);
  const int64_t all = CountStretches(product, job.results, kTileColumns);
  const int pieces = static_cast<int>(std::min<int64_t>(std::max(1, job.threads), all));
  ParallelPieces(job.threads, pieces, kManyGrains, [&](int piece) {
    TileRun{*this,
            job,
            scratch,
            a,
            own + piece * scratch.bytes,
            all * piece / pieces,
            all * (piece + 1) / pieces}
        .Run();
  });
}

}  // namespace oort
