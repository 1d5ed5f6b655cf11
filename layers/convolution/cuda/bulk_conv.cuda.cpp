// SPDX-License-Identifier: MIT
#include "layers/convolution/cuda/bulk_conv.h"

#include <algorithm>
#include <array>

#include "cuda/kernel_launch.h"
#include "cuda/tensor_map.h"
#include "layers/convolution/cuda/bulk_conv_args.h"

namespace oort::cuda {
namespace {

constexpr int kDepth = kMapDepth;  // elements of a step
constexpr int kBoxRows = 64;

CUtensorMap MatrixMap(ConvMath math, const void* data, int64_t columns, int64_t rows, int64_t pitch,
                      int box_rows) {
  return MatrixMapOf(math == ConvMath::kF16 ? DType::kF16 : DType::kBF16,
                     {data, columns, rows, pitch}, box_rows);
}

/// From the last pixel of the image to the last one where a window begins.
int UpperCorner(const ConvWalk& walk) {
  return (walk.out - 1) * walk.stride - walk.pad - (walk.in - 1);
}

/// Pixels of an image in the order of the windows that begin there.
CUtensorMap WindowMap(const ConvCall& call, ConvMath math, int pixels) {
  static const auto kEncode =
      DriverFunction<decltype(&cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
  const ConvWalk &height = call.height, &width = call.width;
  const auto pixel = static_cast<cuuint64_t>(call.in_pixel) * 2;
  const std::array<cuuint64_t, 4> sizes = {
      static_cast<cuuint64_t>(call.channels), static_cast<cuuint64_t>(width.in),
      static_cast<cuuint64_t>(height.in), static_cast<cuuint64_t>(call.batch)};
  const std::array<cuuint64_t, 3> pitches = {pixel, pixel * sizes[1], pixel * sizes[1] * sizes[2]};
  const std::array<int, 2> lower = {-width.pad, -height.pad};
  const std::array<int, 2> upper = {UpperCorner(width), UpperCorner(height)};
  const std::array<cuuint32_t, 4> steps = {1, static_cast<cuuint32_t>(width.stride),
                                           static_cast<cuuint32_t>(height.stride), 1};
  CUtensorMap map = {};
  CheckMap(kEncode(&map, MapType(math == ConvMath::kF16 ? DType::kF16 : DType::kBF16), 4,
                   const_cast<void*>(call.in), sizes.data(), pitches.data(), lower.data(),
                   upper.data(), kDepth, static_cast<cuuint32_t>(pixels), steps.data(),
                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

/// What the encoding of an axis in the map has room for.
bool CanWalk(const ConvWalk& walk) {
  const int64_t reach = int64_t{walk.kernel - 1} * walk.dilation;
  return walk.stride <= 8 && walk.pad <= 127 && reach <= 127 && UpperCorner(walk) >= -128 &&
         UpperCorner(walk) <= 127 && walk.out > 0;
}

bool IsPointwise(const ConvCall& call) {
  return call.taps() == 1 && call.height.stride == 1 && call.width.stride == 1 &&
         call.height.pad == 0 && call.width.pad == 0 && call.height.in == call.height.out &&
         call.width.in == call.width.out;
}

bool IsBulkAligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

}  // namespace

bool ConvolvesInBulk(const ConvCall& call, ConvMath math) {
  return (math == ConvMath::kF16 || math == ConvMath::kBF16) && call.groups == 1 &&
         call.channels % 8 == 0 && call.filters % 8 == 0 && call.in_pixel % 8 == 0 &&
         call.out_pixel % 8 == 0 && call.depth % 8 == 0 &&
         FastActivation::Supports(call.epilogue.activation) && IsBulkAligned(call.in) &&
         IsBulkAligned(call.out) && IsBulkAligned(call.weight) &&
         IsBulkAligned(call.epilogue.addend) && IsBulkAligned(call.epilogue.bias) &&
         (IsPointwise(call) || (CanWalk(call.height) && CanWalk(call.width)));
}

void ConvolveInBulk(const Stream& stream, const ConvCall& call, ConvMath math,
                    const BulkConvKernel& kernel, bool overlap) {
  BulkConv conv = {};
  conv.windows = !IsPointwise(call);
  conv.in = conv.windows ? WindowMap(call, math, kernel.tile.rows)
                         : MatrixMap(math, call.in, call.channels, call.rows(), call.in_pixel,
                                     kernel.tile.rows);
  conv.weight =
      MatrixMap(math, call.weight, call.depth, call.filters, call.depth, kernel.tile.columns);
  conv.out = MatrixMap(math, call.out, call.filters, call.rows(), call.out_pixel, kBoxRows);
  conv.has_addend = call.epilogue.addend != nullptr;
  if (conv.has_addend) {
    conv.addend =
        MatrixMap(math, call.epilogue.addend, call.filters, call.rows(), call.out_pixel, kBoxRows);
  }
  conv.bias = call.epilogue.bias;
  conv.activation = FastActivation::Of(call.epilogue);
  conv.filters = call.filters;
  conv.channels = call.channels;
  conv.channel_steps = (call.channels + kDepth - 1) / kDepth;
  conv.taps = static_cast<int>(call.taps());
  conv.out_plane = call.height.out * call.width.out;
  conv.out_width = call.width.out;
  conv.stride_down = call.height.stride;
  conv.stride_along = call.width.stride;
  conv.pad_top = call.height.pad;
  conv.pad_left = call.width.pad;
  conv.dilation_down = call.height.dilation;
  conv.dilation_along = call.width.dilation;
  conv.reach_down = call.height.kernel * call.height.dilation;
  conv.reach_along = call.width.kernel * call.width.dilation;
  conv.column_tiles = (call.filters + kernel.tile.columns - 1) / kernel.tile.columns;
  const int64_t row_tiles = (call.rows() + kernel.tile.rows - 1) / kernel.tile.rows;
  conv.tiles = static_cast<int>(row_tiles * conv.column_tiles);

  KernelLaunch launch;
  launch.kernel = kernel.kernel;
  launch.blocks = dim3(static_cast<unsigned>(
      std::min(conv.tiles, TraitsOf(stream.device()).multiprocessors * kernel.resident)));
  launch.threads = static_cast<unsigned>(kernel.threads);
  launch.shared = static_cast<size_t>(kernel.shared_bytes);
  launch.overlap = overlap;
  Launch(stream, launch, &conv);
}

}  // namespace oort::cuda
