// SPDX-License-Identifier: MIT
#include "layers/experts/cuda/expert_products.h"

#include "cuda/stream.h"
#include "layers/experts/cuda/few_experts.h"
#include "layers/experts/cuda/many_experts.h"
#include "layers/quantized_linear/cuda/gemv.h"

namespace oort::cuda {

void RunExperts(const Stream& stream, const ExpertProduct& product) {
  // A device with less shared memory takes the rows of a prompt as those of answers.
  const bool many = product.tokens > kFewTokens &&
                    experts::ManySharedBytes(product) <= MostSharedBytes(stream.device());
  switch (product.weights.format) {
    case DeviceFormat::kBf16:
    case DeviceFormat::kF16:
      return many ? experts::LaunchManyPlain(stream, product)
                  : experts::LaunchFewPlain(stream, product);
    case DeviceFormat::kInt8:
      return many ? experts::LaunchManyInt8(stream, product)
                  : experts::LaunchFewInt8(stream, product);
    case DeviceFormat::kInt4:
      return many ? experts::LaunchManyInt4(stream, product)
                  : experts::LaunchFewInt4(stream, product);
  }
}

}  // namespace oort::cuda
