// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "oort/tensor.h"

namespace oort::cli {

/// |got - want| <= absolute + relative * |want|, element by element.
struct Tolerance {
  double absolute = 1e-4, relative = 1e-3;
};

struct Comparison {
  std::string difference;   ///< empty if all is well; else the first thing that differs
  double max_absolute = 0;  ///< largest |got - want|; infinity where only one is a number
  double max_relative = 0;
  double largest = 0;  ///< of the finite |want|
};

/// Shape and dtype must be the same, integers and booleans exact; NaN equals NaN.
Comparison Compare(const Tensor& got, const Tensor& want, const Tolerance& limits);

}  // namespace oort::cli
