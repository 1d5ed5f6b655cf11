// SPDX-License-Identifier: MIT
// Elementwise functions as torch defines them, over a type V that has the operations of cpu/vec.h:
// vectors of f32 or f16, or one number of any kind (layers/expression/lane.h), also on the GPU.
// Each V has its own instances of these templates, so they may be used in *.simd.cpp files.
#pragma once

#include "core/host_device.h"

namespace oort::formulas {

template <typename V>
OORT_HOST_DEVICE inline V Add(V a, V b) {
  return a + b;
}

template <typename V>
OORT_HOST_DEVICE inline V Sub(V a, V b) {
  return a - b;
}

template <typename V>
OORT_HOST_DEVICE inline V Mul(V a, V b) {
  return a * b;
}

template <typename V>
OORT_HOST_DEVICE inline V Div(V a, V b) {
  return a / b;
}

/// NaN wins, as in torch.
template <typename V>
OORT_HOST_DEVICE inline V Maximum(V a, V b) {
  return Max(a, b);
}

template <typename V>
OORT_HOST_DEVICE inline V Minimum(V a, V b) {
  return Min(a, b);
}

template <typename V>
OORT_HOST_DEVICE inline V Neg(V x) {
  return -x;
}

template <typename V>
OORT_HOST_DEVICE inline V Reciprocal(V x) {
  return V(1.0f) / x;
}

template <typename V>
OORT_HOST_DEVICE inline V Rsqrt(V x) {
  return V(1.0f) / Sqrt(x);
}

template <typename V>
OORT_HOST_DEVICE inline V Relu(V x) {
  return Max(x, V(0.0f));
}

template <typename V>
OORT_HOST_DEVICE inline V Clamp(V x, V low, V high) {
  return Min(Max(x, low), high);
}

template <typename V>
OORT_HOST_DEVICE inline V Hardsigmoid(V x) {
  return Clamp(x + V(3.0f), V(0.0f), V(6.0f)) * V(1.0 / 6.0);
}

template <typename V>
OORT_HOST_DEVICE inline V Hardswish(V x) {
  return x * Clamp(x + V(3.0f), V(0.0f), V(6.0f)) * V(1.0 / 6.0);
}

template <typename V>
OORT_HOST_DEVICE inline V Silu(V x) {
  return x * Sigmoid(x);
}

template <typename V>
OORT_HOST_DEVICE inline V Gelu(V x) {
  return x * NormalCdf(x);
}

template <typename V>
OORT_HOST_DEVICE inline V GeluTanh(V x) {
  const V inner = V(0.79788456080286535588) * (x + V(0.044715) * x * x * x);
  return V(0.5f) * x * (V(1.0f) + Tanh(inner));
}

/// The common form of elu, celu and selu.
template <typename V>
OORT_HOST_DEVICE inline V EluOf(V x, V scale, V negative_scale, V input_scale) {
  return Select(x <= V(0.0f), Expm1(x * input_scale) * negative_scale, x * scale);
}

template <typename V>
OORT_HOST_DEVICE inline V Elu(V x, V alpha) {
  return EluOf(x, V(1.0f), alpha, V(1.0f));
}

template <typename V>
OORT_HOST_DEVICE inline V Celu(V x, V alpha) {
  return EluOf(x, V(1.0f), alpha, V(1.0f) / alpha);
}

template <typename V>
OORT_HOST_DEVICE inline V Selu(V x) {
  return EluOf(x, V(1.0507009873554804934193), V(1.7580993408473768600), V(1.0f));
}

template <typename V>
OORT_HOST_DEVICE inline V LeakyRelu(V x, V slope) {
  return Select(x > V(0.0f), x, x * slope);
}

template <typename V>
OORT_HOST_DEVICE inline V Softplus(V x, V beta, V threshold) {
  const V scaled = x * beta;
  return Select(scaled > threshold, x, Log1p(Exp(scaled)) / beta);
}

template <typename V>
OORT_HOST_DEVICE inline V Softsign(V x) {
  return x / (V(1.0f) + Abs(x));
}

template <typename V>
OORT_HOST_DEVICE inline V Mish(V x) {
  return x * Tanh(Log1p(Exp(x)));
}

template <typename V>
OORT_HOST_DEVICE inline V Logsigmoid(V x) {
  return Min(x, V(0.0f)) - Log1p(Exp(-Abs(x)));
}

template <typename V>
OORT_HOST_DEVICE inline V Hardshrink(V x, V lambd) {
  return Select((x >= -lambd) & (x <= lambd), V(0.0f), x);
}

template <typename V>
OORT_HOST_DEVICE inline V Softshrink(V x, V lambd) {
  // x * 0 keeps NaN.
  return Select(x > lambd, x - lambd, Select(x < -lambd, x + lambd, x * V(0.0f)));
}

template <typename V>
OORT_HOST_DEVICE inline V Tanhshrink(V x) {
  return x - Tanh(x);
}

template <typename V>
OORT_HOST_DEVICE inline V Threshold(V x, V threshold, V value) {
  return Select(x <= threshold, value, x);
}

template <typename V>
OORT_HOST_DEVICE inline V Sign(V x) {
  return Select(x > V(0.0f), V(1.0f), Select(x < V(0.0f), V(-1.0f), V(0.0f)));
}

/// log(exp(a) + exp(b))
template <typename V>
OORT_HOST_DEVICE inline V Logaddexp(V a, V b) {
  const V larger = Max(a, b);
  // Equal infinities have no difference.
  return Select(a == b, a + V(0.69314718055994530942), larger + Log1p(Exp(-Abs(a - b))));
}

}  // namespace oort::formulas
