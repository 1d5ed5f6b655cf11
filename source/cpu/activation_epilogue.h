// SPDX-License-Identifier: MIT
// Activations over the vector type, the same formulas that the operators of their own use, so that
// fusing one changes no bit. Only for *.simd.cpp.
#pragma once

#include "cpu/activation.h"
#include "cpu/formulas.h"
#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "cpu/vec_math.h"

namespace oort::OORT_ISA {

/// `a` and `b` are the arguments of ActivationSpec.
template <Activation kind>
inline Vec Activate(Vec x, Vec a, Vec b) {
  if constexpr (kind == Activation::kRelu) return formulas::Relu(x);
  if constexpr (kind == Activation::kClamp) return formulas::Clamp(x, a, b);
  if constexpr (kind == Activation::kSilu) return formulas::Silu(x);
  if constexpr (kind == Activation::kHardswish) return formulas::Hardswish(x);
  if constexpr (kind == Activation::kHardsigmoid) return formulas::Hardsigmoid(x);
  if constexpr (kind == Activation::kSigmoid) return Sigmoid(x);
  if constexpr (kind == Activation::kTanh) return Tanh(x);
  if constexpr (kind == Activation::kGelu) return formulas::Gelu(x);
  if constexpr (kind == Activation::kGeluTanh) return formulas::GeluTanh(x);
  if constexpr (kind == Activation::kLeakyRelu) return formulas::LeakyRelu(x, a);
  if constexpr (kind == Activation::kElu) return formulas::Elu(x, a);
  if constexpr (kind == Activation::kMish) return formulas::Mish(x);
  return x;
}

template <Activation value>
struct ActivationTag {
  static constexpr Activation kKind = value;
};

/// Calls body(ActivationTag<kind>()), so that the choice is made once and not for each vector.
template <typename Body>
inline void WithActivation(Activation kind, const Body& body) {
  switch (kind) {
    case Activation::kNone: return body(ActivationTag<Activation::kNone>());
    case Activation::kRelu: return body(ActivationTag<Activation::kRelu>());
    case Activation::kClamp: return body(ActivationTag<Activation::kClamp>());
    case Activation::kSilu: return body(ActivationTag<Activation::kSilu>());
    case Activation::kHardswish: return body(ActivationTag<Activation::kHardswish>());
    case Activation::kHardsigmoid: return body(ActivationTag<Activation::kHardsigmoid>());
    case Activation::kSigmoid: return body(ActivationTag<Activation::kSigmoid>());
    case Activation::kTanh: return body(ActivationTag<Activation::kTanh>());
    case Activation::kGelu: return body(ActivationTag<Activation::kGelu>());
    case Activation::kGeluTanh: return body(ActivationTag<Activation::kGeluTanh>());
    case Activation::kLeakyRelu: return body(ActivationTag<Activation::kLeakyRelu>());
    case Activation::kElu: return body(ActivationTag<Activation::kElu>());
    case Activation::kMish: return body(ActivationTag<Activation::kMish>());
  }
}

/// x[i] = activation of x[i], for values that were just computed and are in the L1 cache.
inline void ActivateInPlace(const ActivationSpec& spec, float* x, int64_t count) {
  if (spec.kind == Activation::kNone) return;
  WithActivation(spec.kind, [&](auto tag) {
    constexpr Activation kKind = decltype(tag)::kKind;
    const Vec a = Vec(spec.a), b = Vec(spec.b);
    constexpr int kTurn = 4;  // vectors; they hide the latency of long formulas
    int64_t i = 0;
    for (; i + kTurn * Vec::kWidth <= count; i += kTurn * Vec::kWidth) {
      Vec results[kTurn];
      Unroll<kTurn>(
          [&](auto v) { results[v] = Activate<kKind>(Vec::Load(x + i + v * Vec::kWidth), a, b); });
      Unroll<kTurn>([&](auto v) { results[v].Store(x + i + v * Vec::kWidth); });
    }
    MapVec(x + i, x + i, count - i, [&](Vec value) { return Activate<kKind>(value, a, b); });
  });
}

/// One vector; the choice is made at each call, so this is for ends and for cheap loops.
inline Vec Activate(const ActivationSpec& spec, Vec x) {
  Vec result = x;
  WithActivation(spec.kind, [&](auto tag) {
    result = Activate<decltype(tag)::kKind>(x, Vec(spec.a), Vec(spec.b));
  });
  return result;
}

}  // namespace oort::OORT_ISA
