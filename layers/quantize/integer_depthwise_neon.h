// SPDX-License-Identifier: MIT
// Depthwise convolutions of bytes for NEON: four rows of an image are interleaved, so that one dot
// product sums the four rows of a column of a window in each of four channels. `Unit` says by
// MultiplyAdd(sums, taps, weights) how. Only for integer.dot.cpp and integer.mmla.cpp.
#pragma once

#include "layers/quantize/integer_finish_neon.h"

namespace oort::OORT_ISA {
namespace {

/// Channels of a block, its vectors of sums, and bytes of four rows of them.
constexpr int kByteBlock = 16, kByteVectors = 4, kByteFours = 64;

inline uint8x16_t LoadBytes(const std::byte* at) {
  return vld1q_u8(reinterpret_cast<const uint8_t*>(at));
}

/// Interleaves `rows` rows of 16 channels of all columns into every `groups`-th place of the
/// scratch; where there are fewer than four rows, weights are zeros and any byte will do.
template <int rows>
void InterleaveBytes(const IntegerDepthwise& job, const std::byte* image, int64_t groups,
                     std::byte* scratch) {
  const int64_t row = job.row_bytes;
  auto* out = reinterpret_cast<uint8_t*>(scratch);
  for (int64_t x = 0; x < job.columns; ++x, image += job.channels, out += groups * kByteFours) {
    const uint8x16_t r0 = LoadBytes(image);
    const uint8x16_t r1 = rows > 1 ? LoadBytes(image + row) : r0;
    const uint8x16_t r2 = rows > 2 ? LoadBytes(image + 2 * row) : r0;
    const uint8x16_t r3 = rows > 3 ? LoadBytes(image + 3 * row) : r0;
    const uint16x8_t upper[2] = {vreinterpretq_u16_u8(vzip1q_u8(r0, r1)),
                                 vreinterpretq_u16_u8(vzip2q_u8(r0, r1))};
    const uint16x8_t lower[2] = {vreinterpretq_u16_u8(vzip1q_u8(r2, r3)),
                                 vreinterpretq_u16_u8(vzip2q_u8(r2, r3))};
    Unroll<2>([&](auto i) OORT_INLINED {
      vst1q_u8(out + 32 * i, vreinterpretq_u8_u16(vzip1q_u16(upper[i], lower[i])));
      vst1q_u8(out + 32 * i + 16, vreinterpretq_u8_u16(vzip2q_u16(upper[i], lower[i])));
    });
  }
}

/// The sums of `pixels` outputs from `first` on, of windows whose width and stride are known: each
/// column is loaded once for all windows that see it.
template <typename Unit, int pixels, int width, int stride>
[[gnu::always_inline]] inline void WindowSums(const IntegerDepthwise& job, int64_t first,
                                              int64_t block, int64_t all, int64_t groups,
                                              int32x4_t (&sums)[pixels][kByteVectors]) {
  for (int64_t g = 0; g < groups; ++g) {
    const std::byte* x = job.scratch + (first * stride * groups + g) * kByteFours;
    const std::byte* w =
        static_cast<const std::byte*>(job.weights) + (g * all + block) * kByteFours;
    Unroll<kByteVectors>([&](auto v) OORT_INLINED {
      uint8x16_t weights[width];
      Unroll<width>([&](auto k) OORT_INLINED {
        weights[k] = LoadBytes(w + k * groups * all * kByteFours + 16 * v);
      });
      Unroll<(pixels - 1) * stride + width>([&](auto column) OORT_INLINED {
        const uint8x16_t taps = LoadBytes(x + column * groups * kByteFours + 16 * v);
        Unroll<pixels>([&](auto p) OORT_INLINED {
          constexpr int kTap = column - p * stride;
          if constexpr (kTap >= 0 && kTap < width) {
            sums[p][v] = Unit::MultiplyAdd(sums[p][v], taps, weights[kTap]);
          }
        });
      });
    });
  }
}

/// The sums of an output with a window of any kind.
template <typename Unit>
[[gnu::always_inline]] inline void AnyWindowSums(const IntegerDepthwise& job, int64_t first,
                                                 int64_t block, int64_t all, int64_t groups,
                                                 int32x4_t (&sums)[1][kByteVectors]) {
  for (int64_t g = 0; g < groups; ++g) {
    const std::byte* x = job.scratch + (first * job.stride * groups + g) * kByteFours;
    const std::byte* w =
        static_cast<const std::byte*>(job.weights) + (g * all + block) * kByteFours;
    for (int64_t k = 0; k < job.kernel_width; ++k) {
      Unroll<kByteVectors>([&](auto v) OORT_INLINED {
        sums[0][v] = Unit::MultiplyAdd(sums[0][v], LoadBytes(x + 16 * v), LoadBytes(w + 16 * v));
      });
      x += job.dilation * groups * kByteFours;
      w += groups * all * kByteFours;
    }
  }
}

/// `width` 0 stands for windows of any kind.
template <typename Unit, int pixels, int width, int stride, FinishKind kind>
[[gnu::always_inline]] inline void DepthwisePixels(const IntegerDepthwise& job,
                                                   const NeonFinish<kind>& finish, int64_t first,
                                                   int64_t block, int64_t all, int64_t groups) {
  const int64_t channel = block * kByteBlock;
  int32x4_t sums[pixels][kByteVectors];
  Unroll<kByteVectors>([&](auto v) OORT_INLINED {
    const int32x4_t start = vld1q_s32(job.starts + channel + 4 * v);
    Unroll<pixels>([&](auto p) OORT_INLINED { sums[p][v] = start; });
  });
  if constexpr (width == 0) {
    AnyWindowSums<Unit>(job, first, block, all, groups, sums);
  } else {
    WindowSums<Unit, pixels, width, stride>(job, first, block, all, groups, sums);
  }
  Unroll<pixels>([&](auto p) OORT_INLINED {
    finish.Row(sums[p], first + p, channel, job.channels - channel);
  });
}

/// All outputs of a block of channels; the last few are done together with some that are done
/// already.
template <typename Unit, int width, int stride, FinishKind kind>
void DepthwiseOutputs(const IntegerDepthwise& call, int64_t block, int64_t all, int64_t groups) {
  const IntegerDepthwise job = call;  // the bytes that are stored might else be those of `call`
  const NeonFinish<kind> finish(job.epilogue);
  int64_t i = 0;
  if constexpr (width > 0) {
    constexpr int kPixels = 4;
    for (; i + kPixels <= job.count; i += kPixels) {
      DepthwisePixels<Unit, kPixels, width, stride>(job, finish, i, block, all, groups);
    }
    if (i < job.count && job.count >= kPixels) {
      i = job.count - kPixels;
      DepthwisePixels<Unit, kPixels, width, stride>(job, finish, i, block, all, groups);
      return;
    }
  }
  for (; i < job.count; ++i) {
    DepthwisePixels<Unit, 1, width, stride>(job, finish, i, block, all, groups);
  }
}

template <typename Unit, FinishKind kind>
void DepthwiseBlock(const IntegerDepthwise& job, int64_t block, int64_t all, int64_t groups) {
  const bool dense = job.dilation == 1 && job.stride <= 2;
  if (dense && job.kernel_width == 3) {
    job.stride == 1 ? DepthwiseOutputs<Unit, 3, 1, kind>(job, block, all, groups)
                    : DepthwiseOutputs<Unit, 3, 2, kind>(job, block, all, groups);
  } else if (dense && job.kernel_width == 5) {
    job.stride == 1 ? DepthwiseOutputs<Unit, 5, 1, kind>(job, block, all, groups)
                    : DepthwiseOutputs<Unit, 5, 2, kind>(job, block, all, groups);
  } else {
    DepthwiseOutputs<Unit, 0, 0, kind>(job, block, all, groups);
  }
}

template <typename Unit>
void DepthwiseBytes(const IntegerDepthwise& job) {
  const int64_t all = (job.channels + kByteBlock - 1) / kByteBlock;
  const int64_t groups = (job.kernel_height + 3) / 4;
  for (int64_t block = 0; block < all; ++block) {
    for (int64_t g = 0; g < groups; ++g) {
      using Interleave = void (*)(const IntegerDepthwise&, const std::byte*, int64_t, std::byte*);
      constexpr Interleave kInterleave[] = {InterleaveBytes<1>, InterleaveBytes<2>,
                                            InterleaveBytes<3>, InterleaveBytes<4>};
      const int64_t rows = job.kernel_height - 4 * g;
      kInterleave[rows < 4 ? rows - 1 : 3](job,
                                           job.image + 4 * g * job.row_bytes + block * kByteBlock,
                                           groups, job.scratch + g * kByteFours);
    }
    const bool whole = (block + 1) * kByteBlock <= job.channels;
    if (KindOf(job.epilogue, whole) == FinishKind::kSmallBytes) {
      DepthwiseBlock<Unit, FinishKind::kSmallBytes>(job, block, all, groups);
    } else {
      DepthwiseBlock<Unit, FinishKind::kAny>(job, block, all, groups);
    }
  }
}

}  // namespace
}  // namespace oort::OORT_ISA
