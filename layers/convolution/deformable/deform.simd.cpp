// SPDX-License-Identifier: MIT
#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/convolution/planar/conv_kernels.h"

namespace oort::OORT_ISA {
namespace {

void GatherDeformed(const float* plane, int64_t row, const DeformedTap& tap, int64_t count,
                    float* out) {
  constexpr int kWidth = Vec::kWidth;
  const float *w0 = tap.weights[0], *w1 = tap.weights[1], *w2 = tap.weights[2],
              *w3 = tap.weights[3];
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    alignas(64) float corners[4][kWidth];
    Unroll<kWidth>([&](auto lane) {
      const float* at = plane + tap.index[i + lane];
      corners[0][lane] = at[0];
      corners[1][lane] = at[1];
      corners[2][lane] = at[row];
      corners[3][lane] = at[row + 1];
    });
    Vec sum = Vec::Load(corners[0]) * Vec::Load(w0 + i);
    sum = Fma(Vec::Load(corners[1]), Vec::Load(w1 + i), sum);
    sum = Fma(Vec::Load(corners[2]), Vec::Load(w2 + i), sum);
    sum = Fma(Vec::Load(corners[3]), Vec::Load(w3 + i), sum);
    sum.Store(out + i);
  }
  for (; i < count; ++i) {
    const float* at = plane + tap.index[i];
    out[i] = at[0] * w0[i] + at[1] * w1[i] + at[row] * w2[i] + at[row + 1] * w3[i];
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(DeformKernels, {.gather = GatherDeformed})
