// SPDX-License-Identifier: MIT
#include "layers/experts/cuda/direct_experts.h"

#include <algorithm>
#include <cstdlib>

#include "cuda/stream.h"
#include "layers/quantized_linear/cuda/gemv.h"

namespace oort::cuda {
namespace {

int64_t NumberFrom(const char* variable, int64_t otherwise) {
  const char* const wanted = std::getenv(variable);
  return wanted != nullptr ? std::atoll(wanted) : otherwise;
}

}  // namespace

bool TakesDirectExperts(const DirectMixture& mixture, int device) {
  constexpr int64_t kMostTokens = 4;
  static const int64_t most = NumberFrom("OORT_CUDA_DIRECT_EXPERTS", kMostTokens);
  const int64_t tokens = mixture.step.tokens;
  if (tokens > most) return false;
  // Tokens that mostly share their experts read weights several times.
  if (tokens > 1 && tokens * mixture.step.rule.used > mixture.step.rule.experts) return false;
  return experts::DirectSharedBytes(mixture) <= MostSharedBytes(device);
}

void LaunchDirectExperts(const Stream& stream, const DirectMixture& mixture, bool up) {
  switch ((up ? mixture.up : mixture.down).weights.format) {
    case DeviceFormat::kBf16:
    case DeviceFormat::kF16: return experts::LaunchDirectPlain(stream, mixture, up);
    case DeviceFormat::kInt8: return experts::LaunchDirectInt8(stream, mixture, up);
    case DeviceFormat::kInt4: return experts::LaunchDirectInt4(stream, mixture, up);
  }
}

void RunDirectExperts(const Stream& stream, DirectMixture mixture) {
  constexpr int64_t kMegabyte = int64_t{1} << 20, kAhead = 16;
  static const int64_t ahead = NumberFrom("OORT_CUDA_EXPERTS_AHEAD", kAhead) * kMegabyte;
  mixture.ahead = ahead;
  LaunchDirectExperts(stream, mixture, true);
  LaunchDirectExperts(stream, mixture, false);
}

}  // namespace oort::cuda
