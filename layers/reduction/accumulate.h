// SPDX-License-Identifier: MIT
// In which types sums and products are gathered and given out.
#pragma once

#include <complex>

#include "core/dispatch.h"
#include "graph/dtype_names.h"
#include "oort/layer.h"

namespace oort {

/// The dtype that torch's `dtype=` asked for: the parameter where it is written, else the traced
/// dtype of the first output, because pnnx drops the parameter; kNull where neither is known, and
/// where the trace shows that none was asked for, so that a graph runs on other dtypes too.
inline DType WantedDType(const LayerInit& init) {
  if (const Value& dtype = init.Constant("dtype"); !dtype.IsNone()) return RequireTorchDType(dtype);
  if (init.outputs().empty()) return DType::kNull;
  const DType traced = init.outputs()[0]->dtype;
  // Only small integers are widened without being asked.
  const bool kept = IsFloat(traced) || IsComplex(traced) || traced == DType::kI64;
  const bool same = !init.inputs().empty() && init.inputs()[0]->dtype == traced;
  return kept && same ? DType::kNull : traced;
}

/// Floats gather in f64, integers in u64, whose overflow is defined, as is torch's.
template <typename T>
using Gathered = std::conditional_t<kIsComplex<T>, std::complex<double>,
                                    std::conditional_t<std::is_integral_v<T>, uint64_t, double>>;

}  // namespace oort
