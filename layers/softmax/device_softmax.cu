// SPDX-License-Identifier: MIT
#include "layers/softmax/device_softmax.h"

#include "cuda/elements.h"
#include "cuda/launch.h"

namespace oort {
namespace {

/// One thread block computes a run in passes: maximum, sum, output. Elements of a run are `inner`
/// apart.
template <typename X, typename Y>
__global__ void SoftmaxKernel(const X* x, Y* y, int64_t extent, int64_t inner, bool log,
                              float sign) {
  using A = typename cuda::SumOf<Y>::Type;
  __shared__ A shared[32];
  const int64_t run = blockIdx.x;
  const int64_t base = run / inner * extent * inner + run % inner;
  const auto at = [&](int64_t i) {
    return static_cast<A>(cuda::Widen(x[base + i * inner])) * sign;
  };
  // NaN must win, so the comparison takes whatever is not smaller.
  const auto larger = [](A a, A b) { return a > b || a != a ? a : b; };
  A most = -INFINITY;
  for (int64_t i = threadIdx.x; i < extent; i += blockDim.x) most = larger(at(i), most);
  most = cuda::CombineBlock(most, shared, larger);
  A sum = 0;
  for (int64_t i = threadIdx.x; i < extent; i += blockDim.x) sum += exp(at(i) - most);
  sum = cuda::CombineBlock(sum, shared, [](A a, A b) { return a + b; });
  const A log_sum = ::log(sum);
  for (int64_t i = threadIdx.x; i < extent; i += blockDim.x) {
    const A shifted = at(i) - most;
    cuda::Narrow(y[base + i * inner], log ? shifted - log_sum : exp(shifted) / sum);
  }
}

/// Neighbouring threads compute neighbouring runs, so that their loads coalesce where the elements
/// of a run lie apart.
template <typename X, typename Y>
__global__ void SoftmaxColumnsKernel(const X* x, Y* y, int64_t runs, int64_t extent, int64_t inner,
                                     bool log, float sign) {
  using A = typename cuda::SumOf<Y>::Type;
  const int64_t run = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (run >= runs) return;
  const int64_t base = run / inner * extent * inner + run % inner;
  const auto at = [&](int64_t i) {
    return static_cast<A>(cuda::Widen(x[base + i * inner])) * sign;
  };
  A most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < extent; ++i) {
    const A value = at(i);
    if (value > most || value != value) most = value;
  }
  for (int64_t i = 0; i < extent; ++i) sum += exp(at(i) - most);
  const A log_sum = ::log(sum);
  for (int64_t i = 0; i < extent; ++i) {
    const A shifted = at(i) - most;
    cuda::Narrow(y[base + i * inner], log ? shifted - log_sum : exp(shifted) / sum);
  }
}

template <typename X, typename Y>
void StartSoftmax(cuda::Stream& stream, const X* x, Y* y, const SoftmaxView& view) {
  const int64_t runs = view.outer * view.inner;
  if (runs > INT32_MAX) throw Error(ErrorCode::kUnsupported, "too many rows for the GPU");
  if (view.inner >= 32 && runs >= 1024) {
    constexpr int kThreads = 128;
    cuda::Launch(stream, {dim3(cuda::BlocksFor(runs, kThreads)), dim3(kThreads)},
                 &SoftmaxColumnsKernel<X, Y>, x, y, runs, view.extent, view.inner, view.log,
                 view.sign);
    return;
  }
  cuda::Launch(stream,
               {dim3(static_cast<unsigned>(runs)), dim3(cuda::ThreadsFor(view.extent, 4, 512))},
               &SoftmaxKernel<X, Y>, x, y, view.extent, view.inner, view.log, view.sign);
}

}  // namespace

void SoftmaxOnDevice(cuda::Stream& stream, const Tensor& x, Tensor& y, const SoftmaxView& view) {
  if (y.elements() == 0) return;
  cuda::VisitFloat(x.dtype(), [&](auto x_tag) {
    using X = typename decltype(x_tag)::Type;
    const X* from = reinterpret_cast<const X*>(x.raw());
    if (x.dtype() == y.dtype()) {
      StartSoftmax(stream, from, reinterpret_cast<X*>(y.raw()), view);
    } else if (y.dtype() == DType::kF32) {
      StartSoftmax(stream, from, reinterpret_cast<float*>(y.raw()), view);
    } else {
      throw Error(ErrorCode::kUnsupported, "no softmax from " + std::string(Name(x.dtype())) +
                                               " to " + std::string(Name(y.dtype())) +
                                               " on the GPU");
    }
  });
}

}  // namespace oort
