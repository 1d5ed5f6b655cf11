// SPDX-License-Identifier: MIT
// Rows of x in the forms that kernels take them in, in scratch memory. Only for
// quantized_product.cpp.
#pragma once

#include <algorithm>
#include <utility>

#include "core/checked.h"
#include "core/parallel.h"
#include "layers/quantized_linear/cpu/quantized_job.h"
#include "layers/quantized_linear/cpu/row_pairs.h"

namespace oort {

/// The pieces in which x is rounded to bytes: they divide the groups.
inline constexpr int kPieces[] = {32, 16};
inline size_t PieceOf(const PanelLayout& layout) { return layout.group % 32 == 0 ? 0 : 1; }

/// Whether weights of 8 bits are multiplied with such pieces.
inline bool AnyBytes(const QuantizedProduct& product, size_t piece) {
  return std::any_of(product.matrices.begin(), product.matrices.end(), [&](const auto& matrix) {
    return matrix->layout().type == WeightType::kInt8 && PieceOf(matrix->layout()) == piece;
  });
}

/// Calls round(row) for all rows of a product, on several threads where there are many; `unit` rows
/// that begin at a multiple of it are on one thread.
template <typename Round>
void RoundRows(const QuantizedProduct& product, int threads, int64_t unit, Round round) {
  const double columns = static_cast<double>(product.matrices[0]->columns());
  ParallelFor(threads, CeilDivide(product.rows, unit),
              GrainOf({0, columns * static_cast<double>(unit) * 8}),
              [&](int64_t begin, int64_t end) {
                const int64_t last = std::min(end * unit, product.rows);
                for (int64_t row = begin * unit; row < last; ++row) round(row);
              });
}

/// x as bytes, in scratch memory.
struct ByteScratch {
  int64_t k;
  int piece, block;
  bool any_bytes;
  int64_t pieces, rows, row_bytes, number_bytes, bytes;
  /// `two_bytes`: whether weights of 8 bits take two bytes of x.
  ByteScratch(const QuantizedProduct& product, size_t which, bool two_bytes)
      : k(product.matrices[0]->columns()),
        piece(kPieces[which]),
        block(product.rows == 1 ? 1 : kBlockRows),
        any_bytes(two_bytes && AnyBytes(product, which)),
        pieces(CeilDivide(k, piece)),
        rows(CeilDivide(product.rows, block) * block),
        row_bytes(AlignLine(rows * pieces * piece)),
        number_bytes(AlignLine(rows * pieces * 4)),
        bytes(2 * row_bytes + number_bytes * (any_bytes ? 7 : 4)) {}

  ByteRows In(std::byte* memory) const {
    ByteRows x;
    x.piece = piece;
    x.block = block;
    x.pieces = pieces;
    const auto take = [&](int64_t size) { return std::exchange(memory, memory + size); };
    const auto numbers = [&] {
      return ByteNumbers{reinterpret_cast<float*>(take(number_bytes)),
                         reinterpret_cast<int32_t*>(take(number_bytes)),
                         reinterpret_cast<float*>(take(number_bytes))};
    };
    x.q = reinterpret_cast<int8_t*>(take(row_bytes));
    x.fine = reinterpret_cast<int8_t*>(take(row_bytes));
    x.is_fine = reinterpret_cast<uint8_t*>(take(number_bytes));
    x.of_4_bits = numbers();
    if (any_bytes) x.of_8_bits = numbers();
    return x;
  }

  /// Rounds the rows of a product into `memory`.
  ByteRows Fill(const QuantizedKernels& kernels, const QuantizedProduct& product, int threads,
                std::byte* memory) const {
    const ByteRows all = In(memory);
    RoundRows(product, threads, kBlockRows, [&](int64_t row) {
      kernels.quantize(product.x + row * product.x_stride, k, all.From(row));
    });
    return all;
  }
};

/// x as nibble_rows.h has it, in scratch memory.
struct NibbleScratch {
  int64_t rows, k, columns, pieces, row_bytes, fine_bytes, bytes;
  explicit NibbleScratch(const QuantizedProduct& product)
      : rows(product.rows),
        k(product.matrices[0]->columns()),
        columns(AlignLine(k)),
        pieces(CeilDivide(k, 32)),
        row_bytes(AlignLine(rows * columns)),
        fine_bytes(AlignLine(rows * pieces * static_cast<int64_t>(sizeof(FineNibbles)))),
        bytes(2 * row_bytes + AlignLine(rows * pieces * 4) + AlignLine(rows * pieces * 16) +
              fine_bytes + 2 * AlignLine(rows * 4)) {}

  NibbleRows Fill(const NibbleKernels& kernels, const QuantizedProduct& product, int threads,
                  std::byte* memory) const {
    const auto take = [&](int64_t size) { return std::exchange(memory, memory + AlignLine(size)); };
    NibbleRows all;
    all.q_stride = columns;
    all.piece_stride = pieces;
    all.q = reinterpret_cast<int8_t*>(take(row_bytes));
    all.fine = reinterpret_cast<int8_t*>(take(row_bytes));
    all.numbers = reinterpret_cast<uint16_t*>(take(rows * pieces * 4));
    all.start = reinterpret_cast<int32_t*>(take(rows * pieces * 16));
    all.power = reinterpret_cast<float*>(take(rows * 4));
    all.fine_of = reinterpret_cast<FineNibbles*>(take(fine_bytes));
    all.fine_count = reinterpret_cast<int32_t*>(take(rows * 4));
    RoundRows(product, threads, 1, [&](int64_t row) {
      kernels.quantize(product.x + row * product.x_stride, k, all.From(row));
    });
    return all;
  }
};

/// Rows of bytes two by two, as row_pairs.h has them.
struct BytePairScratch {
  int64_t pairs, pieces, bytes;
  explicit BytePairScratch(const QuantizedProduct& product)
      : pairs(CeilDivide(product.rows, 2)),
        pieces(CeilDivide(product.matrices[0]->columns(), 32)),
        bytes(pairs * pieces * static_cast<int64_t>(sizeof(BytePairPiece))) {}

  BytePairs Fill(const PairKernels& kernels, const QuantizedProduct& product, int threads,
                 const ByteRows& rows, std::byte* memory) const {
    const BytePairs all{reinterpret_cast<BytePairPiece*>(memory), pieces};
    RoundRows(product, threads, 2, [&](int64_t row) {
      if (row % 2 != 0) return;
      const int count = static_cast<int>(std::min<int64_t>(2, product.rows - row));
      kernels.from_bytes(rows, row, count, pieces, all.From(row).pieces);
    });
    return all;
  }
};

/// The same for weights of 4 to 6 bits.
template <int steps>
struct LowPairScratch {
  int64_t pairs, pieces, piece_bytes, bytes;
  explicit LowPairScratch(const QuantizedProduct& product)
      : pairs(CeilDivide(product.rows, 2)),
        pieces(CeilDivide(product.matrices[0]->columns(), steps)),
        piece_bytes(AlignLine(pairs * pieces * static_cast<int64_t>(sizeof(LowPairPiece<steps>)))),
        bytes(piece_bytes +
              AlignLine(pairs * pieces * static_cast<int64_t>(sizeof(LowFinePiece<steps>)))) {}

  /// `join` is from_low of the kernels.
  template <typename Join>
  LowPairs<steps> Fill(Join join, const QuantizedProduct& product, int threads,
                       const ByteRows& rows, std::byte* memory) const {
    const LowPairs<steps> all{reinterpret_cast<LowPairPiece<steps>*>(memory),
                              reinterpret_cast<LowFinePiece<steps>*>(memory + piece_bytes), pieces};
    RoundRows(product, threads, 2, [&](int64_t row) {
      if (row % 2 != 0) return;
      join(rows, row, static_cast<int>(std::min<int64_t>(2, product.rows - row)), all.From(row));
    });
    return all;
  }
};

/// The same of rows as nibble_rows.h has them.
struct NibblePairScratch {
  int64_t blocks, pieces, piece_bytes, fine_bytes, bytes;
  explicit NibblePairScratch(const QuantizedProduct& product)
      : blocks(CeilDivide(product.rows, 2 * kBlockPairs)),
        pieces(CeilDivide(product.matrices[0]->columns(), 32)),
        piece_bytes(CeilDivide(product.rows, 2) * pieces *
                    static_cast<int64_t>(sizeof(NibblePairPiece))),
        fine_bytes(AlignLine(blocks * pieces * 4)),
        bytes(2 * piece_bytes + fine_bytes + AlignLine(blocks * 4)) {}

  NibblePairs Fill(const PairKernels& kernels, const QuantizedProduct& product, int threads,
                   const NibbleRows& rows, std::byte* memory) const {
    const auto take = [&](int64_t size) { return std::exchange(memory, memory + size); };
    NibblePairs all;
    all.pieces = reinterpret_cast<NibblePairPiece*>(take(piece_bytes));
    all.fine = reinterpret_cast<NibblePairPiece*>(take(piece_bytes));
    all.fine_piece = reinterpret_cast<int32_t*>(take(fine_bytes));
    all.fine_count = reinterpret_cast<int32_t*>(memory);
    all.power = rows.power;
    all.count = pieces;
    RoundRows(product, threads, 2, [&](int64_t row) {
      if (row % 2 != 0) return;
      const int64_t within = row % (2 * kBlockPairs), block = row - within;
      const int64_t count = std::min<int64_t>(2 * kBlockPairs, product.rows - block);
      kernels.from_nibbles(rows.From(block), static_cast<int>(count), static_cast<int>(within / 2),
                           all.From(block));
    });
    return all;
  }
};

/// Which forms of x the matrices of a product take.
struct RowForms {
  bool nibbles = false;
  bool plain[2] = {};      ///< as bytes in pieces of 32 and 16
  bool in_pairs[2] = {};   ///< as pairs of bytes, and of nibbles
  bool low_pairs[2] = {};  ///< for 4 to 6 bits, in pieces of 32 and 16
  int64_t bytes = 0;       ///< of all
  RowForms(const QuantizedProduct& product, bool has_nibbles, bool has_pairs) {
    const bool pairs = has_pairs && product.rows > 1;
    for (const auto& matrix : product.matrices) {
      const PanelLayout& layout = matrix->layout();
      (has_nibbles && TakesNibbles(layout) ? nibbles : plain[PieceOf(layout)]) = true;
      in_pairs[0] |= pairs && TakesPairsOfBytes(layout);
      // Unpacking K-quants of 4 bits for pairs costs more than two rows one by one.
      const bool low_pays = pairs && (layout.type != WeightType::kInt4 || product.rows > 2);
      const int low = low_pays ? StepsOfLowPairs(layout) : 0;
      low_pairs[0] |= low == 32;
      low_pairs[1] |= low == 16;
    }
    in_pairs[1] = pairs && nibbles;
    if (nibbles) bytes += NibbleScratch(product).bytes;
    for (const size_t which : {0, 1}) {
      if (plain[which]) bytes += ByteScratch(product, which, true).bytes;
    }
    if (in_pairs[0]) bytes += BytePairScratch(product).bytes;
    if (in_pairs[1]) bytes += NibblePairScratch(product).bytes;
    if (low_pairs[0]) bytes += LowPairScratch<32>(product).bytes;
    if (low_pairs[1]) bytes += LowPairScratch<16>(product).bytes;
  }
};

}  // namespace oort
