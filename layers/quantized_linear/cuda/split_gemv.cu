// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cuda/split_gemv.h"

#include <cstdio>
#include <cstdlib>

#include "layers/quantized_linear/cuda/split_gemv_kernel.h"

namespace oort::cuda {

using namespace gemv;

RowRange RowsToSplit() {
  static const RowRange all = [] {
    RowRange rows;
    const char* const wanted = std::getenv("OORT_CUDA_SPLIT_ROWS");
    long least = 0, most = 0;
    if (wanted != nullptr && std::sscanf(wanted, "%ld-%ld", &least, &most) == 2) {
      rows = {least, most};
    }
    return rows;
  }();
  return all;
}

bool CanSplitGemv(int device, const GemvProduct& product) {
  constexpr int kLeastStrips = 64;  // of fewer, most warps would have none
  return IsPacked(product.weights.format) && product.few_digits && TraitsOf(device).clusters &&
         product.weights.strips >= kLeastStrips;
}

int64_t SplitGemvShared(int device, const GemvProduct& product) {
  return product.weights.format == DeviceFormat::kInt4 ? SplitSharedInt4(device, product)
                                                       : SplitSharedInt8(device, product);
}

void RunSplitGemv(const Stream& stream, const GemvProduct& product, bool overlap) {
  product.weights.format == DeviceFormat::kInt4 ? LaunchSplitInt4(stream, product, overlap)
                                                : LaunchSplitInt8(stream, product, overlap);
}

}  // namespace oort::cuda
