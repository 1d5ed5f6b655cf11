// SPDX-License-Identifier: MIT
// Rearrangements, diagonals, bags of rows and distances in ATen's form. Expected values are
// torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/aten/aten_values.h"

namespace oort::testing {
namespace {

TEST(AtenComposed, MeasuresAllPairs) {
  OperatorCase("aten::pdist")
      .Param("p", "0")
      .Input(F({4.1199999, -0.07, 0.13, -1.53, 2.2, 5.5100002}, {3, 2}))
      .ExpectOutputs({F({2.0, 2.0, 2.0}, {3})});
  OperatorCase("aten::pdist")
      .Param("p", "1")
      .Input(F({4.1199999, -0.07, 0.13, -1.53, 2.2, 5.5100002}, {3, 2}))
      .ExpectOutputs({F({5.4499998, 7.5, 9.1100006}, {3})});
  OperatorCase("aten::pdist")
      .Param("p", "2")
      .Input(F({4.1199999, -0.07, 0.13, -1.53, 2.2, 5.5100002}, {3, 2}))
      .ExpectOutputs({F({4.2487292, 5.9010849, 7.3380175}, {3})});
  OperatorCase("aten::pdist")
      .Param("p", "3")
      .Input(F({4.1199999, -0.07, 0.13, -1.53, 2.2, 5.5100002}, {3, 2}))
      .ExpectOutputs({F({4.0541253, 5.654767, 7.0991564}, {3})});
  OperatorCase("aten::pdist")
      .Param("p", "inf")
      .Input(F({4.1199999, -0.07, 0.13, -1.53, 2.2, 5.5100002}, {3, 2}))
      .ExpectOutputs({F({3.9899998, 5.5800004, 7.04}, {3})});
}

}  // namespace
}  // namespace oort::testing
