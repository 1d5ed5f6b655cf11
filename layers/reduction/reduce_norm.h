// SPDX-License-Identifier: MIT
// p-norms, for torch.norm and F.normalize.
#pragma once

#include <cmath>

#include "core/dispatch.h"
#include "layers/reduction/reduce_kernels.h"
#include "layers/reduction/reduce_plan.h"

namespace oort {

/// Gathers |x|^p; `Finish` takes the root. p may be 0 (counts) or infinite (extremes).
template <typename T>
struct NormOp : ElementOp<NormOp<T>> {
  using State = double;
  double p;
  const ReduceKernels& kernels;

  NormOp(double power, const ReduceKernels& table) : p(power), kernels(table) {}
  State Start() const { return p == -INFINITY ? INFINITY : 0; }

  void Step(State& state, T element, int64_t, int) const {
    const double size = std::abs(ConvertElement<double>(element));
    if (p == 2) {
      state += size * size;
    } else if (p == 1) {
      state += size;
    } else if (p == 0) {
      state += size != 0 ? 1 : 0;
    } else if (std::isinf(p)) {
      if ((p > 0 ? size > state : size < state) || size != size) state = size;
    } else {
      state += std::pow(size, p);
    }
  }

  void Run(State& state, const T* x, int64_t count, int64_t index, int pass) const {
    if constexpr (std::is_same_v<T, float>) {
      if (p == 2) {
        state += kernels.sum_squares(x, count);
        return;
      }
      if (p == 1) {
        state += kernels.sum_abs(x, count);
        return;
      }
    }
    ElementOp<NormOp<T>>::Run(state, x, count, index, pass);
  }

  double Finish(double state) const {
    if (p == 2) return std::sqrt(state);
    return p == 1 || p == 0 || std::isinf(p) ? state : std::pow(state, 1 / p);
  }
};

/// A number, `inf`, `-inf`, or `fro`.
inline double NormPower(const Value& p) {
  if (p.IsNone()) return 2;
  if (!p.IsString()) return p.AsFloat();
  const std::string& text = p.AsString();
  if (text == "fro") return 2;
  if (text == "inf") return INFINITY;
  if (text == "-inf") return -INFINITY;
  throw Error(ErrorCode::kUnsupported, "norm p=" + text.substr(0, 40) + " is not supported");
}

}  // namespace oort
