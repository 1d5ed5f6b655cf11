// SPDX-License-Identifier: MIT
// Activations over the vector type. They use the formulas of the operators of the same name, so
// that fusing an activation changes no bit. Only for *.simd.cpp.
#pragma once

#include "cpu/activation.h"
#include "cpu/formulas.h"
#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "cpu/vec_math.h"

namespace oort::OORT_ISA {

/// formulas::Clamp with limits that are no NaN; the order of the two instructions keeps NaN.
inline Vec Limit(Vec x, Vec low, Vec high) { return FastMin(high, FastMax(low, x)); }

/// `a` and `b` are the arguments of ActivationSpec.
template <Activation kind>
inline Vec Activate(Vec x, Vec a, Vec b) {
  const Vec sixth = Vec(static_cast<float>(1.0 / 6.0));
  if constexpr (kind == Activation::kRelu) return FastMax(0.0f, x);
  if constexpr (kind == Activation::kClamp) return Limit(x, a, b);
  if constexpr (kind == Activation::kSilu) return Silu(x);
  if constexpr (kind == Activation::kHardswish) return x * Limit(x + 3.0f, 0.0f, 6.0f) * sixth;
  if constexpr (kind == Activation::kHardsigmoid) return Limit(x + 3.0f, 0.0f, 6.0f) * sixth;
  if constexpr (kind == Activation::kSigmoid) return Sigmoid(x);
  if constexpr (kind == Activation::kTanh) return Tanh(x);
  if constexpr (kind == Activation::kGelu) return formulas::Gelu(x);
  if constexpr (kind == Activation::kGeluTanh) return formulas::GeluTanh(x);
  if constexpr (kind == Activation::kLeakyRelu) return formulas::LeakyRelu(x, a);
  if constexpr (kind == Activation::kElu) return formulas::Elu(x, a);
  if constexpr (kind == Activation::kMish) return formulas::Mish(x);
  if constexpr (kind == Activation::kRoughSilu) return RoughSilu(x);
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
    case Activation::kRoughSilu: return body(ActivationTag<Activation::kRoughSilu>());
  }
}

/// Where a block of values that were just computed is written to.
struct ActivationBlock {
  int rows, columns;
  float* y;
  int64_t stride;
};

/// y = activation of load(row, column); load.Partial(row, column, count) gives the end of a row.
/// Four vectors at a time hide the latency of long formulas: of four rows where a row has `vectors`
/// vectors, else of one. Flattened, because compilers would not inline the formulas of so many
/// activations.
template <Activation kind, int vectors, typename Load>
[[gnu::flatten]] void ActivateBlockAs(Vec a, Vec b, const ActivationBlock& block, const Load load) {
  constexpr int kTurn = 4;
  int r = 0;
  for (; r + kTurn <= block.rows && block.columns == vectors * Vec::kWidth; r += kTurn) {
    float* y = block.y + r * block.stride;
    Unroll<vectors>([&](auto turn) {
      Vec results[kTurn];
      Unroll<kTurn>([&](auto v) {
        constexpr int kAt = decltype(turn)::value * kTurn + decltype(v)::value;
        results[v] = Activate<kind>(load(r + kAt / vectors, kAt % vectors * Vec::kWidth), a, b);
      });
      Unroll<kTurn>([&](auto v) {
        constexpr int kAt = decltype(turn)::value * kTurn + decltype(v)::value;
        results[v].Store(y + kAt / vectors * block.stride + kAt % vectors * Vec::kWidth);
      });
    });
  }
  for (; r < block.rows; ++r) {
    float* y = block.y + r * block.stride;
    int i = 0;
    for (; i + kTurn * Vec::kWidth <= block.columns; i += kTurn * Vec::kWidth) {
      Vec results[kTurn];
      Unroll<kTurn>(
          [&](auto v) { results[v] = Activate<kind>(load(r, i + v * Vec::kWidth), a, b); });
      Unroll<kTurn>([&](auto v) { results[v].Store(y + i + v * Vec::kWidth); });
    }
    for (; i < block.columns; i += Vec::kWidth) {
      const int rest = block.columns - i < Vec::kWidth ? block.columns - i : Vec::kWidth;
      Activate<kind>(load.Partial(r, i, rest), a, b).StorePartial(y + i, rest);
    }
  }
}

template <int vectors, typename Load>
inline void ActivateBlock(const ActivationSpec& spec, const ActivationBlock& block,
                          const Load& load) {
  WithActivation(spec.kind, [&](auto tag) {
    ActivateBlockAs<decltype(tag)::kKind, vectors>(Vec(spec.a), Vec(spec.b), block, load);
  });
}

/// Values that lie in memory.
struct ActivationSource {
  const float* x;
  int64_t stride;
  Vec operator()(int r, int i) const { return Vec::Load(x + r * stride + i); }
  Vec Partial(int r, int i, int count) const { return Vec::LoadPartial(x + r * stride + i, count); }
};

/// x[i] = activation of x[i].
inline void ActivateInPlace(const ActivationSpec& spec, float* x, int count) {
  if (spec.kind == Activation::kNone) return;
  ActivateBlock<1>(spec, {1, count, x, 0}, ActivationSource{x, 0});
}

/// Activates one vector. Each call looks the activation up: for ends of rows and cheap loops.
inline Vec Activate(const ActivationSpec& spec, Vec x) {
  Vec result = x;
  WithActivation(spec.kind, [&](auto tag) {
    result = Activate<decltype(tag)::kKind>(x, Vec(spec.a), Vec(spec.b));
  });
  return result;
}

}  // namespace oort::OORT_ISA
