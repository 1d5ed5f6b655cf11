// SPDX-License-Identifier: MIT
#include "layers/resize/resize_kernels.h"

#include "cpu/vec.h"

namespace oort::OORT_ISA {
namespace {

void BlendRows(const float* const* rows, const float* weights, int taps, float* out,
               int64_t count) {
  int64_t i = 0;
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) {
    Vec sum = Vec::Load(rows[0] + i) * weights[0];
    for (int t = 1; t < taps; ++t) sum = Fma(Vec::Load(rows[t] + i), Vec(weights[t]), sum);
    sum.Store(out + i);
  }
  for (; i < count; ++i) {
    float sum = rows[0][i] * weights[0];
    for (int t = 1; t < taps; ++t) sum += rows[t][i] * weights[t];
    out[i] = sum;
  }
}

void BlendColumns(const float* row, const int64_t* index, const float* weights, int taps,
                  float* out, int64_t count) {
  if (taps == 2) {
    for (int64_t i = 0; i < count; ++i) {
      out[i] = row[index[i]] * weights[i] + row[index[count + i]] * weights[count + i];
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    float sum = row[index[i]] * weights[i];
    for (int t = 1; t < taps; ++t) sum += row[index[t * count + i]] * weights[t * count + i];
    out[i] = sum;
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(ResizeKernels, {.blend_rows = BlendRows, .blend_columns = BlendColumns})
