// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cpu/nibble_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/fmlal_neon.h"
#include "cpu/unroll.h"
#include "layers/quantized_linear/cpu/fmlal_fours_neon.h"
#include "layers/quantized_linear/cpu/nibble_row_neon.h"

namespace oort::OORT_ISA {
namespace {

constexpr int kNibblePiece = 32;
/// The least number of bytes by which a panel is prefetched before its use.
constexpr int64_t kNibbleAheadBytes = 19456;

// --- Rounding -----------------------------------------------------------------------------------

/// A piece gets a second byte if the square of its largest element is above this times the mean of
/// these squares over the row.
constexpr float kNibbleFineFrom = 6.0f;

/// The largest magnitudes of a piece by turns: of the first four of each eight steps, and of the
/// last four.
inline float32x4_t LargestOf(const float* x) {
  float32x4_t lows = vabsq_f32(vld1q_f32(x)), highs = vabsq_f32(vld1q_f32(x + 4));
  Unroll<3>([&](auto i) {
    lows = vmaxq_f32(lows, vabsq_f32(vld1q_f32(x + 8 * (i + 1))));
    highs = vmaxq_f32(highs, vabsq_f32(vld1q_f32(x + 8 * (i + 1) + 4)));
  });
  const float32x4_t twos = vpmaxq_f32(lows, highs), most = vpmaxq_f32(twos, twos);
  // A piece with NaN, or one so small that its inverse is not finite, becomes zeros.
  const float32x4_t both = vpmaxq_f32(most, most);
  const uint32x4_t fits =
      vandq_u32(vcgtq_f32(both, vdupq_n_f32(1e-35f)), vcleq_f32(both, vdupq_n_f32(3.4e38f)));
  return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(most), fits));
}

/// What all pieces of a row have in common.
struct NibbleRow {
  float fine_from = 0;  ///< the square from which on a piece has two bytes
  float power = 1;      ///< takes the largest element to 2^9 .. 2^10: scales and sums fit f16
  /// Keeps the largest elements of each piece where its `start` will be.
  NibbleRow(const float* x, int64_t count, int32_t* start) {
    float32x4_t squares = vdupq_n_f32(0), mosts = squares;
    for (int64_t at = 0; at < count; at += kNibblePiece, start += 4) {
      const float32x4_t largest = LargestOf(x + at), here = vpmaxq_f32(largest, largest);
      vst1q_s32(start, vreinterpretq_s32_f32(largest));
      squares = vaddq_f32(squares, vmulq_f32(here, here));
      mosts = vmaxq_f32(mosts, here);
    }
    fine_from =
        kNibbleFineFrom * vgetq_lane_f32(squares, 0) / static_cast<float>(count / kNibblePiece);
    const float most = vgetq_lane_f32(mosts, 0);
    const uint32_t exponent = std::bit_cast<uint32_t>(most) >> 23;
    if (most > 0) power = std::bit_cast<float>((9 + 254 - exponent) << 23);
  }
};

inline int16x8_t NarrowTwo(int32x4_t low, int32x4_t high) {
  return vqmovn_high_s32(vqmovn_s32(low), high);
}
inline void StoreSixteen(const int32x4_t (&from)[8], int first, int8_t* to, int32x4_t& sum) {
  const int16x8_t low = NarrowTwo(from[first], from[first + 1]);
  const int16x8_t high = NarrowTwo(from[first + 2], from[first + 3]);
  vst1q_s8(to, vqmovn_high_s16(vqmovn_s16(low), high));
  sum = vpadalq_s16(sum, vaddq_s16(low, high));
}
inline int32_t StorePiece(const int32x4_t (&from)[8], int8_t* to) {
  int32x4_t sum = vdupq_n_s32(0);
  StoreSixteen(from, 0, to, sum);
  StoreSixteen(from, 4, to + 16, sum);
  return vaddvq_s32(sum);
}

/// `rest` is the sum of the second bytes.
inline void PutNumbers(const NibbleRows& to, int64_t p, float scale, int32_t sum,
                       int32_t rest = 0) {
  const float whole = static_cast<float>(sum) + static_cast<float>(rest) / kNibbleFineSteps;
  const float32x4_t numbers = {scale, scale * whole, 0, 0};
  const uint16x4_t halves = vreinterpret_u16_f16(vcvt_f16_f32(numbers));
  vst1_lane_u32(reinterpret_cast<uint32_t*>(to.numbers + 2 * p), vreinterpret_u32_u16(halves), 0);
  vst1q_s32(to.start + 4 * p, vdupq_n_s32(-8 * sum));
}

/// How a piece is rounded: the products are in sixteenths, so the scale is divided by 16.
struct NibbleSteps {
  float scale, inverse;
  bool is_fine;  ///< whether it has second bytes
};

/// The steps of four pieces, whose largest elements stand where their `start` will be; they take
/// the place of these. Scales are rounded up to f16 numbers, so that quotients by them stay within
/// a byte.
inline void FourSteps(const NibbleRow& row, int32_t* start) {
  float* const at = reinterpret_cast<float*>(start);
  float32x4x4_t of = vld4q_f32(at);
  const float32x4_t both = vmaxq_f32(of.val[0], of.val[1]);
  const float32x4_t unit =
      vmaxq_f32(vmulq_n_f32(of.val[0], 1 / 119.0f), vmulq_n_f32(of.val[1], 1 / 127.0f));
  const float32x4_t exact = vmulq_n_f32(vmulq_n_f32(unit, row.power), 1 / 16.0f);
  const uint32x4_t bits = vreinterpretq_u32_f32(vmaxq_f32(exact, vdupq_n_f32(1.0f / 16384)));
  const float32x4_t scale =
      vreinterpretq_f32_u32(vbicq_u32(vaddq_u32(bits, vdupq_n_u32(0x1fff)), vdupq_n_u32(0x1fff)));
  const float32x4_t inverse = vdivq_f32(vdupq_n_f32(row.power), vmulq_n_f32(scale, 16.0f));
  const uint32x4_t is_fine = vcgtq_f32(vmulq_f32(both, both), vdupq_n_f32(row.fine_from));
  of.val[0] = scale;
  of.val[1] = vreinterpretq_f32_u32(
      vandq_u32(vreinterpretq_u32_f32(inverse), vcgtq_f32(both, vdupq_n_f32(0))));
  of.val[2] = vreinterpretq_f32_u32(is_fine);
  vst4q_f32(at, of);
}

inline void StepsOfPieces(const NibbleRow& row, int64_t pieces, int32_t* start) {
  int64_t p = 0;
  for (; p + 4 <= pieces; p += 4) FourSteps(row, start + 4 * p);
  if (p == pieces) return;
  int32_t last[16] = {};
  const size_t bytes = static_cast<size_t>(pieces - p) * 4 * sizeof(int32_t);
  std::memcpy(last, start + 4 * p, bytes);
  FourSteps(row, last);
  std::memcpy(start + 4 * p, last, bytes);
}

inline NibbleSteps StepsAt(const int32_t* start) {
  return {std::bit_cast<float>(start[0]), std::bit_cast<float>(start[1]), start[2] != 0};
}

/// Rounds a piece to the form of nibble_rows.h, y and u.
void RoundNibbles(const float* x, const NibbleSteps& by, const NibbleRows& to, int64_t p) {
  const float32x4_t inverse = vdupq_n_f32(by.inverse);
  int32x4_t q[8], highs = vdupq_n_s32(0);
  Unroll<4>([&](auto i) {
    q[2 * i + 1] = vcvtnq_s32_f32(vmulq_f32(vld1q_f32(x + 8 * i + 4), inverse));
    highs = vaddq_s32(highs, q[2 * i + 1]);
    const float32x4_t low = vmulq_f32(vld1q_f32(x + 8 * i), inverse);
    q[2 * i] = vcvtnq_s32_f32(vsubq_f32(low, vcvtq_n_f32_s32(q[2 * i + 1], 4)));
  });
  const int32_t sum = 16 * StorePiece(q, to.q + p * kNibblePiece) + vaddvq_s32(highs);
  PutNumbers(to, p, by.scale, sum);
}

/// A number in steps, and what that leaves in parts of a step.
struct TwoBytes {
  int32x4_t whole, parts;
  explicit TwoBytes(float32x4_t steps) : whole(vcvtnq_s32_f32(steps)) {
    const float32x4_t rest = vsubq_f32(steps, vcvtq_f32_s32(whole));
    parts = vminq_s32(vcvtnq_s32_f32(vmulq_n_f32(rest, kNibbleFineSteps)), vdupq_n_s32(127));
  }
  /// A sixteenth of it.
  float32x4_t Sixteenth() const {
    return vfmaq_n_f32(vcvtq_n_f32_s32(whole, 4), vcvtq_f32_s32(parts),
                       1.0f / (16 * kNibbleFineSteps));
  }
};

/// The same in two bytes for each element; the second bytes become the `index`-th ones of the row.
void RoundFine(const float* x, const NibbleSteps& by, const NibbleRows& to, int64_t p,
               int64_t index) {
  const float32x4_t inverse = vdupq_n_f32(by.inverse);
  int32x4_t q[8], fine[8], highs = vdupq_n_s32(0), fine_highs = highs;
  Unroll<4>([&](auto i) {
    const TwoBytes y(vmulq_f32(vld1q_f32(x + 8 * i + 4), inverse));
    const TwoBytes u(vsubq_f32(vmulq_f32(vld1q_f32(x + 8 * i), inverse), y.Sixteenth()));
    q[2 * i] = u.whole;
    q[2 * i + 1] = y.whole;
    fine[2 * i] = u.parts;
    fine[2 * i + 1] = y.parts;
    highs = vaddq_s32(highs, y.whole);
    fine_highs = vaddq_s32(fine_highs, y.parts);
  });
  const int32_t sum = 16 * StorePiece(q, to.q + p * kNibblePiece) + vaddvq_s32(highs);
  const int32_t rest =
      16 * StorePiece(fine, to.fine + index * kNibblePiece) + vaddvq_s32(fine_highs);
  PutNumbers(to, p, by.scale, sum, rest);
  to.fine_of[index] = {static_cast<int32_t>(p), -8 * rest, by.scale / kNibbleFineSteps};
}

void QuantizeNibbles(const float* x, int64_t count, const NibbleRows& to) {
  const int64_t pieces = count / kNibblePiece;
  const NibbleRow row(x, count, to.start);
  // Of all pieces before the first is rounded: the quotients take long, and none waits for another.
  StepsOfPieces(row, pieces, to.start);
  *to.power = 1 / row.power;
  int32_t fine = 0;
  for (int64_t p = 0; p < pieces; ++p, x += kNibblePiece) {
    const NibbleSteps by = StepsAt(to.start + 4 * p);
    if (by.is_fine) {
      RoundFine(x, by, to, p, fine++);
    } else {
      RoundNibbles(x, by, to, p);
    }
  }
  *to.fine_count = fine;
}

// --- Products -----------------------------------------------------------------------------------

#if !OORT_HAS_ASSEMBLY
/// Four rows of a group, a register of each of its lines.
struct NibbleLines {
  uint8x16_t w[4];
  explicit NibbleLines(const std::byte* from) {
    Unroll<4>([&](auto i) { w[i] = vld1q_u8(reinterpret_cast<const uint8_t*>(from) + 64 * i); });
  }
  int8x16_t low(int i) const { return vreinterpretq_s8_u8(vandq_u8(w[i], vdupq_n_u8(15))); }
};

/// The 32 bytes of a row.
struct NibbleBytes {
  int8x16_t v[2];
  explicit NibbleBytes(const int8_t* from) : v{vld1q_s8(from), vld1q_s8(from + 16)} {}
};

inline int32x4_t NibbleSum(const NibbleLines& lines, const NibbleBytes& x, int32x4_t sum) {
  int32x4_t lows = vdupq_n_s32(0);
  Unroll<4>([&](auto i) {
    sum = vusdotq_laneq_s32(sum, lines.w[i], x.v[i / 2], 2 * (i % 2) + 1);
    lows = vdotq_laneq_s32(lows, lines.low(i), x.v[i / 2], 2 * (i % 2));
  });
  return vmlaq_n_s32(sum, lows, 16);
}

/// Adds the products of a panel with the second bytes of a row to the totals.
template <bool minimums>
void AddFineProducts(const NibbleRows& x, const std::byte* panel, float32x4_t (&totals)[4]) {
  constexpr int kHead = minimums ? 64 : 32;
  for (int32_t f = 0; f < *x.fine_count; ++f) {
    const FineNibbles& of = x.fine_of[f];
    const int8_t* from = x.fine + f * kNibblePiece;
    const int8x16_t bytes[2] = {vld1q_s8(from), vld1q_s8(from + 16)};
    const std::byte* group = panel + int64_t{of.piece} * (kHead + 256);
    const uint8_t* lines = reinterpret_cast<const uint8_t*>(group) + kHead;
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(group);
    Unroll<4>([&](auto part) {
      int32x4_t sum = vdupq_n_s32(minimums ? 0 : of.start);
      Unroll<4>([&](auto i) {
        const uint8x16_t w = vld1q_u8(lines + 64 * i + 16 * part);
        sum = vusdotq_laneq_s32(sum, vshlq_n_u8(w, 4), bytes[i / 2], 2 * (i % 2));
        sum = vusdotq_laneq_s32(sum, w, bytes[i / 2], 2 * (i % 2) + 1);
      });
      const float16x4_t halves = vreinterpret_f16_u16(vld1_u16(scales + 4 * part));
      const float32x4_t scale = vmulq_n_f32(vcvt_f32_f16(halves), of.scale);
      totals[part] = vfmaq_f32(totals[part], scale, vcvtq_f32_s32(sum));
    });
  }
}

/// One panel times one row, in intrinsics.
template <bool minimums>
void NibblePanel(const NibbleDot& dot, int row) {
  constexpr int kHead = minimums ? 64 : 32;
  const NibbleRows x = dot.x.From(row);
  float32x4_t totals[4];
  Unroll<4>([&](auto i) { totals[i] = vdupq_n_f32(0); });
  const std::byte* group = dot.panel;
  const int64_t groups = dot.k / kNibblePiece;
  for (int64_t g = 0; g < groups; ++g, group += kHead + 256) {
    const NibbleBytes bytes(x.q + g * kNibblePiece);
    const int32x4_t start = minimums ? vdupq_n_s32(0) : vld1q_s32(x.start + 4 * g);
    const float16x4_t numbers =
        vreinterpret_f16_u32(vld1_dup_u32(reinterpret_cast<const uint32_t*>(x.numbers + 2 * g)));
    Unroll<4>([&](auto i) {
      const NibbleLines lines(group + kHead + 16 * i);
      const auto halves = [&](int at) {
        return vreinterpretq_f16_u8(
            vcombine_u8(vld1_u8(reinterpret_cast<const uint8_t*>(group) + at), vdup_n_u8(0)));
      };
      const int32x4_t sum = NibbleSum(lines, bytes, start);
      if constexpr (minimums) totals[i] = MultiplyLow<1>(totals[i], halves(32 + 8 * i), numbers);
      const float32x4_t scale = MultiplyLow<0>(vdupq_n_f32(0), halves(8 * i), numbers);
      totals[i] = vfmaq_f32(totals[i], scale, vcvtq_f32_s32(sum));
    });
  }
  AddFineProducts<minimums>(x, dot.panel, totals);
  Unroll<4>([&](auto i) {
    vst1q_f32(dot.y + row * dot.y_stride + 4 * i, vmulq_n_f32(totals[i], *x.power));
  });
}
#endif

/// `panels` panels times one row.
template <bool minimums>
void NibblePanelsOne(const NibbleDot& dot, int first, int64_t panels,
                     [[maybe_unused]] const std::byte* ahead) {
#if OORT_HAS_ASSEMBLY
  const NibbleRows row = dot.x.From(first);
  const NibbleRowX x{dot.k / kNibblePiece, row.q,       row.numbers, row.start,
                     *row.power,           row.fine_of, row.fine,    *row.fine_count};
  NibbleRowDot<minimums>(x, panels, dot.panel, ahead, dot.y + first * dot.y_stride);
#else
  NibbleDot moved = dot;
  for (; panels > 0; --panels, moved.y += kPanelRows) {
    NibblePanel<minimums>(moved, first);
    moved.panel += dot.k / kNibblePiece * dot.layout.group_bytes();
  }
#endif
}

template <bool minimums>
void DotNibbles(NibbleDot dot) {
  if (dot.k == 0) {
    for (int row = 0; row < dot.rows; ++row) {
      std::memset(dot.y + row * dot.y_stride, 0,
                  static_cast<size_t>(dot.panels * kPanelRows) * sizeof(float));
    }
    return;
  }
  const int64_t bytes = dot.k / kNibblePiece * dot.layout.group_bytes();
  const int64_t distance = (kNibbleAheadBytes / bytes + 1) * bytes;
  // With one row, all panels that prefetch at the same distance are multiplied in one call.
  for (int64_t some = 0; dot.rows == 1 && dot.panels > 0; dot.panels -= some) {
    const int64_t left = (dot.end - dot.panel - distance + bytes - 1) / bytes;
    some = left > 0 && left < dot.panels ? left : dot.panels;
    NibblePanelsOne<minimums>(dot, 0, some, AheadOf(dot, distance));
    dot.panel += some * bytes;
    dot.y += some * kPanelRows;
  }
  for (int64_t p = 0; p < dot.panels; ++p, dot.panel += bytes, dot.y += kPanelRows) {
    for (int row = 0; row < dot.rows; ++row) {
      NibblePanelsOne<minimums>(dot, row, 1, AheadOf(dot, distance));
    }
  }
}

void Dot(const NibbleDot& dot) {
  if (dot.layout.has_minimum) {
    DotNibbles<true>(dot);
  } else {
    DotNibbles<false>(dot);
  }
}

}  // namespace

const NibbleKernels& NibbleKernelsGet() {
  static constexpr NibbleKernels kTable = {
      .quantize = QuantizeNibbles, .dot = Dot, .unpack_fours = UnpackHalfFours};
  return kTable;
}

}  // namespace oort::OORT_ISA
