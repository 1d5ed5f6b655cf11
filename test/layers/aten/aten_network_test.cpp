// SPDX-License-Identifier: MIT
// Operators that are a few calls of others, and what they refuse. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/aten/aten_values.h"

namespace oort::testing {
namespace {

void ExpectRefused(const char* type, std::initializer_list<Value> inputs, const char* text,
                   int outputs = 1, ErrorCode code = ErrorCode::kInvalidArgument) {
  SCOPED_TRACE(type);
  OperatorCase tested(type);
  for (const Value& input : inputs) tested.Input(input);
  tested.Outputs(outputs).ExpectError(code, text);
}

TEST(AtenDecomposition, ConvolvesByAFlag) {
  const Tensor x = F({1, 2, 3, 4}, {1, 1, 4}), w = F({1, 10}, {1, 1, 2});
  const Value one = L({1}), none = L({0});
  Check("aten::convolution", {x, w, Value(), one, none, one, Value(false), none, Value(1)},
        {F({21, 32, 43}, {1, 1, 3})});
  Check("aten::convolution",
        {x, w, F({0.5}, {1}), L({2}), none, one, Value(true), L({1}), Value(1)},
        {F({1.5, 10.5, 2.5, 20.5, 3.5, 30.5, 4.5, 40.5, 0.5}, {1, 1, 9})});
  Check("aten::_convolution_mode", {x, w, Value(), one, Value("same"), one, Value(1)},
        {F({21, 32, 43, 4}, {1, 1, 4})});
  ExpectRefused("aten::convolution",
                {x, F({1}, {1}), Value(), one, none, one, Value(false), none, Value(1)},
                "expected a weight of rank 3 to 5");
}

TEST(AtenDecomposition, SamplesAndResizes) {
  const Tensor x = F({1, 2, 3, 4}, {1, 1, 2, 2}), grid = F({0, 0, -1, 1}, {1, 1, 2, 2});
  Check("aten::grid_sampler", {x, grid, Value(0), Value(0), Value(true)},
        {F({2.5, 3}, {1, 1, 1, 2})});
  ExpectRefused("aten::grid_sampler", {x, grid, Value(3), Value(0), Value(true)},
                "expected a mode below 3, got 3");
  const Tensor wanted = F({1, 1.5, 2, 2, 2.5, 3, 3, 3.5, 4}, {1, 1, 3, 3});
  Check("aten::upsample_bilinear2d", {x, L({3, 3}), Value(true), Value(), Value()}, {wanted});
  Check("aten::upsample_bilinear2d", {x, Value(), Value(true), L({1.5, 1.5})}, {wanted});
  Check("aten::upsample_linear1d", {F({1, 2}, {1, 1, 2}), L({4}), Value(false), Value(2.0)},
        {F({1, 1.25, 1.75, 2}, {1, 1, 4})});
}

TEST(AtenDecomposition, ReadsBytesAsAnotherDType) {
  Check("aten::view", {F({1, -2}, {1, 2}), Value(3)},
        {Tensor::From<int32_t>({0x3f800000, -0x40000000}, {1, 2})});
  Check("aten::view", {F({1, -2}, {1, 2}), Value(2)},
        {Tensor::From<int16_t>({0, 0x3f80, 0, -0x4000}, {1, 4})});
  Check("aten::view", {F({1, -2}, {1, 2}), L({2, -1})}, {F({1, -2}, {2, 1})});
  ExpectRefused("aten::view", {F({1, 2, 3}, {1, 3}), Value(4)}, "whole elements of i64");
}

TEST(AtenDecomposition, SplitsAtComputedPlaces) {
  const Tensor x = F({1, 2, 3, 4}, {4});
  for (const auto& parts : {RunAten("aten::tensor_split", {x}, {"[1,3]", "0"}),
                            RunAten("aten::tensor_split", {x, I({1, 3}, {2})}, {"0"}),
                            RunAten("aten::tensor_split", {x, I({3}, {})}, {"0"})}) {
    ASSERT_EQ(parts.size(), 3u);
    ExpectNear(parts[2], F({4}, {1}));
  }
  Check("aten::repeat_interleave", {I({2, 0, 1}, {3}), Value()}, {I({0, 0, 2}, {3})});
  Check("aten::repeat_interleave", {x, Value(2), Value(0), Value()},
        {F({1, 1, 2, 2, 3, 3, 4, 4}, {8})});
  Check("aten::einsum", {Value("i,i->"), L({x, x}), Value()}, {Tensor::Scalar(30.0f)});
  Check("aten::index", {x, L({I({3, 0}, {2})})}, {F({4, 1}, {2})});
}

TEST(AtenDecomposition, RefusesWrongArguments) {
  const Tensor x = F({1, 2, 3, 4}, {2, 2});
  ExpectRefused("aten::sum_to_size", {x, L({3})}, "expected a size that expands to (2,2)");
  ExpectRefused("aten::sum_to_size", {x, L({1, 1, 1})}, "more axes");
  ExpectRefused("aten::fill_diagonal", {F({1, 2}, {2}), Value(1), Value(false)},
                "expected a matrix");
  ExpectRefused("aten::combinations", {x, Value(2), Value(false)}, "expected a vector");
  ExpectRefused("aten::nonzero_static", {x, Value(-1), Value(0)}, "at least 0");
  ExpectRefused("aten::mse_loss", {x, x, Value(3)}, "expected reduction 0, 1 or 2");
  ExpectRefused("aten::trapezoid", {x, F({1, 2, 3}, {3}), Value(1)}, "as many coordinates");
  ExpectRefused("aten::gradient", {F({1}, {1}), Value(), Value(0), Value(1)},
                "at least 2 elements");
  ExpectRefused("aten::gradient", {x, Value(), Value(0), Value(2)}, "edge_order 1", 1,
                ErrorCode::kUnsupported);
  ExpectRefused("aten::native_group_norm",
                {x, Value(), Value(), Value(0), Value(2), Value(1), Value(1), Value(1e-5)},
                "expected N and group", 3);
  ExpectRefused("aten::lstm",
                {F({1}, {1, 1, 1}), L({F({1}, {1, 1, 1})}), L({x, x}), Value(true), Value(1),
                 Value(0.0), Value(false), Value(false), Value(false)},
                "expected the weights of 1 layers, got 2", 3);
}

}  // namespace
}  // namespace oort::testing
