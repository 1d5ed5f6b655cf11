// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cuda/gemv_kernel.h"

namespace oort::cuda::gemv {

void LaunchInt8(const Stream& stream, const GemvProduct& product, bool overlap) {
  LaunchPacked<Int8Weights>(stream, product, overlap);
}

}  // namespace oort::cuda::gemv
