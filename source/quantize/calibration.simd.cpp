// SPDX-License-Identifier: MIT
#include "quantize/calibration.h"

#include "cpu/vec.h"

namespace oort::OORT_ISA {
namespace {

bool CalibrationEnds(const float* x, int64_t count, float* low, float* high) {
  Vec least = x[0], most = x[0], nothing = 0.0f;  // 0 times a number, but for NaN and infinity
  int64_t i = 0;
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) {
    const Vec value = Vec::Load(x + i);
    least = FastMin(value, least);
    most = FastMax(value, most);
    nothing = nothing + value * Vec(0.0f);
  }
  float first = ReduceMin(least), last = ReduceMax(most);
  bool finite = All(nothing == Vec(0.0f));
  for (; i < count; ++i) {
    first = x[i] < first ? x[i] : first;
    last = x[i] > last ? x[i] : last;
    finite = finite && x[i] * 0.0f == 0.0f;
  }
  *low = first;
  *high = last;
  return finite;
}

constexpr int64_t kBlock = 256;

/// The slot of each value, as bits. A product with a power of two is exact, and so is its floor.
void PlaceBlock(const float* x, float scale, Vec zeros, float* slots) {
  const Vec half = static_cast<float>(BinCounts::kBins / 2);
  for (int64_t i = 0; i < kBlock; i += Vec::kWidth) {
    const Vec value = Vec::Load(x + i);
    const Vec bin = Floor(value * Vec(scale)) + half;
    FromBits(ToInt(Select(value == Vec(0.0f), zeros, bin))).Store(slots + i);
  }
}

void CalibrationCount(const float* x, int64_t count, float scale, uint32_t* counts) {
  float zero_slots[BinCounts::kZeroSlots];
  for (int i = 0; i < BinCounts::kZeroSlots; ++i) {
    zero_slots[i] = static_cast<float>(BinCounts::kBins + i);
  }
  static_assert(Vec::kWidth <= BinCounts::kZeroSlots);
  const Vec zeros = Vec::Load(zero_slots);
  uint32_t* second = counts + BinCounts::kSlots;
  float slots[kBlock];
  int64_t begin = 0;
  for (; begin + kBlock <= count; begin += kBlock) {
    PlaceBlock(x + begin, scale, zeros, slots);
    for (int64_t i = 0; i < kBlock; i += 2) {
      ++counts[__builtin_bit_cast(uint32_t, slots[i])];
      ++second[__builtin_bit_cast(uint32_t, slots[i + 1])];
    }
  }
  float rest[kBlock] = {};
  for (int64_t i = begin; i < count; ++i) rest[i - begin] = x[i];
  PlaceBlock(rest, scale, zeros, slots);
  for (int64_t i = begin; i < count; ++i) ++counts[__builtin_bit_cast(uint32_t, slots[i - begin])];
}

void CalibrationRound(const float* x, float* y, int64_t count, float inverse, float low, float high,
                      float scale) {
  MapVec(x, y, count, [=](Vec value) {
    return Round(FastMin(FastMax(value * Vec(inverse), Vec(low)), Vec(high))) * Vec(scale);
  });
}

void CalibrationAddRows(const float* x, int64_t step, int64_t rows, double* sums, int64_t count) {
  for (int64_t row = 0; row < rows; ++row, x += step) {
    for (int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(x[i]);
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(CalibrationKernels, {.ends = OORT_ISA::CalibrationEnds,
                                         .count = OORT_ISA::CalibrationCount,
                                         .round = OORT_ISA::CalibrationRound,
                                         .add_rows = OORT_ISA::CalibrationAddRows})
