// SPDX-License-Identifier: MIT
#include "layers/experts/cuda/many_experts_kernel.cuh"

namespace oort::cuda::experts {

void LaunchManyInt8(const Stream& stream, const ExpertProduct& product) {
  if (product.weights.has_minimum) {
    LaunchManyKind<PackedKind<false, true>>(stream, product);
  } else {
    LaunchManyKind<PackedKind<false, false>>(stream, product);
  }
}

}  // namespace oort::cuda::experts
