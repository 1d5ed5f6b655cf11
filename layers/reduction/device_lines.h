// SPDX-License-Identifier: MIT
// Sorting and running sums along the lines of a tensor, on the GPU.
#pragma once

#include "layers/device_kernel.h"
#include "layers/reduction/lines.h"

namespace oort {

/// The first `take` of each line in order; equal elements keep their order, NaN is the largest.
struct DeviceSort {
  AxisLines lines;
  bool descending = false;
  int64_t take = 0;
};
/// Lines of the results have `take` elements; `values` may be null.
void SortOnDevice(cuda::Stream&, const DeviceSort&, const Tensor& x, Tensor* values,
                  Tensor& indices, std::byte* workspace) OORT_CUDA_ONLY;
/// Bytes that it works in: a number and a position for each element, lines made powers of two.
inline size_t DeviceSortBytes(const AxisLines& lines) {
  int64_t padded = 1;
  while (padded < lines.extent) padded *= 2;
  return static_cast<size_t>(lines.count * padded) * 16;
}

/// Sums or products of the first 1, 2, 3 … elements of each line, of real numbers.
void ScanOnDevice(cuda::Stream&, const AxisLines&, bool product, const Tensor& x,
                  Tensor& y) OORT_CUDA_ONLY;

}  // namespace oort
