// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cpu/row_pairs.h"

#include <arm_neon.h>

#include <algorithm>
#include <cstring>

#include "cpu/assembly_neon.h"
#include "cpu/unroll.h"

namespace oort::OORT_ISA {
namespace {

constexpr int kPairSteps = 32;  // of a piece, and of a group
constexpr int kMostPairs = 4;   // that are multiplied at a time
/// The least number of bytes by which a panel is prefetched before its use.
constexpr int64_t kPairAheadBytes = 19456;

// --- Rows ---------------------------------------------------------------------------------------

/// Bytes of two rows, eight of each by turns.
inline void Interleave(const int8_t* first, const int8_t* second, int8_t (&to)[4][2][8]) {
  Unroll<4>([&](auto i) {
    vst1q_s8(&to[i][0][0], vcombine_s8(vld1_s8(first + 8 * i), vld1_s8(second + 8 * i)));
  });
}

/// Of two rows by turns.
template <typename T, int count>
void ByTurns(T first, T second, T (&to)[count]) {
  for (int i = 0; i < count; i += 2) {
    to[i] = first;
    to[i + 1] = second;
  }
}

inline float HalfAt(const uint16_t* bits) {
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vld1_dup_u16(bits))), 0);
}

/// A row that is not there has the numbers of the one that is; its results are left out.
void FromNibbles(const NibbleRows& rows, int count_rows, int64_t count, PairPiece* to) {
  const NibbleRows a = rows, b = rows.From(count_rows - 1);
  int64_t plain = 0;
  for (int64_t p = count - 1; p >= 0; --p) {
    PairPiece& piece = to[p];
    Interleave(a.q + p * kPairSteps, b.q + p * kPairSteps, piece.q);
    ByTurns(HalfAt(a.numbers + 2 * p), HalfAt(b.numbers + 2 * p), piece.scale);
    ByTurns(a.numbers[2 * p + 1], b.numbers[2 * p + 1], piece.offset);
    ByTurns(a.start[4 * p] + kPairMagic, b.start[4 * p] + kPairMagic, piece.start);
    piece.is_fine[0] = a.is_fine[p] != 0 ? ~0u : 0u;
    piece.is_fine[1] = b.is_fine[p] != 0 ? ~0u : 0u;
    const bool any_fine = (a.is_fine[p] | b.is_fine[p]) != 0;
    plain = any_fine ? 0 : plain + 1;
    piece.plain = plain;
    if (any_fine) Interleave(a.fine + p * kPairSteps, b.fine + p * kPairSteps, piece.fine);
  }
}

void FromBytes(const ByteRows& rows, int64_t first, int count_rows, int64_t count, PairPiece* to) {
  const int64_t second = first + count_rows - 1;
  for (int64_t p = 0; p < count; ++p, ++to) {
    const int64_t a = rows.number_at(first, p), b = rows.number_at(second, p);
    Interleave(rows.q + a * kPairSteps, rows.q + b * kPairSteps, to->q);
    Interleave(rows.fine + a * kPairSteps, rows.fine + b * kPairSteps, to->fine);
    ByTurns(rows.of_8_bits.scale[a], rows.of_8_bits.scale[b], to->scale);
  }
}

// --- Weights ------------------------------------------------------------------------------------

inline uint32x4_t LoadWords(const std::byte* from) {
  return vld1q_u32(reinterpret_cast<const uint32_t*>(from));
}

/// Eight steps of four rows of the weight: of the first two, and of the last two.
template <typename Byte>
struct FourRows {
  Byte two[2];
};

inline FourRows<uint8x16_t> Zip(uint32x4_t first, uint32x4_t second) {
  return {{vreinterpretq_u8_u32(vzip1q_u32(first, second)),
           vreinterpretq_u8_u32(vzip2q_u32(first, second))}};
}

inline uint32x4_t ShiftLeft4(uint32x4_t w) {
  return vreinterpretq_u32_u8(vshlq_n_u8(vreinterpretq_u8_u32(w), 4));
}
inline uint32x4_t ShiftRight4(uint32x4_t w) {
  return vreinterpretq_u32_u8(vshrq_n_u8(vreinterpretq_u8_u32(w), 4));
}

/// Numbers of f16 of four rows, as 2 x 2 sums have them: 0 0 1 1, and 2 2 3 3.
inline float16x8_t FourNumbers(const std::byte* from) {
  // The upper half is what follows; it is not used.
  const uint16x8_t halves = vld1q_u16(reinterpret_cast<const uint16_t*>(from));
  return vreinterpretq_f16_u16(vzip1q_u16(halves, halves));
}

struct FourScales {
  float32x4_t two[2];
  explicit FourScales(const std::byte* from) {
    const float16x8_t all = FourNumbers(from);
    two[0] = vcvt_f32_f16(vget_low_f16(all));
    two[1] = vcvt_high_f32_f16(all);
  }
};

/// The 32 steps of a group of four rows.
using GroupRows = FourRows<uint8x16_t>[4];

// In assembly, since GCC 12 loads the bytes of all pairs at once, for which there are not enough
// registers.
#define OORT_PAIR_OPERANDS                                                                   \
  [u0] "w"(weights[0].two[0]), [v0] "w"(weights[0].two[1]), [u1] "w"(weights[1].two[0]),     \
      [v1] "w"(weights[1].two[1]), [u2] "w"(weights[2].two[0]), [v2] "w"(weights[2].two[1]), \
      [u3] "w"(weights[3].two[0]), [v3] "w"(weights[3].two[1]), [x] "r"(&x[0][0][0]), "m"(x)
#define OORT_PAIR_STEP(name, i, x)                                                        \
  name " %[a].4s, %[u" #i "].16b, %[" #x "].16b\n" name " %[b].4s, %[v" #i "].16b, %[" #x \
       "]."                                                                               \
       "16b\n"
#define OORT_PAIR_SUMS(name)                                                                  \
  asm("ldr %q[a], %[start]\n ldr %q[b], %[start]\n ldp %q[p], %q[q], [%[x]]\n"                \
      "ldp %q[r], %q[s], [%[x], #32]\n" OORT_PAIR_STEP(name, 0, p) OORT_PAIR_STEP(name, 1, q) \
          OORT_PAIR_STEP(name, 2, r) OORT_PAIR_STEP(name, 3, s)                               \
      : [a] "=&w"(sums[0]), [b] "=&w"(sums[1]), [p] "=&w"(p), [q] "=&w"(q), [r] "=&w"(r),     \
        [s] "=&w"(s)                                                                          \
      : [start] "m"(start), OORT_PAIR_OPERANDS)

constexpr int32_t kNoStart[4] = {};
constexpr int32_t kMagicStart[4] = {kPairMagic, kPairMagic, kPairMagic, kPairMagic};

/// Sums of 2 x 2 products of a piece, for the first and the last two rows of the weight. They begin
/// at `start`, which is loaded: the units that would copy it have more to do.
template <bool is_signed>
[[gnu::always_inline]] inline void SumProducts(const GroupRows& weights, const int8_t (&x)[4][2][8],
                                               const int32_t (&start)[4], int32x4_t (&sums)[2]) {
#if OORT_HAS_ASSEMBLY
  int8x16_t p, q, r, s;
  if constexpr (is_signed) {
    OORT_PAIR_SUMS("smmla");
  } else {
    OORT_PAIR_SUMS("usmmla");
  }
#else
  sums[0] = sums[1] = vld1q_s32(start);
  Unroll<4>([&](auto i) {
    const int8x16_t bytes = vld1q_s8(&x[i][0][0]);
    Unroll<2>([&](auto j) {
      sums[j] = is_signed ? vmmlaq_s32(sums[j], vreinterpretq_s8_u8(weights[i].two[j]), bytes)
                          : vusmmlaq_s32(sums[j], weights[i].two[j], bytes);
    });
  });
#endif
}

// --- Products -----------------------------------------------------------------------------------

/// Where the results of some pairs of rows begin, and how many rows there are.
struct PairTarget {
  float* y;
  int64_t stride;
  int rows;
};

/// Totals of two rows stand as 2 x 2 sums do; those of the first row go to y, of the second behind
/// it where there is one.
template <int pairs>
[[gnu::always_inline]] inline void StorePairs(const float32x4_t (&totals)[pairs][2],
                                              const float* power, const PairTarget& to) {
  Unroll<pairs>([&](auto p) {
    const float32x4_t rows[2] = {vuzp1q_f32(totals[p][0], totals[p][1]),
                                 vuzp2q_f32(totals[p][0], totals[p][1])};
    Unroll<2>([&](auto r) {
      constexpr int kRow = 2 * p + r;
      if (kRow >= to.rows) return;
      vst1q_f32(to.y + kRow * to.stride,
                power == nullptr ? rows[r] : vmulq_n_f32(rows[r], power[kRow]));
    });
  });
}

/// What the products of a panel of 4 bits go through: groups for some pairs of rows, four rows of
/// the weight at a time.
template <bool minimums_, int pairs_>
struct NibbleGroups {
  static constexpr bool minimums = minimums_;
  static constexpr int pairs = pairs_;
  static constexpr int kHead = minimums ? 64 : 32;
  static constexpr int64_t kGroup = kHead + 256;
  const std::byte* lines;
  const std::byte* head;
  const std::byte* ahead;  ///< is prefetched
  const PairPiece* x;
  int64_t stride;
  float32x4_t totals[pairs][2] = {};

  [[gnu::always_inline]] void Next() {
    ++x;
    lines += kGroup;
    head += kGroup;
    ahead += kGroup;
  }

  /// How many groups from here on have no second bytes.
  int64_t Plain() const {
    int64_t plain = x->plain;
    for (int p = 1; p < pairs; ++p) plain = std::min(plain, x[p * stride].plain);
    return plain;
  }

  /// totals += products * scales, and what minimums add.
  [[gnu::always_inline]] static void Add(const PairPiece& piece, const float32x4_t (&products)[2],
                                         const FourScales& scales, float16x8_t least,
                                         float32x4_t (&to)[2]) {
    const float32x4_t scale = vld1q_f32(piece.scale);
    Unroll<2>(
        [&](auto j) { to[j] = vfmaq_f32(to[j], vmulq_f32(scales.two[j], scale), products[j]); });
    if constexpr (minimums) {
      const float16x8_t offset = vreinterpretq_f16_u16(vld1q_u16(piece.offset));
      to[0] = vfmlalq_low_f16(to[0], least, offset);
      to[1] = vfmlalq_high_f16(to[1], least, offset);
    }
  }

  /// So many groups without second bytes.
  [[gnu::always_inline]] void Run(int64_t count) {
    float32x4_t sums_of[pairs][2];  // in registers, which members are not
    Unroll<pairs>([&](auto p) { Unroll<2>([&](auto j) { sums_of[p][j] = totals[p][j]; }); });
    NibbleGroups at = *this;
    const float32x4_t magic = vreinterpretq_f32_s32(vdupq_n_s32(kPairMagic));
    for (; count > 0; --count, at.Next()) {
      __builtin_prefetch(at.ahead, 0, 1);
      GroupRows weights;
      Unroll<4>([&](auto i) {
        const uint32x4_t w = LoadWords(at.lines + 64 * i);
        weights[i] = Zip(ShiftLeft4(w), w);
      });
      const FourScales scales(at.head);
      const float16x8_t least = FourNumbers(at.head + (minimums ? 32 : 0));
      Unroll<pairs>([&](auto p) {
        const PairPiece& piece = at.x[p * stride];
        int32x4_t sums[2];
        SumProducts<false>(weights, piece.q, minimums ? kMagicStart : piece.start, sums);
        float32x4_t products[2];
        Unroll<2>([&](auto j) { products[j] = vsubq_f32(vreinterpretq_f32_s32(sums[j]), magic); });
        Add(piece, products, scales, least, sums_of[p]);
      });
    }
    lines = at.lines;
    head = at.head;
    ahead = at.ahead;
    x = at.x;
    Unroll<pairs>([&](auto p) { Unroll<2>([&](auto j) { totals[p][j] = sums_of[p][j]; }); });
  }

  /// One group where a row has second bytes.
  void RunFine() {
    const FourScales scales(head);
    const float16x8_t least = FourNumbers(head + (minimums ? 32 : 0));
    const int32x4_t magic = vdupq_n_s32(kPairMagic);
    GroupRows joined, apart;
    Unroll<4>([&](auto i) {
      const uint32x4_t w = LoadWords(lines + 64 * i);
      joined[i] = Zip(ShiftLeft4(w), w);
      apart[i] = Zip(vandq_u32(w, vdupq_n_u32(0x0f0f0f0fu)), ShiftRight4(w));
    });
    for (int p = 0; p < pairs; ++p) {
      const PairPiece& piece = x[p * stride];
      const int32_t(&start)[4] = minimums ? kMagicStart : piece.start;
      float32x4_t products[2] = {};
      int32x4_t sums[2];
      if ((piece.is_fine[0] & piece.is_fine[1]) == 0) {
        SumProducts<false>(joined, piece.q, start, sums);
        Unroll<2>([&](auto j) { products[j] = vcvtq_f32_s32(vsubq_s32(sums[j], magic)); });
      }
      if (piece.plain == 0) {
        const uint32x2_t rows = vld1_u32(piece.is_fine);
        int32x4_t first[2];
        SumProducts<false>(apart, piece.q, kNoStart, first);
        SumProducts<false>(apart, piece.fine, start, sums);
        Unroll<2>([&](auto j) {
          const int32x4_t both = vmlaq_n_s32(vsubq_s32(sums[j], magic), first[j], kFineSteps);
          products[j] = vbslq_f32(vcombine_u32(rows, rows), vcvtq_f32_s32(both), products[j]);
        });
      }
      Add(piece, products, scales, least, totals[p]);
    }
    Next();
  }
};

/// Four rows of a panel of 4 bits, from row 4 * part on, times some pairs of rows.
template <bool minimums, int pairs>
void NibblePairs(const PairDot& dot, int part, const std::byte* ahead, const PairPiece* x,
                 const float* power, const PairTarget& to) {
  using Groups = NibbleGroups<minimums, pairs>;
  Groups groups{dot.panel + Groups::kHead + 16 * part, dot.panel + 8 * part, ahead + 64 * part, x,
                dot.x.stride};
  for (int64_t left = dot.k / kPairSteps; left > 0;) {
    const int64_t plain = groups.Plain();
    groups.Run(plain);
    left -= plain;
    if (left == 0) break;
    groups.RunFine();
    --left;
  }
  StorePairs<pairs>(groups.totals, power, to);
}

/// The same of 8 bits, where all of x has two bytes.
template <int pairs>
void BytePairs(const PairDot& dot, int part, const std::byte* ahead, const PairPiece* x,
               const float* power, const PairTarget& to) {
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
      const PairPiece& piece = x[p * stride];
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
  StorePairs<pairs>(totals, power, to);
}

/// All panels, four rows of the weight after the other, times all rows; `run` is a kernel.
template <typename Run>
void ForPanels(PairDot dot, Run run) {
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
        const float* power = dot.x.power == nullptr ? nullptr : dot.x.power + 2 * first;
        run(dot, end - first, part, block == 0 ? ahead : dot.panel,
            dot.x.pieces + first * dot.x.stride, power, to);
        first = end;
      }
    }
  }
}

template <bool minimums>
void DotNibblePairs(const PairDot& all) {
  ForPanels(all, [](const PairDot& dot, int pairs, auto... with) {
    switch (pairs) {
      case 1: return NibblePairs<minimums, 1>(dot, with...);
      case 2: return NibblePairs<minimums, 2>(dot, with...);
      case 3: return NibblePairs<minimums, 3>(dot, with...);
      default: return NibblePairs<minimums, kMostPairs>(dot, with...);
    }
  });
}

void Dot(const PairDot& all) {
  if (all.layout.type == WeightType::kInt4) {
    return all.layout.has_minimum ? DotNibblePairs<true>(all) : DotNibblePairs<false>(all);
  }
  ForPanels(all, [](const PairDot& dot, int pairs, auto... with) {
    switch (pairs) {
      case 1: return BytePairs<1>(dot, with...);
      case 2: return BytePairs<2>(dot, with...);
      case 3: return BytePairs<3>(dot, with...);
      default: return BytePairs<kMostPairs>(dot, with...);
    }
  });
}

}  // namespace

const PairKernels& PairKernelsGet() {
  static constexpr PairKernels kTable = {
      .from_nibbles = FromNibbles, .from_bytes = FromBytes, .dot = Dot};
  return kTable;
}

}  // namespace oort::OORT_ISA
