// SPDX-License-Identifier: MIT
#include "cpu/sampling.h"

#include "cpu/vec.h"
#include "cpu/vec_math.h"

namespace oort::OORT_ISA {
namespace {

constexpr float kLowest = -__builtin_inff();

float SamplingMax(const float* x, int64_t count) {
  const auto larger = [](Vec value, Vec best) {
    return Select(value > best, value, best);  // false for NaN
  };
  // Several maxima are kept, because each operation waits for the one before it.
  Vec best[4] = {kLowest, kLowest, kLowest, kLowest};
  int64_t i = 0;
  for (; i + 4 * Vec::kWidth <= count; i += 4 * Vec::kWidth) {
    for (int j = 0; j < 4; ++j) best[j] = larger(Vec::Load(x + i + j * Vec::kWidth), best[j]);
  }
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) best[0] = larger(Vec::Load(x + i), best[0]);
  float max = ReduceMax(larger(larger(best[1], best[0]), larger(best[3], best[2])));
  for (; i < count; ++i) max = x[i] > max ? x[i] : max;
  return max;
}

double SamplingExpSum(const float* x, float* y, int64_t count, float max, float scale) {
  double total = 0;
  // Blocks short enough for their f32 sum to be exact to the last bits.
  constexpr int64_t kBlock = 1024;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = begin + kBlock < count ? begin + kBlock : count;
    Vec sum = 0.0f;
    for (int64_t i = begin; i < end; i += Vec::kWidth) {
      const int rest = static_cast<int>(end - i < Vec::kWidth ? end - i : Vec::kWidth);
      const Vec value = rest == Vec::kWidth ? Vec::Load(x + i) : Vec::LoadPartial(x + i, rest);
      const Vec exponent = (value - max) * scale;
      // Below it, as where a form forbids a token, results are subnormal. They take a processor
      // many times as long, and are lost beside the largest. NaN does not count, either.
      const Mask counts = exponent > Vec(-87.0f);
      const Vec e = Select(counts, Exp(Select(counts, exponent, Vec(0.0f))), Vec(0.0f));
      if (y) e.StorePartial(y + i, rest);
      if (rest < Vec::kWidth) {
        float lanes[Vec::kWidth];
        e.Store(lanes);
        for (int k = 0; k < rest; ++k) total += static_cast<double>(lanes[k]);
      } else {
        sum = sum + e;
      }
    }
    total += static_cast<double>(ReduceAdd(sum));
  }
  return total;
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(SamplingKernels,
                    {.max = OORT_ISA::SamplingMax, .exp_sum = OORT_ISA::SamplingExpSum})
