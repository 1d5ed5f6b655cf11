// SPDX-License-Identifier: MIT
#include "layers/experts/cuda/few_experts_kernel.cuh"

namespace oort::cuda::experts {

void LaunchFewPlain(const Stream& stream, const ExpertProduct& product) {
  if (product.weights.format == DeviceFormat::kBf16) {
    LaunchFewKind<Bf16Kind>(stream, product);
  } else {
    LaunchFewKind<F16Kind>(stream, product);
  }
}

}  // namespace oort::cuda::experts
