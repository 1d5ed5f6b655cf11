// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "moved_elements.h"

namespace oort::testing {
namespace {

struct ReshapeCase {
  Shape input;
  const char* shape;
  Shape expected;
};

TEST(Reshape, GivesTheWantedShape) {
  const ReshapeCase cases[] = {
      {{2, 3, 4}, "(24)", {24}},
      {{2, 3, 4}, "(4,-1)", {4, 6}},
      {{2, 3, 4}, "(-1)", {24}},
      {{2, 3, 4}, "(0,-1)", {2, 12}},  // 0 keeps the input's extent
      {{2, 3, 4}, "(0,0,2,-1)", {2, 3, 2, 2}},
      {{2, 3, 4}, "(1,2,1,3,1,4,1,1)", {1, 2, 1, 3, 1, 4, 1, 1}},
      {{1}, "None", {}},  // an empty list is written as None
      {{}, "(1,1)", {1, 1}},
      {{}, "(-1)", {1}},
      {{2, 0, 4}, "(0,5)", {0, 5}},  // no elements: 0 is 0
      {{0, 4}, "(0,-1)", {0, 4}},    // … unless -1 needs it to keep an extent
      {{0, 4}, "(1,-1)", {1, 0}},
  };
  for (const ReshapeCase& c : cases) {
    SCOPED_TRACE(c.input.ToString() + " to " + c.shape);
    for (DType dtype : MovedDTypes()) {
      const Tensor x = RandomTensor(dtype, c.input);
      OperatorCase("Tensor.reshape")
          .Param("shape", c.shape)
          .Input(x, "input")
          .ExpectOutputs({x.Reshaped(c.expected)});
    }
  }
}

TEST(Reshape, TakesAComputedShape) {
  const Tensor x = RandomTensor(DType::kF32, {2, 6});
  OperatorCase("Tensor.view")
      .Input(x, "input")
      .Input(Value::List{3, -1}, "shape")
      .ExpectOutputs({x.Reshaped({3, 4})});
  // An odd name falls back to the position.
  OperatorCase("Tensor.reshape")
      .Input(x, "input")
      .Input(Value::List{Tensor::Scalar<int64_t>(4), 3}, "mask")
      .ExpectOutputs({x.Reshaped({4, 3})});
}

TEST(Reshape, RefusesWhatDoesNotFit) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 4});
  for (const char* shape :
       {"(5,-1)", "(23)", "(-1,-1)", "(-5,12)", "(-2,-1)", "(2,3,4,0)", "(0,0,0,0)",
        "(-1,2147483647,2147483647,2147483647)", "(2147483647,2147483647,2147483647,2147483647)"}) {
    SCOPED_TRACE(shape);
    OperatorCase("Tensor.reshape")
        .Param("shape", shape)
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, "");
  }
  OperatorCase("Tensor.reshape")
      .Param("shape", "(1,1,1,1,1,1,1,1,24)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "rank 9");
  OperatorCase("Tensor.reshape")
      .Param("shape", "abc")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "shape=abc");
}

TEST(Reshape, DropsAnExtentTooManyByTheTracedRank) {
  const auto run = [](const char* shape, const Shape& traced) {
    Graph graph;
    const int in = graph.AddOperand("0"), out = graph.AddOperand("1");
    graph.operands[static_cast<size_t>(out)].has_shape = true;
    graph.operands[static_cast<size_t>(out)].shape = traced;
    graph.AddOperator({.type = "pnnx.Input", .name = "pnnx_input_0", .outputs = {in}});
    graph.AddOperator({.type = "Tensor.reshape",
                       .name = "tested",
                       .inputs = {in},
                       .outputs = {out},
                       .params = {{"shape", Parameter(shape)}}});
    graph.AddOperator({.type = "pnnx.Output", .name = "pnnx_output_0", .inputs = {out}});
    const Tensor x = RangeTensor(DType::kF32, {2, 3, 4});
    return Session(RuntimeGraph::Build(std::move(graph))).Forward({x})[0].shape();
  };
  EXPECT_EQ(run("(3,8,8)", {3, 8}), Shape({3, 8}));
  EXPECT_EQ(run("(3,8,-1)", {3, 8}), Shape({3, 8}));
  EXPECT_EQ(run("(3,8,2,4)", {3, 8}), Shape({3, 8}));
  EXPECT_EQ(run("(3,8,1)", {3, 8, 1}), Shape({3, 8, 1}));
  EXPECT_EQ(run("(3,8,1)", {24, 1}), Shape({3, 8, 1}));
}

TEST(Reshape, TakesAnUnknownExtentTimesHeads) {
  const Tensor x = RangeTensor(DType::kF32, {3, 4, 2});
  OperatorCase("Tensor.reshape")
      .Param("shape", "(-4,2)")
      .Input(x)
      .ExpectOutputs({x.Reshaped({12, 2})});
}

TEST(ReshapeAs, TakesTheShapeOnly) {
  const Tensor x = RandomTensor(DType::kF32, {2, 6});
  OperatorCase("Tensor.reshape_as")
      .Input(x, "input")
      .Input(RandomTensor(DType::kI64, {3, 4}), "other")
      .ExpectOutputs({x.Reshaped({3, 4})});
  OperatorCase("Tensor.reshape_as")
      .Input(x, "input")
      .Input(RandomTensor(DType::kI64, {3, 5}), "other")
      .ExpectError(ErrorCode::kInvalidArgument, "cannot reshape (2,6) to (3,5)");
}

}  // namespace
}  // namespace oort::testing
