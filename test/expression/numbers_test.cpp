// SPDX-License-Identifier: MIT
// Arithmetic on numbers, sizes and lists: what Infer computes.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "layers/expression/engine.h"

namespace oort::expression {
namespace {

Value Evaluate(const std::string& text, const std::vector<Value>& values = {}) {
  std::vector<const Value*> operands;
  for (const Value& value : values) operands.push_back(&value);
  return Engine(Parse(text), Isa::kScalar).Infer(operands);
}

std::string Text(const std::string& text, const std::vector<Value>& values = {}) {
  return Evaluate(text, values).ToString();
}

std::string ErrorOf(const std::string& text, const std::vector<Value>& values = {}) {
  try {
    Evaluate(text, values);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ExpressionNumbers, IntegersStayIntegers) {
  EXPECT_TRUE(Evaluate("3").IsInt());
  EXPECT_EQ(Text("add(2,3)"), "5");
  EXPECT_EQ(Text("sub(2,3)"), "-1");
  EXPECT_EQ(Text("mul(-2,3)"), "-6");
  EXPECT_EQ(Text("floor_divide(-7,2)"), "-4");
  EXPECT_EQ(Text("floor_divide(7,-2)"), "-4");
  EXPECT_EQ(Text("remainder(-7,3)"), "2");
  EXPECT_EQ(Text("remainder(7,-3)"), "-2");
  EXPECT_EQ(Text("fmod(-7,3)"), "-1");
  EXPECT_EQ(Text("max(3,5)"), "5");
  EXPECT_EQ(Text("min(3,5)"), "3");
  EXPECT_EQ(Text("pow(3,4)"), "81");
  EXPECT_EQ(Text("square(-5)"), "25");
  EXPECT_EQ(Text("neg(5)"), "-5");
  EXPECT_EQ(Text("abs(-5)"), "5");
  EXPECT_EQ(Text("and(6,3)"), "2");
  EXPECT_EQ(Text("or(6,3)"), "7");
  EXPECT_EQ(Text("xor(6,3)"), "5");
  EXPECT_EQ(Text("lshift(3,4)"), "48");
  EXPECT_EQ(Text("rshift(-9,1)"), "-5");
  EXPECT_EQ(Text("add(True,2)"), "3");
  EXPECT_EQ(Text("and(True,False)"), "False");
  EXPECT_EQ(Text("gt(3,2)"), "True");
  EXPECT_EQ(Text("logical_not(0)"), "True");
}

TEST(ExpressionNumbers, FloatsWhereTorchGivesFloats) {
  EXPECT_EQ(Text("div(6,3)"), "2.0");
  EXPECT_EQ(Text("div(1,4)"), "0.25");
  EXPECT_EQ(Text("pow(2,-1)"), "0.5");
  EXPECT_EQ(Text("sqrt(16)"), "4.0");
  EXPECT_EQ(Text("mul(2,1.5)"), "3.0");
  EXPECT_EQ(Text("remainder(-5.5,2)"), "0.5");
  EXPECT_EQ(Text("reciprocal(4)"), "0.25");
  EXPECT_EQ(Text("relu(-1.5)"), "0.0");
  EXPECT_EQ(Text("leaky_relu(-2.0,0.5)"), "-1.0");
  EXPECT_EQ(Text("where(True,1.5,2)"), "1.5");
  EXPECT_EQ(Text("clamp(5,None,3)"), "3");
  EXPECT_EQ(Text("relu6(9)"), "6");
  EXPECT_EQ(Text("torch.float(3)"), "3.0");
}

TEST(ExpressionNumbers, RoundingGivesIntegers) {
  EXPECT_EQ(Text("floor(div(7,2))"), "3");
  EXPECT_EQ(Text("ceil(2.1)"), "3");
  EXPECT_EQ(Text("round(2.5)"), "2");
  EXPECT_EQ(Text("trunc(-2.7)"), "-2");
  EXPECT_EQ(Text("int(-2.7)"), "-2");
  EXPECT_EQ(Text("int(True)"), "1");
  EXPECT_EQ(Text("torch.long(2.9)"), "2");
  EXPECT_NE(ErrorOf("int(inf)").find("column 1: no int is"), std::string::npos);
  EXPECT_NE(ErrorOf("int(nan)").find("column 1: no int is"), std::string::npos);
}

TEST(ExpressionNumbers, WrapsInsteadOfOverflowing) {
  const std::string least = "-9223372036854775808", most = "9223372036854775807";
  EXPECT_EQ(Text("add(" + most + ",1)"), least);
  EXPECT_EQ(Text("neg(" + least + ")"), least);
  EXPECT_EQ(Text("abs(" + least + ")"), least);
  EXPECT_EQ(Text("mul(" + most + ",2)"), "-2");
  EXPECT_EQ(Text("floor_divide(" + least + ",-1)"), least);
  EXPECT_EQ(Text("remainder(" + least + ",-1)"), "0");
  EXPECT_EQ(Text("fmod(" + least + ",-1)"), "0");
  EXPECT_EQ(Text("lshift(1,64)"), "0");
  EXPECT_EQ(Text("lshift(1,-1)"), "0");
  EXPECT_EQ(Text("rshift(-8,100)"), "-1");
  EXPECT_NE(ErrorOf("floor_divide(1,0)").find("divided by zero"), std::string::npos);
  EXPECT_NE(ErrorOf("remainder(1,sub(1,1))").find("column 1: "), std::string::npos);
}

TEST(ExpressionNumbers, ComplexNumbers) {
  EXPECT_EQ(Text("mul(0.0+1.0j,0.0+1.0j)"), "-1.0+0.0j");
  EXPECT_EQ(Text("abs(3.0+4.0j)"), "5.0");
  EXPECT_EQ(Text("imag(3.0+4.0j)"), "4.0");
  EXPECT_NE(ErrorOf("floor(1.0+1.0j)").find("'floor' does not take"), std::string::npos);
}

TEST(ExpressionNumbers, SizesAndLists) {
  const Value image = Tensor::Meta(DType::kF32, {2, 3, 40, 50});
  EXPECT_EQ(Text("size(@0,2)", {image}), "40");
  EXPECT_EQ(Text("size(@0,-1)", {image}), "50");
  EXPECT_EQ(Text("size(@0)", {image}), "(2,3,40,50)");
  EXPECT_EQ(Text("[1,6,size(@0,2),size(@0,3)]", {image}), "(1,6,40,50)");
  EXPECT_EQ(Text("[-1,floor_divide(size(@0,3),2)]", {image}), "(-1,25)");
  EXPECT_EQ(Text("[@0,-1]", {Value(7)}), "(7,-1)");
  EXPECT_EQ(Text("[]"), "()");
  EXPECT_EQ(Text("[[1,2],reflect,None,0.5]"), "((1,2),reflect,None,0.5)");
  EXPECT_EQ(Text("size(add(@0,@1),0)", {image, image}), "2");
  EXPECT_TRUE(Evaluate("None").IsNone());
  EXPECT_EQ(Evaluate("ij").AsString(), "ij");
  const Value list = Evaluate("[None,@0]", {image});
  EXPECT_TRUE(list.AsList().at(0).IsNone());
  EXPECT_EQ(list.AsList().at(1).AsTensor().shape(), Shape({2, 3, 40, 50}));
  EXPECT_NE(ErrorOf("size(@0,4)", {image}).find("column 1: axis 4"), std::string::npos);
  EXPECT_NE(ErrorOf("size(3)").find("size() takes a tensor"), std::string::npos);
  EXPECT_NE(ErrorOf("add(None,1)").find("takes tensors and numbers, got None"), std::string::npos);
  EXPECT_NE(ErrorOf("add([1],1)").find("takes tensors and numbers, got a list"), std::string::npos);
  EXPECT_NE(ErrorOf("add(@1,1)", {Value(1)}).find("column 5: '@1'"), std::string::npos);
}

TEST(ExpressionNumbers, WhatDependsOnElementsIsDeferred) {
  const Value unknown = Tensor::Meta(DType::kI64, {});
  const Value known = Tensor::Scalar<int64_t>(5), floats = Tensor::From<float>({2.75f}, {1});
  EXPECT_TRUE(Evaluate("int(@0)", {unknown}).IsDeferred());
  EXPECT_TRUE(Evaluate("[int(@0),1]", {unknown}).IsDeferred());
  EXPECT_TRUE(Evaluate("add(int(@0),1)", {unknown}).IsDeferred());
  EXPECT_TRUE(Evaluate("size(@0,int(@1))", {known, unknown}).IsDeferred());
  EXPECT_TRUE(Evaluate("add(@0,1)", {Value::Deferred()}).IsDeferred());
  EXPECT_EQ(Text("int(@0)", {known}), "5");
  EXPECT_EQ(Text("int(mul(@0,2))", {floats}), "5");
  EXPECT_EQ(Text("[int(@0),add(int(@1),1)]", {known, floats}), "(5,3)");
  // The dtype of a tensor is known even where a number in it is not.
  EXPECT_EQ(Text("mul(@0,int(@1))", {floats, unknown}), "(1)f32");
  EXPECT_EQ(Text("add(@0,sqrt(int(@0)))", {unknown}), "()f32");
  EXPECT_EQ(Text("add(@0,floor(sqrt(int(@0))))", {unknown}), "()i64");
  EXPECT_NE(ErrorOf("int(@0)", {Tensor::Meta(DType::kI64, {2})}).find("one element"),
            std::string::npos);
}

/// Random expressions, evaluated here by plain recursion.
class RandomExpression {
 public:
  explicit RandomExpression(uint64_t seed) : random_(seed) {}

  struct Result {
    std::string text;
    bool whole = true;
    int64_t integer = 0;
    double real = 0;
    double AsReal() const { return whole ? static_cast<double>(integer) : real; }
  };

  Result Make(int depth) {
    if (depth == 0 || Draw(4) == 0) return Leaf();
    switch (Draw(9)) {
      case 0: return Both("add", depth, [](auto a, auto b) { return a + b; });
      case 1: return Both("sub", depth, [](auto a, auto b) { return a - b; });
      case 2: return Both("mul", depth, [](auto a, auto b) { return a * b; });
      case 3: return Both("max", depth, [](auto a, auto b) { return a > b ? a : b; });
      case 4: return Both("minimum", depth, [](auto a, auto b) { return a < b ? a : b; });
      case 5: return Divide(depth);
      case 6: return One("neg", depth, [](auto a) { return -a; });
      case 7: return One("abs", depth, [](auto a) { return a < 0 ? -a : a; });
      default: return Round(depth);
    }
  }

 private:
  int Draw(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }

  Result Leaf() {
    Result leaf;
    leaf.whole = Draw(3) != 0;
    leaf.integer = Draw(19) - 9;
    leaf.real = static_cast<double>(leaf.integer) / 4;
    leaf.text = leaf.whole ? std::to_string(leaf.integer) : Value(leaf.real).ToString();
    return leaf;
  }

  template <typename Op>
  Result Both(const std::string& name, int depth, Op op) {
    const Result a = Make(depth - 1), b = Make(depth - 1);
    Result result;
    result.text = name + "(" + a.text + "," + b.text + ")";
    result.whole = a.whole && b.whole;
    if (result.whole) {
      result.integer = op(a.integer, b.integer);
    } else {
      result.real = op(a.AsReal(), b.AsReal());
    }
    return result;
  }

  template <typename Op>
  Result One(const std::string& name, int depth, Op op) {
    const Result a = Make(depth - 1);
    Result result = a;
    result.text = name + "(" + a.text + ")";
    if (a.whole) {
      result.integer = op(a.integer);
    } else {
      result.real = op(a.real);
    }
    return result;
  }

  Result Divide(int depth) {
    const Result a = Make(depth - 1);
    Result result;
    result.text = "div(" + a.text + ",4)";
    result.whole = false;
    result.real = a.AsReal() / 4;
    return result;
  }

  Result Round(int depth) {
    const Result a = Make(depth - 1);
    Result result;
    result.text = "floor(" + a.text + ")";
    result.integer = a.whole ? a.integer : static_cast<int64_t>(std::floor(a.real));
    return result;
  }

  std::mt19937_64 random_;
};

TEST(ExpressionNumbers, AgreesWithANaiveEvaluator) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const RandomExpression::Result expected = RandomExpression(seed).Make(4);
    const Value value = Evaluate(expected.text);
    ASSERT_EQ(value.IsInt(), expected.whole) << expected.text;
    // All numbers are multiples of powers of 1/4 that f64 holds exactly.
    ASSERT_EQ(value.AsFloat(), expected.AsReal()) << expected.text;
  }
}

}  // namespace
}  // namespace oort::expression
