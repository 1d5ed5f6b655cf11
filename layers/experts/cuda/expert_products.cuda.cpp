// SPDX-License-Identifier: MIT
#include "layers/experts/cuda/expert_products.h"

#include "layers/experts/cuda/few_experts.h"

namespace oort::cuda {

void RunExperts(const Stream& stream, const ExpertProduct& product) {
  switch (product.weights.format) {
    case DeviceFormat::kBf16:
    case DeviceFormat::kF16: return experts::LaunchFewPlain(stream, product);
    case DeviceFormat::kInt8: return experts::LaunchFewInt8(stream, product);
    case DeviceFormat::kInt4: return experts::LaunchFewInt4(stream, product);
  }
}

}  // namespace oort::cuda
