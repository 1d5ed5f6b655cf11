// SPDX-License-Identifier: MIT
// The loops of integer kernels over a type `Unit`, which says what the vectors of a unit are and
// do:
//   kLanes                     channels of a vector of sums
//   kRows                      rows of a window that one instruction of a depthwise product sums
//   Number                     what images and weights are staged as
//   Sums, Numbers              vectors of s32, and of the numbers that go into as many sums
//   MultiplyAdd(sums, x, w)    adds products of neighbours
//   Broadcast(at)              the neighbours at `at`, for all sums
//   Interleave<rows>(at, row)  rows of kLanes channels, row by row in each channel, others zero
//   Finish                     what is made of the sums of neighbouring channels:
//                              Row<vectors>(sums, output, channel, channels left)
// Only for integer.dot.cpp.
#pragma once

#include "cpu/unroll.h"
#include "layers/quantize/integer_kernels.h"

namespace oort::OORT_ISA {
namespace {

/// Outputs from `first` on: `rows` of them with `vectors` vectors of channels.
template <typename Unit, int rows, int vectors>
void Tile(const IntegerWindows& call, int64_t first) {
  // Copies: the bytes that are stored might be those of `call`, as far as the compiler knows.
  const IntegerWindows job = call;
  using Sums = typename Unit::Sums;
  using Numbers = typename Unit::Numbers;
  Sums sums[rows][vectors];
  Unroll<vectors>([&](auto v) {
    const Sums start = Unit::LoadSums(job.starts + v * Unit::kLanes);
    Unroll<rows>([&](auto r) { sums[r][v] = start; });
  });
  const std::byte* const* windows = job.windows + first;
  const std::byte* weights = static_cast<const std::byte*>(job.weights);
  for (int64_t run = 0; run < job.run_count; ++run) {
    const std::byte* x[rows];
    Unroll<rows>([&](auto r) { x[r] = windows[r] + job.runs[run]; });
    for (int64_t k = 0; k < job.run_steps; ++k) {
      Numbers w[vectors];
      constexpr int kBytes = static_cast<int>(sizeof(Numbers));
      Unroll<vectors>([&](auto v) { w[v] = Unit::Load(weights + v * kBytes); });
      weights += vectors * kBytes;
      Unroll<rows>([&](auto r) {
        const Numbers neighbours = Unit::Broadcast(x[r] + 4 * k);
        Unroll<vectors>(
            [&](auto v) { sums[r][v] = Unit::MultiplyAdd(sums[r][v], neighbours, w[v]); });
      });
    }
  }
  // Made here: its constants would take registers from the sums.
  const typename Unit::Finish finish(job.epilogue);
  Unroll<rows>([&](auto r) { finish.template Row<vectors>(sums[r], first + r, 0, job.channels); });
}

/// All outputs; the last tile begins earlier, and does some of them again, where it would reach
/// beyond the end.
template <typename Unit, int vectors, int rows>
void Tiles(const IntegerWindows& job) {
  int64_t i = 0;
  if (job.count >= rows) {
    for (; i + rows <= job.count; i += rows) Tile<Unit, rows, vectors>(job, i);
    if (i < job.count) Tile<Unit, rows, vectors>(job, job.count - rows);
    return;
  }
  for (; i + rows / 2 <= job.count; i += rows / 2) Tile<Unit, rows / 2, vectors>(job, i);
  for (; i < job.count; ++i) Tile<Unit, 1, vectors>(job, i);
}

/// Interleaves `rows` rows of some blocks of channels of all columns into every `groups`-th vector
/// of the scratch.
template <typename Unit, int rows>
[[gnu::always_inline]] inline void InterleaveRows(const IntegerDepthwise& job,
                                                  const std::byte* image, int64_t blocks,
                                                  int64_t groups, std::byte* out) {
  constexpr int64_t kBlock = Unit::kLanes * static_cast<int64_t>(sizeof(typename Unit::Number));
  const int64_t pixel = job.channels * static_cast<int64_t>(sizeof(typename Unit::Number));
  const int64_t step = groups * static_cast<int64_t>(sizeof(typename Unit::Numbers));
  for (int64_t x = 0; x < job.columns; ++x) {
    for (int64_t b = 0; b < blocks; ++b, out += step) {
      const std::byte* from = image + x * pixel + b * kBlock;
      Unit::Store(out, Unit::template Interleave<rows>(from, job.row_bytes));
    }
  }
}

/// `pixels` outputs from `first` on of `blocks` blocks from `block` on, which are in the scratch.
template <typename Unit, int pixels, int blocks>
[[gnu::always_inline]] inline void DepthwiseTile(const IntegerDepthwise& job,
                                                 const typename Unit::Finish& finish, int64_t first,
                                                 int64_t block, int64_t all, int64_t groups) {
  using Sums = typename Unit::Sums;
  using Numbers = typename Unit::Numbers;
  constexpr int64_t kBytes = static_cast<int64_t>(sizeof(Numbers));
  Sums sums[pixels][blocks];
  Unroll<blocks>([&](auto b) {
    const Sums start = Unit::LoadSums(job.starts + (block + b) * Unit::kLanes);
    Unroll<pixels>([&](auto p) { sums[p][b] = start; });
  });
  const int64_t column = blocks * groups * kBytes;
  for (int64_t g = 0; g < groups; ++g) {
    const std::byte* x = job.scratch + first * job.stride * column + g * kBytes;
    const std::byte* w = static_cast<const std::byte*>(job.weights) + (g * all + block) * kBytes;
    for (int64_t k = 0; k < job.kernel_width; ++k) {
      Unroll<blocks>([&](auto b) {
        const Numbers weight = Unit::Load(w + b * kBytes);
        Unroll<pixels>([&](auto p) {
          const Numbers taps = Unit::Load(x + p * job.stride * column + b * groups * kBytes);
          sums[p][b] = Unit::MultiplyAdd(sums[p][b], taps, weight);
        });
      });
      x += job.dilation * column;
      w += groups * all * kBytes;
    }
  }
  const int64_t channel = block * Unit::kLanes;
  Unroll<pixels>([&](auto p) {
    finish.template Row<blocks>(sums[p], first + p, channel, job.channels - channel);
  });
}

/// All outputs of `blocks` blocks of channels.
template <typename Unit, int pixels, int blocks>
void DepthwiseBlocks(const IntegerDepthwise& call, int64_t block, int64_t all, int64_t groups) {
  const IntegerDepthwise job = call;  // as in Tile
  const typename Unit::Finish finish(job.epilogue);
  constexpr int64_t kBlock = Unit::kLanes * static_cast<int64_t>(sizeof(typename Unit::Number));
  for (int64_t g = 0; g < groups; ++g) {
    const std::byte* image = job.image + g * Unit::kRows * job.row_bytes + block * kBlock;
    std::byte* out = job.scratch + g * static_cast<int64_t>(sizeof(typename Unit::Numbers));
    const int64_t rows = job.kernel_height - g * Unit::kRows;
    if (rows == 1) {
      InterleaveRows<Unit, 1>(job, image, blocks, groups, out);
    } else if (rows == 2 || Unit::kRows == 2) {
      InterleaveRows<Unit, 2>(job, image, blocks, groups, out);
    } else if (rows == 3) {
      InterleaveRows<Unit, 3>(job, image, blocks, groups, out);
    } else {
      InterleaveRows<Unit, 4>(job, image, blocks, groups, out);
    }
  }
  int64_t i = 0;
  for (; i + pixels <= job.count; i += pixels) {
    DepthwiseTile<Unit, pixels, blocks>(job, finish, i, block, all, groups);
  }
  for (; i < job.count; ++i) {
    DepthwiseTile<Unit, 1, blocks>(job, finish, i, block, all, groups);
  }
}

/// A few blocks of channels at a time, so that what is interleaved stays in the first cache.
template <typename Unit>
void DepthwiseRow(const IntegerDepthwise& job) {
  const int64_t all = (job.channels + Unit::kLanes - 1) / Unit::kLanes;
  const int64_t groups = (job.kernel_height + Unit::kRows - 1) / Unit::kRows;
  int64_t block = 0;
  for (; block + kDepthwiseBlocks <= all; block += kDepthwiseBlocks) {
    DepthwiseBlocks<Unit, 2, kDepthwiseBlocks>(job, block, all, groups);
  }
  for (; block + 2 <= all; block += 2) DepthwiseBlocks<Unit, 4, 2>(job, block, all, groups);
  if (block < all) DepthwiseBlocks<Unit, 4, 1>(job, block, all, groups);
}

}  // namespace
}  // namespace oort::OORT_ISA
