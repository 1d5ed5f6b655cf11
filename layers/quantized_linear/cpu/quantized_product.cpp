// SPDX-License-Identifier: MIT
// Products with quantized weights. Few rows (decode): a GEMV multiplies the quantized numbers
// themselves; a few panels of weights, which are read once from memory, meet all rows before the
// next panels come. Many rows (prefill): where the processor has units for 16-bit numbers, a few
// panels at a time are dequantized for these; else they are products of bytes, too.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/checked.h"
#include "core/parallel.h"
#include "layers/quantized_linear/cpu/quantized_job.h"
#include "layers/quantized_linear/cpu/quantized_matrix.h"
#include "layers/quantized_linear/cpu/row_forms.h"

namespace oort {
namespace {

/// Rows that meet a few panels together: as many as stay in the L1 cache beside one of these.
constexpr int64_t kChunkRows = 3 * kBlockRows;
static_assert(kChunkRows % (2 * kBlockPairs) == 0);
/// The results whose epilogue runs together. For one row these are those of 128 panels: with 8
/// panels at a time decode was 3 to 7 % slower.
constexpr int64_t kFinishResults = 128 * kPanelRows;
constexpr int64_t kUnpackSteps = 64;  // of k that are unpacked at a time

void FetchFirst(const QuantizedMatrix& matrix) {
  constexpr int64_t kBytes = 8192;
  const std::byte* first = matrix.panel(0);
  for (int64_t at = 0; at < std::min(kBytes, matrix.panel_bytes()); at += 64) {
    __builtin_prefetch(first + at, 0, 2);
  }
}

/// Where part `begin / count` of what is multiplied next starts; null where nothing is.
const std::byte* PartOfNext(const QuantizedProduct& product, int64_t begin, int64_t count) {
  if (product.next.empty()) return nullptr;
  return product.next.data() + static_cast<int64_t>(product.next.size()) / count * begin;
}

/// What one thread needs to unpack a stretch of columns for the blocked product.
struct UnpackScratch {
  int64_t unit;         ///< columns at a time: whole panels of both kinds
  int64_t panel_bytes;  ///< of one panel of the blocked product
  int64_t panels;       ///< of a unit
  int64_t sides;        ///< 2 where gated
  int64_t steps_bytes, sums_bytes, bytes;

  UnpackScratch(const GemmKernels& gemm, int64_t rows, int64_t k, bool gated)
      : unit(std::lcm<int64_t>(kPanelRows, gemm.columns)),
        panel_bytes(AlignLine(gemm.format.Padded(k) * gemm.columns * gemm.format.element)),
        panels(unit / gemm.columns),
        sides(gated ? 2 : 1),
        steps_bytes(AlignLine(kUnpackSteps * (unit + gemm.columns) * 4)),
        sums_bytes(gated ? AlignLine(rows * unit * 4) : 0),
        bytes(panels * panel_bytes + kProductSlack + steps_bytes + sides * sums_bytes) {}
};

/// Fills the panels of a unit of columns, in bf16 straight from the weights.
void UnpackUnitBf16(const DequantizeKernels& kernels, const NibbleKernels* nibbles,
                    const GemmKernels& gemm, const QuantizedMatrix& matrix, int64_t first_row,
                    const UnpackScratch& scratch, std::byte* panels) {
  const int64_t columns = gemm.columns, k = matrix.columns(), padded = gemm.format.Padded(k);
  const int group = gemm.format.b_group;
  const auto unpack = group == 2 ? kernels.unpack_pairs : kernels.unpack_fours;
  const bool by_fmlal = group == 4 && nibbles != nullptr && DequantizesByFmlal(matrix.layout());
  const int64_t end = std::min(first_row + scratch.unit, kPanelRows * matrix.panels());
  for (int64_t row = first_row; row < end; row += kPanelRows) {
    Bf16Target to;
    to.step = columns * group;
    for (int block = 0; block < kPanelRows / 4; ++block) {
      const int64_t column = row - first_row + 4 * block;
      to.blocks[block] =
          reinterpret_cast<uint16_t*>(panels + column / columns * scratch.panel_bytes) +
          column % columns * group;
    }
    const std::byte* panel = matrix.panel(row / kPanelRows);
    if (by_fmlal) {
      nibbles->unpack_fours(matrix.layout(), panel, k, to);
    } else {
      unpack(matrix.layout(), panel, 0, k, to);
    }
  }
  const int64_t used = CeilDivide(k, group) * group;
  for (int64_t p = 0; p < scratch.panels && used < padded; ++p) {
    uint16_t* panel = reinterpret_cast<uint16_t*>(panels + p * scratch.panel_bytes);
    std::fill(panel + used * columns, panel + padded * columns, uint16_t{0});
  }
}

/// Whether kernels take bf16 in an order that the weights can be unpacked to.
bool UnpacksBf16(const DequantizeKernels& kernels, const GemmKernels& gemm) {
  if (gemm.format.element != 2) return false;
  if (gemm.format.b_group == 2) return gemm.columns % kPanelRows == 0;
  return gemm.format.b_group == 4 && gemm.columns % 4 == 0 && kernels.unpack_fours != nullptr;
}

/// The same for any kernels, by way of f32.
void UnpackUnit(const DequantizeKernels& kernels, const GemmKernels& gemm,
                const QuantizedMatrix& matrix, int64_t first_row, const UnpackScratch& scratch,
                std::byte* panels, float* steps) {
  const int64_t columns = gemm.columns, k = matrix.columns();
  float* one = steps + kUnpackSteps * scratch.unit;
  const int64_t unit =
      std::min(scratch.unit, kPanelRows * (matrix.panels() - first_row / kPanelRows));
  for (int64_t k0 = 0; k0 < k; k0 += kUnpackSteps) {
    const int64_t k1 = std::min(k0 + kUnpackSteps, k), count = k1 - k0;
    for (int64_t i = 0; i < unit; i += kPanelRows) {
      kernels.unpack(matrix.layout(), matrix.panel((first_row + i) / kPanelRows), k0, k1, steps + i,
                     scratch.unit);
    }
    for (int64_t p = 0; p * columns < unit; ++p) {
      const float* from = steps + p * columns;
      if (scratch.unit != columns) {
        for (int64_t s = 0; s < count; ++s) {
          std::copy_n(from + s * scratch.unit, columns, one + s * columns);
        }
        from = one;
      }
      std::byte* to = panels + p * scratch.panel_bytes + k0 * columns * gemm.format.element;
      if (gemm.convert != nullptr) {
        gemm.convert(from, count, {GemmSide::kB, gemm.columns, to});
      } else {
        std::copy_n(from, count * columns, reinterpret_cast<float*>(to));
      }
    }
  }
}

/// Tiles of one panel of columns under all rows; epilogues where `last` holds them.
struct ColumnTiles {
  const GemmKernels& gemm;
  int64_t rows, k;
  const std::byte* a;
  const std::byte* b;
  float* c = nullptr;
  int64_t ldc = 0;
  int columns = 0;
  const float* bias = nullptr;
  const float* addend = nullptr;
  ActivationSpec activation = {};

  /// All tiles of a stretch of k are computed before the next stretch, so that its part of B stays
  /// in the cache.
  void Run() const {
    const int64_t padded = gemm.format.Padded(k);
    const int64_t pieces = std::max<int64_t>(1, CeilDivide(padded, gemm.depth));
    const int64_t step = gemm.format.Padded(CeilDivide(padded, pieces));
    for (int64_t k0 = 0; k0 < padded; k0 += step) RunPiece(k0, std::min(k0 + step, padded), padded);
  }

 private:
  void RunPiece(int64_t k0, int64_t k1, int64_t padded) const {
    const int64_t a_panel = padded * gemm.rows * gemm.format.element;
    GemmTile tile;
    tile.k = k1 - k0;
    tile.b = b + k0 * gemm.columns * gemm.format.element;
    tile.ldc = ldc;
    tile.columns = columns;
    tile.accumulate = k0 > 0;
    tile.column_bias = bias;
    if (k1 == padded) tile.activation = activation;
    const auto tile_at = [&](int64_t row) {
      tile.a = a + row / gemm.rows * a_panel + k0 * gemm.rows * gemm.format.element;
      tile.c = c + row * ldc;
      tile.rows = static_cast<int>(std::min<int64_t>(gemm.rows, rows - row));
      if (addend == nullptr || k1 < padded) return;
      tile.addend = addend + row * ldc;
      tile.addend_stride = ldc;
    };
    int64_t row = 0;
    if (const int64_t whole = rows / gemm.rows; whole > 0 && gemm.tiles_below != nullptr) {
      tile_at(0);
      if (gemm.tiles_below(tile, whole, a_panel)) row = whole * gemm.rows;
    }
    for (; row < rows; row += gemm.rows) {
      tile_at(row);
      gemm.tile(tile);
    }
  }
};

}  // namespace

QuantizedMultiplier::QuantizedMultiplier(Isa isa, Precision precision, bool nibbles)
    : kernels_(QuantizedKernelsFor(isa)),
      unpack_(DequantizeKernelsFor(isa)),
      dot_(precision == Precision::kF32 ? nullptr : QuantizedDotKernelsFor(isa)),
      nibbles_(dot_ == nullptr || !nibbles ? nullptr : NibbleKernelsFor(isa)),
      pairs_(nibbles_ == nullptr ? nullptr : PairKernelsFor(isa)),
      byte_tiles_(dot_ == nullptr || nibbles_ != nullptr ? nullptr : ByteTileKernelsFor(isa)),
      tiles_(precision == Precision::kF32 ? nullptr : QuantizedTileKernelsFor(isa)),
      f16_tiles_(tiles_ == nullptr || dot_ == nullptr ? nullptr : QuantizedF16TileKernelsFor(isa)),
      gemm_(GemmKernelsFor(isa, precision)) {}

ScaleStorage QuantizedMultiplier::scales() const {
  return dot_ != nullptr && dot_->byte_scales ? ScaleStorage::kBytes : ScaleStorage::kStored;
}

int64_t QuantizedMultiplier::InvariantRows(const QuantizedProduct& product) const {
  // Of many rows, weights of 8 bits take one byte of x in tiles, which is faster than two.
  const bool any_of_8_bits = std::ranges::any_of(product.matrices, [](const auto& matrix) {
    return matrix->layout().type == WeightType::kInt8;
  });
  const bool one_way = OnlyBytes(product) && !any_of_8_bits;
  return product.apart || one_way ? std::numeric_limits<int64_t>::max() : kMostGemvRows;
}

int64_t QuantizedMultiplier::MostAnswers(const QuantizedProduct& product) const {
  if (!has_16_bit_units()) return std::numeric_limits<int64_t>::max();
  if (pairs_ == nullptr) return kMostGemvRows;
  int64_t most = std::numeric_limits<int64_t>::max();
  for (const auto& matrix : product.matrices) {
    most = std::min(most, MostPairedRows(matrix->layout()));
  }
  return most;
}

bool QuantizedMultiplier::OnlyBytes(const QuantizedProduct& product) const {
  return byte_tiles_ != nullptr && AllQuantized(product) && !has_16_bit_units();
}

size_t QuantizedMultiplier::Workspace(const QuantizedProduct& product, int threads) const {
  const int64_t k = product.matrices[0]->columns();
  const auto form_bytes = [&](const QuantizedProduct& of) {
    const bool bytes = dot_ != nullptr && AllQuantized(of);
    return bytes ? RowForms(of, nibbles_ != nullptr, pairs_ != nullptr).bytes : 0;
  };
  // Who asks may not know yet whether rows are apart.
  int64_t few = form_bytes(product);
  if (UsesByteTiles(product, false)) few = std::max(few, ByteTileWorkspace(product, threads));
  if (product.rows <= InvariantRows(product) || OnlyBytes(product)) return static_cast<size_t>(few);
  const int64_t scratch =
      tiles_ != nullptr && AllQuantized(product)
          ? TileScratch(gemm_, product.rows, k, product.gated).bytes
          : AlignLine(UnpackScratch(gemm_, product.rows, k, product.gated).bytes);
  const int64_t many = CheckedAdd(PackedRowsBytes(gemm_, product.rows, k),
                                  CheckedMultiply<int64_t>(scratch, std::max(1, threads)));
  if (!MultipliesF16(product)) return static_cast<size_t>(std::max(few, many));
  QuantizedProduct alone = product;  // see RunAlone
  alone.rows = 1;
  const int64_t f16 = CheckedAdd(std::max(many, form_bytes(alone)), AlignLine(product.rows));
  return static_cast<size_t>(std::max(few, f16));
}

void QuantizedMultiplier::Run(const QuantizedProduct& product, int threads,
                              std::byte* workspace) const {
  if (product.rows == 0) return;
  const Job job(product, threads, workspace);
  const bool invariant = product.rows <= InvariantRows(product);
  if (invariant || OnlyBytes(product)) {
    if (UsesByteTiles(product, invariant)) return RunByteTiles(job, invariant);
    RunGemv(job);
  } else if (tiles_ != nullptr && AllQuantized(product)) {
    RunTiles(job);
  } else {
    RunGemm(job);
  }
}

/// Rows of x in the forms that the matrices of a product take, times their panels.
struct QuantizedMultiplier::GemvRun {
  /// Some rows of x, from a whole block on.
  struct Rows {
    int64_t first;
    int count;
  };

  const QuantizedMultiplier& multiplier;
  const Job& job;
  bool bytes;
  ByteRows x[2];  ///< in pieces of 32 and 16
  NibbleRows nibble_x;
  BytePairs byte_pairs;      ///< null where there are none
  NibblePairs nibble_pairs;  ///< likewise
  LowPairs<32> low_pairs_32;
  LowPairs<16> low_pairs_16;

  GemvRun(const QuantizedMultiplier& with, const Job& of)
      : multiplier(with), job(of), bytes(with.dot_ != nullptr && AllQuantized(of.product)) {
    if (!bytes) return;
    const RowForms forms(job.product, with.nibbles_ != nullptr, with.pairs_ != nullptr);
    std::byte* to = job.workspace;
    if (forms.nibbles) {
      const NibbleScratch scratch(job.product);
      nibble_x = scratch.Fill(*with.nibbles_, job.product, job.threads, to);
      to += scratch.bytes;
    }
    for (const size_t piece : {0, 1}) {
      if (!forms.plain[piece]) continue;
      const ByteScratch scratch(job.product, piece, true);
      x[piece] = scratch.Fill(with.kernels_, job.product, job.threads, to);
      to += scratch.bytes;
    }
    FillPairs(forms, to);
  }

  /// The rows above, two by two.
  void FillPairs(const RowForms& forms, std::byte* to) {
    if (forms.in_pairs[0]) {
      const BytePairScratch scratch(job.product);
      byte_pairs = scratch.Fill(*multiplier.pairs_, job.product, job.threads, x[0], to);
      to += scratch.bytes;
    }
    if (forms.in_pairs[1]) {
      const NibblePairScratch scratch(job.product);
      nibble_pairs = scratch.Fill(*multiplier.pairs_, job.product, job.threads, nibble_x, to);
      to += scratch.bytes;
    }
    if (forms.low_pairs[0]) {
      const LowPairScratch<32> scratch(job.product);
      low_pairs_32 =
          scratch.Fill(multiplier.pairs_->from_low_32, job.product, job.threads, x[0], to);
      to += scratch.bytes;
    }
    if (forms.low_pairs[1]) {
      const LowPairScratch<16> scratch(job.product);
      low_pairs_16 =
          scratch.Fill(multiplier.pairs_->from_low_16, job.product, job.threads, x[1], to);
    }
  }

  /// Panels [first, end) of those up to `last` that this thread multiplies.
  void Multiply(const QuantizedMatrix& matrix, int64_t first, int64_t end, int64_t last,
                const std::byte* next, Rows rows, float* y, int64_t stride) const {
    const QuantizedProduct& product = job.product;
    const auto run = [&](auto dot, const auto& of) {
      dot({matrix.layout(), job.k, matrix.panel(first), end - first, matrix.panel(last), next,
           of.From(rows.first), rows.count, y, stride});
    };
    if (bytes && multiplier.nibbles_ != nullptr && TakesNibbles(matrix.layout())) {
      if (nibble_pairs.pieces != nullptr) return run(multiplier.pairs_->dot_nibbles, nibble_pairs);
      return run(multiplier.nibbles_->dot, nibble_x);
    }
    if (byte_pairs.pieces != nullptr && TakesPairsOfBytes(matrix.layout())) {
      return run(multiplier.pairs_->dot_bytes, byte_pairs);
    }
    const int low = bytes ? StepsOfLowPairs(matrix.layout()) : 0;
    if (low == 32 && low_pairs_32.pieces != nullptr) {
      return run(multiplier.pairs_->dot_low_32, low_pairs_32);
    }
    if (low == 16 && low_pairs_16.pieces != nullptr) {
      return run(multiplier.pairs_->dot_low_16, low_pairs_16);
    }
    if (bytes) return run(multiplier.dot_->dot, x[PieceOf(matrix.layout())]);
    for (int64_t p = first; p < end; ++p, y += kPanelRows) {
      for (int r = 0; r < rows.count; r += kGemvCallRows) {
        multiplier.kernels_.gemv({matrix.layout(), job.k, matrix.panel(p),
                                  product.x + (rows.first + r) * product.x_stride, product.x_stride,
                                  std::min(rows.count - r, kGemvCallRows), y + r * stride, stride});
      }
    }
  }

  /// Panels that are worth a thread.
  int64_t grain() const {
    const double sides = job.product.gated ? 2 : 1;
    const double panel_bytes = static_cast<double>(job.product.matrices[0]->panel_bytes());
    const double products = static_cast<double>(job.k * job.product.rows) * kPanelRows;
    return GrainOf({panel_bytes * sides, products * sides * (bytes ? 0.25 : 4.0)});
  }
};

void QuantizedMultiplier::RunGemv(const Job& job) const {
  const QuantizedProduct& product = job.product;
  // The panels that are multiplied first are prefetched while x is rounded.
  FetchFirst(*product.matrices[0]);
  if (product.gated) FetchFirst(*product.matrices[1]);
  const GemvRun x(*this, job);
  const int64_t all = CountStretches(product, job.results, kPanelRows);
  const int64_t chunk = std::min(product.rows, kChunkRows);
  const int64_t most = kFinishResults / (kPanelRows * chunk), stride = most * kPanelRows;
  const auto run = [&](int64_t begin, int64_t end) {
    alignas(64) float z[kFinishResults], up[kFinishResults];
    for (int64_t index = begin; index < end;) {
      const auto [result, column] = StretchAt(product, kPanelRows, index);
      const QuantizedMatrix& matrix = *product.matrices[result];
      const int64_t panel = column / kPanelRows;
      const int64_t mine = std::min(end - index, matrix.panels() - panel);
      const int64_t panels = std::min(most, mine);
      const int64_t columns = std::min(panels * kPanelRows, matrix.rows() - column);
      const std::byte* next = index + mine < end ? product.matrices[result + 1]->panel(0)
                                                 : PartOfNext(product, begin, all);
      // What follows is prefetched once: while the first rows are multiplied.
      int64_t last = panel + mine;
      for (int64_t row = 0; row < product.rows; row += chunk, last = panel, next = nullptr) {
        const GemvRun::Rows rows{row, static_cast<int>(std::min(chunk, product.rows - row))};
        x.Multiply(matrix, panel, panel + panels, last, next, rows, z, stride);
        if (product.gated) {
          x.Multiply(*product.matrices[1], panel, panel + panels, last, next, rows, up, stride);
        }
        QuantizedFinish finish;
        finish.rows = rows.count;
        finish.z = z;
        finish.up = product.gated ? up : nullptr;
        finish.z_stride = stride;
        FinishColumns(kernels_, product, result, row, column, static_cast<int>(columns), finish);
      }
      index += panels;
    }
  };
  ParallelFor(job.threads, all, x.grain(), run);
}

void QuantizedMultiplier::RunPanels(const QuantizedProduct& product,
                                    std::span<const int32_t> panels, float* y, int threads,
                                    std::byte* workspace) const {
  const QuantizedMatrix& matrix = *product.matrices[0];
  const Job job(product, threads, workspace);
  const GemvRun x(*this, job);
  const int64_t count = static_cast<int64_t>(panels.size());
  ParallelFor(threads, count, x.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t panel = panels[static_cast<size_t>(i)];
      const std::byte* next =
          i + 1 < end ? matrix.panel(panels[static_cast<size_t>(i + 1)]) : nullptr;
      x.Multiply(matrix, panel, panel + 1, panel + 1, next, {0, static_cast<int>(product.rows)},
                 y + i * product.rows * kPanelRows, kPanelRows);
    }
  });
}

void QuantizedMultiplier::RunGemm(const Job& job) const {
  const QuantizedProduct& product = job.product;
  const UnpackScratch scratch(gemm_, product.rows, job.k, product.gated);
  std::byte* a = job.workspace;
  std::byte* own = a + PackedRowsBytes(gemm_, product.rows, job.k);
  const MatrixSource source(gemm_, {product.x, 1, product.x_stride});
  PackMatrix(gemm_, GemmSide::kA, product.rows, job.k, source, job.threads, a);

  const auto run_unit = [&](int64_t index, std::byte* mine) {
    const auto [result, first] = StretchAt(product, scratch.unit, index);
    const QuantizedMatrix& matrix = *product.matrices[result];
    std::byte* panels = mine;
    float* steps =
        reinterpret_cast<float*>(mine + scratch.panels * scratch.panel_bytes + kProductSlack);
    float* sums =
        reinterpret_cast<float*>(reinterpret_cast<std::byte*>(steps) + scratch.steps_bytes);
    const int64_t width = matrix.rows(), end = std::min(first + scratch.unit, width);
    for (int64_t side = 0; side < scratch.sides; ++side) {
      const QuantizedMatrix& weights = *product.matrices[result + static_cast<size_t>(side)];
      if (UnpacksBf16(unpack_, gemm_)) {
        UnpackUnitBf16(unpack_, nibbles_, gemm_, weights, first, scratch, panels);
      } else {
        UnpackUnit(unpack_, gemm_, weights, first, scratch, panels, steps);
      }
      float* side_sums = sums + side * scratch.sums_bytes / 4;
      for (int64_t column = first; column < end; column += gemm_.columns) {
        ColumnTiles tiles{gemm_, product.rows, job.k, a,
                          panels + (column - first) / gemm_.columns * scratch.panel_bytes};
        tiles.columns = static_cast<int>(std::min<int64_t>(gemm_.columns, end - column));
        if (product.gated) {
          tiles.c = side_sums + (column - first);
          tiles.ldc = scratch.unit;
        } else {
          tiles.c = product.y[result] + column;
          tiles.ldc = width;
          tiles.bias =
              product.biases[result] == nullptr ? nullptr : product.biases[result] + column;
          if (result == 0) {
            tiles.addend = product.addend == nullptr ? nullptr : product.addend + column;
            tiles.activation = product.activation;
          }
        }
        tiles.Run();
      }
    }
    if (!product.gated) return;
    QuantizedFinish finish;
    finish.rows = static_cast<int>(product.rows);
    finish.z = sums;
    finish.up = finish.z + scratch.sums_bytes / 4;
    finish.z_stride = scratch.unit;
    FinishColumns(kernels_, product, result, 0, first, static_cast<int>(end - first), finish);
  };

  const int64_t units = CountStretches(product, job.results, scratch.unit);
  ParallelPlaces(job.threads, units, kManyGrains, [&](int place, int64_t begin, int64_t end) {
    if (gemm_.begin != nullptr) gemm_.begin();
    std::byte* mine = own + place * AlignLine(scratch.bytes);
    for (int64_t i = begin; i < end; ++i) run_unit(i, mine);
    if (gemm_.end != nullptr) gemm_.end();
  });
}

}  // namespace oort
