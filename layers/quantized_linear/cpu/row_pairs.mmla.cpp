// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cpu/row_pairs.h"

#include <algorithm>

#include "layers/quantized_linear/cpu/low_bit_pairs.h"
#include "layers/quantized_linear/cpu/nibble_pairs.h"
#include "layers/quantized_linear/cpu/pair_products_neon.h"

namespace oort::OORT_ISA {
namespace {

constexpr int kMostPairs = 4;  // that are multiplied at a time
/// The least number of bytes by which a panel is prefetched before its use.
constexpr int64_t kPairAheadBytes = 19456;

/// A row that is not there has the numbers of the one that is; its results are left out.
void FromBytes(const ByteRows& rows, int64_t first, int count_rows, int64_t count,
               BytePairPiece* to) {
  const int64_t second = first + count_rows - 1;
  for (int64_t p = 0; p < count; ++p, ++to) {
    const int64_t a = rows.number_at(first, p), b = rows.number_at(second, p);
    Interleave(rows.q + a * kPairSteps, rows.q + b * kPairSteps, to->q);
    Interleave(rows.fine + a * kPairSteps, rows.fine + b * kPairSteps, to->fine);
    ByTurns(rows.of_8_bits.scale[a], rows.of_8_bits.scale[b], to->scale);
  }
}

/// Where the results of some pairs of rows begin, and how many rows there are.
struct PairTarget {
  float* y;
  int64_t stride;
  int rows;
};

/// The results of the first row of a pair go to y, of the second behind it where there is one.
template <int pairs>
[[gnu::always_inline]] inline void StorePairs(const float32x4_t (&totals)[pairs][2],
                                              const PairTarget& to) {
  Unroll<pairs>([&](auto p) {
    const TwoRowsOf rows(totals[p]);
    Unroll<2>([&](auto r) {
      constexpr int kRow = 2 * p + r;
      if (kRow < to.rows) vst1q_f32(to.y + kRow * to.stride, rows.row[r]);
    });
  });
}

/// Four rows of a panel of 8 bits, from row 4 * part on, times some pairs of rows, all of which has
/// two bytes.
template <int pairs>
void PartTimesPairs(const BytePairDot& dot, int part, const std::byte* ahead,
                    const BytePairPiece* x, const PairTarget& to) {
  constexpr int kHead = 32;
  constexpr int64_t kGroup = kHead + 512;
  const int64_t stride = dot.x.stride;
  const std::byte* lines = dot.panel + kHead + 16 * part;
  const std::byte* head = dot.panel + 8 * part;
  ahead += 128 * part;
  float32x4_t totals[pairs][2];
  Unroll<pairs>([&](auto p) { totals[p][0] = totals[p][1] = vdupq_n_f32(0); });
  for (int64_t g = dot.k / kPairSteps; g > 0; --g) {
    __builtin_prefetch(ahead, 0, 1);
    __builtin_prefetch(ahead + 64, 0, 1);
    GroupRows weights;
    Unroll<4>([&](auto i) {
      weights[i] = Zip(LoadWords(lines + 128 * i), LoadWords(lines + 128 * i + 64));
    });
    const FourScales scales(head);
    Unroll<pairs>([&](auto p) {
      const BytePairPiece& piece = x[p * stride];
      int32x4_t first[2], second[2];
      SumProducts<true>(weights, piece.q, kNoStart, first);
      SumProducts<true>(weights, piece.fine, kNoStart, second);
      const float32x4_t scale = vld1q_f32(piece.scale);
      Unroll<2>([&](auto j) {
        const int32x4_t sum = vmlaq_n_s32(second[j], first[j], kFineSteps);
        const float32x4_t product = vmulq_f32(vcvtq_f32_s32(sum), scale);
        totals[p][j] = vfmaq_f32(totals[p][j], product, scales.two[j]);
      });
    });
    ++x;
    lines += kGroup;
    head += kGroup;
    ahead += kGroup;
  }
  StorePairs<pairs>(totals, to);
}

/// All panels, four rows of the weight after the other, times all rows; `run` is a kernel.
template <typename Run>
void ForPanels(BytePairDot dot, Run run) {
  const int64_t bytes = dot.layout.panel_bytes(dot.k);
  const int64_t distance = bytes == 0 ? 0 : (kPairAheadBytes / bytes + 1) * bytes;
  const int pairs = (dot.rows + 1) / 2, blocks = (pairs + kMostPairs - 1) / kMostPairs;
  for (int64_t panel = 0; panel < dot.panels; ++panel, dot.panel += bytes, dot.y += kPanelRows) {
    const std::byte* ahead = AheadOf(dot, distance);
    for (int part = 0; part < kPanelRows / 4; ++part) {
      // About as many pairs in each block.
      for (int block = 0, first = 0; block < blocks; ++block) {
        const int end = pairs * (block + 1) / blocks;
        const PairTarget to{dot.y + 2 * first * dot.y_stride + 4 * part, dot.y_stride,
                            std::min(dot.rows, 2 * end) - 2 * first};
        run(dot, end - first, part, block == 0 ? ahead : dot.panel,
            dot.x.pieces + first * dot.x.stride, to);
        first = end;
      }
    }
  }
}

void DotBytePairs(const BytePairDot& all) {
  ForPanels(all, [](const BytePairDot& dot, int pairs, auto... with) {
    switch (pairs) {
      case 1: return PartTimesPairs<1>(dot, with...);
      case 2: return PartTimesPairs<2>(dot, with...);
      case 3: return PartTimesPairs<3>(dot, with...);
      default: return PartTimesPairs<kMostPairs>(dot, with...);
    }
  });
}

}  // namespace

const PairKernels& PairKernelsGet() {
  static constexpr PairKernels kTable = {.from_nibbles = PairFromNibbles,
                                         .from_bytes = FromBytes,
                                         .from_low_32 = PairsOfLowBits32,
                                         .from_low_16 = PairsOfLowBits16,
                                         .dot_nibbles = DotNibblePairs,
                                         .dot_bytes = DotBytePairs,
                                         .dot_low_32 = DotLowPairs32,
                                         .dot_low_16 = DotLowPairs16};
  return kTable;
}

}  // namespace oort::OORT_ISA
