// SPDX-License-Identifier: MIT
#pragma once

#include <array>

#include "layers/device_kernel.h"

namespace oort {

enum class Combine : unsigned char { kReplace, kSum, kProduct, kMean, kLargest, kSmallest };

/// Writes by index on the GPU: for all lines, x[line][index[line][j]] op= source[line][j], j after
/// j, so that results are those of the CPU. Strides are in elements; an index outside of x, and
/// none that wraps, is passed over.
struct DeviceScatter {
  struct Axis {
    int64_t extent = 1, x = 0, index = 0, source = 0;
  };
  Combine combine = Combine::kReplace;
  bool include_self = true, wraps = false;
  int64_t length = 0, extent = 0;          ///< of the index and of x along the axis
  Axis along;                              ///< strides along it
  std::array<Axis, Shape::kMaxRank> axes;  ///< the others
  int rank = 0;
  const void* source = nullptr;  ///< null: `number` (or `integer`) for all
  double number = 0;
  int64_t integer = 0;
};
void ScatterOnDevice(cuda::Stream&, const DeviceScatter&, const Tensor& index,
                     Tensor& x) OORT_CUDA_ONLY;

}  // namespace oort
