// SPDX-License-Identifier: MIT
// The parameter `precision` of operators that can multiply in less than f32. It is not in files
// that pnnx writes: the runtime sets it where the model is loaded with another precision than f32;
// f16 only where the narrow-floats pass has made the operands f16.
#pragma once

#include "cpu/gemm.h"
#include "cpu/lanes_kernels.h"
#include "oort/layer.h"

namespace oort {

inline constexpr char kPrecisionParam[] = "precision";

inline OperatorSchema& AddPrecisionParam(OperatorSchema& schema) {
  return schema.String(kPrecisionParam, "f32").OneOf({"f32", "bf16", "f16", "tf32"});
}

/// f32 where the operator has no such parameter.
inline Precision ReadPrecision(const LayerInit& init) {
  if (init.Arg(kPrecisionParam) < 0) return Precision::kF32;
  return PrecisionOf(init.String(kPrecisionParam));
}

/// Whether a layer is to take f16, compute in f16 and give f16.
inline bool ComputesInF16(const LayerInit& init) {
  return ReadPrecision(init) == Precision::kF16 && HasF16Arithmetic(init.isa());
}

/// Whether the product that the first input was traced for has one row: rounding its weights would
/// cost most and gain least, since such a product waits for memory.
inline bool TracedForOneRow(const LayerInit& init) {
  if (init.inputs().empty() || !init.inputs()[0]->has_shape) return false;
  const Shape& shape = init.inputs()[0]->shape;
  for (int i = 0; i < shape.rank() - 1; ++i) {
    if (shape[i] != 1) return false;
  }
  return true;
}

/// Of a layer whose first input has the rows of the product on all axes but the last.
inline Precision ReadRowsPrecision(const LayerInit& init) {
  return TracedForOneRow(init) ? Precision::kF32 : ReadPrecision(init);
}

inline const GemmKernels& GemmKernelsFor(const LayerInit& init) {
  return GemmKernelsFor(init.isa(), ReadPrecision(init));
}

}  // namespace oort
