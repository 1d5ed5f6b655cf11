// SPDX-License-Identifier: MIT
// Copies between strided views, and all layers that do nothing else.
#include "layers/shape/strided_copy.h"

#include <algorithm>
#include <array>

#include "cuda/divide.h"
#include "cuda/launch.h"

namespace oort {
namespace {

constexpr int kCopyAxes = Strided::kMaxAxes;
constexpr int kCopyThreads = 256;
constexpr int kTile = 32;

template <size_t kItem>
struct ItemOf;
template <>
struct ItemOf<1> {
  using Type = uint8_t;
};
template <>
struct ItemOf<2> {
  using Type = uint16_t;
};
template <>
struct ItemOf<4> {
  using Type = uint32_t;
};
template <>
struct ItemOf<8> {
  using Type = uint2;
};
template <>
struct ItemOf<16> {
  using Type = uint4;
};

/// Loops from the innermost outwards; strides in bytes.
struct CopyNest {
  cuda::Divider extents[kCopyAxes];
  int64_t source[kCopyAxes], target[kCopyAxes];
  int axes = 0;
};

template <typename T>
__global__ void CopyKernel(const std::byte* source, std::byte* target, unsigned count,
                           const __grid_constant__ CopyNest nest) {
  const unsigned stride = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
    unsigned rest = i;
    int64_t from = 0, to = 0;
    for (int axis = 0; axis < nest.axes; ++axis) {
      unsigned index;
      rest = nest.extents[axis].Divide(rest, &index);
      from += index * nest.source[axis];
      to += index * nest.target[axis];
    }
    *reinterpret_cast<T*>(target + to) = *reinterpret_cast<const T*>(source + from);
  }
}

/// Axis 0 is dense in the target, axis 1 in the source: tiles go through shared memory, so that
/// both are read and written in order. The other axes are blocks of the grid.
template <typename T>
__global__ void TransposeKernel(const std::byte* source, std::byte* target, unsigned columns,
                                unsigned rows, const __grid_constant__ CopyNest nest) {
  __shared__ T tile[kTile][kTile + 1];
  unsigned rest = blockIdx.z;
  for (int axis = 2; axis < nest.axes; ++axis) {
    unsigned index;
    rest = nest.extents[axis].Divide(rest, &index);
    source += index * nest.source[axis];
    target += index * nest.target[axis];
  }
  const unsigned column = blockIdx.x * kTile, row = blockIdx.y * kTile;
  for (unsigned i = threadIdx.y; i < kTile; i += blockDim.y) {
    const unsigned r = row + threadIdx.x, c = column + i;
    if (r < rows && c < columns) {
      tile[i][threadIdx.x] =
          *reinterpret_cast<const T*>(source + c * nest.source[0] + r * nest.source[1]);
    }
  }
  __syncthreads();
  for (unsigned i = threadIdx.y; i < kTile; i += blockDim.y) {
    const unsigned r = row + i, c = column + threadIdx.x;
    if (r < rows && c < columns) {
      *reinterpret_cast<T*>(target + c * nest.target[0] + r * nest.target[1]) =
          tile[threadIdx.x][i];
    }
  }
}

/// The loops with as many bytes moved at once as all strides and addresses allow.
struct Widened {
  std::array<CopyLoop, kCopyAxes> loops;  // innermost first
  int count = 0;
  size_t item = 0;
};

Widened Widen(size_t item, std::span<const CopyLoop> loops, const std::byte* source,
              const std::byte* target) {
  Widened wide;
  wide.item = item;
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    wide.loops[static_cast<size_t>(wide.count++)] = *loop;
  }
  // The target's densest axis goes in front, so that neighbours are written together.
  for (int i = 1; i < wide.count; ++i) {
    if (wide.loops[static_cast<size_t>(i)].target == static_cast<int64_t>(item)) {
      std::rotate(wide.loops.begin(), wide.loops.begin() + i, wide.loops.begin() + i + 1);
    }
  }
  if (wide.count == 0) return wide;
  CopyLoop& inner = wide.loops[0];
  const auto fits = [&](size_t bytes) {
    const int64_t unit = static_cast<int64_t>(bytes);
    if ((reinterpret_cast<uintptr_t>(source) | reinterpret_cast<uintptr_t>(target)) % bytes != 0) {
      return false;
    }
    if (inner.extent * static_cast<int64_t>(item) % unit != 0) return false;
    for (int i = 1; i < wide.count; ++i) {
      const CopyLoop& loop = wide.loops[static_cast<size_t>(i)];
      if (loop.source % unit != 0 || loop.target % unit != 0) return false;
    }
    return true;
  };
  if (inner.source != static_cast<int64_t>(item) || inner.target != inner.source) return wide;
  for (size_t bytes : {16, 8, 4, 2}) {
    if (bytes <= item || !fits(bytes)) continue;
    const int64_t factor = static_cast<int64_t>(bytes / item);
    inner = {inner.extent / factor, static_cast<int64_t>(bytes), static_cast<int64_t>(bytes)};
    wide.item = bytes;
    break;
  }
  return wide;
}

/// The axis along which the source is dense if that is not the one of the target; or -1.
int TransposedAxis(const Widened& wide) {
  const int64_t item = static_cast<int64_t>(wide.item);
  if (wide.count < 2 || wide.loops[0].target != item || wide.loops[0].source == item) return -1;
  if (wide.loops[0].source == 0 || wide.loops[0].extent < 8) return -1;
  for (int i = 1; i < wide.count; ++i) {
    const CopyLoop& loop = wide.loops[static_cast<size_t>(i)];
    if (loop.source == item && loop.extent >= 8) return i;
  }
  return -1;
}

template <size_t kItem>
void StartCopy(cuda::Stream& stream, const Widened& given, const std::byte* source,
               std::byte* target) {
  using T = typename ItemOf<kItem>::Type;
  Widened wide = given;
  const int transposed = TransposedAxis(wide);
  if (transposed > 1) {
    std::swap(wide.loops[1], wide.loops[static_cast<size_t>(transposed)]);
  }
  CopyNest nest;
  nest.axes = wide.count;
  int64_t count = 1, outer = 1;
  for (int i = 0; i < wide.count; ++i) {
    const CopyLoop& loop = wide.loops[static_cast<size_t>(i)];
    nest.extents[i] = cuda::Divider(static_cast<unsigned>(loop.extent));
    nest.source[i] = loop.source;
    nest.target[i] = loop.target;
    count *= loop.extent;
    if (i >= 2) outer *= loop.extent;
  }
  if (transposed > 0 && outer <= 65535) {
    const unsigned columns = nest.extents[0].divisor, rows = nest.extents[1].divisor;
    const dim3 blocks((columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile,
                      static_cast<unsigned>(outer));
    if (blocks.y <= 65535) {
      cuda::Launch(stream, {blocks, dim3(kTile, 8)}, &TransposeKernel<T>, source, target, columns,
                   rows, nest);
      return;
    }
  }
  const unsigned blocks = cuda::BlocksFor(count, kCopyThreads, 1, 132 * 32);
  cuda::Launch(stream, {dim3(blocks), dim3(kCopyThreads)}, &CopyKernel<T>, source, target,
               static_cast<unsigned>(count), nest);
}

}  // namespace

void CopyStridedOnDevice(cuda::Stream& stream, size_t item, std::span<const CopyLoop> loops,
                         const std::byte* source, std::byte* target) {
  const Widened wide = Widen(item, loops, source, target);
  const int64_t unit = static_cast<int64_t>(wide.item);
  if (wide.count <= 1 &&
      (wide.count == 0 || (wide.loops[0].source == unit && wide.loops[0].target == unit))) {
    const size_t count = wide.count == 0 ? 1 : static_cast<size_t>(wide.loops[0].extent);
    stream.CopyOnDevice(target, source, count * wide.item);
    return;
  }
  // Indices have 31 bits: what is longer goes piece by piece along the outermost axis.
  int64_t count = 1;
  for (int i = 0; i < wide.count; ++i) count *= wide.loops[static_cast<size_t>(i)].extent;
  if (count > INT32_MAX) {
    const CopyLoop outer = loops.front();
    for (int64_t i = 0; i < outer.extent; ++i) {
      CopyStridedOnDevice(stream, item, loops.subspan(1), source + i * outer.source,
                          target + i * outer.target);
    }
    return;
  }
  switch (wide.item) {
    case 1: return StartCopy<1>(stream, wide, source, target);
    case 2: return StartCopy<2>(stream, wide, source, target);
    case 4: return StartCopy<4>(stream, wide, source, target);
    case 8: return StartCopy<8>(stream, wide, source, target);
    default: return StartCopy<16>(stream, wide, source, target);
  }
}

namespace {

template <typename T>
__global__ void FillKernel(T* target, T value, int64_t count) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    target[i] = value;
  }
}

template <size_t kItem>
void StartFill(cuda::Stream& stream, std::byte* target, const std::byte* pattern, int64_t count) {
  using T = typename ItemOf<kItem>::Type;
  T value;
  std::copy_n(pattern, kItem, reinterpret_cast<std::byte*>(&value));
  const unsigned blocks = cuda::BlocksFor(count, kCopyThreads, 4, 132 * 32);
  cuda::Launch(stream, {dim3(blocks), dim3(kCopyThreads)}, &FillKernel<T>,
               reinterpret_cast<T*>(target), value, count);
}

}  // namespace

void FillItemsOnDevice(cuda::Stream& stream, std::byte* target, const std::byte* pattern,
                       size_t item, int64_t count) {
  switch (item) {
    case 1: return StartFill<1>(stream, target, pattern, count);
    case 2: return StartFill<2>(stream, target, pattern, count);
    case 4: return StartFill<4>(stream, target, pattern, count);
    case 8: return StartFill<8>(stream, target, pattern, count);
    default: return StartFill<16>(stream, target, pattern, count);
  }
}

}  // namespace oort
