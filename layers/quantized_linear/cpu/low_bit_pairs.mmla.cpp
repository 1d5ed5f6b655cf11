// SPDX-License-Identifier: MIT
// The sums are those of dot_row_low_bits_neon.h, bit by bit.
#include "layers/quantized_linear/cpu/low_bit_pairs.h"

#include <algorithm>
#include <type_traits>

#include "layers/quantized_linear/cpu/pair_products_neon.h"

namespace oort::OORT_ISA {
namespace {

constexpr int kMostLowPairs = 4;  // that are multiplied at a time
/// Steps of k that meet all rows before the next ones do: with their rows they stay in the L1
/// cache.
constexpr int64_t kLowStretch = 1280;
/// The least number of bytes by which a panel is prefetched before its use.
constexpr int64_t kLowAheadBytes = 10240;

// --- Rows ---------------------------------------------------------------------------------------

/// In the order of LowPairPiece.
template <int steps>
void InterleaveSteps(const int8_t* first, const int8_t* second, int8_t (&to)[steps / 8][2][8]) {
  Unroll<steps / 16>([&](auto i) {
    InterleaveSixteen(first + 16 * i, second + 16 * i, to[2 * i], to[2 * i + 1]);
  });
}

/// A row that is not there has the numbers of the one that is; its results are left out.
template <int steps>
void JoinLowRows(const ByteRows& rows, int64_t first, int count_rows, const LowPairs<steps>& to) {
  const int64_t second = first + count_rows - 1;
  const ByteNumbers& of = rows.of_4_bits;
  for (int64_t p = 0; p < to.stride; ++p) {
    const int64_t a = rows.number_at(first, p), b = rows.number_at(second, p);
    const bool fine_a = rows.is_fine[a] != 0, fine_b = rows.is_fine[b] != 0;
    LowPairPiece<steps>& piece = to.pieces[p];
    InterleaveSteps<steps>(rows.q + a * steps, rows.q + b * steps, piece.q);
    ByTurns(of.scale[a], of.scale[b], piece.scale);
    ByTurns(of.offset[a], of.offset[b], piece.offset);
    ByTurns(fine_a ? 0 : of.sum[a], fine_b ? 0 : of.sum[b], piece.sum);
    piece.has_fine = fine_a || fine_b ? 1 : 0;
    if (piece.has_fine == 0) continue;
    static constexpr int8_t kZeros[steps] = {};
    LowFinePiece<steps>& fine = to.fine[p];
    InterleaveSteps<steps>(fine_a ? rows.fine + a * steps : kZeros,
                           fine_b ? rows.fine + b * steps : kZeros, fine.q);
    ByTurns(fine_a ? of.sum[a] : 0, fine_b ? of.sum[b] : 0, fine.sum);
    ByTurns(fine_a ? kFineSteps : 1, fine_b ? kFineSteps : 1, fine.times);
  }
}

// --- Weights ------------------------------------------------------------------------------------

/// A group of four rows of the weight, eight steps in each FourRows, in the order of LowPairPiece.
template <WeightType type, int steps>
[[gnu::always_inline]] inline void UnpackLowBits(const std::byte* lines,
                                                 FourRows (&to)[steps / 8]) {
  const auto line = [&](int i) { return vreinterpretq_u8_u32(LoadWords(lines + 64 * i)); };
  const auto put = [&](int i, uint8x16_t first, uint8x16_t second) {
    to[i] = Zip(vreinterpretq_u32_u8(first), vreinterpretq_u32_u8(second));
  };
  if constexpr (type == WeightType::kInt4) {
    Unroll<steps / 16>([&](auto i) {
      const FourRows both = Zip(LoadWords(lines + 128 * i), LoadWords(lines + 128 * i + 64));
      Unroll<2>([&](auto j) {
        to[2 * i].two[j] = vandq_u8(both.two[j], vdupq_n_u8(15));
        to[2 * i + 1].two[j] = vshrq_n_u8(both.two[j], 4);
      });
    });
  } else if constexpr (type == WeightType::kInt5) {
    // See byte_lines.h.
    const uint8x16_t a = line(0), b = line(1), c = line(2), d = line(3), e = line(4);
    const uint8x16_t mask = vdupq_n_u8(31);
    const uint8x16_t rest = vsriq_n_u8(vshlq_n_u8(b, 2), vshlq_n_u8(d, 2), 1);
    put(0, vandq_u8(a, mask), vandq_u8(c, mask));
    put(1, vandq_u8(b, mask), vandq_u8(d, mask));
    put(2, vandq_u8(e, mask), vshrq_n_u8(vsriq_n_u8(c, d, 3), 3));
    put(3, vshrq_n_u8(vsriq_n_u8(a, b, 3), 3), vshrq_n_u8(vsriq_n_u8(e, rest, 3), 3));
  } else {
    const uint8x16_t a = line(0), b = line(1), c = line(2), mask = vdupq_n_u8(63);
    put(0, vandq_u8(a, mask), vandq_u8(c, mask));
    put(1, vandq_u8(b, mask), vshrq_n_u8(vsriq_n_u8(vsriq_n_u8(a, b, 2), c, 4), 2));
  }
}

/// Numbers of four rows twice each, as 2 x 2 sums have them.
struct TwiceFour {
  float32x4_t two[2];
};
template <ScaleType type>
[[gnu::always_inline]] inline TwiceFour LoadTwice(const std::byte* from) {
  if constexpr (type == ScaleType::kF16) {
    const FourScales all(from);
    return {{all.two[0], all.two[1]}};
  } else {
    const uint8x8_t bytes =
        vreinterpret_u8_u32(vld1_dup_u32(reinterpret_cast<const uint32_t*>(from)));
    const uint8x8_t twice = vzip1_u8(bytes, bytes);
    if constexpr (type == ScaleType::kByte) {
      const uint16x8_t wide = vmovl_u8(twice);
      return {{vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide))), vcvtq_f32_u32(vmovl_high_u16(wide))}};
    } else {
      const int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(twice));
      return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), vcvtq_f32_s32(vmovl_high_s16(wide))}};
    }
  }
}

/// What the scales and minimums of a span count, of four rows.
template <ScaleType type>
struct SpanSteps {
  TwiceFour scale, minimum, start;
  [[gnu::always_inline]] explicit SpanSteps(const std::byte* from) {
    if constexpr (type == ScaleType::kF16) return;
    scale = Divided(from);
    if constexpr (type != ScaleType::kByte) return;
    minimum = Divided(from + 2 * kPanelRows);
    start = LoadTwice<ScaleType::kF16>(from + 4 * kPanelRows);
  }
  static TwiceFour Divided(const std::byte* from) {
    TwiceFour all = LoadTwice<ScaleType::kF16>(from);
    for (float32x4_t& some : all.two) some = vmulq_n_f32(some, 1.0f / 256);
    return all;
  }
  [[gnu::always_inline]] TwiceFour Scales(const std::byte* from) const {
    TwiceFour all = LoadTwice<type>(from);
    if constexpr (type != ScaleType::kF16) {
      Unroll<2>([&](auto j) { all.two[j] = vmulq_f32(all.two[j], scale.two[j]); });
    }
    return all;
  }
  [[gnu::always_inline]] TwiceFour Minimums(const std::byte* from) const {
    TwiceFour all = LoadTwice<type>(from);
    if constexpr (type == ScaleType::kByte) {
      Unroll<2>([&](auto j) { all.two[j] = vfmaq_f32(start.two[j], all.two[j], minimum.two[j]); });
    }
    return all;
  }
};

// --- Products -----------------------------------------------------------------------------------

#if OORT_HAS_ASSEMBLY
/// sums += 2 x 2 products of 16 steps. In assembly for the reason of pair_products_neon.h.
[[gnu::always_inline]] inline void AddSixteenSteps(const FourRows& first, const FourRows& second,
                                                   const int8_t (&x)[32], int32x4_t (&sums)[2]) {
  int8x16_t p, q;
  asm("ldp %q[p], %q[q], [%[x]]\n"
      "usmmla %[a].4s, %[u0].16b, %[p].16b\n usmmla %[b].4s, %[v0].16b, %[p].16b\n"
      "usmmla %[a].4s, %[u1].16b, %[q].16b\n usmmla %[b].4s, %[v1].16b, %[q].16b\n"
      : [a] "+&w"(sums[0]), [b] "+&w"(sums[1]), [p] "=&w"(p), [q] "=&w"(q)
      : [u0] "w"(first.two[0]), [v0] "w"(first.two[1]), [u1] "w"(second.two[0]),
        [v1] "w"(second.two[1]), [x] "r"(&x[0]), "m"(x));
}
#endif

/// sums += 2 x 2 products of a piece.
template <int steps>
[[gnu::always_inline]] inline void AddLowProducts(const FourRows (&w)[steps / 8],
                                                  const int8_t (&x)[steps / 8][2][8],
                                                  int32x4_t (&sums)[2]) {
#if OORT_HAS_ASSEMBLY
  Unroll<steps / 16>([&](auto half) {
    AddSixteenSteps(w[2 * half], w[2 * half + 1],
                    *reinterpret_cast<const int8_t(*)[32]>(&x[2 * half][0][0]), sums);
  });
#else
  Unroll<steps / 8>([&](auto i) {
    const int8x16_t bytes = vld1q_s8(&x[i][0][0]);
    Unroll<2>([&](auto j) { sums[j] = vusmmlaq_s32(sums[j], w[i].two[j], bytes); });
  });
#endif
}

/// `moved_`: whether sums begin at something else than 0.
template <WeightType type_, bool minimums_, ScaleType scales_, bool moved_>
struct LowVariant {
  static constexpr WeightType type = type_;
  static constexpr bool minimums = minimums_;
  static constexpr ScaleType scales = scales_;
  static constexpr int steps = type == WeightType::kInt6 ? 16 : 32;
  static constexpr int kScaleBytes = scales == ScaleType::kF16 ? 2 : 1;
  static constexpr int kBits = type == WeightType::kInt4 ? 4 : type == WeightType::kInt5 ? 5 : 6;
  static constexpr int64_t kHead = kPanelRows * kScaleBytes * (minimums ? 2 : 1);
  static constexpr int64_t kGroup = kHead + steps * kPanelRows * kBits / 8;
  static constexpr bool moved = moved_;
};

/// Some groups of four rows of the weight times `pairs` pairs.
template <typename V, int pairs>
struct LowPart {
  static constexpr int steps = V::steps;
  using Totals = float[kMostLowPairs][2][4];
  const PanelLayout& layout;
  const std::byte* panel;
  int part;
  const LowPairs<steps>& x;

  /// Groups [first, end), which begin with a span. `near` is prefetched into the L1 cache.
  void Run(int64_t first, int64_t end, const std::byte* ahead, const std::byte* near,
           Totals& in_memory) const {
    float32x4_t totals[pairs][2];
    const auto each = [&](auto body) {
      Unroll<pairs>([&](auto p) { Unroll<2>([&](auto j) { body(p, j); }); });
    };
    each([&](auto p, auto j) { totals[p][j] = vld1q_f32(in_memory[p][j]); });
    const int64_t span = V::scales == ScaleType::kF16 ? end - first : layout.span;
    for (int64_t g = first; g < end;) {
      const std::byte* group = panel + layout.group_at(g);
      const SpanSteps<V::scales> steps_of(panel + layout.steps_at(g) + 8 * part);
      for (const int64_t last = g + span; g < last; ++g, group += V::kGroup) {
        __builtin_prefetch(ahead + 64 * part + (group - panel), 0, 1);
        __builtin_prefetch(near, 0, 3);
        __builtin_prefetch(near + 40, 0, 3);
        near += 80;
        AddGroup(group, g, steps_of, totals);
      }
    }
    each([&](auto p, auto j) { vst1q_f32(in_memory[p][j], totals[p][j]); });
  }

 private:
  [[gnu::always_inline]] void AddGroup(const std::byte* group, int64_t g,
                                       const SpanSteps<V::scales>& steps_of,
                                       float32x4_t (&totals)[pairs][2]) const {
    FourRows weights[steps / 8];
    UnpackLowBits<V::type, steps>(group + V::kHead + 16 * part, weights);
    const TwiceFour scales = steps_of.Scales(group + V::kScaleBytes * 4 * part);
    [[maybe_unused]] TwiceFour least;
    if constexpr (V::minimums) {
      least = steps_of.Minimums(group + V::kScaleBytes * (kPanelRows + 4 * part));
    }
    Unroll<pairs>([&](auto p) {
      const LowPairPiece<steps>& piece = x.pieces[p * x.stride + g];
      float32x4_t sums[2];
      Sum(weights, piece, p * x.stride + g, sums);
      const float32x4_t scale = vld1q_f32(piece.scale);
      Unroll<2>([&](auto j) {
        float32x4_t& total = totals[p][j];
        if constexpr (V::minimums) {
          total = vfmaq_f32(total, least.two[j], vld1q_f32(piece.offset));
        }
        total = vfmaq_f32(total, vmulq_f32(sums[j], scale), scales.two[j]);
      });
    });
  }

  /// Where the sums of first bytes begin.
  [[gnu::always_inline]] int32x4_t Start(const int32_t (&sum)[4]) const {
    return V::moved ? vmulq_n_s32(vld1q_s32(sum), -layout.zero) : vdupq_n_s32(0);
  }
  [[gnu::always_inline]] void Sum(const FourRows (&weights)[steps / 8],
                                  const LowPairPiece<steps>& piece, int64_t at,
                                  float32x4_t (&to)[2]) const {
    int32x4_t sums[2];
    if constexpr (!V::moved) {
      SumProducts<false>(weights, piece.q, kZeroSums, sums);
      if (piece.has_fine == 0) [[likely]] {
        const float32x4_t zero = vreinterpretq_f32_s32(vdupq_n_s32(kZeroSum));
        Unroll<2>([&](auto j) { to[j] = vsubq_f32(vreinterpretq_f32_s32(sums[j]), zero); });
        return;
      }
      Unroll<2>([&](auto j) { sums[j] = vsubq_s32(sums[j], vdupq_n_s32(kZeroSum)); });
    } else {
      sums[0] = sums[1] = Start(piece.sum);
      AddLowProducts<steps>(weights, piece.q, sums);
    }
    if (piece.has_fine != 0) [[unlikely]] {
      const LowFinePiece<steps>& fine = x.fine[at];
      int32x4_t second[2];
      second[0] = second[1] = Start(fine.sum);
      AddLowProducts<steps>(weights, fine.q, second);
      const int32x4_t times = vld1q_s32(fine.times);
      Unroll<2>([&](auto j) { sums[j] = vmlaq_s32(second[j], sums[j], times); });
    }
    Unroll<2>([&](auto j) { to[j] = vcvtq_f32_s32(sums[j]); });
  }
};

/// All groups of a panel times a few pairs of rows.
template <typename V>
class LowPanel {
 public:
  LowPanel(const LowPairDot<V::steps>& dot, int first, int pairs)
      : dot_(dot), x_(dot.x.From(2 * first)), first_(first), pairs_(pairs) {}

  void Run(const std::byte* ahead, const std::byte* near) {
    const int64_t groups = dot_.k / V::steps;
    const int64_t span = V::scales == ScaleType::kF16 ? 1 : dot_.layout.span;
    const int64_t stretch = std::max<int64_t>(span, kLowStretch / V::steps / span * span);
    for (int64_t first = 0; first < groups; first += stretch) {
      const int64_t end = std::min(groups, first + stretch);
      for (int part = 0; part < kParts; ++part) {
        const std::byte* to_fetch =
            near + dot_.layout.group_at(first) + (end - first) * V::kGroup / kParts * part;
        RunPart(part, first, end, ahead, to_fetch);
      }
    }
    for (int part = 0; part < kParts; ++part) {
      for (int pair = 0; pair < pairs_; ++pair) Store(part, pair);
    }
  }

 private:
  static constexpr int kParts = kPanelRows / 4;

  void RunPart(int part, int64_t first, int64_t end, const std::byte* ahead,
               const std::byte* near) {
    const auto run = [&](auto tag) {
      const LowPart<V, decltype(tag)::value> some{dot_.layout, dot_.panel, part, x_};
      some.Run(first, end, ahead, near, totals_[part]);
    };
    switch (pairs_) {
      case 1: return run(std::integral_constant<int, 1>{});
      case 2: return run(std::integral_constant<int, 2>{});
      case 3: return run(std::integral_constant<int, 3>{});
      default: return run(std::integral_constant<int, kMostLowPairs>{});
    }
  }

  void Store(int part, int pair) const {
    float32x4_t totals[2];
    Unroll<2>([&](auto j) { totals[j] = vld1q_f32(totals_[part][pair][j]); });
    const TwoRowsOf results(totals);
    const int row = 2 * (first_ + pair);
    for (int r = 0; r < std::min(2, dot_.rows - row); ++r) {
      vst1q_f32(dot_.y + (row + r) * dot_.y_stride + 4 * part, results.row[r]);
    }
  }

  const LowPairDot<V::steps>& dot_;
  LowPairs<V::steps> x_;
  int first_, pairs_;
  alignas(64) float totals_[kParts][kMostLowPairs][2][4] = {};
};

template <typename V>
void DotLowPanels(LowPairDot<V::steps> dot) {
  const int64_t bytes = dot.layout.panel_bytes(dot.k);
  const int64_t distance = bytes == 0 ? 0 : (kLowAheadBytes / bytes + 1) * bytes;
  const int pairs = (dot.rows + 1) / 2, blocks = (pairs + kMostLowPairs - 1) / kMostLowPairs;
  for (int64_t panel = 0; panel < dot.panels; ++panel, dot.panel += bytes, dot.y += kPanelRows) {
    const std::byte *ahead = AheadOf(dot, distance), *near = AheadOf(dot, bytes);
    // About as many pairs in each block.
    for (int block = 0, first = 0; block < blocks; ++block, ahead = near = dot.panel) {
      const int end = pairs * (block + 1) / blocks;
      LowPanel<V>(dot, first, end - first).Run(ahead, near);
      first = end;
    }
  }
}

}  // namespace

void PairsOfLowBits32(const ByteRows& rows, int64_t first, int count_rows, const LowPairs<32>& to) {
  JoinLowRows(rows, first, count_rows, to);
}
void PairsOfLowBits16(const ByteRows& rows, int64_t first, int count_rows, const LowPairs<16>& to) {
  JoinLowRows(rows, first, count_rows, to);
}

void DotLowPairs32(const LowPairDot<32>& dot) {
  constexpr WeightType kFour = WeightType::kInt4, kFive = WeightType::kInt5;
  constexpr ScaleType kBytes = ScaleType::kByte, kHalves = ScaleType::kF16;
  const PanelLayout& layout = dot.layout;
  if (layout.type == kFour) {
    // Only scales that were rounded to bytes have a zero.
    if (layout.zero == 0) return DotLowPanels<LowVariant<kFour, true, kBytes, false>>(dot);
    return DotLowPanels<LowVariant<kFour, true, kBytes, true>>(dot);
  }
  if (layout.scales == kBytes) return DotLowPanels<LowVariant<kFive, true, kBytes, false>>(dot);
  if (layout.has_minimum) return DotLowPanels<LowVariant<kFive, true, kHalves, false>>(dot);
  return DotLowPanels<LowVariant<kFive, false, kHalves, true>>(dot);
}

void DotLowPairs16(const LowPairDot<16>& dot) {
  DotLowPanels<LowVariant<WeightType::kInt6, false, ScaleType::kSignedByte, true>>(dot);
}

}  // namespace oort::OORT_ISA
