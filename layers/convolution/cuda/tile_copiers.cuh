// SPDX-License-Identifier: MIT
// Copies of image windows and filters into the tiles of shared memory that implicit_gemm.cuh
// multiplies.
#pragma once

#include "cuda/tiles.h"
#include "layers/convolution/cuda/gemm_conv_args.h"
#include "layers/convolution/cuda/warp_tile.cuh"

namespace oort::cuda {

/// Copies what is under the windows of some output pixels. Each thread copies one 16-byte piece of
/// each of its rows, in grains that lie within one pixel.
template <typename T, int grain, int tile_rows, int threads, bool cached>
class WindowCopier {
 public:
  static constexpr int kPasses = tile_rows * 8 / threads, kGrains = 16 / grain;
  static constexpr int kStep = kRowBytes / static_cast<int>(sizeof(T));
  static constexpr int kGrainItems = grain / static_cast<int>(sizeof(T));
  static_assert(kPasses * threads == tile_rows * 8);

  __device__ WindowCopier(const GemmConv& conv, const T* in, int first_row, int step, int thread)
      : conv_(conv), in_(in), to_(PieceAt(thread / 8, thread % 8)) {
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const int row = first_row + thread / 8 + i * (threads / 8);
      const int image = row / conv.out_plane, pixel = row % conv.out_plane;
      const int y = pixel / conv.out_width * conv.stride_down - conv.pad_top;
      const int x = pixel % conv.out_width * conv.stride_along - conv.pad_left;
      // Rows behind the last one are outside of the image, so they are filled with zeros.
      top_[i] = row < conv.rows ? y : -(1 << 30);
      left_[i] = x;
      base_[i] = ((image * conv.height + y) * conv.width + x) * conv.in_pixel;
    }
#pragma unroll
    for (int g = 0; g < kGrains; ++g) {
      const int k =
          step * kStep + thread % 8 * (16 / static_cast<int>(sizeof(T))) + g * kGrainItems;
      const int tap = k / conv.channels;
      channel_[g] = k % conv.channels;
      row_[g] = tap / conv.kernel_width;
      column_[g] = tap % conv.kernel_width;
    }
  }

  /// The next step, into the matrix at `to`.
  __device__ void Copy(uint32_t to) {
#pragma unroll
    for (int g = 0; g < kGrains; ++g) {
      // Taps behind the last one are outside of the image, too.
      const int down = row_[g] < conv_.kernel_height ? row_[g] * conv_.dilation_down : 1 << 29;
      const int along = column_[g] * conv_.dilation_along;
      const auto offset = static_cast<int>(  // of no meaning behind the last tap
          (static_cast<unsigned>(down) * conv_.width + along) * conv_.in_pixel + channel_[g]);
#pragma unroll
      for (int i = 0; i < kPasses; ++i) {
        const bool valid = static_cast<unsigned>(top_[i] + down) < conv_.height &&
                           static_cast<unsigned>(left_[i] + along) < conv_.width;
        const T* from = valid ? in_ + (base_[i] + offset) : in_;
        // Rows of all passes are alike modulo 8: they are permuted alike.
        CopyOrZero<grain, cached>(to + to_ + i * (threads / 8) * kRowBytes + g * grain, from,
                                  valid);
      }
      Advance(g);
    }
  }

 private:
  __device__ void Advance(int g) {
    channel_[g] += conv_.channel_step;
    const int carry = channel_[g] >= conv_.channels;
    if (carry) channel_[g] -= conv_.channels;
    column_[g] += conv_.column_step + carry;
    row_[g] += conv_.row_step;
    if (column_[g] >= conv_.kernel_width) {
      column_[g] -= conv_.kernel_width;
      ++row_[g];
    }
  }

  const GemmConv& conv_;
  const T* in_;
  uint32_t to_;
  int top_[kPasses], left_[kPasses], base_[kPasses];
  int channel_[kGrains], row_[kGrains], column_[kGrains];
};

/// The same for filters, which lie as the product needs them.
template <typename T, int tile_columns, int threads>
class FilterCopier {
 public:
  static constexpr int kPasses = (tile_columns * 8 + threads - 1) / threads;
  static constexpr int kItems = 16 / static_cast<int>(sizeof(T));

  __device__ FilterCopier(const GemmConv& conv, const T* weight, int first_column, int step,
                          int thread)
      : conv_(conv),
        weight_(weight),
        column_(first_column + thread / 8),
        item_((step * 8 + thread % 8) * kItems),
        to_(PieceAt(thread / 8, thread % 8)),
        active_(thread < tile_columns * 8) {}

  __device__ void Copy(uint32_t to) {
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const int column = column_ + i * (threads / 8);
      const bool valid = column < conv_.filters && item_ < conv_.depth;
      const T* from = weight_ + (valid ? static_cast<int64_t>(column) * conv_.depth + item_ : 0);
      if (kPasses > 1 || active_) {
        CopyOrZero<16, false>(to + to_ + i * (threads / 8) * kRowBytes, from, valid);
      }
    }
    item_ += 8 * kItems;
  }

 private:
  const GemmConv& conv_;
  const T* weight_;
  int column_, item_;
  uint32_t to_;
  bool active_;
};

}  // namespace oort::cuda
