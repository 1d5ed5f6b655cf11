// SPDX-License-Identifier: MIT
#include "layers/linear/device_activation.h"

#include "cuda/elements.h"
#include "cuda/epilogue.cuh"
#include "cuda/launch.h"

namespace oort {
namespace {

constexpr int kActivationThreads = 256;
constexpr int kActivationElements = 8;  // of one thread

/// GELU is by far the usual one behind large products, and has code of its own: others are called.
template <typename T, bool kIsGelu>
__global__ void __launch_bounds__(kActivationThreads)
    ActivateKernel(T* x, int64_t count, Activation kind, float a, float b) {
  const int64_t thread = int64_t{blockIdx.x} * kActivationThreads + threadIdx.x;
  const int64_t first = thread * kActivationElements;
  const auto activated = [&](float value) {
    return kIsGelu ? cuda::Gelu(value) : cuda::Activate(kind, a, b, value);
  };
  if (first + kActivationElements <= count) {
    float values[kActivationElements];
    cuda::LoadFloats(values, x + first);
#pragma unroll
    for (float& value : values) value = activated(value);
    cuda::StoreFloats(x + first, values);
    return;
  }
  for (int64_t i = first; i < count; ++i) {
    x[i] = cuda::FromFloat<T>(activated(cuda::ToFloat(x[i])));
  }
}

template <typename T>
void StartActivation(const cuda::Stream& stream, const ActivationSpec& spec, Tensor& x) {
  const bool gelu = spec.kind == Activation::kGelu;
  const unsigned blocks = cuda::BlocksFor(x.elements(), kActivationThreads, kActivationElements);
  cuda::Launch(stream, {dim3(blocks), dim3(kActivationThreads)},
               gelu ? &ActivateKernel<T, true> : &ActivateKernel<T, false>,
               reinterpret_cast<T*>(x.raw()), x.elements(), spec.kind, spec.a, spec.b);
}

}  // namespace

bool ActivateOnDevice(const cuda::Stream& stream, const ActivationSpec& spec, Tensor& x) {
  if (reinterpret_cast<uintptr_t>(x.raw()) % 16 != 0) return false;
  switch (x.dtype()) {
    case DType::kF32: StartActivation<float>(stream, spec, x); return true;
    case DType::kF16: StartActivation<__half>(stream, spec, x); return true;
    case DType::kBF16: StartActivation<__nv_bfloat16>(stream, spec, x); return true;
    default: return false;
  }
}

}  // namespace oort
