// SPDX-License-Identifier: MIT
#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "cpu/vec_math.h"
#include "layers/softmax/softmax_kernels.h"

namespace oort::OORT_ISA {
namespace {

constexpr float kLowest = -__builtin_huge_valf();
constexpr int64_t kRun = 1024;  // elements that are summed in f32; the runs are summed in f64

/// The maximum of sign * x; NaN wins, and turns the whole row into NaN as in torch.
float RowMax(const float* x, int64_t count, float sign) {
  constexpr int kTurn = 4;
  Vec max[kTurn] = {kLowest, kLowest, kLowest, kLowest};
  int64_t i = 0;
  for (; i + kTurn * Vec::kWidth <= count; i += kTurn * Vec::kWidth) {
    Unroll<kTurn>([&](auto v) { max[v] = Max(max[v], Vec::Load(x + i + v * Vec::kWidth) * sign); });
  }
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) max[0] = Max(max[0], Vec::Load(x + i) * sign);
  for (; i < count; ++i) max[1] = Max(max[1], Vec(x[i] * sign));
  return ReduceMax(Max(Max(max[0], max[1]), Max(max[2], max[3])));
}

/// exp(x) for x <= 0 with fewer steps than Exp, where a sum is all that is wanted: below x = -87.7
/// it is 0, which no sum notices that has the 1 of the largest element in it.
Vec ExpForSum(Vec x) {
  // The least gives 2^-127, whose bits are 0. The order keeps NaN.
  const Vec t = FastMax(-88.0f, x);
  const Vec magic = 12582912.0f + 127.0f;
  const Vec shifted = Fma(t, 1.44269504f, magic);
  const Vec n = shifted - magic;
  const Vec r = Fnma(n, -0.00021219444f, Fnma(n, 0.693359375f, t));
  const Vec scale = FromBits(ShiftLeft<23>(Bits(shifted)));
  // ExpNearZero(r) - 1, by pairs.
  const Vec r2 = r * r;
  const Vec low = Fma(r, 0.166665152f, 0.49999994f);
  const Vec high = Fma(r2, 0.00138131448f, Fma(r, 0.00836941879f, 0.041668456f));
  return Fma(Fma(r2, Fma(high, r2, low), r), scale, scale);
}

/// Sum of exp(sign * x - max), which goes to y if it is stored.
template <bool kStore>
double SumOfExp(const float* x, float* y, int64_t count, float sign, float max) {
  const auto exponential = [=](Vec v) {
    const Vec shifted = Fma(v, Vec(sign), Vec(-max));
    return kStore ? Exp(shifted) : ExpForSum(shifted);
  };
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += kRun) {
    const int64_t end = begin + kRun < count ? begin + kRun : count;
    Vec sum(0.0f);
    int64_t i = begin;
    for (; i + Vec::kWidth <= end; i += Vec::kWidth) {
      const Vec e = exponential(Vec::Load(x + i));
      if constexpr (kStore) e.Store(y + i);
      sum = sum + e;
    }
    if (i < end) {
      const int lanes = static_cast<int>(end - i);
      const Vec e = exponential(Vec::LoadPartial(x + i, lanes));
      float rest[Vec::kWidth] = {};
      e.StorePartial(rest, lanes);
      if constexpr (kStore) e.StorePartial(y + i, lanes);
      sum = sum + Vec::Load(rest);
    }
    total += static_cast<double>(ReduceAdd(sum));
  }
  return total;
}

double SumExp(const float* x, int64_t count, float max) {
  return SumOfExp<false>(x, nullptr, count, 1, max);
}

void SoftmaxRow(const float* x, float* y, int64_t count, float sign) {
  const float max = RowMax(x, count, sign);
  const Vec scale(static_cast<float>(1.0 / SumOfExp<true>(x, y, count, sign, max)));
  MapVec(y, y, count, [=](Vec e) { return e * scale; });
}

void LogSoftmaxRow(const float* x, float* y, int64_t count, float sign) {
  const float max = RowMax(x, count, sign);
  const double sum = SumOfExp<false>(x, nullptr, count, sign, max);
  const Vec shift(static_cast<float>(__builtin_log(sum)));
  MapVec(x, y, count, [=](Vec v) { return Fma(v, Vec(sign), Vec(-max)) - shift; });
}

/// Computes columns [at, at + lanes) in three passes down the rows (maximum, sum, output), with the
/// state in registers.
template <bool kLog, typename Load, typename Store>
void SoftmaxGroup(const SoftmaxBlock& block, float sign, int64_t at, Load load, Store store) {
  const float* x = block.x + at;
  float* y = block.y + at;
  Vec max(kLowest);
  for (int64_t r = 0; r < block.rows; ++r) max = Max(max, load(x + r * block.step) * sign);
  Vec sum(0.0f), run(0.0f);
  for (int64_t r = 0; r < block.rows; ++r) {
    const Vec e = Exp(Fma(load(x + r * block.step), Vec(sign), -max));
    if constexpr (!kLog) store(e, y + r * block.step);
    run = run + e;
    if (r % 64 == 63) {
      // Runs of rows are summed first and then added to the total, so that the error stays small in
      // long columns.
      sum = sum + run;
      run = Vec(0.0f);
    }
  }
  sum = sum + run;
  if constexpr (kLog) {
    const Vec shift = Log(sum);
    for (int64_t r = 0; r < block.rows; ++r) {
      store(Fma(load(x + r * block.step), Vec(sign), -max) - shift, y + r * block.step);
    }
  } else {
    const Vec scale = Vec(1.0f) / sum;
    for (int64_t r = 0; r < block.rows; ++r) {
      store(load(y + r * block.step) * scale, y + r * block.step);
    }
  }
}

template <bool kLog>
void SoftmaxColumns(const SoftmaxBlock& block, float sign) {
  int64_t at = 0;
  for (; at + Vec::kWidth <= block.width; at += Vec::kWidth) {
    SoftmaxGroup<kLog>(
        block, sign, at, [](const float* p) { return Vec::Load(p); },
        [](Vec v, float* p) { v.Store(p); });
  }
  if (at < block.width) {
    const int lanes = static_cast<int>(block.width - at);
    SoftmaxGroup<kLog>(
        block, sign, at, [lanes](const float* p) { return Vec::LoadPartial(p, lanes); },
        [lanes](Vec v, float* p) { v.StorePartial(p, lanes); });
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(SoftmaxKernels, {.row_max = RowMax,
                                     .sum_exp = SumExp,
                                     .softmax_row = SoftmaxRow,
                                     .log_softmax_row = LogSoftmaxRow,
                                     .softmax_columns = SoftmaxColumns<false>,
                                     .log_softmax_columns = SoftmaxColumns<true>})
