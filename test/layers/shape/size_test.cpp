// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "oort/testing.h"

namespace oort::testing {
namespace {

/// An operator with one input, whose output need not be a tensor.
std::vector<Value> RunSize(const Tensor& x, const std::string& dim) {
  Graph graph;
  const int in = graph.AddOperand("in"), out = graph.AddOperand("out");
  Operator input, size, output;
  input.type = "pnnx.Input";
  input.name = "pnnx_input_0";
  input.outputs = {in};
  size.type = "Tensor.size";
  size.name = "size";
  size.inputs = {in};
  size.outputs = {out};
  if (!dim.empty()) size.params["dim"] = Parameter(dim);
  output.type = "pnnx.Output";
  output.name = "pnnx_output_0";
  output.inputs = {out};
  for (Operator* op : {&input, &size, &output}) graph.AddOperator(*op);
  return Session(RuntimeGraph::Build(graph)).Run({x});
}

TEST(Size, GivesExtents) {
  const Tensor x(DType::kF32, {2, 3, 4});
  EXPECT_EQ(RunSize(x, "1").at(0).AsInt(), 3);
  EXPECT_EQ(RunSize(x, "-1").at(0).AsInt(), 4);
  const std::vector<Value> all = RunSize(x, "");  // outputs are flattened
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2].AsInt(), 4);
  EXPECT_THROW(RunSize(x, "3"), Error);
  EXPECT_THROW(RunSize(Tensor::Scalar(1.0f), "0"), Error);
}

}  // namespace
}  // namespace oort::testing
