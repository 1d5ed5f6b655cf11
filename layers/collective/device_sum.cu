// SPDX-License-Identifier: MIT
#include "layers/collective/device_sum.h"

#include "cuda/launch.h"

namespace oort {
namespace {

constexpr int kSumThreads = 256;

/// Sums are made in the order of the parts, so that they have the same bits wherever they are made.
__global__ void SumKernel(SumParts sum, SumEnd end, float* out) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < sum.count; i += step) {
    float value = sum.parts[i];
    for (int part = 1; part < sum.count_of_parts; ++part) {
      value += sum.parts[part * sum.stride + i];
    }
    const int64_t at = sum.first + i;
    if (end.bias != nullptr) value += end.bias[at % end.width];
    if (end.addend != nullptr) value += end.addend[at];
    out[at] = value;
  }
}

__global__ void JoinKernel(JoinParts join, const float* addend, float* out) {
  const int64_t width = join.begins[join.count_of_parts];
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < join.rows * width;
       i += step) {
    const int64_t row = i / width, column = i % width;
    int part = 0;
    while (column >= join.begins[part + 1]) ++part;
    const int64_t begin = join.begins[part], within = column - begin;
    const int64_t from = join.lone > 0
                             ? row * join.lone + within % join.lone
                             : join.rows * begin + row * (join.begins[part + 1] - begin) + within;
    const float value = join.parts[from];
    out[i] = addend == nullptr ? value : value + addend[i];
  }
}

}  // namespace

void SumOnDevice(cuda::Stream& stream, const SumParts& sum, const SumEnd& end, float* out) {
  cuda::Launch(stream, {dim3(cuda::BlocksFor(sum.count, kSumThreads, 1, 4096)), dim3(kSumThreads)},
               &SumKernel, sum, end, out);
}

void JoinOnDevice(cuda::Stream& stream, const JoinParts& join, const float* addend, float* out) {
  const int64_t count = join.rows * join.begins[join.count_of_parts];
  cuda::Launch(stream, {dim3(cuda::BlocksFor(count, kSumThreads, 1, 4096)), dim3(kSumThreads)},
               &JoinKernel, join, addend, out);
}

}  // namespace oort
