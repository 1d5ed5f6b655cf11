// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cuda/split_gemv_kernel.h"

namespace oort::cuda::gemv {

int64_t SplitSharedInt8(int device, const GemvProduct& product) {
  return SplitShared<Int8Weights>(device, product);
}
void LaunchSplitInt8(const Stream& stream, const GemvProduct& product, bool overlap) {
  LaunchSplit<Int8Weights>(stream, product, overlap);
}

}  // namespace oort::cuda::gemv
