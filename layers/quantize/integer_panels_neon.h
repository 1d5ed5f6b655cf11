// SPDX-License-Identifier: MIT
// Windows times panels of up to 16 filters on NEON: windows are packed once for all panels, and
// each tile of six outputs by 16 channels has 24 registers of sums. `Unit` says how these are made:
//   Sums(tile, sums)                        of all rows and vectors of a tile
//   MultiplyAdd(sums, taps, weights)        for depthwise convolutions
// Only for integer.dot.cpp and integer.mmla.cpp.
#pragma once

#include "cpu/assembly_neon.h"
#include "layers/quantize/integer_depthwise_neon.h"

namespace oort::OORT_ISA {
namespace {

/// Neighbours of a step, pairs of outputs of a tile, and its vectors of channels.
constexpr int kPanelStep = 8, kPanelPairs = 3, kPanelVectors = 4;

/// What a tile is made of: packed outputs, a panel of weights, steps, and the first sums. Assembly
/// reads it in this order.
struct PanelTile {
  const std::byte* outputs;
  const void* weights;
  int64_t steps;
  const int32_t* starts;
};

/// Pairs of outputs of a tile. One or two rows, as those of dense layers, are a tile of their own.
inline int PairsOf(const IntegerWindows& job) { return job.count > 2 ? kPanelPairs : 1; }

/// The first output of the tile that begins at `i`: the last tile begins earlier, and does some
/// outputs again, where it would reach beyond the end.
inline int64_t TileAt(const IntegerWindows& job, int64_t i, int rows) {
  if (i + rows <= job.count) return i;
  return job.count > rows ? job.count - rows : 0;
}

/// Interleaves eight neighbours of two windows; `to` moves by `step` from one eight to the next.
inline void PackPair(const IntegerWindows& job, const std::byte* upper, const std::byte* lower,
                     int64_t step, uint8_t* to) {
  for (int64_t run = 0; run < job.run_count; ++run) {
    const auto* x = reinterpret_cast<const uint8_t*>(upper + job.runs[run]);
    const auto* y = reinterpret_cast<const uint8_t*>(lower + job.runs[run]);
    int64_t k = 0;
    for (; k + 2 <= job.run_steps; k += 2, to += 2 * step) {
      const uint64x2_t a = vreinterpretq_u64_u8(vld1q_u8(x + k * kPanelStep));
      const uint64x2_t b = vreinterpretq_u64_u8(vld1q_u8(y + k * kPanelStep));
      vst1q_u8(to, vreinterpretq_u8_u64(vzip1q_u64(a, b)));
      vst1q_u8(to + step, vreinterpretq_u8_u64(vzip2q_u64(a, b)));
    }
    if (k == job.run_steps) continue;
    vst1q_u8(to, vcombine_u8(vld1_u8(x + k * kPanelStep), vld1_u8(y + k * kPanelStep)));
    to += step;
  }
}

/// Tile by tile, in each eight neighbours of all of its outputs after another. All panels read
/// them. Without it, tiles 576 to 2304 deep took 1.25 to 1.4 times as long on a Neoverse V1.
void PackWindows(const IntegerWindows& job, std::byte* packed) {
  const int pairs = PairsOf(job), rows = 2 * pairs;
  auto* to = reinterpret_cast<uint8_t*>(packed);
  for (int64_t i = 0; i < job.count; i += rows) {
    const int64_t first = TileAt(job, i, rows), last = job.count - 1;
    for (int p = 0; p < pairs; ++p) {
      const int64_t upper = first + 2 * p, lower = upper + 1;
      PackPair(job, job.windows[upper < last ? upper : last],
               job.windows[lower < last ? lower : last], 16 * pairs, to + 16 * p);
    }
    to += 16 * pairs * job.run_count * job.run_steps;
  }
}

template <typename Unit, FinishKind kind, int pairs, int vectors>
void PanelTiles(const IntegerWindows& call) {
  const IntegerWindows job = call;  // the bytes that are stored might else be those of `call`
  const NeonFinish<kind> finish(job.epilogue);
  constexpr int kRows = 2 * pairs;
  PanelTile tile{job.packed, job.weights, job.run_count * job.run_steps, job.starts};
  for (int64_t i = 0; i < job.count; i += kRows, tile.outputs += 16 * pairs * tile.steps) {
    int32x4_t sums[kRows][vectors];
    Unit::Sums(tile, sums);
    const int64_t first = TileAt(job, i, kRows);
    if (first + kRows <= job.count) {
      Unroll<kRows>([&](auto r) OORT_INLINED { finish.Row(sums[r], first + r, 0, job.channels); });
    } else {
      Unroll<kRows>([&](auto r) OORT_INLINED {
        if (first + r < job.count) finish.Row(sums[r], first + r, 0, job.channels);
      });
    }
  }
}

template <typename Unit, int vectors>
void Panel(const IntegerWindows& job) {
  if (PairsOf(job) == 1) return PanelTiles<Unit, FinishKind::kAny, 1, vectors>(job);
  // Fewer outputs than a tile has are left to the kind that has all branches anyway.
  const bool whole = job.channels == 4 * vectors && job.count >= 2 * kPanelPairs;
  switch (KindOf(job.epilogue, whole)) {
    case FinishKind::kBytes: return PanelTiles<Unit, FinishKind::kBytes, kPanelPairs, vectors>(job);
    case FinishKind::kBytesPlus:
      return PanelTiles<Unit, FinishKind::kBytesPlus, kPanelPairs, vectors>(job);
    case FinishKind::kSmallBytes:
      return PanelTiles<Unit, FinishKind::kSmallBytes, kPanelPairs, vectors>(job);
    case FinishKind::kSmallBytesPlus:
      return PanelTiles<Unit, FinishKind::kSmallBytesPlus, kPanelPairs, vectors>(job);
    case FinishKind::kAny: return PanelTiles<Unit, FinishKind::kAny, kPanelPairs, vectors>(job);
  }
}

template <typename Unit>
void PanelProduct(const IntegerWindows& job) {
  job.channels > 8 ? Panel<Unit, kPanelVectors>(job) : Panel<Unit, kPanelVectors / 2>(job);
}

/// Bytes whose sign differs from what the unit wants move by 128.
template <bool wants_signed>
void StageBytes(const void* bytes, bool is_signed, int64_t count, void* staged) {
  if (is_signed == wants_signed) {
    std::memcpy(staged, bytes, static_cast<size_t>(count));
    return;
  }
  const uint8_t* from = static_cast<const uint8_t*>(bytes);
  uint8_t* to = static_cast<uint8_t*>(staged);
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] ^ 0x80u;
}

template <typename Unit>
constexpr IntegerKernels NeonKernels() {
  return {.staged_signed = Unit::kSigned,
          .small_sums = true,
          .staged_bytes = 1,
          .step = kPanelStep,
          .group = Unit::kGroup,
          .lanes = 8,
          .panel = 4 * kPanelVectors,
          .pack_rows = 2 * kPanelPairs,
          .depthwise_rows = 4,
          .depthwise_lanes = kByteBlock,
          .stage = StageBytes<Unit::kSigned>,
          .pack = PackWindows,
          .product = PanelProduct<Unit>,
          .depthwise = DepthwiseBytes<Unit>};
}

}  // namespace
}  // namespace oort::OORT_ISA
