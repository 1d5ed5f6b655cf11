// SPDX-License-Identifier: MIT
#include "layers/quantize/dynamic_rows.h"

#include "cpu/activation_epilogue.h"

namespace oort::OORT_ISA {
namespace {

/// Adding and subtracting it rounds numbers below 2^22 to integers, half to even.
constexpr float kRoundingAid = 12582912.0f;
/// Several ends at a time, so that one comparison does not wait for the last.
constexpr int kEnds = 16;

RowRange RowEnds(const float* x, int64_t count) {
  float low[kEnds] = {}, high[kEnds] = {};
  int64_t i = 0;
  for (; i + kEnds <= count; i += kEnds) {
    for (int k = 0; k < kEnds; ++k) {
      low[k] = x[i + k] < low[k] ? x[i + k] : low[k];
      high[k] = x[i + k] > high[k] ? x[i + k] : high[k];
    }
  }
  RowRange range{0, 0};
  for (int k = 0; k < kEnds; ++k) {
    range.low = low[k] < range.low ? low[k] : range.low;
    range.high = high[k] > range.high ? high[k] : range.high;
  }
  for (; i < count; ++i) {
    range.low = x[i] < range.low ? x[i] : range.low;
    range.high = x[i] > range.high ? x[i] : range.high;
  }
  return range;
}

void FinishRow(const float* products, int64_t count, float scale, float zero_point,
               const float* sums, const float* bias, float* y) {
  for (int64_t i = 0; i < count; ++i) {
    y[i] = __builtin_fmaf(__builtin_fmaf(-zero_point, sums[i], products[i]), scale, bias[i]);
  }
}

void RoundRow(const float* x, int64_t count, float inverse, float scale, float least, float most,
              float* y) {
  for (int64_t i = 0; i < count; ++i) {
    float value = x[i] * inverse;
    value = value == value ? value : 0.0f;
    value = value > least ? value : least;
    value = value < most ? value : most;
    y[i] = ((value + kRoundingAid) - kRoundingAid) * scale;
  }
}

void ActivateRow(const ActivationSpec& spec, float* y, int count) {
  ActivateInPlace(spec, y, count);
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(DynamicKernels, {.range = OORT_ISA::RowEnds,
                                     .finish = OORT_ISA::FinishRow,
                                     .round = OORT_ISA::RoundRow,
                                     .activate = OORT_ISA::ActivateRow})
