// SPDX-License-Identifier: MIT
// Kernels that multiply bytes and sum the products in s32. Sums are exact, and what is made of them
// in f32 is one fused multiply-add after another, so that all units give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "oort/isa.h"

namespace oort {

/// Added to integers within 2^22, it makes the bits of 1.5 * 2^23 plus that integer as f32.
inline constexpr int32_t kSmallSums = 0x4b400000;

enum class IntegerResult : unsigned char { kF32, kU8, kI8 };

/// What becomes of the sums of each channel: sum * scale + bias + addend * addend_scale, and for
/// bytes that from `low` to `high`, rounded half to even, plus the zero point. The arrays are
/// padded to whole vectors.
struct IntegerEpilogue {
  const float* scale;
  const float* bias;  ///< with what the zero point of the addend takes away
  const void* addend = nullptr;
  bool addend_signed = false;
  float addend_scale = 0;
  float low = 0, high = 0;  ///< within the integers of the result, less its zero point
  int32_t zero_point = 0;
  bool fits = false;        ///< whatever the sums, values are within 2^31 before limits
  bool small_sums = false;  ///< the first sums are kSmallSums more, and sums are within 2^22
  IntegerResult result = IntegerResult::kU8;
  void* out = nullptr;
  int64_t stride = 0;         ///< from one output to the next
  int64_t addend_stride = 0;  ///< the same of the addend
};

/// Windows of an image times a panel of filters.
struct IntegerWindows {
  const std::byte* const* windows;  ///< where that of each output begins, but for `finds_windows`
  int64_t count;                    ///< outputs
  const int64_t* runs;              ///< where in a window each run of neighbours begins, in bytes
  int64_t run_count;
  int64_t run_steps;       ///< how often `step` numbers make a run
  int64_t run_numbers;     ///< of a run, without those that fill the last step
  int64_t first;           ///< output, among those of the image
  int64_t columns;         ///< outputs of a row
  int64_t distance;        ///< bytes from a window to the next one of its row
  int64_t row_distance;    ///< bytes from a window to the one below it
  const std::byte* image;  ///< the first window
  const std::byte* image_end;
  int64_t outputs;          ///< channels of all panels of the group
  const std::byte* packed;  ///< what `pack` made of the windows, where the unit has it
  const void* weights;      ///< for each run and step: those of each channel of the panel
  const int32_t* starts;    ///< of the sums
  bool starts_are_zero;
  int64_t channels;  ///< of the panel; the last vector may have fewer
  IntegerEpilogue epilogue;
};

/// A row of outputs of which each channel reads its own channel alone.
struct IntegerDepthwise {
  const std::byte* image;  ///< the first number under the first window
  int64_t row_bytes;       ///< from one row of a window to the next
  int64_t columns;         ///< pixels of a row that windows touch
  int64_t kernel_height, kernel_width, stride, dilation;  ///< the last two along the row
  int64_t channels;
  int64_t count;          ///< outputs
  const void* weights;    ///< [column of the window][row / rows][channel, padded][row % rows]
  const int32_t* starts;  ///< of the sums
  std::byte* scratch;
  IntegerEpilogue epilogue;
};

/// Winograd's F(2 x 2, 3 x 3): tiles of 2 x 2 outputs, each a sum over the channels of 4 x 4
/// points. All its numbers are integers, since filters are four times as large, and so are the
/// sums, which fit into 32 bits for at most so many terms of a window.
inline constexpr int64_t kWinogradPoints = 16, kWinogradDepth = 16, kMostWinogradTerms = 16384;

struct IntegerWinograd {
  const std::byte* const* pixels;  ///< 4 x 4 under each tile, as the image has them
  bool is_signed;                  ///< the image
  int64_t tiles;
  int64_t depth;           ///< channels of a pixel, a multiple of kWinogradDepth
  int16_t* transformed;    ///< [point][tile][channel]
  const int16_t* weights;  ///< of the panel: [point][channel / 2][output][channel % 2]
  int32_t* products;       ///< [point][tile][output of the panel, padded to whole vectors]
  const int32_t* starts;   ///< of the sums
  const int64_t* places;   ///< of four outputs of each tile; below 0 where there is none
  int64_t channels;        ///< of the panel
  IntegerEpilogue epilogue;
};

/// Most outputs of a job on any unit.
inline constexpr int64_t kMostIntegerBlock = 512;

/// How a unit wants to have its numbers, and its loops.
struct IntegerKernels {
  bool staged_signed;       ///< images are i8 (or wider), else u8
  bool small_sums = false;  ///< knows of them
  int staged_bytes;         ///< of a number of an image or of a weight: 1, or 2 where it is widened
  int step;                 ///< neighbours that one instruction multiplies and sums
  int group = 0;            ///< neighbours of a channel that lie together among weights; 0: a step
  int lanes;                ///< channels of a vector
  int panel;                ///< most channels of a panel
  int pack_rows = 1;        ///< outputs are packed by whole tiles of so many
  int pack_head = 0;        ///< bytes that `pack` needs besides for each output
  int64_t block = 96;       ///< most outputs of a job
  int64_t block_bytes = 256 << 10;  ///< most bytes of packed ones
  /// `pack` finds windows itself, and nothing beyond the image is read.
  bool finds_windows = false;
  int depthwise_rows;  ///< rows of a window that one instruction of `depthwise` sums
  int depthwise_lanes;
  /// Bytes of one dtype as the unit wants them; where the sign differs, each moves by 128.
  void (*stage)(const void* bytes, bool is_signed, int64_t count, void* staged);
  /// Windows as `product` reads them, for a job of which all but results is set. Null: where they
  /// lie.
  void (*pack)(const IntegerWindows& windows, std::byte* packed) = nullptr;
  void (*product)(const IntegerWindows& windows);
  void (*depthwise)(const IntegerDepthwise& row);
  /// Tiles by Winograd: what `transform` makes of pixels is multiplied panel by panel. Null where
  /// direct products are as fast.
  void (*winograd_transform)(const IntegerWinograd& tiles) = nullptr;
  void (*winograd_product)(const IntegerWinograd& tiles) = nullptr;
};

/// Those that every processor has: what the others are tested against.
const IntegerKernels& PlainIntegerKernels();
/// The fastest ones for the instruction set on this processor.
const IntegerKernels& IntegerKernelsFor(Isa isa);

/// Vectors of channels that `depthwise` does at a time.
inline constexpr int kDepthwiseBlocks = 4;

/// Bytes that `depthwise` needs for scratch.
inline int64_t DepthwiseScratch(const IntegerKernels& kernels, int64_t columns,
                                int64_t kernel_height) {
  if (kernels.depthwise_rows == 1) return 0;
  const int64_t groups = (kernel_height + kernels.depthwise_rows - 1) / kernels.depthwise_rows;
  const int64_t vector = kernels.depthwise_lanes * kernels.depthwise_rows * kernels.staged_bytes;
  return columns * groups * vector * kDepthwiseBlocks;
}

}  // namespace oort
