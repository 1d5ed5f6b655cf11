// SPDX-License-Identifier: MIT
// Six pixels by up to four vectors of filters in f16 on NEON, multiplying by lanes of the pixels.
// Only for f16_rows_neon.h.
//
// Each of 24 registers gets a sum: where there are fewer sums than that, they are made in two or
// four parts, because an FMLA takes four cycles and four begin in each.
#pragma once

#include <cstdint>

#include "core/activation.h"
#include "cpu/vec_f16.h"
#include "layers/convolution/direct/tile_registers_neon.h"

namespace oort::OORT_ISA {

inline constexpr int kHalfRows = 6, kHalfVectors = 4, kHalfColumns = 32;
/// The bias of sums that have none.
alignas(64) inline constexpr Half kHalfZeros[kHalfColumns] = {};

/// What tiles can do to sums on their way out. The assembly below tells them apart by bits.
constexpr bool HalfTileSupports(Activation activation) {
  return activation == Activation::kNone || activation == Activation::kRelu ||
         activation == Activation::kClamp || activation == Activation::kHardswish;
}
static_assert(static_cast<int>(Activation::kNone) == 0 &&
              static_cast<int>(Activation::kRelu) == 1 &&
              static_cast<int>(Activation::kClamp) == 2 &&
              static_cast<int>(Activation::kHardswish) == 4);

/// What pixel r of the tile reads at a tap are the `depth` elements at rows[tap * kHalfRows + r].
/// Nothing is read behind them; three vectors behind the weights are.
struct HalfTile {
  const Half* const* rows = nullptr;
  int64_t offset = 0;  ///< elements behind each of the pointers
  int64_t taps = 0, depth = 0;
  const Half* weights = nullptr;
  const Half* bias = nullptr;
  const Half* addend = nullptr;  ///< may be null
  Half* out = nullptr;
  int64_t stride = 0;                         ///< of addend and out
  Activation activation = Activation::kNone;  ///< one that HalfTileSupports
  const Half* limits = nullptr;  ///< vectors: the least, the most, and for kHardswish 1/6
};

/// All rows of a tile of so many vectors: out = limited(rows * weights + bias + addend).
template <int vectors>
void MultiplyHalfTile(const HalfTile& tile);
/// The same for tiles one behind another, of a depth that is a multiple of eight and not 0: `skip`
/// pointers lie between the last tap of one and the first of the next. The pointers of one tile
/// more are read, and the first channels of its pixels.
template <int vectors>
void MultiplyHalfTiles(const HalfTile& tile, int64_t tiles, int64_t skip);

// clang-format off
// v0 to v5: eight channels of each pixel; v6 and v7: filters; v8 to v31: sums.
#define OORT_H_FMA(sum, filter, row, lane) \
  "fmla v" #sum ".8h, v" #filter ".8h, v" #row ".h[" #lane "]\n"
#define OORT_H_FILTER(to) "ldr q" #to ", [%[b]], #16\n"
#define OORT_H_LOAD(row) "ldr q" #row ", [%[p" #row "]], #16\n"
#define OORT_H_NONE(row)
/// One vector of filters times a channel of all pixels; `load` brings the next eight of these.
#define OORT_H_COLUMN(filter, lane, load, s0, s1, s2, s3, s4, s5)                            \
  OORT_H_FMA(s0, filter, 0, lane) load(0) OORT_H_FMA(s1, filter, 1, lane) load(1)            \
  OORT_H_FMA(s2, filter, 2, lane) load(2) OORT_H_FMA(s3, filter, 3, lane) load(3)            \
  OORT_H_FMA(s4, filter, 4, lane) load(4) OORT_H_FMA(s5, filter, 5, lane) load(5)            \
  OORT_H_FILTER(filter)

// A step of k with four, three, two vectors and one. The parts of a sum take turns.
#define OORT_H_STEP4(lane, load)                                     \
  OORT_H_COLUMN(6, lane, OORT_H_NONE, 8, 12, 16, 20, 24, 28)         \
  OORT_H_COLUMN(7, lane, OORT_H_NONE, 9, 13, 17, 21, 25, 29)         \
  OORT_H_COLUMN(6, lane, OORT_H_NONE, 10, 14, 18, 22, 26, 30)        \
  OORT_H_COLUMN(7, lane, load, 11, 15, 19, 23, 27, 31)
#define OORT_H_STEP3(lane, load)                                     \
  OORT_H_COLUMN(6, lane, OORT_H_NONE, 8, 12, 16, 20, 24, 28)         \
  OORT_H_COLUMN(7, lane, OORT_H_NONE, 9, 13, 17, 21, 25, 29)         \
  OORT_H_COLUMN(11, lane, load, 10, 14, 18, 22, 26, 30)
#define OORT_H_STEP2_EVEN(lane, load)                                \
  OORT_H_COLUMN(6, lane, OORT_H_NONE, 8, 12, 16, 20, 24, 28)         \
  OORT_H_COLUMN(7, lane, load, 9, 13, 17, 21, 25, 29)
#define OORT_H_STEP2_ODD(lane, load)                                 \
  OORT_H_COLUMN(6, lane, OORT_H_NONE, 10, 14, 18, 22, 26, 30)        \
  OORT_H_COLUMN(7, lane, load, 11, 15, 19, 23, 27, 31)

#define OORT_H_EIGHT4(load)                                                                       \
  OORT_H_STEP4(0, OORT_H_NONE) OORT_H_STEP4(1, OORT_H_NONE) OORT_H_STEP4(2, OORT_H_NONE)          \
  OORT_H_STEP4(3, OORT_H_NONE) OORT_H_STEP4(4, OORT_H_NONE) OORT_H_STEP4(5, OORT_H_NONE)          \
  OORT_H_STEP4(6, OORT_H_NONE) OORT_H_STEP4(7, load)
#define OORT_H_EIGHT3(load)                                                                       \
  OORT_H_STEP3(0, OORT_H_NONE) OORT_H_STEP3(1, OORT_H_NONE) OORT_H_STEP3(2, OORT_H_NONE)          \
  OORT_H_STEP3(3, OORT_H_NONE) OORT_H_STEP3(4, OORT_H_NONE) OORT_H_STEP3(5, OORT_H_NONE)          \
  OORT_H_STEP3(6, OORT_H_NONE) OORT_H_STEP3(7, load)
#define OORT_H_EIGHT2(load)                                                                       \
  OORT_H_STEP2_EVEN(0, OORT_H_NONE) OORT_H_STEP2_ODD(1, OORT_H_NONE)                              \
  OORT_H_STEP2_EVEN(2, OORT_H_NONE) OORT_H_STEP2_ODD(3, OORT_H_NONE)                              \
  OORT_H_STEP2_EVEN(4, OORT_H_NONE) OORT_H_STEP2_ODD(5, OORT_H_NONE)                              \
  OORT_H_STEP2_EVEN(6, OORT_H_NONE) OORT_H_STEP2_ODD(7, load)
#define OORT_H_EIGHT1(load)                                          \
  OORT_H_COLUMN(6, 0, OORT_H_NONE, 8, 12, 16, 20, 24, 28)            \
  OORT_H_COLUMN(7, 1, OORT_H_NONE, 9, 13, 17, 21, 25, 29)            \
  OORT_H_COLUMN(6, 2, OORT_H_NONE, 10, 14, 18, 22, 26, 30)           \
  OORT_H_COLUMN(7, 3, OORT_H_NONE, 11, 15, 19, 23, 27, 31)           \
  OORT_H_COLUMN(6, 4, OORT_H_NONE, 8, 12, 16, 20, 24, 28)            \
  OORT_H_COLUMN(7, 5, OORT_H_NONE, 9, 13, 17, 21, 25, 29)            \
  OORT_H_COLUMN(6, 6, OORT_H_NONE, 10, 14, 18, 22, 26, 30)           \
  OORT_H_COLUMN(7, 7, load, 11, 15, 19, 23, 27, 31)

// A single step, of channels that are no eight. With one vector the filters have moved by one
// register, and the two change places.
#define OORT_H_ONE4 OORT_H_STEP4(0, OORT_H_NONE)
#define OORT_H_ONE3 OORT_H_STEP3(0, OORT_H_NONE)
#define OORT_H_ONE2 OORT_H_STEP2_EVEN(0, OORT_H_NONE)
#define OORT_H_ONE1                                                  \
  OORT_H_COLUMN(6, 0, OORT_H_NONE, 8, 12, 16, 20, 24, 28)            \
  "mov v5.16b, v6.16b\n mov v6.16b, v7.16b\n mov v7.16b, v5.16b\n"

#define OORT_H_ADD(to, from) "fadd v" #to ".8h, v" #to ".8h, v" #from ".8h\n"
#define OORT_H_EACH(apply)                                                       \
  apply(8, 9, 10, 11) apply(12, 13, 14, 15) apply(16, 17, 18, 19)                \
  apply(20, 21, 22, 23) apply(24, 25, 26, 27) apply(28, 29, 30, 31)
#define OORT_H_FIRST4(s0, s1, s2, s3)                                            \
  "ldp q" #s0 ", q" #s1 ", [%[bias]]\n ldp q" #s2 ", q" #s3 ", [%[bias], #32]\n"
#define OORT_H_FIRST3(s0, s1, s2, s3)                                            \
  "ldp q" #s0 ", q" #s1 ", [%[bias]]\n ldr q" #s2 ", [%[bias], #32]\n"
#define OORT_H_FIRST2(s0, s1, s2, s3)                                            \
  "ldp q" #s0 ", q" #s1 ", [%[bias]]\n movi v" #s2 ".8h, #0\n movi v" #s3 ".8h, #0\n"
#define OORT_H_FIRST1(s0, s1, s2, s3)                                            \
  "ldr q" #s0 ", [%[bias]]\n movi v" #s1 ".8h, #0\n"                            \
  "movi v" #s2 ".8h, #0\n movi v" #s3 ".8h, #0\n"
#define OORT_H_JOIN4(s0, s1, s2, s3)
#define OORT_H_JOIN3(s0, s1, s2, s3)
#define OORT_H_JOIN2(s0, s1, s2, s3) OORT_H_ADD(s0, s2) OORT_H_ADD(s1, s3)
#define OORT_H_JOIN1(s0, s1, s2, s3) OORT_H_ADD(s0, s1) OORT_H_ADD(s2, s3) OORT_H_ADD(s0, s2)

// apply(sum, place) for the vectors of a row.
#define OORT_H_ROW4(apply, s0, s1, s2, s3) apply(s0, 0) apply(s1, 1) apply(s2, 2) apply(s3, 3)
#define OORT_H_ROW3(apply, s0, s1, s2, s3) apply(s0, 0) apply(s1, 1) apply(s2, 2)
#define OORT_H_ROW2(apply, s0, s1, s2, s3) apply(s0, 0) apply(s1, 1)
#define OORT_H_ROW1(apply, s0, s1, s2, s3) apply(s0, 0)

#define OORT_H_ADDEND(sum, place) \
  "ldr q" #place ", [%[addend], #16 * " #place "]\n" OORT_H_ADD(sum, place)
#define OORT_H_RELU(sum, place) "fmax v" #sum ".8h, v" #sum ".8h, v4.8h\n"
#define OORT_H_LIMIT(sum, place)                                             \
  "fmax v" #sum ".8h, v" #sum ".8h, v4.8h\n fmin v" #sum ".8h, v" #sum ".8h, v5.8h\n"
// x times limited(x / 6 + 1 / 2)
#define OORT_H_HARDSWISH(sum, place)                                         \
  "fmov v" #place ".8h, #0.5\n fmla v" #place ".8h, v" #sum ".8h, v6.8h\n"   \
  "fmax v" #place ".8h, v" #place ".8h, v4.8h\n"                             \
  "fmin v" #place ".8h, v" #place ".8h, v5.8h\n"                             \
  "fmul v" #sum ".8h, v" #sum ".8h, v" #place ".8h\n"
#define OORT_H_STORE(sum, place) "str q" #sum ", [%[out], #16 * " #place "]\n"

// apply(sum, place) for all vectors, and `then` behind each row.
#define OORT_H_ROWS(vectors, apply, then)                                                         \
  OORT_H_ROW##vectors(apply, 8, 9, 10, 11) then OORT_H_ROW##vectors(apply, 12, 13, 14, 15) then    \
  OORT_H_ROW##vectors(apply, 16, 17, 18, 19) then OORT_H_ROW##vectors(apply, 20, 21, 22, 23) then  \
  OORT_H_ROW##vectors(apply, 24, 25, 26, 27) then OORT_H_ROW##vectors(apply, 28, 29, 30, 31) then
#define OORT_H_FILTERS4 OORT_H_FILTER(6) OORT_H_FILTER(7)
#define OORT_H_FILTERS3 OORT_H_FILTER(6) OORT_H_FILTER(7) OORT_H_FILTER(11)
#define OORT_H_FILTERS2 OORT_H_FILTER(6) OORT_H_FILTER(7)
#define OORT_H_FILTERS1 OORT_H_FILTER(6) OORT_H_FILTER(7)
#define OORT_H_PIXELS \
  OORT_H_LOAD(0) OORT_H_LOAD(1) OORT_H_LOAD(2) OORT_H_LOAD(3) OORT_H_LOAD(4) OORT_H_LOAD(5)
#define OORT_H_POINTERS                                                                            \
  "ldp %[p0], %[p1], [%[rows]], #16\n ldp %[p2], %[p3], [%[rows]], #16\n"                          \
  "ldp %[p4], %[p5], [%[rows]], #16\n"                                                             \
  "add %[p0], %[p0], %[offset]\n add %[p1], %[p1], %[offset]\n"                                    \
  "add %[p2], %[p2], %[offset]\n add %[p3], %[p3], %[offset]\n"                                    \
  "add %[p4], %[p4], %[offset]\n add %[p5], %[p5], %[offset]\n"
// All sums are there, and no other register is in use.
#define OORT_H_FINISH(vectors)                                                                     \
  OORT_H_EACH(OORT_H_JOIN##vectors)                                                                \
  "cbz %[addend], 70f\n"                                                                           \
  OORT_H_ROWS(vectors, OORT_H_ADDEND, "add %[addend], %[addend], %[stride]\n")                     \
  "70:\n"                                                                                          \
  "cbz %[kind], 73f\n"                                                                             \
  "ldp q4, q5, [%[limits]]\n"                                                                      \
  "tbnz %[kind], #2, 72f\n"                                                                        \
  "tbnz %[kind], #1, 71f\n"                                                                        \
  OORT_H_ROWS(vectors, OORT_H_RELU, )                                                              \
  "b 73f\n"                                                                                        \
  "71:\n"                                                                                          \
  OORT_H_ROWS(vectors, OORT_H_LIMIT, )                                                             \
  "b 73f\n"                                                                                        \
  "72:\n"                                                                                          \
  "ldr q6, [%[limits], #32]\n"                                                                     \
  OORT_H_ROWS(vectors, OORT_H_HARDSWISH, )                                                         \
  "73:\n"
#define OORT_H_NEXT_ROW "add %[out], %[out], %[stride]\n"
#define OORT_H_OPERANDS                                                                            \
  : [rows] "+&r"(rows), [b] "+&r"(b), [addend] "+&r"(addend), [out] "+&r"(out), [tap] "+&r"(tap),  \
    [left] "=&r"(left), [p0] "=&r"(p0), [p1] "=&r"(p1), [p2] "=&r"(p2), [p3] "=&r"(p3),            \
    [p4] "=&r"(p4), [p5] "=&r"(p5), [tiles] "+&r"(tiles)                                           \
  : [depth] "r"(tile.depth), [bias] "r"(tile.bias), [stride] "r"(tile.stride * 2),                 \
    [limits] "r"(tile.limits), [offset] "r"(tile.offset * 2), [taps] "r"(tile.taps),               \
    [weights] "r"(tile.weights), [skip] "r"(skip * 8), [kind] "r"(static_cast<int64_t>(tile.activation)) \
  : "cc", "memory", OORT_T_ALL_VECTORS

#define OORT_H_TILE(vectors)                                                                       \
  template <>                                                                                      \
  inline void MultiplyHalfTile<vectors>(const HalfTile& tile) {                                    \
    const Half *const *rows = tile.rows, *b = tile.weights, *addend = tile.addend;                 \
    const Half *p0, *p1, *p2, *p3, *p4, *p5;                                                       \
    Half* out = tile.out;                                                                          \
    int64_t tap = tile.taps, left, tiles = 1, skip = 0;                                            \
    asm volatile(                                                                                  \
        OORT_H_EACH(OORT_H_FIRST##vectors)                                                         \
        "cbz %[tap], 9f\n"                                                                         \
        OORT_H_FILTERS##vectors                                                                    \
        "1:\n"                                                                                     \
        OORT_H_POINTERS                                                                            \
        "lsr %[left], %[depth], #3\n"                                                              \
        "cbz %[left], 5f\n"                                                                        \
        OORT_H_PIXELS                                                                              \
        "2:\n"                                                                                     \
        "subs %[left], %[left], #1\n"                                                              \
        "b.eq 3f\n"                                                                                \
        OORT_H_EIGHT##vectors(OORT_H_LOAD)                                                         \
        "b 2b\n"                                                                                   \
        "3:\n"                                                                                     \
        OORT_H_EIGHT##vectors(OORT_H_NONE)                                                         \
        "5:\n"                                                                                     \
        "ands %[left], %[depth], #7\n"                                                             \
        "b.eq 7f\n"                                                                                \
        "6:\n"                                                                                     \
        "ldr h0, [%[p0]], #2\n ldr h1, [%[p1]], #2\n ldr h2, [%[p2]], #2\n"                        \
        "ldr h3, [%[p3]], #2\n ldr h4, [%[p4]], #2\n ldr h5, [%[p5]], #2\n"                        \
        OORT_H_ONE##vectors                                                                        \
        "subs %[left], %[left], #1\n"                                                              \
        "b.ne 6b\n"                                                                                \
        "7:\n"                                                                                     \
        "subs %[tap], %[tap], #1\n"                                                                \
        "b.ne 1b\n"                                                                                \
        "9:\n"                                                                                     \
        OORT_H_FINISH(vectors)                                                                     \
        OORT_H_ROWS(vectors, OORT_H_STORE, OORT_H_NEXT_ROW)                                        \
        OORT_H_OPERANDS);                                                                          \
  }
// The pixels of the next tile come before this one is stored: else their latency shows.
#define OORT_H_RENEW(vectors, s0, s1, s2, s3)                                                      \
  OORT_H_ROW##vectors(OORT_H_STORE, s0, s1, s2, s3) OORT_H_NEXT_ROW OORT_H_FIRST##vectors(s0, s1, s2, s3)
#define OORT_H_TILES(vectors)                                                                      \
  template <>                                                                                      \
  inline void MultiplyHalfTiles<vectors>(const HalfTile& tile, int64_t tiles, int64_t skip) {      \
    const Half *const *rows = tile.rows, *b = tile.weights, *addend = tile.addend;                 \
    const Half *p0, *p1, *p2, *p3, *p4, *p5;                                                       \
    Half* out = tile.out;                                                                          \
    int64_t tap = tile.taps, left;                                                                 \
    asm volatile(                                                                                  \
        OORT_H_POINTERS                                                                            \
        OORT_H_PIXELS                                                                              \
        "lsr %[left], %[depth], #3\n"                                                              \
        OORT_H_EACH(OORT_H_FIRST##vectors)                                                         \
        OORT_H_FILTERS##vectors                                                                    \
        "2:\n"                                                                                     \
        "subs %[left], %[left], #1\n"                                                              \
        "b.eq 4f\n"                                                                                \
        "3:\n"                                                                                     \
        OORT_H_EIGHT##vectors(OORT_H_LOAD)                                                         \
        "b 2b\n"                                                                                   \
        "4:\n"                                                                                     \
        "subs %[tap], %[tap], #1\n"                                                                \
        "b.eq 5f\n"                                                                                \
        OORT_H_POINTERS                                                                            \
        "lsr %[left], %[depth], #3\n"                                                              \
        "b 3b\n"                                                                                   \
        "5:\n"                                                                                     \
        "add %[rows], %[rows], %[skip]\n"                                                          \
        OORT_H_POINTERS                                                                            \
        OORT_H_EIGHT##vectors(OORT_H_NONE)                                                         \
        OORT_H_FINISH(vectors)                                                                     \
        OORT_H_PIXELS                                                                              \
        "mov %[b], %[weights]\n"                                                                   \
        "mov %[tap], %[taps]\n"                                                                    \
        "lsr %[left], %[depth], #3\n"                                                              \
        OORT_H_RENEW(vectors, 8, 9, 10, 11) OORT_H_RENEW(vectors, 12, 13, 14, 15)                  \
        OORT_H_RENEW(vectors, 16, 17, 18, 19) OORT_H_RENEW(vectors, 20, 21, 22, 23)                \
        OORT_H_RENEW(vectors, 24, 25, 26, 27) OORT_H_RENEW(vectors, 28, 29, 30, 31)                \
        OORT_H_FILTERS##vectors                                                                    \
        "subs %[tiles], %[tiles], #1\n"                                                            \
        "b.ne 2b\n"                                                                                \
        OORT_H_OPERANDS);                                                                          \
  }

OORT_H_TILE(4)
OORT_H_TILE(3)
OORT_H_TILE(2)
OORT_H_TILE(1)
OORT_H_TILES(4)
OORT_H_TILES(3)
OORT_H_TILES(2)
OORT_H_TILES(1)
// clang-format on

#undef OORT_H_FMA
#undef OORT_H_FILTER
#undef OORT_H_LOAD
#undef OORT_H_NONE
#undef OORT_H_COLUMN
#undef OORT_H_STEP4
#undef OORT_H_STEP3
#undef OORT_H_STEP2_EVEN
#undef OORT_H_STEP2_ODD
#undef OORT_H_EIGHT4
#undef OORT_H_EIGHT3
#undef OORT_H_EIGHT2
#undef OORT_H_EIGHT1
#undef OORT_H_ONE4
#undef OORT_H_ONE3
#undef OORT_H_ONE2
#undef OORT_H_ONE1
#undef OORT_H_ADD
#undef OORT_H_EACH
#undef OORT_H_FIRST4
#undef OORT_H_FIRST3
#undef OORT_H_FIRST2
#undef OORT_H_FIRST1
#undef OORT_H_JOIN4
#undef OORT_H_JOIN3
#undef OORT_H_JOIN2
#undef OORT_H_JOIN1
#undef OORT_H_ROW4
#undef OORT_H_ROW3
#undef OORT_H_ROW2
#undef OORT_H_ROW1
#undef OORT_H_ADDEND
#undef OORT_H_RELU
#undef OORT_H_LIMIT
#undef OORT_H_HARDSWISH
#undef OORT_H_STORE
#undef OORT_H_ROWS
#undef OORT_H_FILTERS4
#undef OORT_H_FILTERS3
#undef OORT_H_FILTERS2
#undef OORT_H_FILTERS1
#undef OORT_H_PIXELS
#undef OORT_H_POINTERS
#undef OORT_H_FINISH
#undef OORT_H_NEXT_ROW
#undef OORT_H_OPERANDS
#undef OORT_H_TILE
#undef OORT_H_RENEW
#undef OORT_H_TILES

}  // namespace oort::OORT_ISA
