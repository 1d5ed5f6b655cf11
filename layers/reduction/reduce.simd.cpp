// SPDX-License-Identifier: MIT
#include "cpu/vec.h"
#include "layers/reduction/reduce_kernels.h"

namespace oort::OORT_ISA {
namespace {

constexpr int64_t kRun = 1024;   // elements that are summed in f32
constexpr int64_t kRowRun = 32;  // rows that are summed in f32

/// Sum of map(x) over a run: four accumulators hide the latency of the addition.
template <typename Map>
float SumRun(const float* x, int64_t count, Map map) {
  Vec a(0.0f), b(0.0f), c(0.0f), d(0.0f);
  int64_t i = 0;
  for (; i + 4 * Vec::kWidth <= count; i += 4 * Vec::kWidth) {
    a = a + map(Vec::Load(x + i));
    b = b + map(Vec::Load(x + i + Vec::kWidth));
    c = c + map(Vec::Load(x + i + 2 * Vec::kWidth));
    d = d + map(Vec::Load(x + i + 3 * Vec::kWidth));
  }
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) a = a + map(Vec::Load(x + i));
  // map(0) need not be 0, so lanes beyond the end must not be added.
  if (i < count) {
    float rest[Vec::kWidth] = {};
    const int lanes = static_cast<int>(count - i);
    map(Vec::LoadPartial(x + i, lanes)).StorePartial(rest, lanes);
    b = b + Vec::Load(rest);
  }
  return ReduceAdd((a + b) + (c + d));
}

template <typename Map>
double SumMapped(const float* x, int64_t count, Map map) {
  double sum = 0;
  for (int64_t i = 0; i < count; i += kRun) {
    sum += static_cast<double>(SumRun(x + i, count - i < kRun ? count - i : kRun, map));
  }
  return sum;
}

double Sum(const float* x, int64_t count) {
  return SumMapped(x, count, [](Vec v) { return v; });
}

double SumSquares(const float* x, int64_t count) {
  return SumMapped(x, count, [](Vec v) { return v * v; });
}

double SumAbs(const float* x, int64_t count) {
  return SumMapped(x, count, [](Vec v) { return Abs(v); });
}

void AddDeviations(const float* x, int64_t count, float center, Deviations& into) {
  for (int64_t begin = 0; begin < count; begin += kRun) {
    const int64_t end = begin + kRun < count ? begin + kRun : count;
    Vec sum0(0.0f), sum1(0.0f), squares0(0.0f), squares1(0.0f);
    int64_t i = begin;
    for (; i + 2 * Vec::kWidth <= end; i += 2 * Vec::kWidth) {
      const Vec a = Vec::Load(x + i) - center, b = Vec::Load(x + i + Vec::kWidth) - center;
      sum0 = sum0 + a;
      sum1 = sum1 + b;
      squares0 = Fma(a, a, squares0);
      squares1 = Fma(b, b, squares1);
    }
    into.sum += static_cast<double>(ReduceAdd(sum0 + sum1));
    into.squares += static_cast<double>(ReduceAdd(squares0 + squares1));
    for (; i < end; ++i) {
      const float difference = x[i] - center;
      into.sum += static_cast<double>(difference);
      into.squares += static_cast<double>(difference * difference);
    }
  }
}

Moments TakeMoments(const float* x, int64_t count) {
  const double n = static_cast<double>(count);
  const float center = static_cast<float>(Sum(x, count) / n);
  // The corrected two-pass algorithm (Chan, Golub and LeVeque 1983): sums the differences from the
  // rounded mean and their squares; the sum of the differences corrects the rounding of the mean.
  Deviations all;
  AddDeviations(x, count, center, all);
  const double shift = all.sum / n;
  return {static_cast<double>(center) + shift, all.squares - all.sum * shift};
}

struct MaxOp {
  static constexpr float kEmpty = -__builtin_huge_valf();
  static Vec Of(Vec a, Vec b) { return Max(a, b); }
  static float All(Vec a) { return ReduceMax(a); }
};
struct MinOp {
  static constexpr float kEmpty = __builtin_huge_valf();
  static Vec Of(Vec a, Vec b) { return Min(a, b); }
  static float All(Vec a) { return ReduceMin(a); }
};

template <typename Op>
float Extreme(const float* x, int64_t count) {
  Vec a(Op::kEmpty), b(Op::kEmpty);
  int64_t i = 0;
  for (; i + 2 * Vec::kWidth <= count; i += 2 * Vec::kWidth) {
    a = Op::Of(a, Vec::Load(x + i));
    b = Op::Of(b, Vec::Load(x + i + Vec::kWidth));
  }
  for (; i < count; ++i) a = Op::Of(a, Vec(x[i]));
  return Op::All(Op::Of(a, b));
}

/// Columns [x, x + lanes) of kVecs vectors side by side; together they use whole cache lines.
template <int kVecs>
void SumColumnGroup(const RowBlock& block, int64_t x, int lanes, double* into) {
  for (int64_t begin = 0; begin < block.rows; begin += kRowRun) {
    const int64_t end = begin + kRowRun < block.rows ? begin + kRowRun : block.rows;
    const float* p = block.first + begin * block.step + x;
    Vec sum[kVecs];
    for (int v = 0; v < kVecs; ++v) sum[v] = Vec(0.0f);
    for (int64_t r = begin; r < end; ++r, p += block.step) {
      if constexpr (kVecs == 1) {
        sum[0] = sum[0] + Vec::LoadPartial(p, lanes);
      } else {
        for (int v = 0; v < kVecs; ++v) sum[v] = sum[v] + Vec::Load(p + v * Vec::kWidth);
      }
    }
    float sums[kVecs * Vec::kWidth];
    for (int v = 0; v < kVecs; ++v) sum[v].Store(sums + v * Vec::kWidth);
    for (int i = 0; i < lanes; ++i) into[x + i] += static_cast<double>(sums[i]);
  }
}

template <typename Op, int kVecs>
void ExtremeColumnGroup(const RowBlock& block, int64_t x, int lanes, float* into) {
  const float* p = block.first + x;
  if constexpr (kVecs == 1) {
    Vec extreme = Vec::LoadPartial(into + x, lanes);
    for (int64_t r = 0; r < block.rows; ++r, p += block.step) {
      extreme = Op::Of(extreme, Vec::LoadPartial(p, lanes));
    }
    extreme.StorePartial(into + x, lanes);
  } else {
    Vec extreme[kVecs];
    for (int v = 0; v < kVecs; ++v) extreme[v] = Vec::Load(into + x + v * Vec::kWidth);
    for (int64_t r = 0; r < block.rows; ++r, p += block.step) {
      for (int v = 0; v < kVecs; ++v) {
        extreme[v] = Op::Of(extreme[v], Vec::Load(p + v * Vec::kWidth));
      }
    }
    for (int v = 0; v < kVecs; ++v) extreme[v].Store(into + x + v * Vec::kWidth);
  }
}

/// Vectors side by side in a group: 64 columns, or as many as registers can hold.
constexpr int kGroupVecs = Vec::kWidth >= 4 ? 64 / Vec::kWidth : 16;

/// Calls wide(x, lanes) for whole groups, then narrow(x, lanes) for what is left.
template <typename Wide, typename Narrow>
void ForColumnGroups(int64_t width, Wide wide, Narrow narrow) {
  constexpr int kGroup = kGroupVecs * Vec::kWidth;
  int64_t x = 0;
  for (; x + kGroup <= width; x += kGroup) wide(x, kGroup);
  for (; x < width; x += Vec::kWidth) {
    narrow(x, static_cast<int>(width - x < Vec::kWidth ? width - x : Vec::kWidth));
  }
}

void SumColumns(const RowBlock& block, double* into) {
  ForColumnGroups(
      block.width, [&](int64_t x, int lanes) { SumColumnGroup<kGroupVecs>(block, x, lanes, into); },
      [&](int64_t x, int lanes) { SumColumnGroup<1>(block, x, lanes, into); });
}

template <typename Op>
void ExtremeColumns(const RowBlock& block, float* into) {
  ForColumnGroups(
      block.width,
      [&](int64_t x, int lanes) { ExtremeColumnGroup<Op, kGroupVecs>(block, x, lanes, into); },
      [&](int64_t x, int lanes) { ExtremeColumnGroup<Op, 1>(block, x, lanes, into); });
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(ReduceKernels, {.sum = Sum,
                                    .sum_squares = SumSquares,
                                    .sum_abs = SumAbs,
                                    .moments = TakeMoments,
                                    .deviations = AddDeviations,
                                    .max = Extreme<MaxOp>,
                                    .min = Extreme<MinOp>,
                                    .sum_columns = SumColumns,
                                    .max_columns = ExtremeColumns<MaxOp>,
                                    .min_columns = ExtremeColumns<MinOp>})
