// SPDX-License-Identifier: MIT
#include "cuda/epilogue.cuh"
#include "cuda/kernel_launch.h"
#include "layers/layout/transpose_planes.h"
#include "oort/error.h"

namespace oort::cuda {
namespace {

constexpr int kTransposeTile = 32, kTransposeThreads = 256, kMostPlanes = 8;

template <typename From, typename To>
__device__ To Convert(From x) {
  if constexpr (std::is_same_v<From, To>) {
    return x;
  } else {
    return FromFloat<To>(ToFloat(x));
  }
}

/// Of a few rows: a thread has a column.
template <typename From, typename To>
__global__ void __launch_bounds__(kTransposeThreads)
    InterleaveKernel(const __grid_constant__ TransposeCall call) {
  LaunchDependents();
  WaitForPredecessor();
  const int64_t i = blockIdx.x * int64_t{kTransposeThreads} + threadIdx.x;
  if (i >= call.batch * call.columns) return;
  const From* in = static_cast<const From*>(call.in) + i / call.columns * call.rows * call.columns +
                   i % call.columns;
  To* out = static_cast<To*>(call.out) + i * call.padded_rows;
  alignas(16) To values[kMostPlanes] = {};
#pragma unroll
  for (int r = 0; r < kMostPlanes; ++r) {
    if (r < call.rows) values[r] = Convert<From, To>(in[r * call.columns]);
  }
  if (sizeof(To) == 2 && call.padded_rows == 4) {  // what networks begin with
    *reinterpret_cast<uint2*>(out) = *reinterpret_cast<const uint2*>(values);
    return;
  }
#pragma unroll
  for (int r = 0; r < kMostPlanes; ++r) {
    if (r < call.padded_rows) out[r] = values[r];
  }
}

/// Through shared memory, so that both sides are read and written along their rows.
template <typename From, typename To>
__global__ void __launch_bounds__(kTransposeThreads)
    TransposeKernel(const __grid_constant__ TransposeCall call) {
  __shared__ To tile[kTransposeTile][kTransposeTile + 1];
  LaunchDependents();
  WaitForPredecessor();
  const int64_t tiles_along = (call.columns + kTransposeTile - 1) / kTransposeTile;
  const int64_t tiles_down = (call.padded_rows + kTransposeTile - 1) / kTransposeTile;
  const int64_t image = blockIdx.x / (tiles_along * tiles_down);
  const int64_t place = blockIdx.x % (tiles_along * tiles_down);
  const int64_t top = place / tiles_along * kTransposeTile;
  const int64_t left = place % tiles_along * kTransposeTile;
  const int x = threadIdx.x % kTransposeTile, y = threadIdx.x / kTransposeTile;
  const From* in = static_cast<const From*>(call.in) + image * call.rows * call.columns;
  for (int r = y; r < kTransposeTile; r += kTransposeThreads / kTransposeTile) {
    const bool inside = top + r < call.rows && left + x < call.columns;
    tile[r][x] = inside ? Convert<From, To>(in[(top + r) * call.columns + left + x]) : To{};
  }
  __syncthreads();
  To* out = static_cast<To*>(call.out) + image * call.padded_rows * call.columns;
  for (int c = y; c < kTransposeTile; c += kTransposeThreads / kTransposeTile) {
    if (left + c < call.columns && top + x < call.padded_rows) {
      out[(left + c) * call.padded_rows + top + x] = tile[x][c];
    }
  }
}

template <typename From, typename To>
void TransposeAs(const Stream& stream, const TransposeCall& call, bool overlap) {
  KernelLaunch launch;
  launch.threads = kTransposeThreads;
  launch.overlap = overlap;
  if (call.padded_rows <= kMostPlanes) {
    launch.kernel = reinterpret_cast<const void*>(&InterleaveKernel<From, To>);
    launch.blocks = dim3(static_cast<unsigned>((call.batch * call.columns + kTransposeThreads - 1) /
                                               kTransposeThreads));
  } else {
    const auto tiles = [](int64_t n) { return (n + kTransposeTile - 1) / kTransposeTile; };
    launch.kernel = reinterpret_cast<const void*>(&TransposeKernel<From, To>);
    launch.blocks =
        dim3(static_cast<unsigned>(call.batch * tiles(call.columns) * tiles(call.padded_rows)));
  }
  Launch(stream, launch, &call);
}

template <typename From>
void TransposeFrom(const Stream& stream, const TransposeCall& call, DType to, bool overlap) {
  if (to == DType::kF32) return TransposeAs<From, float>(stream, call, overlap);
  if (to == DType::kF16) return TransposeAs<From, __half>(stream, call, overlap);
  if (to == DType::kBF16) return TransposeAs<From, __nv_bfloat16>(stream, call, overlap);
  throw Error(ErrorCode::kUnsupported, "expected floats of 16 or 32 bits");
}

void TransposeBytes(const Stream& stream, const TransposeCall& call, size_t size, bool overlap) {
  if (size == 1) return TransposeAs<uint8_t, uint8_t>(stream, call, overlap);
  if (size == 2) return TransposeAs<uint16_t, uint16_t>(stream, call, overlap);
  if (size == 4) return TransposeAs<uint32_t, uint32_t>(stream, call, overlap);
  if (size == 8) return TransposeAs<uint64_t, uint64_t>(stream, call, overlap);
  throw Error(ErrorCode::kUnsupported, "expected elements of 1, 2, 4 or 8 bytes");
}

}  // namespace

void TransposePlanes(const Stream& stream, const TransposeCall& call, DType from, DType to,
                     bool overlap) {
  if (call.batch * call.columns * call.padded_rows == 0) return;
  if (from == to) return TransposeBytes(stream, call, ItemSize(from), overlap);
  if (from == DType::kF32) return TransposeFrom<float>(stream, call, to, overlap);
  if (from == DType::kF16) return TransposeFrom<__half>(stream, call, to, overlap);
  if (from == DType::kBF16) return TransposeFrom<__nv_bfloat16>(stream, call, to, overlap);
  throw Error(ErrorCode::kUnsupported, "expected floats of 16 or 32 bits");
}

}  // namespace oort::cuda
