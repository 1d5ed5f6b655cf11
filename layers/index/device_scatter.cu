// SPDX-License-Identifier: MIT
#include "layers/index/device_scatter.h"

#include "cuda/launch.h"
#include "cuda/numbers.h"

namespace oort {
namespace {

/// One line: what is named twice is combined in order.
template <typename A>
class ScatterLine {
 public:
  __device__ ScatterLine(const DeviceScatter& call, const void* index, bool wide, void* x,
                         DType dtype, int64_t line)
      : call_(call), index_(index), wide_(wide), x_(x), dtype_(dtype) {
    for (int i = call.rank - 1; i >= 0; --i) {
      const DeviceScatter::Axis& axis = call.axes[i];
      const int64_t at = line % axis.extent;
      line /= axis.extent;
      x_at_ += at * axis.x;
      index_at_ += at * axis.index;
      source_at_ += at * axis.source;
    }
  }

  __device__ void Run() const {
    const bool counts = !call_.include_self || call_.combine == Combine::kMean;
    for (int64_t j = 0; j < call_.length; ++j) {
      const int64_t place = Place(j);
      if (place < 0) continue;
      const int64_t at = x_at_ + place * call_.along.x;
      const A value = Value(j);
      const bool fresh = !call_.include_self && IsFirst(j, place);
      cuda::StoreNumber(x_, at, fresh ? value : Combined(cuda::NumberAt<A>(x_, at, dtype_), value),
                        dtype_);
    }
    if (!counts || call_.combine != Combine::kMean) return;
    for (int64_t j = 0; j < call_.length; ++j) {
      const int64_t place = Place(j);
      if (place >= 0 && IsFirst(j, place)) Divide(place);
    }
  }

 private:
  __device__ int64_t Place(int64_t j) const {
    const int64_t at = index_at_ + j * call_.along.index;
    int64_t place =
        wide_ ? static_cast<const int64_t*>(index_)[at] : static_cast<const int32_t*>(index_)[at];
    if (call_.wraps && place < 0) place += call_.extent;
    return place >= 0 && place < call_.extent ? place : -1;
  }
  __device__ bool IsFirst(int64_t j, int64_t place) const {
    for (int64_t i = 0; i < j; ++i) {
      if (Place(i) == place) return false;
    }
    return true;
  }
  __device__ A Value(int64_t j) const {
    if (call_.source == nullptr) {
      return cuda::IsRealType(dtype_) ? static_cast<A>(call_.number)
                                      : static_cast<A>(call_.integer);
    }
    return cuda::NumberAt<A>(call_.source, source_at_ + j * call_.along.source, dtype_);
  }
  __device__ A Combined(A a, A b) const {
    const bool a_nan = a != a, b_nan = b != b;
    switch (call_.combine) {
      case Combine::kReplace: return b;
      case Combine::kLargest: return a_nan || (!b_nan && a > b) ? a : b;
      case Combine::kSmallest: return a_nan || (!b_nan && a < b) ? a : b;
      case Combine::kProduct: return a * b;
      default: return a + b;  // of bools what is not 0 is true
    }
  }
  __device__ void Divide(int64_t place) const {
    int64_t count = call_.include_self ? 1 : 0;
    for (int64_t i = 0; i < call_.length; ++i) count += Place(i) == place ? 1 : 0;
    if (count < 2 || dtype_ == DType::kBool) return;
    const int64_t at = x_at_ + place * call_.along.x;
    const A sum = cuda::NumberAt<A>(x_, at, dtype_);
    A mean = sum / static_cast<A>(count);
    if (!cuda::IsRealType(dtype_) && mean * static_cast<A>(count) > sum) mean -= 1;  // down
    cuda::StoreNumber(x_, at, mean, dtype_);
  }

  const DeviceScatter& call_;
  const void* index_;
  bool wide_;
  void* x_;
  DType dtype_;
  int64_t x_at_ = 0, index_at_ = 0, source_at_ = 0;
};

template <typename A>
__global__ void ScatterLines(const __grid_constant__ DeviceScatter call, const void* index,
                             bool wide, void* x, DType dtype, int64_t lines) {
  const int64_t line = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (line < lines) ScatterLine<A>(call, index, wide, x, dtype, line).Run();
}

}  // namespace

void ScatterOnDevice(cuda::Stream& stream, const DeviceScatter& call, const Tensor& index,
                     Tensor& x) {
  constexpr int kThreads = 64;
  int64_t lines = call.length == 0 ? 0 : 1;
  for (int i = 0; i < call.rank; ++i) lines *= call.axes[static_cast<size_t>(i)].extent;
  const auto run = [&](auto kernel) {
    cuda::Launch(stream, {dim3(cuda::BlocksFor(lines, kThreads)), dim3(kThreads)}, kernel, call,
                 static_cast<const void*>(index.raw()), index.dtype() == DType::kI64,
                 static_cast<void*>(x.raw()), x.dtype(), lines);
  };
  if (IsFloat(x.dtype())) return run(&ScatterLines<double>);
  run(&ScatterLines<long long>);
}

}  // namespace oort
