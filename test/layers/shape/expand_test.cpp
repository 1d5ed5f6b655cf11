// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "moved_elements.h"

namespace oort::testing {
namespace {

Tensor Expanded(const Tensor& x, const Shape& shape) {
  const size_t added = static_cast<size_t>(shape.rank() - x.rank());
  return Moved(x, shape, [&](Coordinates at) {
    at.erase(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(added));
    for (size_t i = 0; i < at.size(); ++i) at[i] = x.shape()[static_cast<int>(i)] == 1 ? 0 : at[i];
    return at;
  });
}

struct ExpandCase {
  Shape input;
  const char* sizes;
  Shape expected;
};

TEST(Expand, RepeatsAxesOfOne) {
  const ExpandCase cases[] = {
      {{1}, "(24)", {24}},
      {{3, 1, 1}, "(-1,11,-1)", {3, 11, 1}},
      {{1, 8, 1, 9, 1}, "(2,8,3,-1,4)", {2, 8, 3, 9, 4}},
      {{3, 1}, "(2,3,4)", {2, 3, 4}},
      {{}, "(2,3)", {2, 3}},
      {{}, "None", {}},
      {{1, 3}, "(0,3)", {0, 3}},
      {{2, 3}, "(2,3)", {2, 3}},
  };
  for (const ExpandCase& c : cases) {
    SCOPED_TRACE(c.input.ToString() + " to " + c.sizes);
    for (DType dtype : MovedDTypes()) {
      const Tensor x = RandomTensor(dtype, c.input);
      OperatorCase("Tensor.expand")
          .Param("sizes", c.sizes)
          .Input(x)
          .ExpectOutputs({Expanded(x, c.expected)});
    }
  }
}

TEST(Expand, TakesComputedSizesAndOther) {
  const Tensor x = RandomTensor(DType::kF32, {2, 1});
  OperatorCase("Tensor.expand")
      .Input(x, "input")
      .Input(Value::List{3, -1, 4}, "sizes")
      .ExpectOutputs({Expanded(x, {3, 2, 4})});
  OperatorCase("Tensor.expand_as")
      .Input(x, "input")
      .Input(RandomTensor(DType::kBool, {2, 5}), "other")
      .ExpectOutputs({Expanded(x, {2, 5})});
}

TEST(Expand, RefusesWhatDoesNotFit) {
  const Tensor x = RandomTensor(DType::kF32, {2, 1});
  for (const char* sizes : {"(3,1)", "(2)", "(-1,2,1)", "(2,-2)", "(2,-1,-1,2,1)",
                            "(2147483647,2147483647,2,2147483647)", "(0,3)"}) {
    SCOPED_TRACE(sizes);
    OperatorCase("Tensor.expand")
        .Param("sizes", sizes)
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, "");
  }
  OperatorCase("Tensor.expand_as")
      .Input(x, "input")
      .Input(RandomTensor(DType::kF32, {3, 1}), "other")
      .ExpectError(ErrorCode::kInvalidArgument, "cannot expand (2,1) to (3,1)");
}

}  // namespace
}  // namespace oort::testing
