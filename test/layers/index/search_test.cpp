// SPDX-License-Identifier: MIT
// Indexing that pnnx leaves as ATen operators. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/short_tensors.h"

namespace oort::testing {
namespace {

TEST(AtenSearch, LooksUpSortedSequences) {
  const Tensor sorted = Floats({1, 2, 2, 4}, {4}), x = Floats({0, 2, 3, 9, NAN}, {5});
  OperatorCase("aten::searchsorted")
      .Input(sorted)
      .Input(x)
      .ExpectOutputs({Ints({0, 1, 3, 4, 4}, {5})});
  OperatorCase("aten::bucketize")
      .Param("right", "True")
      .Param("out_int32", "True")
      .Input(x)
      .Input(sorted)
      .ExpectOutputs({Tensor::From<int32_t>({0, 3, 3, 4, 4}, {5})});
  OperatorCase("aten::searchsorted")
      .Param("side", "right")
      .Input(Ints({1, 3, 5, 7}, {2, 2}))
      .Input(Ints({3, 5}, {2, 1}))
      .ExpectOutputs({Ints({2, 1}, {2, 1})});
  OperatorCase("aten::searchsorted")
      .Input(Ints({1, 3, 5, 7}, {2, 2}))
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "cannot be looked up");
  OperatorCase("aten::isin")
      .Input(Floats({1, NAN, 3}, {3}))
      .Input(Floats({3, NAN}, {2}))
      .ExpectOutputs({Tensor::From<bool>({false, false, true}, {3})});
}

}  // namespace
}  // namespace oort::testing
