// SPDX-License-Identifier: MIT
#include "cuda/hold.h"

#include "cuda/launch.h"

namespace oort::cuda {
namespace {

__device__ unsigned long long Nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void HoldKernel(unsigned long long nanoseconds) {
  const unsigned long long start = Nanoseconds();
  while (Nanoseconds() - start < nanoseconds) {
  }
}

}  // namespace

void Hold(const Stream& stream, double seconds) {
  Launch(stream, {dim3(1), dim3(1)}, HoldKernel, static_cast<unsigned long long>(seconds * 1e9));
}

}  // namespace oort::cuda
