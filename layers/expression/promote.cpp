// SPDX-License-Identifier: MIT
#include "layers/expression/promote.h"

namespace oort::expression {
namespace {

/// A weaker argument decides only where it is of a higher kind (integer < float < complex).
DType Combine(DType stronger, DType weaker) {
  if (stronger == DType::kNull) return weaker;
  if (weaker == DType::kNull || IsComplex(stronger)) return stronger;
  if (IsFloat(stronger) && IsComplex(weaker)) {
    // torch has c32 for f16 and nothing for bf16; there is no arithmetic on c32 here.
    return stronger == DType::kF64 ? DType::kC128 : DType::kC64;
  }
  if (IsFloat(stronger)) return stronger;
  const bool higher = IsFloat(weaker) || IsComplex(weaker);
  if (stronger == DType::kBool || higher) return PromoteTypes(stronger, weaker);
  return stronger;
}

}  // namespace

void Promotion::Add(DType dtype, Weight weight) {
  DType& kept = weight == Weight::kTensor         ? tensor_
                : weight == Weight::kScalarTensor ? scalar_tensor_
                                                  : number_;
  kept = PromoteTypes(kept, dtype);
}

DType Promotion::Result() const { return Combine(tensor_, Combine(scalar_tensor_, number_)); }

DType NumberDType(const Value& value) {
  if (value.IsBool()) return DType::kBool;
  if (value.IsInt()) return DType::kI64;
  if (value.IsFloat()) return DType::kF32;
  if (value.IsComplex()) return DType::kC64;
  return DType::kNull;
}

DType ComplexDType(DType real) {
  switch (real) {
    case DType::kF16: return DType::kC32;
    case DType::kF32: return DType::kC64;
    case DType::kF64: return DType::kC128;
    default: return DType::kNull;
  }
}

DType RealDType(DType dtype) {
  switch (dtype) {
    case DType::kC32: return DType::kF16;
    case DType::kC64: return DType::kF32;
    case DType::kC128: return DType::kF64;
    default: return dtype;
  }
}

}  // namespace oort::expression
