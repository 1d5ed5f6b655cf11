// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cpu/nibble_pairs.h"

#include <algorithm>
#include <array>

#include "layers/quantized_linear/cpu/nibble_pairs_neon.h"
#include "layers/quantized_linear/cpu/pair_products_neon.h"

namespace oort::OORT_ISA {
namespace {

/// Groups that meet all rows before the next ones do: with their rows they stay in the L1 cache.
constexpr int64_t kPairStretch = 48;
/// The least number of bytes by which a panel is prefetched before its use.
constexpr int64_t kPairsAheadBytes = 19456;

// --- Rows ---------------------------------------------------------------------------------------

inline float FirstHalf(const uint16_t* bits) {
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vld1_dup_u16(bits))), 0);
}

/// One piece of a pair: places in its two rows, or null where a row has nothing there.
struct PairSource {
  const int8_t* q[2];
  float scale[2];
  uint16_t offset[2];
  int32_t start[2];

  void Write(NibblePairPiece& to) const {
    InterleaveSixteen(q[0], q[1], to.q[0], to.q[1]);
    InterleaveSixteen(q[0] + 16, q[1] + 16, to.q[2], to.q[3]);
    ByTurns(scale[0], scale[1], to.scale);
    ByTurns(offset[0], offset[1], to.offset);
    ByTurns(kZeroSum + start[0], kZeroSum + start[1], to.start);
  }
};

/// The pieces of second bytes of a block, in order.
class FineBlock {
 public:
  FineBlock(const NibbleRows& rows, int count_rows) : rows_(rows), count_rows_(count_rows) {}

  void Write(int pairs, const NibblePairs& to) {
    int32_t count = 0;
    for (int32_t piece = Next(); piece != kEnd; piece = Next(), ++count) {
      to.fine_piece[count] = piece;
      for (int pair = 0; pair < pairs; ++pair) {
        PairSource source = {};
        for (int r = 0; r < 2; ++r) Take(std::min(2 * pair + r, count_rows_ - 1), piece, r, source);
        source.Write(to.fine[int64_t{count} * pairs + pair]);
      }
      for (int row = 0; row < count_rows_; ++row) at_[row] += PieceOf(row) == piece ? 1 : 0;
    }
    *to.fine_count = count;
  }

 private:
  static constexpr int32_t kEnd = INT32_MAX;

  /// The place of the next piece of a row.
  int32_t PieceOf(int row) const {
    const NibbleRows of = rows_.From(row);
    return at_[row] < *of.fine_count ? of.fine_of[at_[row]].piece : kEnd;
  }
  int32_t Next() const {
    int32_t next = kEnd;
    for (int row = 0; row < count_rows_; ++row) next = std::min(next, PieceOf(row));
    return next;
  }
  void Take(int row, int32_t piece, int which, PairSource& to) const {
    static constexpr int8_t kZeros[kPairSteps] = {};
    to.q[which] = kZeros;
    if (PieceOf(row) != piece) return;
    const NibbleRows of = rows_.From(row);
    to.q[which] = of.fine + int64_t{at_[row]} * kPairSteps;
    to.scale[which] = of.fine_of[at_[row]].scale;
    to.start[which] = of.fine_of[at_[row]].start;
  }

  const NibbleRows& rows_;
  int count_rows_;
  int32_t at_[2 * kBlockPairs] = {};
};

// --- Products -----------------------------------------------------------------------------------

#if !OORT_HAS_ASSEMBLY
/// Unpacks the lines of a group of four rows of the weight: of each two the low nibbles times 16,
/// and then the bytes.
[[gnu::always_inline]] inline void UnpackGroup(const std::byte* lines, GroupRows& weights) {
  Unroll<2>([&](auto i) {
    weights[2 * i + 1] = Zip(LoadWords(lines + 128 * i), LoadWords(lines + 128 * i + 64));
    Unroll<2>([&](auto j) { weights[2 * i].two[j] = vshlq_n_u8(weights[2 * i + 1].two[j], 4); });
  });
}

/// The twin of the assembly.
template <bool minimums>
void RunGroups(const std::byte* lines, const std::byte* head, const std::byte* /*ahead*/,
               const std::byte* /*near*/, const int32_t* steps, const NibblePairPiece* x, int pairs,
               int64_t count, float* totals) {
  const float32x4_t zero = vreinterpretq_f32_s32(vdupq_n_s32(kZeroSum));
  for (; count > 0; --count, ++steps, x += pairs) {
    GroupRows weights;
    UnpackGroup(lines, weights);
    const FourScales scales(head);
    const float16x8_t least = FourNumbers(head + (minimums ? 32 : 0));
    for (int p = 0; p < pairs; ++p) {
      int32x4_t sums[2];
      SumProducts<false>(weights, x[p].q, minimums ? kZeroSums : x[p].start, sums);
      const float32x4_t scale = vld1q_f32(x[p].scale);
      float32x4_t to[2] = {vld1q_f32(totals + 8 * p), vld1q_f32(totals + 8 * p + 4)};
      if constexpr (minimums) {
        const float16x8_t offset = vreinterpretq_f16_u16(vld1q_u16(x[p].offset));
        to[0] = vfmlalq_low_f16(to[0], least, offset);
        to[1] = vfmlalq_high_f16(to[1], least, offset);
      }
      Unroll<2>([&](auto j) {
        const float32x4_t sum = vsubq_f32(vreinterpretq_f32_s32(sums[j]), zero);
        to[j] = vfmaq_f32(to[j], vmulq_f32(scales.two[j], scale), sum);
      });
      Unroll<2>([&](auto j) { vst1q_f32(totals + 8 * p + 4 * j, to[j]); });
    }
    lines += *steps;
    head += *steps;
  }
}
#endif

/// A block of pairs times a panel.
template <bool minimums>
class PanelTimesPairs {
 public:
  static constexpr int kHead = minimums ? 64 : 32;
  static constexpr int64_t kGroup = kHead + 256;
  static constexpr int kParts = kPanelRows / 4;

  PanelTimesPairs(const NibblePairDot& dot, int first, int rows)
      : dot_(dot),
        x_(dot.x.From(first)),
        pairs_((rows + 1) / 2),
        rows_(rows),
        y_(dot.y + first * dot.y_stride) {}

  void Run(const std::byte* ahead, const std::byte* near) {
    const int64_t groups = dot_.k / kPairSteps;
    const int64_t stretches = (groups + kPairStretch - 1) / kPairStretch;
    for (int64_t i = 0; i < stretches; ++i) {
      const int64_t first = groups * i / stretches, end = groups * (i + 1) / stretches;
      for (int part = 0; part < kParts; ++part) {
        const std::byte* group = dot_.panel + first * kGroup;
        RunGroups<minimums>(group + kHead + 16 * part, group + 8 * part,
                            ahead + first * kGroup + 64 * part,
                            near + first * kGroup + (end - first) * 80 * part, kEvenSteps.data(),
                            x_.pieces + first * pairs_, pairs_, end - first, totals_[part][0][0]);
      }
    }
    if (*x_.fine_count > 0) AddFine();
    Store();
  }

 private:
  static constexpr std::array<int32_t, kPairStretch> kEvenSteps = [] {
    std::array<int32_t, kPairStretch> steps = {};
    steps.fill(kGroup);
    return steps;
  }();

  /// Adds the products with second bytes.
  void AddFine() {
    const int64_t count = *x_.fine_count;
    int32_t steps[kPairStretch];
    for (int64_t first = 0; first < count; first += kPairStretch) {
      const int64_t some = std::min(kPairStretch, count - first);
      const int32_t* pieces = x_.fine_piece + first;
      for (int64_t i = 0; i + 1 < some; ++i) {
        steps[i] = static_cast<int32_t>((pieces[i + 1] - pieces[i]) * kGroup);
      }
      steps[some - 1] = 0;
      const std::byte* group = dot_.panel + pieces[0] * kGroup;
      for (int part = 0; part < kParts; ++part) {
        RunGroups<minimums>(group + kHead + 16 * part, group + 8 * part, group, group, steps,
                            x_.fine + first * pairs_, pairs_, some, totals_[part][0][0]);
      }
    }
  }

  void Store() const {
    const int64_t stride = dot_.y_stride;
    const float *totals = &totals_[0][0][0][0], *power = x_.power;
    float* y = y_;
    for (int left = rows_; left > 0; left -= 2, totals += 8, power += 2, y += 2 * stride) {
      const bool has_second = left > 1;
      const float32x4_t first = vdupq_n_f32(power[0]);
      const float32x4_t second = has_second ? vdupq_n_f32(power[1]) : first;
      Unroll<kParts>([&](auto part) {
        const float* from = totals + part * (kBlockPairs * 8);
        const float32x4_t two[2] = {vld1q_f32(from), vld1q_f32(from + 4)};
        const TwoRowsOf results(two);
        vst1q_f32(y + 4 * part, vmulq_f32(results.row[0], first));
        if (has_second) vst1q_f32(y + stride + 4 * part, vmulq_f32(results.row[1], second));
      });
    }
  }

  const NibblePairDot& dot_;
  NibblePairs x_;
  int pairs_, rows_;
  float* y_;
  alignas(64) float totals_[kParts][kBlockPairs][2][4] = {};
};

template <bool minimums>
void DotPanels(NibblePairDot dot) {
  const int64_t bytes = dot.layout.panel_bytes(dot.k);
  const int64_t distance = bytes == 0 ? 0 : (kPairsAheadBytes / bytes + 1) * bytes;
  for (int64_t panel = 0; panel < dot.panels; ++panel, dot.panel += bytes, dot.y += kPanelRows) {
    const std::byte *ahead = AheadOf(dot, distance), *near = AheadOf(dot, bytes);
    for (int first = 0; first < dot.rows; first += 2 * kBlockPairs, ahead = near = dot.panel) {
      PanelTimesPairs<minimums>(dot, first, std::min(2 * kBlockPairs, dot.rows - first))
          .Run(ahead, near);
    }
  }
}

}  // namespace

void PairFromNibbles(const NibbleRows& rows, int count_rows, int pair, const NibblePairs& to) {
  const int pairs = (count_rows + 1) / 2;
  // A row that is not there has the numbers of the one that is; its results are left out.
  const NibbleRows a = rows.From(2 * pair), b = rows.From(std::min(2 * pair + 1, count_rows - 1));
  for (int64_t p = 0; p < to.count; ++p) {
    const PairSource source{{a.q + p * kPairSteps, b.q + p * kPairSteps},
                            {FirstHalf(a.numbers + 2 * p), FirstHalf(b.numbers + 2 * p)},
                            {a.numbers[2 * p + 1], b.numbers[2 * p + 1]},
                            {a.start[4 * p], b.start[4 * p]}};
    source.Write(to.pieces[p * pairs + pair]);
  }
  if (pair == 0) FineBlock(rows, count_rows).Write(pairs, to);
}

void DotNibblePairs(const NibblePairDot& dot) {
  if (dot.layout.has_minimum) {
    DotPanels<true>(dot);
  } else {
    DotPanels<false>(dot);
  }
}

}  // namespace oort::OORT_ISA
