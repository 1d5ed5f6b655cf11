// SPDX-License-Identifier: MIT
// Several rows times quantized weights on tiles of bytes: each thread unpacks a stretch of two
// panels, which stays in its caches while all rows pass by.
#include <algorithm>

#include "core/parallel.h"
#include "layers/quantized_linear/cpu/quantized_job.h"
#include "layers/quantized_linear/cpu/row_forms.h"

namespace oort {
namespace {

constexpr int64_t kStretchPanels = 2;
constexpr int64_t kStretchColumns = kStretchPanels * kPanelRows;
/// Rows whose epilogue runs together.
constexpr int64_t kTileChunkRows = 4 * kBlockRows;

/// The most that a panel of these matrices takes as bytes.
int64_t MostPanelBytes(const QuantizedProduct& product) {
  int64_t most = 0;
  for (const auto& matrix : product.matrices) {
    most = std::max(most, BytePanel::Bytes(matrix->layout(), matrix->columns()));
  }
  return most;
}

int64_t SidesOf(const QuantizedProduct& product) { return product.gated ? 2 : 1; }

/// What one thread needs.
int64_t StretchBytes(const QuantizedProduct& product) {
  return CheckedMultiply<int64_t>(MostPanelBytes(product), kStretchPanels * SidesOf(product));
}

}  // namespace

bool QuantizedMultiplier::UsesByteTiles(const QuantizedProduct& product, bool two_bytes) const {
  if (byte_tiles_ == nullptr || product.rows < byte_tiles_->fewest_rows) return false;
  const bool of_two = two_bytes && (AnyBytes(product, 0) || AnyBytes(product, 1));
  return AllQuantized(product) && (byte_tiles_->two_bytes || !of_two);
}

int64_t QuantizedMultiplier::ByteTileWorkspace(const QuantizedProduct& product, int threads) const {
  const int64_t own = CheckedMultiply<int64_t>(StretchBytes(product), std::max(1, threads));
  return CheckedAdd(RowForms(product, false, false).bytes, own);
}

void QuantizedMultiplier::RunByteTiles(const Job& job, bool two_bytes) const {
  const QuantizedProduct& product = job.product;
  const RowForms forms(product, false, false);
  ByteRows x[2];
  std::byte* own = job.workspace;
  for (const size_t piece : {0, 1}) {
    if (!forms.plain[piece]) continue;
    const ByteScratch scratch(product, piece, two_bytes);
    x[piece] = scratch.Fill(kernels_, product, job.threads, own);
    own += scratch.bytes;
  }
  const int64_t panel_bytes = MostPanelBytes(product), sides = SidesOf(product);
  const auto run = [&](int64_t index, std::byte* memory) {
    const auto [result, column] = StretchAt(product, kStretchColumns, index);
    const int64_t columns = std::min(kStretchColumns, product.matrices[result]->rows() - column);
    const int64_t panels = CeilDivide(columns, kPanelRows);
    ByteTiles tiles[2 * kStretchPanels];
    for (int64_t i = 0; i < sides * panels; ++i) {
      const QuantizedMatrix& matrix = *product.matrices[result + static_cast<size_t>(i / panels)];
      ByteTiles& to = tiles[i];
      to.layout = matrix.layout();
      to.k = job.k;
      to.panel =
          byte_tiles_->unpack(to.layout, job.k, matrix.panel(column / kPanelRows + i % panels),
                              memory + i * panel_bytes);
      to.y_stride = kStretchColumns;
    }
    alignas(64) float z[2][kTileChunkRows * kStretchColumns];
    for (int64_t row = 0; row < product.rows; row += kTileChunkRows) {
      const int rows = static_cast<int>(std::min(kTileChunkRows, product.rows - row));
      for (int64_t i = 0; i < sides * panels; ++i) {
        tiles[i].x = x[PieceOf(tiles[i].layout)].From(row);
        tiles[i].rows = rows;
        tiles[i].y = z[i / panels] + i % panels * kPanelRows;
        byte_tiles_->multiply(tiles[i]);
      }
      QuantizedFinish finish;
      finish.rows = rows;
      finish.z = z[0];
      finish.up = product.gated ? z[1] : nullptr;
      finish.z_stride = kStretchColumns;
      FinishColumns(kernels_, product, result, row, column, static_cast<int>(columns), finish);
    }
  };
  const int64_t all = CountStretches(product, job.results, kStretchColumns);
  const int64_t stretch_bytes = StretchBytes(product);
  ParallelPlaces(job.threads, all, kManyGrains, [&](int place, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run(i, own + place * stretch_bytes);
  });
}

}  // namespace oort
