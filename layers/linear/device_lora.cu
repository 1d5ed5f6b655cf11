// SPDX-License-Identifier: MIT
#include <algorithm>

#include "cuda/launch.h"
#include "layers/linear/device_lora.h"

namespace oort {
namespace {

constexpr int kThreads = 256, kWarp = 32;
/// Rows of one adapter in a row share what is read of `up`, so that prompts read it less often.
constexpr int kRowsEach = 8;

struct LoraPart {
  int64_t first = 0, rank = 0;
};

__device__ LoraPart PartOf(const LoraOnDevice& lora, int32_t adapter) {
  if (adapter < 0 || adapter >= lora.adapters) return {};
  return {lora.parts[2 * adapter], lora.parts[2 * adapter + 1]};
}

/// A warp multiplies a row of the input and a row of `down`.
__global__ void LoraDownKernel(LoraOnDevice lora, const int32_t* row_adapters, const float* input,
                               float* factors) {
  const int64_t row = blockIdx.x;
  const int64_t r = int64_t{blockIdx.y} * (kThreads / kWarp) + threadIdx.x / kWarp;
  const LoraPart part = PartOf(lora, row_adapters[row]);
  if (r >= part.rank) return;
  const float* a = lora.down + (part.first + r) * lora.inputs;
  const float* b = input + row * lora.inputs;
  const int lane = threadIdx.x % kWarp;
  float sum = 0;
  for (int64_t i = lane; i < lora.inputs; i += kWarp) sum = fmaf(a[i], b[i], sum);
  for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane == 0) factors[row * lora.most_rank + r] = sum;
}

/// A thread has one output of some neighbouring rows.
__global__ void LoraUpKernel(LoraOnDevice lora, const int32_t* row_adapters, int64_t rows,
                             const float* base, const float* factors, float* out) {
  const int64_t output = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (output >= lora.outputs) return;
  const int64_t begin = int64_t{blockIdx.x} * kRowsEach;
  const int64_t end = begin + kRowsEach < rows ? begin + kRowsEach : rows;
  for (int64_t row = begin; row < end;) {
    const int32_t adapter = row_adapters[row];
    int count = 1;
    while (row + count < end && row_adapters[row + count] == adapter) ++count;
    const LoraPart part = PartOf(lora, adapter);
    float sums[kRowsEach] = {};
    const float* up = lora.up + part.first * lora.outputs + output;
    for (int64_t r = 0; r < part.rank; ++r) {
      const float value = up[r * lora.outputs];
#pragma unroll
      for (int i = 0; i < kRowsEach; ++i) {
        if (i < count) sums[i] = fmaf(factors[(row + i) * lora.most_rank + r], value, sums[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      if (i >= count) continue;
      const int64_t at = (row + i) * lora.outputs + output;
      out[at] = part.rank > 0 ? base[at] + sums[i] : base[at];
    }
    row += count;
  }
}

}  // namespace

void AddLoraOnDevice(cuda::Stream& stream, const LoraOnDevice& lora, const int32_t* row_adapters,
                     const Tensor& base, const Tensor& input, float* factors, Tensor& out) {
  const int64_t rows = base.dim(0);
  if (rows == 0 || lora.outputs == 0) return;
  const auto rows_grid = static_cast<unsigned>(rows);
  const unsigned rank_blocks = cuda::BlocksFor(lora.most_rank, kThreads / kWarp);
  cuda::Launch(stream, {dim3(rows_grid, rank_blocks), dim3(kThreads)}, &LoraDownKernel, lora,
               row_adapters, input.data<float>(), factors);
  const dim3 blocks(cuda::BlocksFor(rows, kRowsEach), cuda::BlocksFor(lora.outputs, kThreads));
  cuda::Launch(stream, {blocks, dim3(kThreads)}, &LoraUpKernel, lora, row_adapters, rows,
               base.data<float>(), static_cast<const float*>(factors), out.data<float>());
}

}  // namespace oort
