// SPDX-License-Identifier: MIT
// Products of a few rows with weights of 8 and 4 bits on Hopper and later, for which clusters of
// blocks split the columns.
#pragma once

#include <cstdint>

#include "layers/quantized_linear/cuda/gemv.h"

namespace oort::cuda {

class Stream;

/// Of how many rows such products are computed so: from the least to the most. The environment
/// variable OORT_CUDA_SPLIT_ROWS, "LEAST-MOST", says it otherwise, to compare ("0-0": of none). On
/// an H200 pairs of blocks are as fast up to 4 rows, and kernels for many from 16 on.
struct RowRange {
  int64_t least = 5, most = 12;
  bool Has(int64_t rows) const { return rows >= least && rows <= most; }
};
RowRange RowsToSplit();

/// Most rows of one launch.
inline constexpr int kSplitGemvRows = 16;

/// Whether there is a kernel for the product on this device, and strips for all its clusters.
bool CanSplitGemv(int device, const GemvProduct& product);
/// Bytes of shared memory that the launch takes.
int64_t SplitGemvShared(int device, const GemvProduct& product);
/// Has the bits of RunGemv.
void RunSplitGemv(const Stream& stream, const GemvProduct& product, bool overlap);

}  // namespace oort::cuda
