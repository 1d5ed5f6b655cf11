// SPDX-License-Identifier: MIT
#include "layers/reduction/device_lines.h"

#include "cuda/launch.h"
#include "cuda/numbers.h"

namespace oort {
namespace {

constexpr int kLineThreads = 256;
constexpr int kSharedItems = 2048;  // lines up to this length are sorted in shared memory

struct SortItem {
  uint64_t key;
  int64_t index;
};

/// Integers that have the same order as the elements.
__device__ uint64_t KeyAt(const void* x, int64_t i, DType dtype) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  if (!cuda::IsRealType(dtype)) return static_cast<uint64_t>(cuda::IntegerAt(x, i, dtype)) ^ kSign;
  const double value = cuda::RealAt(x, i, dtype);
  if (value != value) return ~uint64_t{0};
  if (value == 0) return kSign;  // of either sign
  const auto bits = static_cast<uint64_t>(__double_as_longlong(value));
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

struct SortShape {
  int64_t extent, step, padded, take;
  bool descending;
  __device__ int64_t Start(int64_t line, int64_t length) const {
    return line / step * length * step + line % step;
  }
};

/// Positions behind the end of a line sort last.
__device__ SortItem ItemAt(const SortShape& shape, const void* x, DType dtype, int64_t line,
                           int64_t i) {
  if (i >= shape.extent) return {~uint64_t{0}, i};
  const uint64_t key = KeyAt(x, shape.Start(line, shape.extent) + i * shape.step, dtype);
  return {shape.descending ? ~key : key, i};
}

__device__ bool IsBefore(const SortItem& a, const SortItem& b) {
  return a.key < b.key || (a.key == b.key && a.index < b.index);
}

/// One step of a bitonic sort (Batcher 1968): compares pair number `pair` of elements `apart` from
/// each other, in runs of `run`.
__device__ void ExchangePair(SortItem* items, int64_t pair, int64_t apart, int64_t run) {
  const int64_t low = pair / apart * 2 * apart + pair % apart, high = low + apart;
  const bool rising = (low & run) == 0;
  const SortItem a = items[low], b = items[high];
  if (IsBefore(b, a) == rising) {
    items[low] = b;
    items[high] = a;
  }
}

template <typename T>
__device__ void Move(const void* x, void* y, int64_t from, int64_t to) {
  static_cast<T*>(y)[to] = static_cast<const T*>(x)[from];
}
__device__ void MoveItem(const void* x, void* y, int64_t from, int64_t to, size_t item) {
  switch (item) {
    case 1: return Move<uint8_t>(x, y, from, to);
    case 2: return Move<uint16_t>(x, y, from, to);
    case 4: return Move<uint32_t>(x, y, from, to);
    default: return Move<uint64_t>(x, y, from, to);
  }
}

__device__ void WriteItem(const SortShape& shape, const SortItem& item, const void* x, void* values,
                          int64_t* indices, size_t bytes, int64_t line, int64_t i) {
  const int64_t to = shape.Start(line, shape.take) + i * shape.step;
  indices[to] = item.index;
  const int64_t from = shape.Start(line, shape.extent) + item.index * shape.step;
  if (values != nullptr) MoveItem(x, values, from, to, bytes);
}

__global__ void SortShortLines(const SortShape shape, const void* x, DType dtype, size_t bytes,
                               void* values, int64_t* indices) {
  extern __shared__ SortItem items[];
  const int64_t line = blockIdx.x;
  for (int64_t i = threadIdx.x; i < shape.padded; i += blockDim.x) {
    items[i] = ItemAt(shape, x, dtype, line, i);
  }
  for (int64_t run = 2; run <= shape.padded; run *= 2) {
    for (int64_t apart = run / 2; apart > 0; apart /= 2) {
      __syncthreads();
      for (int64_t pair = threadIdx.x; pair < shape.padded / 2; pair += blockDim.x) {
        ExchangePair(items, pair, apart, run);
      }
    }
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < shape.take; i += blockDim.x) {
    WriteItem(shape, items[i], x, values, indices, bytes, line, i);
  }
}

__global__ void FillLines(const SortShape shape, const void* x, DType dtype, SortItem* items,
                          int64_t total) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at < total) items[at] = ItemAt(shape, x, dtype, at / shape.padded, at % shape.padded);
}

__global__ void ExchangeLines(const SortShape shape, SortItem* items, int64_t pairs, int64_t apart,
                              int64_t run) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= pairs) return;
  const int64_t half = shape.padded / 2;
  ExchangePair(items + at / half * shape.padded, at % half, apart, run);
}

__global__ void WriteLines(const SortShape shape, const SortItem* items, const void* x,
                           size_t bytes, void* values, int64_t* indices, int64_t total) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= total) return;
  const int64_t line = at / shape.take, i = at % shape.take;
  WriteItem(shape, items[line * shape.padded + i], x, values, indices, bytes, line, i);
}

cuda::Grid EachOf(int64_t items) {
  return {dim3(cuda::BlocksFor(items, kLineThreads)), dim3(kLineThreads)};
}

}  // namespace

void SortOnDevice(cuda::Stream& stream, const DeviceSort& sort, const Tensor& x, Tensor* values,
                  Tensor& indices, std::byte* workspace) {
  const AxisLines& lines = sort.lines;
  if (lines.count == 0 || sort.take == 0) return;
  SortShape shape = {lines.extent, lines.step, 1, sort.take, sort.descending};
  while (shape.padded < lines.extent) shape.padded *= 2;
  const size_t bytes = ItemSize(x.dtype());
  void* to = values != nullptr ? values->raw() : nullptr;
  auto* positions = indices.data<int64_t>();
  if (shape.padded <= kSharedItems) {
    const cuda::Grid grid = {dim3(static_cast<unsigned>(lines.count)), dim3(kLineThreads),
                             static_cast<size_t>(shape.padded) * sizeof(SortItem)};
    cuda::Launch(stream, grid, &SortShortLines, shape, static_cast<const void*>(x.raw()), x.dtype(),
                 bytes, to, positions);
    return;
  }
  auto* items = reinterpret_cast<SortItem*>(workspace);
  const int64_t total = lines.count * shape.padded;
  cuda::Launch(stream, EachOf(total), &FillLines, shape, static_cast<const void*>(x.raw()),
               x.dtype(), items, total);
  for (int64_t run = 2; run <= shape.padded; run *= 2) {
    for (int64_t apart = run / 2; apart > 0; apart /= 2) {
      cuda::Launch(stream, EachOf(total / 2), &ExchangeLines, shape, items, total / 2, apart, run);
    }
  }
  const int64_t taken = lines.count * sort.take;
  cuda::Launch(stream, EachOf(taken), &WriteLines, shape, static_cast<const SortItem*>(items),
               static_cast<const void*>(x.raw()), bytes, to, positions, taken);
}

namespace {

template <typename A>
__device__ A Joined(A a, A b, bool product) {
  return product ? a * b : a + b;
}

/// An inclusive scan over the threads of a thread block; `all` gets the total.
template <typename A>
__device__ A ScanBlock(A value, bool product, A* shared, A& all) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int offset = 1; offset < 32; offset *= 2) {
    const A before = __shfl_up_sync(0xffffffffu, value, offset);
    if (lane >= offset) value = Joined(before, value, product);
  }
  if (lane == 31) shared[warp] = value;
  __syncthreads();
  A before = product ? A(1) : A(0);
  for (int i = 0; i < warp; ++i) before = Joined(before, shared[i], product);
  all = product ? A(1) : A(0);
  for (int i = 0; i < kLineThreads / 32; ++i) all = Joined(all, shared[i], product);
  __syncthreads();
  return Joined(before, value, product);
}

/// A thread block scans a line, as many elements at a time as it has threads.
template <typename A>
__global__ void ScanLines(const SortShape shape, bool product, const void* x, DType from, void* y,
                          DType to) {
  __shared__ A shared[kLineThreads / 32];
  const int64_t start = shape.Start(blockIdx.x, shape.extent);
  A carried = product ? A(1) : A(0);
  for (int64_t first = 0; first < shape.extent; first += kLineThreads) {
    const int64_t i = first + threadIdx.x, at = start + i * shape.step;
    const bool there = i < shape.extent;
    const A value = there ? cuda::NumberAt<A>(x, at, from) : A(product ? 1 : 0);
    A all;
    const A sum = Joined(carried, ScanBlock(value, product, shared, all), product);
    if (there) cuda::StoreNumber(y, at, sum, to);
    carried = Joined(carried, all, product);
  }
}

}  // namespace

void ScanOnDevice(cuda::Stream& stream, const AxisLines& lines, bool product, const Tensor& x,
                  Tensor& y) {
  if (lines.count == 0) return;
  const SortShape shape = {lines.extent, lines.step, 0, 0, false};
  const cuda::Grid grid = {dim3(static_cast<unsigned>(lines.count)), dim3(kLineThreads)};
  const auto run = [&](auto kernel) {
    cuda::Launch(stream, grid, kernel, shape, product, static_cast<const void*>(x.raw()), x.dtype(),
                 static_cast<void*>(y.raw()), y.dtype());
  };
  if (IsFloat(y.dtype())) {
    run(&ScanLines<double>);
  } else {
    run(&ScanLines<long long>);
  }
}

}  // namespace oort
