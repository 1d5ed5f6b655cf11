// SPDX-License-Identifier: MIT
#include "layers/experts/cuda/direct_experts_kernel.cuh"

namespace oort::cuda::experts {
namespace {

int StagesOf(DeviceFormat format) {
  return !IsPacked(format)               ? Bf16Kind::kStages
         : format == DeviceFormat::kInt8 ? PackedKind<false, false>::kStages
                                         : PackedKind<true, false>::kStages;
}

}  // namespace

int64_t DirectSharedBytes(const DirectMixture& m) {
  return std::max(UpPlan(m, StagesOf(m.up.weights.format)).total,
                  DownPlan(m, DownWarps(m), StagesOf(m.down.weights.format)).total);
}

void LaunchDirectPlain(const Stream& stream, const DirectMixture& mixture, bool up) {
  const ExpertProduct& product = up ? mixture.up : mixture.down;
  if (product.weights.format == DeviceFormat::kBf16) {
    LaunchDirectKind<Bf16Kind>(stream, mixture, up);
  } else {
    LaunchDirectKind<F16Kind>(stream, mixture, up);
  }
}

}  // namespace oort::cuda::experts
