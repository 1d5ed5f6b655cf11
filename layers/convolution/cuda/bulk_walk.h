// SPDX-License-Identifier: MIT
// What a convolution by Hopper's copy engine is given, whatever it multiplies.
#pragma once

#include "layers/convolution/cuda/bulk_conv_args.h"
#include "layers/convolution/cuda/conv.h"
#include "oort/dtype.h"

namespace oort::cuda {

/// A convolution of one group. Distances are in elements, which are 16-bit numbers or bytes.
struct BulkProblem {
  DType dtype;
  const void* in;
  const void* weight;
  void* out;
  const void* addend;  ///< may be null
  int64_t batch;
  ConvWalk height, width;
  int channels, filters;
  int64_t in_pixel, out_pixel, depth;
  int weight_rows;  ///< of the filters, at least as many as these

  /// Of ConvCall or of one like it.
  template <typename Call>
  static BulkProblem Of(const Call& call, DType dtype) {
    return {dtype,         call.in,        call.weight, call.out,      call.epilogue.addend,
            call.batch,    call.height,    call.width,  call.channels, call.filters,
            call.in_pixel, call.out_pixel, call.depth,  call.filters};
  }

  int64_t rows() const { return batch * height.out * width.out; }
  int64_t taps() const { return int64_t{height.kernel} * width.kernel; }
};

/// Whether the copy engine can fetch and write it: pixels and filters of whole 16 bytes, and
/// windows that a map has room for.
bool CanWalkInBulk(const BulkProblem& problem);
/// For tiles whose results are written in boxes of `box_rows`, and steps of so many bytes of each
/// pixel.
BulkWalk MakeBulkWalk(const BulkProblem& problem, ConvTile tile, int box_rows, int step_bytes);

}  // namespace oort::cuda
