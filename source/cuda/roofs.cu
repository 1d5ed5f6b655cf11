// SPDX-License-Identifier: MIT
#include "cuda/roofs.h"

#include <algorithm>
#include <string>

#include "cuda/blas.h"
#include "cuda/device.h"
#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace oort::cuda {
namespace {

constexpr int kRoofThreads = 512;
constexpr int kLoads = 8;

/// `out` is written only if all bits are set, which never happens, but the compiler cannot know
/// that.
__global__ void __launch_bounds__(kRoofThreads)
    ReadKernel(const uint4* from, int64_t count, uint4* out) {
  uint4 all = {~0u, ~0u, ~0u, ~0u};
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kRoofThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kRoofThreads + threadIdx.x;
       i + (kLoads - 1) * stride < count; i += kLoads * stride) {
    uint4 v[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) v[j] = __ldcs(from + i + j * stride);
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      all.x &= v[j].x, all.y &= v[j].y, all.z &= v[j].z, all.w &= v[j].w;
    }
  }
  if ((all.x & all.y & all.z & all.w) == ~0u) *out = all;
}

/// A product of varied numbers, because a GPU multiplies zeros faster than the numbers of any
/// network.
__global__ void __launch_bounds__(kRoofThreads) ScatterKernel(uint32_t* to, int64_t count) {
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kRoofThreads + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * kRoofThreads) {
    uint32_t bits = static_cast<uint32_t>(i) * 2654435761u;
    bits ^= bits >> 15;
    bits *= 0x85ebca6bu;
    bits ^= bits >> 13;
    to[i] = (bits & 0x807f807fu) | 0x3f003f00u;  // pairs of bf16 of about one, of either sign
  }
}

/// The best of some runs, in seconds.
template <typename Run>
double Fastest(Stream& stream, const Run& run) {
  Event begin(stream.device(), true), end(stream.device(), true);
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    begin.Record(stream);
    run();
    end.Record(stream);
    stream.Synchronize();
    if (i > 0) best = std::min(best, end.SecondsSince(begin));
  }
  return best;
}

}  // namespace

Roofs MeasureRoofs(int device) {
  const DeviceGuard guard(device);
  Stream stream(device);
  Roofs roofs;
  const size_t bytes = std::min<size_t>(size_t{4} << 30, MemoryOf(device).free / 4 / 512 * 512);
  const std::shared_ptr<Buffer> memory = AllocateDevice(bytes, stream);
  const unsigned blocks = static_cast<unsigned>(MultiprocessorCount(device)) * 4;
  Launch(stream, {dim3(blocks), dim3(kRoofThreads)}, ScatterKernel,
         reinterpret_cast<uint32_t*>(memory->data()), static_cast<int64_t>(bytes / 4));
  const double read = Fastest(stream, [&] {
    Launch(stream, {dim3(blocks), dim3(kRoofThreads)}, ReadKernel,
           reinterpret_cast<const uint4*>(memory->data()), static_cast<int64_t>(bytes / 16),
           reinterpret_cast<uint4*>(memory->data()));
  });
  roofs.read_bandwidth = static_cast<double>(bytes) / read;
  constexpr int64_t kSize = 8192;
  std::string reason;
  if (!HasBlas(&reason) || bytes < size_t{4} * kSize * kSize * 2) return roofs;
  Product product;
  product.m = product.n = product.k = kSize;
  product.transpose_b = true;
  product.input = product.output = DType::kBF16;
  const auto matmul = Matmul::For(product, device);
  std::byte* at = memory->data();
  constexpr size_t kMatrix = static_cast<size_t>(kSize) * kSize * 2;
  const std::shared_ptr<Buffer> scratch = AllocateDevice(matmul->workspace() + 512, stream);
  const double seconds = Fastest(stream, [&] {
    matmul->Run(stream, at, at + kMatrix, at + 2 * kMatrix, nullptr, scratch->data());
  });
  roofs.bf16_flops = 2.0 * kSize * kSize * kSize / seconds;
  return roofs;
}

}  // namespace oort::cuda
