// SPDX-License-Identifier: MIT
#include "layers/experts/cuda/many_experts_kernel.cuh"

namespace oort::cuda::experts {

int64_t ManySharedBytes(const ExpertProduct& product) {
  const int bytes = StepBytes(product.weights);
  const int64_t stage = product.planes == kExactPlanes ? ManyStage<kExactPlanes>{bytes}.bytes()
                                                       : ManyStage<kFastPlanes>{bytes}.bytes();
  return kManyStages * stage;
}

void LaunchManyPlain(const Stream& stream, const ExpertProduct& product) {
  if (product.weights.format == DeviceFormat::kBf16) {
    LaunchManyKind<Bf16Kind>(stream, product);
  } else {
    LaunchManyKind<F16Kind>(stream, product);
  }
}

}  // namespace oort::cuda::experts
