// SPDX-License-Identifier: MIT
// Reductions and scans that pnnx leaves as ATen operators. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/aten/aten_form.h"
#include "layers/short_tensors.h"

namespace oort::testing {
namespace {

TEST(AtenScan, KeepsTheBestSoFar) {
  const Tensor x = Vector({1, 3, 3, NAN, 5});
  OperatorCase("aten::cummax")
      .Param("dim", "0")
      .Input(x)
      .Outputs(2)
      .ExpectOutputs({Vector({1, 3, 3, NAN, NAN}), Places({0, 1, 2, 3, 3})});
  OperatorCase("aten::cummin")
      .Param("dim", "0")
      .Input(Vector({2, 3, 1, 1}))
      .Outputs(2)
      .ExpectOutputs({Vector({2, 2, 1, 1}), Places({0, 0, 2, 3})});
  OperatorCase("aten::logcumsumexp")
      .Param("dim", "0")
      .Input(Vector({-INFINITY, 0, 0, 1000, INFINITY, 1}))
      .ExpectOutputs({Vector({-INFINITY, 0, 0.6931472f, 1000, INFINITY, INFINITY})});
  OperatorCase("aten::cummax")
      .Param("dim", "1")
      .Input(x)
      .Outputs(2)
      .ExpectError(ErrorCode::kInvalidArgument, "");
}

}  // namespace
}  // namespace oort::testing
