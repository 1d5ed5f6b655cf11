// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/shape/moved_elements.h"

namespace oort::testing {
namespace {

TEST(Index, ReadsListsInTheModel) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {3, 6});
    OperatorCase("Tensor.index")
        .Param("expr", "[[2,1],[0,-1]]")
        .Input(x)
        .ExpectOutputs({Moved(x, {2}, [](const Coordinates& at) {
          return at[0] == 0 ? Coordinates{2, 0} : Coordinates{1, 5};
        })});
    OperatorCase("Tensor.index")
        .Param("expr", "[None,[1,0,1]]")
        .Input(x)
        .ExpectOutputs({Moved(x, {3, 3}, [](const Coordinates& at) {
          return Coordinates{at[0], at[1] == 1 ? 0 : 1};
        })});
    OperatorCase("Tensor.index")
        .Param("expr", "[[True,False,True]]")
        .Input(x)
        .ExpectOutputs({Moved(x, {2, 6}, [](const Coordinates& at) {
          return Coordinates{at[0] * 2, at[1]};
        })});
    // A matrix of indices puts two axes in the place of one.
    OperatorCase("Tensor.index")
        .Param("expr", "[[[0,1],[2,0]]]")
        .Input(x)
        .ExpectOutputs({Moved(x, {2, 2, 6}, [](const Coordinates& at) {
          const int64_t rows[2][2] = {{0, 1}, {2, 0}};
          return Coordinates{rows[at[0]][at[1]], at[2]};
        })});
  }
}

OperatorCase Indexed(const Tensor& x, Value::List entries) {
  return OperatorCase("Tensor.index").Input(x, "input").Input(std::move(entries), "expr");
}

TEST(Index, BroadcastsIndices) {
  const Tensor x = RandomTensor(DType::kF32, {4, 5, 6});
  const Tensor rows = Tensor::From<int64_t>({3, 0}, {2, 1});
  const Tensor columns = Tensor::From<int32_t>({1, 4, 2}, {3});
  Indexed(x, {rows, columns}).ExpectOutputs({Moved(x, {2, 3, 6}, [&](const Coordinates& at) {
    return Coordinates{rows.data<int64_t>()[at[0]], columns.data<int32_t>()[at[1]], at[2]};
  })});
  // Side by side, the indexed axes stay where they are.
  Indexed(x, {Value(), rows, columns})
      .ExpectOutputs({Moved(x, {4, 2, 3}, [&](const Coordinates& at) {
        return Coordinates{at[0], rows.data<int64_t>()[at[1]], columns.data<int32_t>()[at[2]]};
      })});
  // Apart, they come first.
  Indexed(x, {rows, Value(), columns})
      .ExpectOutputs({Moved(x, {2, 3, 5}, [&](const Coordinates& at) {
        return Coordinates{rows.data<int64_t>()[at[0]], at[2], columns.data<int32_t>()[at[1]]};
      })});
  Indexed(x, {Value(), Value()}).ExpectOutputs({x});
}

TEST(Index, LeavesInnerAxesBetweenApartIndices) {
  const Tensor x = RandomTensor(DType::kF32, {3, 4, 2, 5});
  const Tensor index = Tensor::From<int64_t>({2, 0, 1}, {3});
  const Tensor other = Tensor::From<int64_t>({1, 1, 0}, {3});
  Indexed(x, {index, Value(), other})
      .ExpectOutputs({Moved(x, {3, 4, 5}, [&](const Coordinates& at) {
        return Coordinates{index.data<int64_t>()[at[0]], at[1], other.data<int64_t>()[at[0]],
                           at[2]};
      })});
}

TEST(Index, TakesMasksWhoseCountIsNotKnown) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 4});
  const Tensor mask = Tensor::From<bool>({true, false, true, false, false, true}, {2, 3});
  const Coordinates rows[] = {{0, 0}, {0, 2}, {1, 2}};
  Indexed(x, {mask}).ExpectOutputs({Moved(x, {3, 4}, [&](const Coordinates& at) {
    return Coordinates{rows[at[0]][0], rows[at[0]][1], at[1]};
  })});
  // x[mask] may also come as the mask itself.
  OperatorCase("Tensor.index")
      .Input(x, "input")
      .Input(mask, "expr")
      .ExpectOutputs({Moved(x, {3, 4}, [&](const Coordinates& at) {
        return Coordinates{rows[at[0]][0], rows[at[0]][1], at[1]};
      })});
  const Tensor none = Tensor::From<bool>({false, false}, {2});
  Indexed(x, {none}).ExpectOutputs({Tensor(DType::kF32, {0, 3, 4})});
}

TEST(Index, RefusesWrongIndices) {
  const Tensor x = RandomTensor(DType::kF32, {3, 4});
  const auto refuse = [&](Value::List entries, const char* text) {
    Indexed(x, std::move(entries)).ExpectError(ErrorCode::kInvalidArgument, text);
  };
  refuse({Tensor::From<int64_t>({3}, {1})}, "index 3 is out of range for an axis of 3");
  refuse({Tensor::From<int64_t>({-4}, {1})}, "index -4 is out of range");
  refuse({0, 0, 0}, "3 indices for shape (3,4)");
  refuse({Tensor::From<bool>({true, false}, {2})}, "a mask (2) does not fit shape (3,4)");
  refuse({Tensor::Scalar(true)}, "a mask");
  refuse({Tensor::From<float>({1}, {1})}, "expected integers or bools");
  refuse({Tensor(DType::kI64, {2}), Tensor(DType::kI64, {3})}, "do not broadcast");
  refuse({Value(Value::List{Value::List{0, 1}, Value::List{0}})}, "differ in length");
}

TEST(Index, RefusesListsThatAreNone) {
  const Tensor x = RandomTensor(DType::kF32, {3, 4});
  for (const char* text : {"[", "[1", "[1,", "[1,]", "1", "[[1,2]", "[None,abc]", "[1]2", "[1.5]",
                           "[[[[[[[[[[[[1]]]]]]]]]]]]", "[99999999999999999999]"}) {
    SCOPED_TRACE(text);
    OperatorCase("Tensor.index")
        .Param("expr", text)
        .Input(x)
        .ExpectError(ErrorCode::kInvalidModel, "expected an index list");
  }
}

OperatorCase Put(const Tensor& x, Value::List indices, Value values, const char* accumulate) {
  return OperatorCase("Tensor.index_put")
      .Param("accumulate", accumulate)
      .Input(x, "input")
      .Input(std::move(indices), "indices")
      .Input(std::move(values), "values");
}

TEST(IndexPut, WritesValues) {
  const Tensor x = RangeTensor(DType::kF32, {5});
  const Tensor index = Tensor::From<int64_t>({1, -1}, {2});
  Put(x, {index}, Tensor::From<float>({8, 9}, {2}), "False")
      .ExpectOutputs({Tensor::From<float>({0, 8, 2, 3, 9}, {5})});
  Put(x, {index}, Tensor::Scalar(7.0f), "False")
      .ExpectOutputs({Tensor::From<float>({0, 7, 2, 3, 7}, {5})});
  OperatorCase("Tensor.index_put")
      .Param("accumulate", "False")
      .Param("values", "45.0")
      .Input(x, "input")
      .Input(Value::List{index}, "indices")
      .ExpectOutputs({Tensor::From<float>({0, 45, 2, 3, 45}, {5})});
  Put(x, {Tensor(DType::kI64, {0})}, Tensor::Scalar(7.0f), "False").ExpectOutputs({x});
}

TEST(IndexPut, Accumulates) {
  const Tensor x = Tensor::Zeros(DType::kF32, {4});
  const Tensor index = Tensor::From<int64_t>({1, 1, 3}, {3});
  Put(x, {index}, Tensor::From<float>({1, 2, 3}, {3}), "True")
      .ExpectOutputs({Tensor::From<float>({0, 3, 0, 3}, {4})});
  const Tensor integers = Tensor::From<int8_t>({127, 1, 1, 1}, {4});
  Put(integers, {Tensor::From<int64_t>({0, 1}, {2})}, Tensor::From<int8_t>({1, 1}, {2}), "True")
      .ExpectOutputs({Tensor::From<int8_t>({-128, 2, 1, 1}, {4})});
}

/// x[expr] where the trace says that x of rank 2 gives `traced`.
std::vector<Tensor> RunTracedIndex(const Tensor& x, const char* expr, const Shape& traced) {
  Graph graph;
  const int in = graph.AddOperand("0"), out = graph.AddOperand("1");
  graph.operands[static_cast<size_t>(in)].has_shape = true;
  graph.operands[static_cast<size_t>(in)].shape = Shape{3, 4};
  graph.operands[static_cast<size_t>(out)].has_shape = true;
  graph.operands[static_cast<size_t>(out)].shape = traced;
  graph.AddOperator({.type = "pnnx.Input", .name = "pnnx_input_0", .outputs = {in}});
  graph.AddOperator({.type = "Tensor.index",
                     .name = "tested",
                     .inputs = {in},
                     .outputs = {out},
                     .params = {{"expr", Parameter(expr)}}});
  graph.AddOperator({.type = "pnnx.Output", .name = "pnnx_output_0", .inputs = {out}});
  return Session(RuntimeGraph::Build(std::move(graph))).Forward({x});
}

TEST(Index, RefusesAnIndexThatLostItsAxes) {
  const Tensor x = RangeTensor(DType::kF32, {3, 4});
  ExpectNear(RunTracedIndex(x, "[[0,1],[1,3]]", {2})[0], Tensor::From<float>({1, 7}, {2}));
  try {
    RunTracedIndex(x, "[[0,1],[1,3]]", {2, 2});
    FAIL() << "an index of two axes was taken for one of one axis";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("lost elements"), std::string::npos);
  }
  // Another rank than the traced one says nothing.
  EXPECT_EQ(RunTracedIndex(x.Reshaped({3, 2, 2}), "[[0,1],[1,0]]", {2})[0].shape(), Shape({2, 2}));
}

TEST(IndexPut, WritesRowsColumnsAndMasks) {
  const Tensor x = Tensor::Zeros(DType::kF32, {2, 3});
  Put(x, {Tensor::From<int64_t>({1}, {1})}, Tensor::From<float>({1, 2, 3}, {3}), "False")
      .ExpectOutputs({Tensor::From<float>({0, 0, 0, 1, 2, 3}, {2, 3})});
  Put(x, {Value(), Tensor::From<int64_t>({2, 0}, {2})}, Tensor::From<float>({1, 2}, {2}), "False")
      .ExpectOutputs({Tensor::From<float>({2, 0, 1, 2, 0, 1}, {2, 3})});
  Put(x, {Tensor::From<bool>({true, false, true, false, true, false}, {2, 3})},
      Tensor::Scalar(5.0f), "False")
      .ExpectOutputs({Tensor::From<float>({5, 0, 5, 0, 5, 0}, {2, 3})});
  // Indices apart from each other: the free axis lies behind them in the values.
  const Tensor cube = Tensor::Zeros(DType::kF32, {2, 2, 2});
  Put(cube, {Tensor::From<int64_t>({0, 1}, {2}), Value(), Tensor::From<int64_t>({1, 0}, {2})},
      Tensor::From<float>({1, 2, 3, 4}, {2, 2}), "False")
      .ExpectOutputs({Tensor::From<float>({0, 1, 0, 2, 3, 0, 4, 0}, {2, 2, 2})});
}

TEST(IndexPut, RefusesWhatDoesNotFit) {
  const Tensor x = RangeTensor(DType::kF32, {4});
  Put(x, {Tensor::From<int64_t>({4}, {1})}, Tensor::Scalar(1.0f), "False")
      .ExpectError(ErrorCode::kInvalidArgument, "index 4 is out of range");
  Put(x, {Tensor::From<int64_t>({0, 1}, {2})}, Tensor::From<float>({1, 2, 3}, {3}), "False")
      .ExpectError(ErrorCode::kInvalidArgument, "values (3) do not broadcast to (2)");
  Put(x, {Tensor::From<int64_t>({0}, {1})}, Tensor::From<float>({1, 2}, {2}), "False")
      .ExpectError(ErrorCode::kInvalidArgument, "values (2) do not broadcast to (1)");
}

}  // namespace
}  // namespace oort::testing
