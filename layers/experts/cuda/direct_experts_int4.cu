// SPDX-License-Identifier: MIT
#include "layers/experts/cuda/direct_experts_kernel.cuh"

namespace oort::cuda::experts {

void LaunchDirectInt4(const Stream& stream, const DirectMixture& mixture, bool up) {
  if ((up ? mixture.up : mixture.down).weights.has_minimum) {
    LaunchDirectKind<PackedKind<true, true>>(stream, mixture, up);
  } else {
    LaunchDirectKind<PackedKind<true, false>>(stream, mixture, up);
  }
}

}  // namespace oort::cuda::experts
