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

/// Calls round(row) for all rows of a product, on several threads where there are many.
template <typename Round>
void RoundRows(const QuantizedProduct& product, int threads, Round round) {
  const double columns = static_cast<double>(product.matrices[0]->columns());
  const int64_t blocks = CeilDivide(product.rows, kBlockRows);
  ParallelFor(threads, blocks, GrainOf({0, columns * kBlockRows * 8}),
              [&](int64_t begin, int64_t end) {
                const int64_t last = std::min(end * kBlockRows, product.rows);
                for (int64_t row = begin * kBlockRows; row < last; ++row) round(row);
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
    RoundRows(product, threads, [&](int64_t row) {
      kernels.quantize(product.x + row * product.x_stride, k, all.From(row));
    });
    return all;
  }
};

/// x as nibble_rows.h has it, in scratch memory.
struct NibbleScratch {
  int64_t rows, k, columns, pieces, row_bytes, bytes;
  explicit NibbleScratch(const QuantizedProduct& product)
      : rows(product.rows),
        k(product.matrices[0]->columns()),
        columns(AlignLine(k)),
        pieces(CeilDivide(k, 32)),
        row_bytes(AlignLine(rows * columns)),
        bytes(2 * row_bytes + AlignLine(rows * pieces) + AlignLine(rows * pieces * 4) +
              AlignLine(rows * pieces * 16) + AlignLine(rows * 4)) {}

  NibbleRows Fill(const NibbleKernels& kernels, const QuantizedProduct& product, int threads,
                  std::byte* memory) const {
    const auto take = [&](int64_t size) { return std::exchange(memory, memory + AlignLine(size)); };
    NibbleRows all;
    all.q_stride = columns;
    all.piece_stride = pieces;
    all.q = reinterpret_cast<int8_t*>(take(row_bytes));
    all.fine = reinterpret_cast<int8_t*>(take(row_bytes));
    all.is_fine = reinterpret_cast<uint8_t*>(take(rows * pieces));
    all.numbers = reinterpret_cast<uint16_t*>(take(rows * pieces * 4));
    all.start = reinterpret_cast<int32_t*>(take(rows * pieces * 16));
    all.power = reinterpret_cast<float*>(take(rows * 4));
    RoundRows(product, threads, [&](int64_t row) {
      kernels.quantize(product.x + row * product.x_stride, k, all.From(row));
    });
    return all;
  }
};

/// The same rows two by two, as row_pairs.h has them.
struct PairScratch {
  int64_t rows, pieces, bytes;
  explicit PairScratch(const QuantizedProduct& product)
      : rows(product.rows),
        pieces(CeilDivide(product.matrices[0]->columns(), 32)),
        bytes(CeilDivide(rows, 2) * pieces * static_cast<int64_t>(sizeof(PairPiece))) {}

  /// join(first row, how many rows, to) fills the pieces of a pair.
  template <typename Join>
  RowPairs Fill(const QuantizedProduct& product, int threads, float* power, std::byte* memory,
                Join join) const {
    const RowPairs all{reinterpret_cast<PairPiece*>(memory), power, pieces};
    RoundRows(product, threads, [&](int64_t row) {
      if (row % 2 != 0) return;
      join(row, static_cast<int>(std::min<int64_t>(2, rows - row)), all.From(row).pieces);
    });
    return all;
  }
};

/// Which forms of x the matrices of a product take.
struct RowForms {
  bool nibbles = false;
  bool plain[2] = {};     ///< as bytes in pieces of 32 and 16
  bool in_pairs[2] = {};  ///< as pairs of bytes, and of nibbles
  int64_t bytes = 0;      ///< of all
  RowForms(const QuantizedProduct& product, bool has_nibbles, bool has_pairs) {
    const bool pairs = has_pairs && product.rows > 1;
    for (const auto& matrix : product.matrices) {
      const PanelLayout& layout = matrix->layout();
      (has_nibbles && TakesNibbles(layout) ? nibbles : plain[PieceOf(layout)]) = true;
      in_pairs[0] |= pairs && TakesPairsOfBytes(layout);
    }
    // What unpacks weights for pairs costs more than three rows one by one.
    in_pairs[1] = pairs && nibbles && product.rows > 3;
    if (nibbles) bytes += NibbleScratch(product).bytes;
    for (const size_t which : {0, 1}) {
      if (plain[which]) bytes += ByteScratch(product, which, true).bytes;
      if (in_pairs[which]) bytes += PairScratch(product).bytes;
    }
  }
};

}  // namespace oort
