// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cuda/gemv.h"

#include "layers/quantized_linear/cuda/gemv_kernel.h"

namespace oort::cuda {
namespace {

using namespace gemv;

using PlainBf16 = Kind<Bf16Weights, __half2, false, true>;
using PlainF16 = Kind<F16Weights, __half2, false, true>;

/// Of barriers and the like, at most.
constexpr int kFixedShared = 2048;

/// Calls visit with the Kind of these weights.
template <typename Visit>
auto WithKind(const GemvProduct& product, const Visit& visit) {
  const DeviceWeights& w = product.weights;
  const bool few = product.few_digits;
  switch (w.format) {
    case DeviceFormat::kBf16: return visit(PlainBf16());
    case DeviceFormat::kF16: return visit(PlainF16());
    case DeviceFormat::kInt8:
      return few ? WithPackedKind<FewDigits<Int8Weights>>(w, visit)
                 : WithPackedKind<Int8Weights>(w, visit);
    case DeviceFormat::kInt4: break;
  }
  return few ? WithPackedKind<FewDigits<Int4Weights>>(w, visit)
             : WithPackedKind<Int4Weights>(w, visit);
}

}  // namespace

int64_t GemvShared(const GemvProduct& product) {
  return WithKind(product, [&]<typename K>(K) { return SharedBytes<K>(product, kLeastStages); });
}

int64_t MostSharedBytes(int device) {
  int bytes = 0;
  Check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "the shared memory of a block");
  return bytes - kFixedShared;
}

void RunGemv(const Stream& stream, const GemvProduct& product, bool overlap) {
  const bool few = product.few_digits;
  switch (product.weights.format) {
    case DeviceFormat::kBf16: return LaunchKind<PlainBf16>(stream, product, overlap);
    case DeviceFormat::kF16: return LaunchKind<PlainF16>(stream, product, overlap);
    case DeviceFormat::kInt8:
      return few ? LaunchInt8FewDigits(stream, product, overlap)
                 : LaunchInt8(stream, product, overlap);
    case DeviceFormat::kInt4: break;
  }
  few ? LaunchInt4FewDigits(stream, product, overlap) : LaunchInt4(stream, product, overlap);
}

}  // namespace oort::cuda
