// SPDX-License-Identifier: MIT
#include "cpu/vec.h"
#include "layers/pooling/pool_kernels.h"

namespace oort::OORT_ISA {
namespace {

struct MaxOp {
  static constexpr float kEmpty = -__builtin_huge_valf();
  static Vec Of(Vec a, Vec b) { return Max(a, b); }
  static float Of(float a, float b) { return a > b || a != a ? a : b; }
};
struct SumOp {
  static constexpr float kEmpty = 0;
  static Vec Of(Vec a, Vec b) { return a + b; }
  static float Of(float a, float b) { return a + b; }
};

/// A single row of a stack of them, or a copy where it is the only one.
template <typename Op>
void FoldRows(const PoolRows& rows, float* row) {
  constexpr int64_t kBlock = 4 * Vec::kWidth;
  int64_t x = 0;
  for (; x + kBlock <= rows.width; x += kBlock) {
    Vec a(Op::kEmpty), b(Op::kEmpty), c(Op::kEmpty), e(Op::kEmpty);
    for (int64_t d = 0; d < rows.depth; ++d) {
      const float* p = rows.first + d * rows.depth_step + x;
      for (int64_t h = 0; h < rows.height; ++h, p += rows.height_step) {
        a = Op::Of(a, Vec::Load(p));
        b = Op::Of(b, Vec::Load(p + Vec::kWidth));
        c = Op::Of(c, Vec::Load(p + 2 * Vec::kWidth));
        e = Op::Of(e, Vec::Load(p + 3 * Vec::kWidth));
      }
    }
    a.Store(row + x);
    b.Store(row + x + Vec::kWidth);
    c.Store(row + x + 2 * Vec::kWidth);
    e.Store(row + x + 3 * Vec::kWidth);
  }
  while (x < rows.width) {
    const int64_t left = rows.width - x;
    const int lanes = static_cast<int>(left < Vec::kWidth ? left : Vec::kWidth);
    Vec a(Op::kEmpty);
    for (int64_t d = 0; d < rows.depth; ++d) {
      const float* p = rows.first + d * rows.depth_step + x;
      for (int64_t h = 0; h < rows.height; ++h) {
        a = Op::Of(a, Vec::LoadPartial(p + h * rows.height_step, lanes));
      }
    }
    a.StorePartial(row + x, lanes);
    x += lanes;
  }
}

/// Windows one apart: tap j reads taps[j] + i for output i.
template <typename Op, typename TapAt>
void FoldTaps(int64_t kernel, TapAt tap_at, float* out, int64_t count) {
  int64_t i = 0;
  for (; i + 2 * Vec::kWidth <= count; i += 2 * Vec::kWidth) {
    Vec a = Vec::Load(tap_at(0) + i), b = Vec::Load(tap_at(0) + i + Vec::kWidth);
    for (int64_t j = 1; j < kernel; ++j) {
      a = Op::Of(a, Vec::Load(tap_at(j) + i));
      b = Op::Of(b, Vec::Load(tap_at(j) + i + Vec::kWidth));
    }
    a.Store(out + i);
    b.Store(out + i + Vec::kWidth);
  }
  while (i < count) {
    const int64_t left = count - i;
    const int lanes = static_cast<int>(left < Vec::kWidth ? left : Vec::kWidth);
    Vec a = Vec::LoadPartial(tap_at(0) + i, lanes);
    for (int64_t j = 1; j < kernel; ++j) a = Op::Of(a, Vec::LoadPartial(tap_at(j) + i, lanes));
    a.StorePartial(out + i, lanes);
    i += lanes;
  }
}

/// Windows two apart: even and odd elements are separated first, so that taps are contiguous.
template <typename Op>
void FoldPairs(const float* row, int64_t kernel, int64_t dilation, float* out, int64_t count) {
  constexpr int64_t kChunk = 256, kReach = 64;
  float even[kChunk + kReach], odd[kChunk + kReach];
  const int64_t last_tap = (kernel - 1) * dilation;
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t size = count - begin < kChunk ? count - begin : kChunk;
    const float* from = row + 2 * begin;
    // The last window ends at an even or an odd element; nothing behind it may be read.
    const int64_t elements = 2 * (size - 1) + last_tap + 1;
    const int64_t pairs = elements / 2;
    for (int64_t i = 0; i < pairs; ++i) {
      even[i] = from[2 * i];
      odd[i] = from[2 * i + 1];
    }
    if (elements % 2 != 0) even[pairs] = from[2 * pairs];
    FoldTaps<Op>(
        kernel,
        [&](int64_t j) {
          const int64_t tap = j * dilation;
          return (tap % 2 == 0 ? even : odd) + tap / 2;
        },
        out + begin, size);
  }
}

template <typename Op>
void FoldWindows(const float* row, int64_t kernel, int64_t stride, int64_t dilation, float* out,
                 int64_t count) {
  if (stride == 1) {
    FoldTaps<Op>(
        kernel, [&](int64_t j) { return row + j * dilation; }, out, count);
  } else if (stride == 2 && (kernel - 1) * dilation <= 120) {
    FoldPairs<Op>(row, kernel, dilation, out, count);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const float* p = row + i * stride;
      float folded = p[0];
      for (int64_t j = 1; j < kernel; ++j) folded = Op::Of(p[j * dilation], folded);
      out[i] = folded;
    }
  }
}

void Divide(float* out, const float* divisors, float scale, int64_t count) {
  MapVec(out, divisors, out, count, [=](Vec sum, Vec divisor) { return sum / (divisor * scale); });
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(PoolKernels, {.max_rows = FoldRows<MaxOp>,
                                  .sum_rows = FoldRows<SumOp>,
                                  .max_windows = FoldWindows<MaxOp>,
                                  .sum_windows = FoldWindows<SumOp>,
                                  .divide = Divide})
