// SPDX-License-Identifier: MIT
// Indexing that pnnx leaves as ATen operators. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/short_tensors.h"

namespace oort::testing {
namespace {

TEST(AtenIndexWrite, AddsCopiesAndFills) {
  const Tensor x = Floats({1, 2, 3, 4, 5, 6}, {3, 2}), index = Ints({2, 0}, {2});
  const Tensor source = Floats({10, 20, 30, 40}, {2, 2});
  const auto write = [&](const char* type, const Value& value) {
    OperatorCase test(type);
    return test.Param("dim", "0").Input(x, "input").Input(index, "index").Input(value, "source");
  };
  write("aten::index_add", source).ExpectOutputs({Floats({31, 42, 3, 4, 15, 26}, {3, 2})});
  write("aten::index_add", source)
      .Param("alpha", "2")
      .ExpectOutputs({Floats({61, 82, 3, 4, 25, 46}, {3, 2})});
  write("aten::index_copy", source).ExpectOutputs({Floats({30, 40, 3, 4, 10, 20}, {3, 2})});
  write("aten::index_fill", 7).ExpectOutputs({Floats({7, 7, 3, 4, 7, 7}, {3, 2})});
  write("aten::index_reduce", source)
      .Param("reduce", "amin")
      .ExpectOutputs({Floats({1, 2, 3, 4, 5, 6}, {3, 2})});
  write("aten::index_add", Floats({1, 2}, {1, 2})).ExpectError(ErrorCode::kInvalidArgument, "fit");
  OperatorCase("aten::put")
      .Input(x)
      .Input(Ints({-1, 0}, {2}))
      .Input(Floats({8, 9}, {2}))
      .ExpectOutputs({Floats({9, 2, 3, 4, 5, 8}, {3, 2})});
  OperatorCase("aten::put")
      .Input(x)
      .Input(Ints({6}, {1}))
      .Input(Floats({8}, {1}))
      .ExpectError(ErrorCode::kInvalidArgument, "out of range");
}

}  // namespace
}  // namespace oort::testing
