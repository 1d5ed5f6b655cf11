// SPDX-License-Identifier: MIT
// Convolutions of images (…, H, W, C) of bytes on the device: u8 or i8 times i8, summed in s32, and
// made results at once. The sums are exact and what follows is the same operations as on the CPU,
// so that results are the same bits.
#pragma once

#include "layers/convolution/cuda/conv.h"

namespace oort::cuda {

/// Filters are stored in groups of so many. A lane of a warp has 8 neighbours of each group in its
/// registers: see FilterAt.
inline constexpr int kFilterGroup = 32;

/// The sign bits of four bytes: flipped, they make int8 of uint8 and uint8 of int8.
inline constexpr unsigned kSignBits = 0x80808080u;

/// The filter whose products with a row are column `place` of a tile of tensor cores. A lane has
/// two neighbouring columns of each of the four tiles of a group: these are its filters.
constexpr int FilterAt(int place) {
  const int group = place / kFilterGroup, tile = place % kFilterGroup / 8, column = place % 8;
  return group * kFilterGroup + column / 2 * 8 + tile * 2 + column % 2;
}

/// Where FilterAt gives the filter.
constexpr int PlaceOfFilter(int filter) {
  const int group = filter / kFilterGroup, in = filter % kFilterGroup;
  return group * kFilterGroup + in % 8 / 2 * 8 + in / 8 * 2 + in % 2;
}

/// What becomes of the sums of each filter: sum * scale + bias + addend * addend_scale. That is the
/// result (f32), or its steps from `low` to `high` are rounded half to even and get the zero point.
/// Where it is activated, steps are made by `inverse` afterwards.
struct ByteEpilogue {
  const float* scale = nullptr;  ///< these arrays have a place for each filter, padded
  const float* bias = nullptr;
  const int* starts = nullptr;   ///< what is added to the sums, for zero points
  const void* addend = nullptr;  ///< like the output, but bytes; may be null
  bool addend_signed = false;
  float addend_scale = 0;
  float low = 0, high = 0;
  int zero_point = 0;
  int least = 0;      ///< byte of the result: 0 or -128
  bool bytes = true;  ///< of the result, else f32
  bool activated = false;
  Activation activation = Activation::kNone;
  float a = 0, b = 0;
  float inverse = 1;
};

/// Where windows see padding, which kernels of tiles fill with zeros: what they count too much is
/// the zero point times the weights there.
struct BytePadding {
  int zero_point = 0;  ///< 0: nothing to do
  /// [row][column][filter]: of the taps above and to the left, as many rows and columns as the
  /// kernel has, and one more of each.
  const int* weight_sums = nullptr;
  int filters = 0;  ///< of all groups, padded
  ConvWalk height, width;
};

/// Distances are in bytes of the image and in elements of the result.
struct ByteConvCall {
  const void* in = nullptr;
  bool in_signed = false;
  int zero_point = 0;  ///< of the image
  /// [group][place of FilterAt][row][column][channel], filters `depth` apart and whole groups of
  /// them, zero behind the last tap. Where each channel has its own: see below.
  const void* weight = nullptr;
  int64_t depth = 0;
  int tap_channels = 0;  ///< of the weight, at least those of the image
  ByteEpilogue epilogue;
  BytePadding padding;
  void* out = nullptr;
  int64_t batch = 1;
  ConvWalk height, width;
  int channels = 0, filters = 0, groups = 1;  ///< channels and filters of one group
  int64_t in_pixel = 0, out_pixel = 0;        ///< from pixel to pixel
  int64_t in_channel = 1, out_channel = 1;    ///< from channel to channel; tiles take 1 alone
  int64_t in_image = 0, out_image = 0;        ///< from image to image

  constexpr int64_t rows() const { return batch * height.out * width.out; }
  constexpr int64_t taps() const { return int64_t{height.kernel} * width.kernel; }
  constexpr int padded_filters() const {
    return (filters + kFilterGroup - 1) / kFilterGroup * kFilterGroup;
  }
};

struct BytePlan {
  int tile = 0;
  int splits = 1;  ///< blocks that share the taps and channels of one tile: a cluster
};
/// Pixels and filters of the tiles that there are.
std::span<const ConvTile> ByteTiles();
/// Whether tiles take the call: channels of a group make whole words, and offsets fit into 31 bits.
bool ConvolvesBytes(const ByteConvCall& call);
bool BytePlanFits(const ByteConvCall& call, const BytePlan& plan, int device);
BytePlan ChooseBytePlan(const ByteConvCall& call, int device);
void ConvolveBytes(const Stream& stream, const ByteConvCall& call, const BytePlan& plan,
                   bool overlap = true);

/// Each channel has a filter of its own. `weight` has words of four taps, [taps / 4][channel,
/// padded to 4], zero behind the last tap.
void ConvolveBytesDepthwise(const Stream& stream, const ByteConvCall& call, bool overlap = true);

/// Any convolution, an output a thread, of planes, too: right, not fast. Arrays of the epilogue are
/// as long as all filters, without padding.
void ConvolveBytesPlain(const Stream& stream, const ByteConvCall& call, bool overlap = true);

/// Pixels of `channels` bytes as pixels of `padded`, a multiple of 4; zeros fill them.
void PadPixels(const Stream& stream, const void* in, int64_t pixels, int channels, int padded,
               void* out, bool overlap = true);

}  // namespace oort::cuda
