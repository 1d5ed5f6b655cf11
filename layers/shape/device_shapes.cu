// SPDX-License-Identifier: MIT
#include "layers/shape/device_shapes.h"

#include "cuda/launch.h"
#include "cuda/numbers.h"

namespace oort {
namespace {

template <typename T>
__global__ void KeepTriangle(const T* x, T* y, int64_t total, int64_t rows, int64_t columns,
                             bool upper, int64_t diagonal) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < total; i += step) {
    const int64_t column = i % columns, row = i / columns % rows;
    const bool kept = upper ? column - row >= diagonal : column - row <= diagonal;
    y[i] = kept ? x[i] : T{};
  }
}

}  // namespace

void TriangleOnDevice(cuda::Stream& stream, bool upper, int64_t diagonal, const Tensor& x,
                      Tensor& y) {
  constexpr int kThreads = 256;
  const int64_t total = x.elements();
  const cuda::Grid grid = {dim3(cuda::BlocksFor(total, kThreads, 2, 132 * 32)), dim3(kThreads)};
  const auto run = [&]<typename T>(T*) {
    cuda::Launch(stream, grid, &KeepTriangle<T>, reinterpret_cast<const T*>(x.raw()),
                 reinterpret_cast<T*>(y.raw()), total, x.dim(-2), x.dim(-1), upper, diagonal);
  };
  switch (ItemSize(x.dtype())) {
    case 1: return run(static_cast<uint8_t*>(nullptr));
    case 2: return run(static_cast<uint16_t*>(nullptr));
    case 4: return run(static_cast<uint32_t*>(nullptr));
    case 8: return run(static_cast<uint2*>(nullptr));
    default: return run(static_cast<uint4*>(nullptr));
  }
}

namespace {

__global__ void CountUp(double start, double step, int64_t whole_start, int64_t whole_step, void* y,
                        DType dtype, int64_t total) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= total) return;
  if (cuda::IsRealType(dtype)) {
    cuda::StoreNumber(y, i, start + static_cast<double>(i) * step, dtype);
  } else {
    cuda::StoreNumber(y, i, whole_start + i * whole_step, dtype);
  }
}

}  // namespace

void ArangeOnDevice(cuda::Stream& stream, double start, double step, int64_t whole_start,
                    int64_t whole_step, Tensor& y) {
  constexpr int kThreads = 256;
  cuda::Launch(stream, {dim3(cuda::BlocksFor(y.elements(), kThreads)), dim3(kThreads)}, &CountUp,
               start, step, whole_start, whole_step, static_cast<void*>(y.raw()), y.dtype(),
               y.elements());
}

}  // namespace oort
