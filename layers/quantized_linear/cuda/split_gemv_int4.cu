// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cuda/split_gemv_kernel.h"

namespace oort::cuda::gemv {

int64_t SplitSharedInt4(int device, const GemvProduct& product) {
  return SplitShared<Int4Weights>(device, product);
}
void LaunchSplitInt4(const Stream& stream, const GemvProduct& product, bool overlap) {
  LaunchSplit<Int4Weights>(stream, product, overlap);
}

}  // namespace oort::cuda::gemv
