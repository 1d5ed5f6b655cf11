// SPDX-License-Identifier: MIT
#include "cpu/vec.h"
#include "layers/norm/norm_kernels.h"

namespace oort::OORT_ISA {
namespace {

/// Calls op(load) for each vector, where load(p) reads the same elements of any array.
template <typename Op>
void ForVecs(float* y, int64_t count, Op op) {
  int64_t i = 0;
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) {
    op([i](const float* p) { return Vec::Load(p + i); }).Store(y + i);
  }
  if (i < count) {
    const int rest = static_cast<int>(count - i);
    op([i, rest](const float* p) {
      return Vec::LoadPartial(p + i, rest);
    }).StorePartial(y + i, rest);
  }
}

void Apply(const float* x, float* y, int64_t count, Affine affine) {
  const Vec center(affine.center), scale(affine.scale), shift(affine.shift);
  ForVecs(y, count, [=](auto load) { return Fma(load(x) - center, scale, shift); });
}

void ApplyEach(const float* x, float* y, int64_t count, const float* center, const float* scale,
               const float* shift) {
  ForVecs(y, count,
          [=](auto load) { return Fma(load(x) - load(center), load(scale), load(shift)); });
}

void ApplyWeighted(const float* x, float* y, int64_t count, Affine affine, const float* weight,
                   const float* bias) {
  const Vec center(affine.center), scale(affine.scale), shift(affine.shift);
  if (weight != nullptr && bias != nullptr) {
    ForVecs(y, count, [=](auto load) {
      return Fma(Fma(load(x) - center, scale, shift), load(weight), load(bias));
    });
  } else if (weight != nullptr) {
    ForVecs(y, count,
            [=](auto load) { return Fma(load(x) - center, scale, shift) * load(weight); });
  } else if (bias != nullptr) {
    ForVecs(y, count, [=](auto load) { return Fma(load(x) - center, scale, shift) + load(bias); });
  } else {
    Apply(x, y, count, affine);
  }
}

void Divide(const float* x, float* y, int64_t count, float divisor) {
  const Vec d(divisor);
  ForVecs(y, count, [=](auto load) { return load(x) / d; });
}

void DivideEach(const float* x, float* y, int64_t count, const float* divisors) {
  ForVecs(y, count, [=](auto load) { return load(x) / load(divisors); });
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(NormKernels, {.apply = Apply,
                                  .apply_each = ApplyEach,
                                  .apply_weighted = ApplyWeighted,
                                  .divide = Divide,
                                  .divide_each = DivideEach})
