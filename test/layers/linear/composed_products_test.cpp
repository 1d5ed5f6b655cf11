// SPDX-License-Identifier: MIT
// Rearrangements, diagonals, bags of rows and distances in ATen's form. Expected values are
// torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/aten/aten_values.h"

namespace oort::testing {
namespace {

TEST(AtenComposed, ProductsOfComplexVectorsConjugate) {
  const auto vector = [](std::complex<float> a, std::complex<float> b) {
    return Tensor::From<std::complex<float>>({a, b}, {2});
  };
  // (1 - 2i)(3 + i) + 2i(1 - i) = 5 - 5i + 2i + 2
  OperatorCase("aten::vdot")
      .Input(vector({1, 2}, {0, -2}))
      .Input(vector({3, 1}, {1, -1}))
      .ExpectOutputs({Tensor::From<std::complex<float>>({{7, -3}}, {})});
  OperatorCase("aten::vdot")
      .Input(F({1, 2}, {2}))
      .Input(F({3, 4}, {2}))
      .ExpectOutputs({F({11}, {})});
}

}  // namespace
}  // namespace oort::testing
