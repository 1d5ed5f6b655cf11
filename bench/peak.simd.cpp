// SPDX-License-Identifier: MIT
#include "bench/peak.h"

#include "cpu/unroll.h"
#include "cpu/vec.h"

namespace oort::OORT_ISA {
namespace {

// AVX2 has 16 registers, the others 32.
constexpr int kSums = Vec::kWidth == 8 ? 12 : 24, kSources = Vec::kWidth == 8 ? 2 : 4;
constexpr int kBlocks = 8;

/// Sources are loaded in every step, as in a matrix product: some cores can read registers that
/// nobody has just written only half as fast.
float Run(int64_t steps) {
  alignas(64) float data[kBlocks * kSources * Vec::kWidth];
  for (float& x : data) x = 0.5f;
  asm volatile("" : : "r"(data) : "memory");  // or else the compiler would know the elements
  Vec sums[kSums], x[kSources], y[kSources];
  const auto load = [&](int64_t step, Vec* to) {
    const float* block = data + (step % kBlocks) * kSources * Vec::kWidth;
    Unroll<kSources>([&](auto i) { to[i] = Vec::Load(block + i * Vec::kWidth); });
  };
  const auto add = [&](const Vec* from) {
    Unroll<kSums>([&](auto i) {
      sums[i] = Fma(from[i % kSources], from[(i + i / kSources + 1) % kSources], sums[i]);
    });
  };
  Unroll<kSums>([&](auto i) { sums[i] = Vec(static_cast<float>(i)); });
  load(steps, x);
  for (; steps > 0; steps -= 2) {  // each load has a whole step to arrive
    load(steps, y);
    add(x);
    load(steps + 1, x);
    add(y);
  }
  Vec total = Vec::Zero();
  Unroll<kSums>([&](auto i) { total = total + sums[i]; });
  return ReduceAdd(total);
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(PeakKernels, {.flops = 2 * kSums * Vec::kWidth, .run = Run})
