// SPDX-License-Identifier: MIT
#include "cpu/roofs.h"

#include "cpu/unroll.h"
#include "cpu/vec.h"

namespace oort::OORT_ISA {
namespace {

// AVX2 has 16 registers, the others 32.
constexpr int kSums = Vec::kWidth == 8 ? 12 : 24, kSources = Vec::kWidth == 8 ? 2 : 4;
constexpr int kBlocks = 8;

/// Sources are loaded in every step, as in a matrix product: some cores can read registers that
/// nobody has just written only half as fast.
float MultiplyAdd(int64_t steps) {
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

/// Two loads for each multiply-add, so that the loads are what takes the time.
float Read(const float* data, int64_t count) {
  constexpr int kPairs = 8, kStep = 2 * Vec::kWidth;
  Vec sums[kPairs];
  Unroll<kPairs>([&](auto i) { sums[i] = Vec::Zero(); });
  for (int64_t at = 0; at < count; at += kPairs * kStep) {
    const float* block = data + at;
    Unroll<kPairs>([&](auto i) {
      const float* pair = block + i * kStep;
      sums[i] = Fma(Vec::Load(pair), Vec::Load(pair + Vec::kWidth), sums[i]);
    });
  }
  Vec total = Vec::Zero();
  Unroll<kPairs>([&](auto i) { total = total + sums[i]; });
  return ReduceAdd(total);
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(RoofKernels,
                    {.flops = 2 * kSums * Vec::kWidth, .multiply_add = MultiplyAdd, .read = Read})
