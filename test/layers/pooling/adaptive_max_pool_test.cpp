// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "pooling_adaptive_reference.h"

namespace oort::testing {
namespace {

std::vector<Tensor> Maxima(const Tensor& x, const std::vector<int64_t>& sizes) {
  return {
      AdaptivePooled<double>(x, sizes, [](const PoolWindow& w) { return w.values[Best(w)]; }),
      AdaptivePooled<int64_t>(x, sizes, [](const PoolWindow& w) { return w.indices[Best(w)]; })};
}

void ExpectMaxima(const Tensor& x, int rank, const std::vector<int64_t>& sizes) {
  SCOPED_TRACE("input " + x.ToString() + " to " + PoolSpec::Text(sizes));
  const std::string suffix = std::to_string(rank) + "d";
  const auto both = [&](const std::vector<Tensor>& in) { return Maxima(in[0], sizes); };
  const auto values = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{Maxima(in[0], sizes)[0]};
  };
  OperatorCase("F.adaptive_max_pool" + suffix)
      .Param("output_size", PoolSpec::Text(sizes))
      .Param("return_indices", "True")
      .Input(x, "input")
      .Outputs(2)
      .ExpectLike(both);
  OperatorCase("F.adaptive_max_pool" + suffix)
      .Param("output_size", PoolSpec::Text(sizes))
      .Input(x)
      .ExpectLike(values);
  OperatorCase("nn.AdaptiveMaxPool" + suffix)
      .Param("output_size", PoolSpec::Text(sizes))
      .Param("return_indices", "False")
      .Input(x)
      .ExpectLike(values);
}

TEST(AdaptiveMaxPool, DividesTheInputEvenly) {
  const Tensor x1 = RandomTensor(DType::kF32, {2, 3, 31}),
               x2 = RandomTensor(DType::kF32, {3, 12, 19});
  const Tensor x3 = RandomTensor(DType::kF32, {2, 2, 7, 9, 11});
  for (int64_t size : {1, 2, 7, 31, 40}) ExpectMaxima(x1, 1, {size});
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{1, 1}, {7, 6}, {0, 3}, {5, 0}, {13, 40}}) {
    ExpectMaxima(x2, 2, sizes);
  }
  ExpectMaxima(x3, 3, {7, 6, 5});
  ExpectMaxima(x3, 3, {5, 0, 0});
}

TEST(AdaptiveMaxPool, TakesTheLastNanAndMinusInfinity) {
  Tensor x = RandomTensor(DType::kF32, {1, 5, 9});
  x.data<float>()[7] = NAN;
  x.data<float>()[13] = NAN;
  ExpectMaxima(x, 2, {1, 1});
  const Tensor low = Tensor::From<float>({-INFINITY, -INFINITY}, {1, 2});
  OperatorCase("F.adaptive_max_pool1d")
      .Param("output_size", "(1)")
      .Input(low)
      .Outputs(2)
      .ExpectOutputs(
          {Tensor::From<float>({-INFINITY}, {1, 1}), Tensor::From<int64_t>({0}, {1, 1})});
}

TEST(AdaptiveMaxPool, TheModuleGivesATuple) {
  // pnnx: nn.AdaptiveMaxPool2d → one operand → prim::TupleUnpack → values, indices.
  Graph graph;
  const int x = graph.AddOperand("0"), tuple = graph.AddOperand("1");
  const int values = graph.AddOperand("2"), indices = graph.AddOperand("3");
  graph.AddOperator({.type = "pnnx.Input", .name = "pnnx_input_0", .outputs = {x}});
  graph.AddOperator(
      {.type = "nn.AdaptiveMaxPool2d",
       .name = "pool",
       .inputs = {x},
       .outputs = {tuple},
       .params = {{"output_size", Parameter("(2,3)")}, {"return_indices", Parameter("True")}}});
  graph.AddOperator({.type = "prim::TupleUnpack",
                     .name = "unpack",
                     .inputs = {tuple},
                     .outputs = {values, indices}});
  graph.AddOperator({.type = "pnnx.Output", .name = "pnnx_output_0", .inputs = {values, indices}});
  Session session(RuntimeGraph::Build(std::move(graph)));
  const Tensor input = RandomTensor(DType::kF64, {2, 6, 7});
  const std::vector<Tensor> expected = Maxima(input, {2, 3});
  const std::vector<Tensor> got = session.Forward({input});
  ASSERT_EQ(got.size(), 2u);
  ExpectNear(got[0], expected[0]);
  ExpectNear(got[1], expected[1]);
}

TEST(AdaptiveMaxPool, RefusesWhatIsWrong) {
  const auto expect = [](const Tensor& x, const std::string& size, std::string_view message) {
    OperatorCase("F.adaptive_max_pool2d")
        .Param("output_size", size)
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  expect(RandomTensor(DType::kF32, {1, 4, 4}), "(-1,2)", "negative extent");
  expect(RandomTensor(DType::kF32, {4, 4}), "(1,1)", "expected an input of rank 3 or 4");
  expect(Tensor(DType::kI64, {1, 4, 4}), "(1,1)", "has dtype i64");
}

TEST(AdaptiveMaxPool, ATupleCountsForTheMemoryLimit) {
  const std::string text =
      "7767517\n3 2\n"
      "pnnx.Input pnnx_input_0 0 1 x #x=(1,3,10,7)f32\n"
      "nn.AdaptiveMaxPool2d pool 1 1 x y output_size=(4096,4096) return_indices=True\n"
      "pnnx.Output pnnx_output_0 1 0 y\n";
  Session session(RuntimeGraph::Build(ReadPnnx(*ByteSource::Owned(text), nullptr)),
                  {.threads = 1, .memory_limit = size_t{16} << 20});
  try {
    session.Forward({Tensor::Zeros(DType::kF32, {1, 3, 10, 7})});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(Name(error.code()), Name(ErrorCode::kLimit)) << error.what();
  }
}

}  // namespace
}  // namespace oort::testing
