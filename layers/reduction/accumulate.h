// SPDX-License-Identifier: MIT
// In which types sums and products are gathered and given out.
#pragma once

#include <complex>

#include "core/dispatch.h"
#include "graph/dtype_names.h"
#include "layers/repair_log.h"
#include "oort/layer.h"

namespace oort {

/// Whether a reduction of `input` gives `output` without being asked: integers are widened, and a
/// norm of complex numbers is real. What is not known may be so.
inline bool FollowsFrom(DType input, DType output) {
  if (output == DType::kI64) return !IsFloat(input);
  return input == output || input == DType::kNull || (IsComplex(input) && IsFloat(output));
}

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
  if (kept && same) return DType::kNull;
  if (traced != DType::kNull && !init.inputs().empty() &&
      !FollowsFrom(init.inputs()[0]->dtype, traced)) {
    LogRepair(init,
              "took dtype=" + std::string(Name(traced)) + " from the trace: it is not written");
  }
  return traced;
}

/// Floats gather in f64, integers in u64, whose overflow is defined, as is torch's.
template <typename T>
using Gathered = std::conditional_t<kIsComplex<T>, std::complex<double>,
                                    std::conditional_t<std::is_integral_v<T>, uint64_t, double>>;

}  // namespace oort
