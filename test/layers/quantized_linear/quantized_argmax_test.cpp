// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "oort/testing.h"

namespace oort {
namespace {

using testing::OperatorCase;
using testing::RandomTensor;

TEST(QuantizedArgmax, PicksTheRowOfTheLargestProduct) {
  const Tensor weight =
      Tensor::From<float>({1, 0, 0, /**/ 0, 2, 0, /**/ 0, 2, 0, /**/ -1, -1, 1}, {4, 3});
  const auto pick = [&] {
    return OperatorCase("oort.QuantizedArgmax")
        .Param("in_features", "3")
        .Param("out_features", "4")
        .Attribute("weight", weight);
  };
  pick()
      .Input(Tensor::From<float>({5, 1, 0, /**/ 0, 1, 0, /**/ -1, -1, 3}, {3, 1, 3}))
      .ExpectOutputs({Tensor::From<int32_t>({0, 1, 3}, {3, 1})});
  pick().Input(Tensor(DType::kF32, {0, 3})).ExpectOutputs({Tensor(DType::kI32, {0})});
  pick()
      .Input(Tensor(DType::kF32, {2, 4}))
      .ExpectError(ErrorCode::kInvalidArgument, "last axis is 3");
}

}  // namespace
}  // namespace oort
