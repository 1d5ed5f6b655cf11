// SPDX-License-Identifier: MIT
// torch's type promotion.
#pragma once

#include "oort/value.h"

namespace oort::expression {

/// How strongly an argument decides the dtype of the result: dimensioned tensors before tensors
/// of rank 0 before numbers.
enum class Weight : unsigned char { kTensor, kScalarTensor, kNumber };

/// Collects the arguments of one operation; torch.result_type.
class Promotion {
 public:
  void Add(DType dtype, Weight weight);
  /// The dtype of a result; kNull if nothing was added.
  DType Result() const;

 private:
  DType tensor_ = DType::kNull;
  DType scalar_tensor_ = DType::kNull;
  DType number_ = DType::kNull;
};

/// The dtype that torch gives a Python number: bool, i64, f32 or c64; kNull for other values.
DType NumberDType(const Value& value);

/// f32 for c64, and so on; real dtypes stay.
DType RealDType(DType dtype);
/// c64 for f32, and so on; kNull for what has no complex dtype.
DType ComplexDType(DType real);

}  // namespace oort::expression
