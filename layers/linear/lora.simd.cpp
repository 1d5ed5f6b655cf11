// SPDX-License-Identifier: MIT
#include "cpu/vec.h"
#include "layers/linear/lora_kernels.h"

namespace oort::OORT_ISA {
namespace {

float LoraDot(const float* a, const float* b, int64_t count) {
  constexpr int64_t kStep = 4 * Vec::kWidth;
  Vec sums[4] = {Vec::Zero(), Vec::Zero(), Vec::Zero(), Vec::Zero()};
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    for (int lane = 0; lane < 4; ++lane) {
      const int64_t at = i + lane * Vec::kWidth;
      sums[lane] = Fma(Vec::Load(a + at), Vec::Load(b + at), sums[lane]);
    }
  }
  for (; i < count; i += Vec::kWidth) {
    const int rest = static_cast<int>(count - i < Vec::kWidth ? count - i : Vec::kWidth);
    sums[0] = Fma(Vec::LoadPartial(a + i, rest), Vec::LoadPartial(b + i, rest), sums[0]);
  }
  return ReduceAdd((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

void LoraAddRows(const float* factors, int64_t factor_count, const float* rows, int64_t stride,
                 float* out, int64_t count) {
  for (int64_t i = 0; i < count; i += Vec::kWidth) {
    const int rest = static_cast<int>(count - i < Vec::kWidth ? count - i : Vec::kWidth);
    Vec sum = Vec::LoadPartial(out + i, rest);
    for (int64_t r = 0; r < factor_count; ++r) {
      sum = Fma(factors[r], Vec::LoadPartial(rows + r * stride + i, rest), sum);
    }
    sum.StorePartial(out + i, rest);
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(LoraKernels, {.dot = OORT_ISA::LoraDot, .add_rows = OORT_ISA::LoraAddRows})
