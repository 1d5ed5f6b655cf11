// SPDX-License-Identifier: MIT
#include "layers/convolution/cuda/bulk_walk.h"

#include <algorithm>
#include <array>

#include "cuda/tensor_map.h"

namespace oort::cuda {
namespace {

int64_t BytesOf(const BulkProblem& p, int64_t elements) {
  return elements * static_cast<int64_t>(oort::ItemSize(p.dtype));
}

/// From the last pixel of the image to the last one where a window begins.
int UpperCorner(const ConvWalk& walk) {
  return (walk.out - 1) * walk.stride - walk.pad - (walk.in - 1);
}

/// Pixels of an image in the order of the windows that begin there.
CUtensorMap WindowMap(const BulkProblem& p, int pixels, int step_bytes) {
  static const auto kEncode =
      DriverFunction<decltype(&cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
  const ConvWalk &height = p.height, &width = p.width;
  const auto pixel = static_cast<cuuint64_t>(BytesOf(p, p.in_pixel));
  const std::array<cuuint64_t, 4> sizes = {
      static_cast<cuuint64_t>(p.channels), static_cast<cuuint64_t>(width.in),
      static_cast<cuuint64_t>(height.in), static_cast<cuuint64_t>(p.batch)};
  const std::array<cuuint64_t, 3> pitches = {pixel, pixel * sizes[1], pixel * sizes[1] * sizes[2]};
  const std::array<int, 2> lower = {-width.pad, -height.pad};
  const std::array<int, 2> upper = {UpperCorner(width), UpperCorner(height)};
  const std::array<cuuint32_t, 4> steps = {1, static_cast<cuuint32_t>(width.stride),
                                           static_cast<cuuint32_t>(height.stride), 1};
  CUtensorMap map = {};
  CheckMap(kEncode(&map, MapType(p.dtype), 4, const_cast<void*>(p.in), sizes.data(), pitches.data(),
                   lower.data(), upper.data(), static_cast<cuuint32_t>(step_bytes / BytesOf(p, 1)),
                   static_cast<cuuint32_t>(pixels), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                   MapSwizzle(step_bytes), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

/// What the encoding of an axis in the map has room for.
bool CanWalk(const ConvWalk& walk) {
  const int64_t reach = int64_t{walk.kernel - 1} * walk.dilation;
  return walk.stride <= 8 && walk.pad <= 127 && reach <= 127 && UpperCorner(walk) >= -128 &&
         UpperCorner(walk) <= 127 && walk.out > 0;
}

bool IsPointwise(const BulkProblem& p) {
  return p.taps() == 1 && p.height.stride == 1 && p.width.stride == 1 && p.height.pad == 0 &&
         p.width.pad == 0 && p.height.in == p.height.out && p.width.in == p.width.out;
}

bool IsWhole(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

}  // namespace

bool CanWalkInBulk(const BulkProblem& p) {
  for (const int64_t elements :
       {int64_t{p.channels}, int64_t{p.filters}, p.in_pixel, p.out_pixel, p.depth}) {
    if (BytesOf(p, elements) % 16 != 0) return false;
  }
  return IsWhole(p.in) && IsWhole(p.out) && IsWhole(p.weight) && IsWhole(p.addend) &&
         (IsPointwise(p) || (CanWalk(p.height) && CanWalk(p.width)));
}

BulkWalk MakeBulkWalk(const BulkProblem& p, ConvTile tile, int box_rows, int step_bytes) {
  BulkWalk walk = {};
  walk.windows = !IsPointwise(p);
  walk.in = walk.windows ? WindowMap(p, tile.rows, step_bytes)
                         : MatrixMapOf(p.dtype, {p.in, p.channels, p.rows(), p.in_pixel}, tile.rows,
                                       step_bytes);
  walk.weight =
      MatrixMapOf(p.dtype, {p.weight, p.depth, p.weight_rows, p.depth}, tile.columns, step_bytes);
  const auto box_bytes = static_cast<int>(std::min<int64_t>(kMapBytes, BytesOf(p, tile.columns)));
  const auto results = [&](const void* data) {
    return MatrixMapOf(p.dtype, {data, p.filters, p.rows(), p.out_pixel}, box_rows, box_bytes);
  };
  walk.out = results(p.out);
  walk.has_addend = p.addend != nullptr;
  if (walk.has_addend) walk.addend = results(p.addend);
  const auto depth = static_cast<int>(step_bytes / BytesOf(p, 1));
  walk.filters = p.filters;
  walk.channels = p.channels;
  walk.channel_steps = (p.channels + depth - 1) / depth;
  walk.taps = static_cast<int>(p.taps());
  walk.out_plane = p.height.out * p.width.out;
  walk.out_width = p.width.out;
  walk.stride_down = p.height.stride;
  walk.stride_along = p.width.stride;
  walk.pad_top = p.height.pad;
  walk.pad_left = p.width.pad;
  walk.dilation_down = p.height.dilation;
  walk.dilation_along = p.width.dilation;
  walk.reach_down = p.height.kernel * p.height.dilation;
  walk.reach_along = p.width.kernel * p.width.dilation;
  walk.column_tiles = (p.filters + tile.columns - 1) / tile.columns;
  const int64_t row_tiles = (p.rows() + tile.rows - 1) / tile.rows;
  walk.tiles = static_cast<int>(row_tiles * walk.column_tiles);
  return walk;
}

}  // namespace oort::cuda
