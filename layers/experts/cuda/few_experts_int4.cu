// SPDX-License-Identifier: MIT
#include "layers/experts/cuda/few_experts_kernel.cuh"

namespace oort::cuda::experts {

void LaunchFewInt4(const Stream& stream, const ExpertProduct& product) {
  if (product.weights.has_minimum) {
    LaunchFewKind<PackedKind<true, true>>(stream, product);
  } else {
    LaunchFewKind<PackedKind<true, false>>(stream, product);
  }
}

}  // namespace oort::cuda::experts
