// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "oort/schema.h"

namespace oort {
namespace {

OperatorSchema ConvLike() {
  OperatorSchema schema({"test.conv"}, "for tests");
  schema.Tensor("input", kF32Only)
      .Attribute("weight")
      .OptionalAttribute("bias")
      .Ints("stride", 2, Value(1))
      .AtLeast(1)
      .Ints("padding", 2, Value(0))
      .AtLeast(0)
      .OneOf({"same", "valid"})
      .Bool("bias", true)
      .Float("scale", 1.0)
      .String("mode", "zeros")
      .OneOf({"zeros", "reflect"});
  return schema;
}

Operator OpWith(std::vector<int> inputs, std::vector<std::string> names = {}) {
  Operator op;
  op.type = "test.conv";
  op.name = "conv";
  op.line = 7;
  op.inputs = std::move(inputs);
  op.input_names = std::move(names);
  op.outputs = {9};
  return op;
}

std::string Problems(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) text += problem.message + "\n";
  return text;
}

TEST(BindArguments, TakesAttributesParametersAndDefaults) {
  Operator op = OpWith({4});
  op.attributes["weight"] = Tensor::Zeros(DType::kF32, {2, 2});
  op.params["stride"] = Parameter("(2,3)");
  op.params["padding"] = Parameter("same");
  op.params["scale"] = Parameter("2");
  std::vector<Problem> problems;
  const OperatorSchema schema = ConvLike();
  const BoundArgs bound = BindArguments(schema, op, problems);
  EXPECT_TRUE(problems.empty()) << Problems(problems);
  const auto at = [&](const char* name) -> const BoundArg& {
    return bound.args[static_cast<size_t>(schema.Find(name))];
  };
  EXPECT_EQ(at("input").input, 0);
  EXPECT_TRUE(at("@weight").value.IsTensor());
  EXPECT_TRUE(at("@bias").value.IsNone());
  EXPECT_TRUE(at("bias").value.AsBool());
  EXPECT_EQ(at("stride").value.AsInts(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(at("padding").value.AsString(), "same");
  EXPECT_DOUBLE_EQ(at("scale").value.AsFloat(), 2);
  EXPECT_EQ(at("mode").value.AsString(), "zeros");
}

TEST(BindArguments, OneNumberStandsForAllAxes) {
  Operator op = OpWith({4});
  op.attributes["weight"] = Tensor::Zeros(DType::kF32, {1});
  op.params["stride"] = Parameter("3");
  std::vector<Problem> problems;
  const OperatorSchema schema = ConvLike();
  const BoundArgs bound = BindArguments(schema, op, problems);
  EXPECT_TRUE(problems.empty()) << Problems(problems);
  EXPECT_EQ(bound.args[static_cast<size_t>(schema.Find("stride"))].value.AsInts(),
            (std::vector<int64_t>{3, 3}));
}

TEST(BindArguments, ASharedWeightComesBeforeTheData) {
  std::vector<Problem> problems;
  const OperatorSchema schema = ConvLike();
  const BoundArgs bound = BindArguments(schema, OpWith({5, 4}), problems);
  EXPECT_TRUE(problems.empty()) << Problems(problems);
  EXPECT_EQ(bound.args[static_cast<size_t>(schema.Find("@weight"))].input, 0);
  EXPECT_EQ(bound.args[static_cast<size_t>(schema.Find("input"))].input, 1);
}

TEST(BindArguments, ASharedWeightThatIsStoredTooIsPassedOver) {
  Operator op = OpWith({5, 4});
  op.attributes["weight"] = Tensor::Zeros(DType::kF32, {1});
  std::vector<Problem> problems;
  const OperatorSchema schema = ConvLike();
  const BoundArgs bound = BindArguments(schema, op, problems);
  EXPECT_TRUE(problems.empty()) << Problems(problems);
  EXPECT_TRUE(bound.args[static_cast<size_t>(schema.Find("@weight"))].value.IsTensor());
  EXPECT_TRUE(bound.args[static_cast<size_t>(schema.Find("@bias"))].value.IsNone());
  EXPECT_EQ(bound.args[static_cast<size_t>(schema.Find("input"))].input, 1);
}

TEST(BindArguments, NamesWinOverPositions) {
  OperatorSchema schema({"test.gather"}, "for tests");
  schema.Tensor("input", kF32Only).Tensor("index", DType::kI64);
  std::vector<Problem> problems;
  const BoundArgs bound = BindArguments(schema, OpWith({1, 2}, {"index", "input"}), problems);
  EXPECT_TRUE(problems.empty()) << Problems(problems);
  EXPECT_EQ(bound.args[0].input, 1);
  EXPECT_EQ(bound.args[1].input, 0);
}

TEST(BindArguments, AnOddNameFallsBackToThePosition) {
  OperatorSchema schema({"test.reshape"}, "for tests");
  schema.Tensor("input", kAllDTypes).Ints("shape");
  Operator op = OpWith({1}, {"mask"});
  op.params["shape"] = Parameter("(2,3)");
  std::vector<Problem> problems;
  EXPECT_EQ(BindArguments(schema, op, problems).args[0].input, 0);
  EXPECT_TRUE(problems.empty()) << Problems(problems);
}

TEST(BindArguments, VariadicTakesTheRest) {
  OperatorSchema schema({"test.cat"}, "for tests");
  schema.Tensors("tensors", kAllDTypes).Int("dim", 0);
  std::vector<Problem> problems;
  const BoundArgs bound = BindArguments(schema, OpWith({3, 3, 5}), problems);
  EXPECT_TRUE(problems.empty()) << Problems(problems);
  EXPECT_EQ(bound.variadic, (std::vector<int>{0, 1, 2}));
}

TEST(BindArguments, ReportsEverythingThatIsWrong) {
  Operator op = OpWith({});
  op.params["stride"] = Parameter("(0,1)");
  op.params["padding"] = Parameter("(1,2,3)");
  op.params["mode"] = Parameter("mirror");
  op.params["colour"] = Parameter("red");
  op.params["scale"] = Parameter("abc");
  op.attributes["extra"] = Tensor::Zeros(DType::kF32, {1});
  std::vector<Problem> problems;
  BindArguments(ConvLike(), op, problems);
  const std::string text = Problems(problems);
  for (const char* expected :
       {"unknown attribute '@extra'", "stride=(0,1): must be at least 1", "padding=(1,2,3)",
        "mode=mirror: must be one of zeros, reflect", "unknown parameter colour=red", "scale=abc",
        "input 'input' is missing", "attribute '@weight' is missing"}) {
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\nin\n" << text;
  }
  EXPECT_EQ(problems.size(), 8u) << text;
  for (const Problem& problem : problems) {
    EXPECT_EQ(problem.line, 7);
    EXPECT_EQ(problem.operator_name, "conv");
  }
}

TEST(BindArguments, ReportsTooManyInputs) {
  Operator op = OpWith({1, 2, 3, 4});
  op.attributes["weight"] = Tensor::Zeros(DType::kF32, {1});
  op.attributes["bias"] = Tensor::Zeros(DType::kF32, {1});
  for (const char* key : {"stride", "padding", "bias", "scale", "mode"}) {
    op.params[key] = Parameter(std::string(key) == "bias"   ? "True"
                               : std::string(key) == "mode" ? "zeros"
                                                            : "1");
  }
  std::vector<Problem> problems;
  BindArguments(ConvLike(), op, problems);
  ASSERT_EQ(problems.size(), 1u) << Problems(problems);
  EXPECT_NE(problems[0].message.find("1 more than it can take"), std::string::npos);
}

}  // namespace
}  // namespace oort
