// SPDX-License-Identifier: MIT
// Activations over lanes of f16: those of common networks in f16, the others in f32.
// Only for *.f16.cpp and *.lanes.cpp.
#pragma once

#include "cpu/activation_epilogue.h"
#include "cpu/vec_f16.h"

namespace oort::OORT_ISA {

/// x sigmoid(x) = x / (1 + exp(-x)) in f16, to three units in the last place of the larger of the
/// result and 1/4. Numbers below -10.25 are replaced by -10.25; the small factor 1 / (1 +
/// exp(10.25)) that remains there is subtracted everywhere. Rounding to an integer is done by
/// adding a large number, because conversions take four cycles each.
inline HalfVec HalfSilu(HalfVec x) {
  const HalfVec t = AtLeast(AtMost(x, HalfVec(9.6875f)), HalfVec(-10.25f));
  // log2(exp(-x)), rounded to an integer in the last bits of `shifted`; r is the rest.
  const HalfVec slope = HalfVec(-1.4423828125f), magic = HalfVec(1536.0f);
  const HalfVec shifted = Fma(t, slope, magic);
  const HalfVec r = Fma(t, HalfVec(-3.1223e-4f), Fma(t, slope, magic - shifted));
  const HalfVec low = Fma(r, HalfVec(0.693261027f), HalfVec(0.999928057f));
  const HalfVec p = Fma(Fma(r, HalfVec(0.0551712587f), HalfVec(0.242611066f)), r * r, low);
  const HalfVec e = TimesPower(p, shifted);
  const HalfVec inverse = QuickInverse(HalfVec(1.0f) + e);
  return x * (inverse - HalfVec(3.5346e-5f));
}

/// formulas::Clamp with limits that are no NaN; it keeps NaN.
inline HalfVec Limit(HalfVec x, HalfVec low, HalfVec high) { return AtMost(AtLeast(x, low), high); }

template <Activation kind>
inline HalfVec Activate(HalfVec x, HalfVec a, HalfVec b) {
  if constexpr (kind == Activation::kNone) return x;
  if constexpr (kind == Activation::kRelu) return AtLeast(x, HalfVec(0.0f));
  if constexpr (kind == Activation::kClamp) return Limit(x, a, b);
  // The factors of 1/6 come first: x (x + 3) may be too large for f16.
  const HalfVec sixth = HalfVec(1.0f / 6);
  if constexpr (kind == Activation::kHardsigmoid) {
    return Limit(Fma(x, sixth, HalfVec(0.5f)), HalfVec(0.0f), HalfVec(1.0f));
  }
  if constexpr (kind == Activation::kHardswish) {
    return x * Limit(Fma(x, sixth, HalfVec(0.5f)), HalfVec(0.0f), HalfVec(1.0f));
  }
  if constexpr (kind == Activation::kSilu || kind == Activation::kRoughSilu) return HalfSilu(x);
  return Narrow(Activate<kind>(Low(x), Low(a), Low(b)), Activate<kind>(High(x), Low(a), Low(b)));
}

/// `rows` rows of `columns` elements, `stride` apart, where they lie.
template <Activation kind>
[[gnu::flatten]] void ActivateRowsAs(HalfVec a, HalfVec b, Half* x, int64_t stride, int64_t rows,
                                     int64_t columns) {
  constexpr int kStep = HalfVec::kWidth, kTurn = 4;
  for (; rows > 0; --rows, x += stride) {
    int64_t i = 0;
    for (; i + kTurn * kStep <= columns; i += kTurn * kStep) {
      HalfVec results[kTurn];
      Unroll<kTurn>(
          [&](auto v) { results[v] = Activate<kind>(HalfVec::Load(x + i + v * kStep), a, b); });
      Unroll<kTurn>([&](auto v) { results[v].Store(x + i + v * kStep); });
    }
    for (; i < columns; i += kStep) {
      const int rest = columns - i < kStep ? static_cast<int>(columns - i) : kStep;
      Activate<kind>(HalfVec::LoadPartial(x + i, rest), a, b).StorePartial(x + i, rest);
    }
  }
}

inline void ActivateRows(const ActivationSpec& spec, Half* x, int64_t stride, int64_t rows,
                         int64_t columns) {
  if (spec.kind == Activation::kNone) return;
  WithActivation(spec.kind, [&](auto tag) {
    ActivateRowsAs<decltype(tag)::kKind>(HalfVec(spec.a), HalfVec(spec.b), x, stride, rows,
                                         columns);
  });
}

/// x[i] = activation of x[i].
inline void ActivateInPlace(const ActivationSpec& spec, Half* x, int count) {
  ActivateRows(spec, x, 0, 1, count);
}

}  // namespace oort::OORT_ISA
