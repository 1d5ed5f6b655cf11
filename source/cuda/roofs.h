// SPDX-License-Identifier: MIT
// How fast a GPU is at its best: what others are held against.
#pragma once

namespace oort::cuda {

struct Roofs {
  double read_bandwidth = 0;  ///< bytes a second, of a kernel that only reads
  double bf16_flops = 0;      ///< of a large product by cuBLASLt; 0 where there is none
};

/// Measures for some tens of milliseconds.
Roofs MeasureRoofs(int device);

}  // namespace oort::cuda
