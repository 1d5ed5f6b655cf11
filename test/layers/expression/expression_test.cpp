// SPDX-License-Identifier: MIT
// pnnx.Expression as a layer: broadcasting, blocks, lists, sizes, memory, errors.
#include <gtest/gtest.h>

#include <algorithm>

#include "layers/elementwise/elementwise_reference.h"
#include "layers/expression/engine.h"

namespace oort::testing {
namespace {

/// sub is not symmetric, so operands that are mixed up show.
void ExpectDifference(const Shape& a, const Shape& b) {
  SCOPED_TRACE(a.ToString() + " - " + b.ToString());
  Expression("sub(@0,@1)")
      .Input(RandomTensor(DType::kF32, a, 1))
      .Input(RandomTensor(DType::kF32, b, 2))
      .ExpectLike(Elementwise2([](double x, double y) { return x - y; }));
}

void ExpectDifferenceBothWays(const Shape& a, const Shape& b) {
  ExpectDifference(a, b);
  ExpectDifference(b, a);
}

TEST(ExpressionLayer, BroadcastsInAllPatterns) {
  ExpectDifferenceBothWays({3, 5, 7}, {3, 5, 7});
  ExpectDifferenceBothWays({3, 5, 7}, {});
  ExpectDifferenceBothWays({3, 5, 7}, {1});
  ExpectDifferenceBothWays({3, 5, 7}, {1, 1, 1});
  ExpectDifferenceBothWays({3, 5, 7}, {7});        // along the last axis
  ExpectDifferenceBothWays({3, 5, 7}, {5, 1});     // a value for each channel
  ExpectDifferenceBothWays({3, 5, 7}, {3, 1, 1});  // a value for each row
  ExpectDifferenceBothWays({3, 5, 7}, {1, 5, 7});  // repeated as a whole
  ExpectDifferenceBothWays({3, 5, 7}, {3, 1, 7});  // in the middle
  ExpectDifferenceBothWays({3, 5, 7}, {1, 5, 1});
  ExpectDifferenceBothWays({3, 1, 7}, {1, 5, 1});  // both ways at once
  ExpectDifferenceBothWays({4, 1}, {1, 6});
  ExpectDifferenceBothWays({2, 1, 3, 1, 2}, {4, 1, 5, 1});
  ExpectDifferenceBothWays({2, 3, 2, 3, 2, 3, 2, 2}, {3, 1, 3, 1, 3, 1, 2});
  ExpectDifferenceBothWays({1, 1}, {1});
  ExpectDifferenceBothWays({0, 5}, {5});  // nothing to compute
  ExpectDifferenceBothWays({2, 0, 3}, {1, 1, 3});
  ExpectDifferenceBothWays({0}, {1});
}

TEST(ExpressionLayer, BroadcastsAcrossBlocks) {
  // Longer than a block, with runs that begin and end inside of one.
  ExpectDifferenceBothWays({3, 1500}, {1500});
  ExpectDifferenceBothWays({3, 1500}, {3, 1});
  ExpectDifferenceBothWays({2, 3, 37, 11}, {3, 1, 1});
  ExpectDifferenceBothWays({2, 900, 3}, {900, 1});
  ExpectDifferenceBothWays({2, 900, 3}, {2, 1, 3});
  ExpectDifferenceBothWays({5000}, {});
}

/// @0 has all elements, @1 and @2 one for each row, which kernels take as such where they can.
TEST(ExpressionLayer, OneElementStandsForARow) {
  struct Case {
    const char* text;
    float (*of)(float a, float b, float c);
  };
  // clang-format off: one expression a line
  const Case cases[] = {
      {"add(@1,@0)", [](float a, float b, float) { return b + a; }},
      {"mul(@0,@1)", [](float a, float b, float) { return a * b; }},
      {"div(@1,@0)", [](float a, float b, float) { return b / a; }},
      {"div(@0,@1)", [](float a, float b, float) { return a / b; }},
      {"maximum(@1,@0)", [](float a, float b, float) { return std::max(a, b); }},
      {"minimum(@0,@1)", [](float a, float b, float) { return std::min(a, b); }},
      {"div(sub(@0,@1),@2)", [](float a, float b, float c) { return (a - b) / c; }},
      {"sub(@1,mul(@0,@1))", [](float a, float b, float) { return b - a * b; }},
      // Two of them meet, one meets itself, and one goes where a block is needed.
      {"add(@0,mul(@1,@2))", [](float a, float b, float c) { return a + b * c; }},
      {"mul(@0,mul(@1,@1))", [](float a, float b, float) { return a * (b * b); }},
      {"mul(add(@0,@1),neg(@1))", [](float a, float b, float) { return (a + b) * -b; }},
      {"sub(sub(@0,@1),sub(@2,@1))", [](float a, float b, float c) { return a - b - (c - b); }},
  };
  // clang-format on
  const Tensor b = Tensor::From<float>({1, 2, 0.5f, -1, 3}, {5, 1});
  const Tensor c = Tensor::From<float>({2, -3, 4, 1, 0.25f}, {5, 1});
  for (const int64_t length : {1, 7, 64, 1030, 2100}) {
    Tensor a(DType::kF32, {5, length});
    for (int64_t i = 0; i < a.elements(); ++i) {
      a.data<float>()[i] = static_cast<float>(i % 97 + 1);
    }
    for (const Case& one : cases) {
      SCOPED_TRACE(one.text + (" " + std::to_string(length)));
      Tensor expected(DType::kF32, a.shape());
      for (int64_t i = 0; i < a.elements(); ++i) {
        expected.data<float>()[i] =
            one.of(a.data<float>()[i], b.data<float>()[i / length], c.data<float>()[i / length]);
      }
      OperatorCase expression = Expression(one.text);
      expression.Input(a).Input(b);
      if (std::string_view(one.text).find("@2") != std::string_view::npos) expression.Input(c);
      expression.ExpectOutputs({expected});
    }
  }
}

TEST(ExpressionLayer, BroadcastsEveryItemSize) {
  for (DType dtype : {DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kC128}) {
    SCOPED_TRACE(Name(dtype));
    const Tensor a = RangeTensor(DType::kF64, {3, 4, 5}).To(dtype);
    const Tensor b = RangeTensor(DType::kF64, {4, 1}, 1).To(dtype);
    const Tensor c = RangeTensor(DType::kF64, {5}, 2).To(dtype);
    Tensor expected(DType::kF64, {3, 4, 5});
    for (int64_t i = 0; i < 60; ++i) {
      expected.data<double>()[i] = static_cast<double>(i - (i / 5 % 4 + 1) + (i % 5 + 2));
    }
    Expression("add(sub(@0,@1),@2)").Input(a).Input(b).Input(c).ExpectOutputs({expected.To(dtype)});
  }
}

TEST(ExpressionLayer, RunsOnSeveralThreads) {
  const Shape shape{7, 33, 1000};
  Expression("add(mul(@0,@1),@0)")
      .Input(RandomTensor(DType::kF32, shape, 1))
      .Input(RandomTensor(DType::kF32, {33, 1}, 2))
      .ExpectLike([](const std::vector<Tensor>& inputs) {
        Tensor result(DType::kF64, inputs[0].shape());
        for (int64_t i = 0; i < result.elements(); ++i) {
          const double x = inputs[0].data<double>()[i];
          result.data<double>()[i] = x * inputs[1].data<double>()[i / 1000 % 33] + x;
        }
        return std::vector<Tensor>{result};
      });
  Expression("floor_divide(@0,@1)")
      .Input(Tensor::Zeros(DType::kI32, {200000}))
      .Input(Tensor::Zeros(DType::kI32, {200000}))
      .ExpectError(ErrorCode::kInvalidArgument, "an integer is divided by zero");
}

TEST(ExpressionLayer, TakesManyOperandsAndDeepChains) {
  std::string left = "@0", right = "@0";
  for (int i = 1; i < 40; ++i) {
    const std::string operand = "@" + std::to_string(i);
    left = "add(" + left + "," + operand + ")";
    right = "add(" + operand + ",mul(1," + right + "))";
  }
  for (const std::string& text : {left, right}) {
    OperatorCase test = Expression(text);
    for (int i = 0; i < 40; ++i) test.Input(RangeTensor(DType::kF32, {i % 2 ? 1 : 100}, i));
    // 20 ranges that start at 0, 2, …, 38, and the odd numbers up to 39.
    test.ExpectOutputs({RangeTensor(DType::kF32, {100}, 780, 20)});
  }
  std::string chain = "@0";
  for (int i = 0; i < 1000; ++i) chain = "add(" + chain + ",1)";
  Expression(chain)
      .Input(RangeTensor(DType::kI32, {5}))
      .ExpectOutputs({RangeTensor(DType::kI32, {5}, 1000)});
  // A balanced tree, in which every level needs a register more.
  std::string tree = "@0";
  for (int i = 0; i < 9; ++i) tree = "sub(mul(" + tree + ",2)," + tree + ")";
  Expression(tree)
      .Input(RangeTensor(DType::kF32, {70}))
      .ExpectOutputs({RangeTensor(DType::kF32, {70})});
}

TEST(ExpressionLayer, EqualPartsAreComputedOnce) {
  const expression::Engine engine(expression::Parse("mul(exp(add(@0,@1)),exp(add(@0,@1)))"),
                                  Isa::kScalar);
  const Value x = Tensor::Meta(DType::kF32, {4});
  const Value* operands[] = {&x, &x};
  EXPECT_EQ(engine.OperationsPerElement(operands), 3);
}

TEST(ExpressionLayer, NumbersMeetTensors) {
  const Tensor x = RangeTensor(DType::kF32, {2, 3});
  Expression("mul(@0,size(@0,1))").Input(x).ExpectOutputs({RangeTensor(DType::kF32, {2, 3}, 0, 3)});
  Expression("add(@0,@1)")
      .Input(x)
      .Input(Value(5))
      .ExpectOutputs({RangeTensor(DType::kF32, {2, 3}, 5)});
  Expression("add(@0,int(@1))")
      .Input(x)
      .Input(Tensor::From<float>({2.75f}, {1}))
      .ExpectOutputs({RangeTensor(DType::kF32, {2, 3}, 2)});
  Expression("@0").Input(x).ExpectOutputs({x});
  Expression("2.5")
      .Input(x)
      .Param("expr", "mul(sub(@0,@0),size(@0,-1))")
      .ExpectOutputs({Tensor::Zeros(DType::kF32, {2, 3})});
}

TEST(ExpressionLayer, OneEngineServesManySignatures) {
  const expression::Engine engine(expression::Parse("add(@0,mul(@1,size(@0,0)))"), DefaultIsa());
  const Context context(1, {});
  const auto run = [&](const Tensor& a, const Value& b) {
    const Value x = a;
    const Value* operands[] = {&x, &b};
    const Tensor meta = engine.Infer(operands).AsTensor();
    Value out = Tensor(meta.dtype(), meta.shape());
    engine.Forward(context, operands, out);
    return out.AsTensor();
  };
  for (int repeat = 0; repeat < 2; ++repeat) {
    ExpectNear(run(RangeTensor(DType::kF32, {3}), Value(2)), RangeTensor(DType::kF32, {3}, 6));
    ExpectNear(run(RangeTensor(DType::kF32, {4}), Value(2)), RangeTensor(DType::kF32, {4}, 8));
    ExpectNear(run(RangeTensor(DType::kF32, {4}), Value(3)), RangeTensor(DType::kF32, {4}, 12));
    ExpectNear(run(RangeTensor(DType::kI64, {4}), Value(3)), RangeTensor(DType::kI64, {4}, 12));
    ExpectNear(run(RangeTensor(DType::kI64, {4}), Value(0.5)), RangeTensor(DType::kF32, {4}, 2));
  }
}

TEST(ExpressionLayer, WritesOverAnOperand) {
  const expression::Engine engine(expression::Parse("sub(mul(@0,@1),@0)"), DefaultIsa());
  const Value a = RangeTensor(DType::kF32, {3, 700}), b = RangeTensor(DType::kF32, {700});
  const Value* operands[] = {&a, &b};
  EXPECT_EQ(engine.Share(operands).in_place, std::vector<int>{0});
  EXPECT_EQ(engine.Share(operands).view, -1);
  Value fresh = Tensor(DType::kF32, {3, 700});
  engine.Forward(Context(1, {}), operands, fresh);
  Value over = a;  // shares the elements of @0
  engine.Forward(Context(2, {}), operands, over);
  ExpectNear(over.AsTensor(), fresh.AsTensor(), {0, 0});
}

TEST(ExpressionLayer, SharesWhatItPassesOn) {
  const Value a = RangeTensor(DType::kF32, {3}), b = RangeTensor(DType::kI64, {2});
  const Value* operands[] = {&a, &b};
  const expression::Engine list(expression::Parse("[None,@1,add(@0,1),[4,@0]]"), DefaultIsa());
  Value out;
  list.Forward(Context(1, {}), operands, out);
  const Value::List& items = out.AsList();
  ASSERT_EQ(items.size(), 4u);
  EXPECT_TRUE(items[0].IsNone());
  EXPECT_EQ(items[1].AsTensor().raw(), b.AsTensor().raw());
  ExpectNear(items[2].AsTensor(), RangeTensor(DType::kF32, {3}, 1));
  EXPECT_EQ(items[3].AsList().at(0).AsInt(), 4);
  EXPECT_EQ(items[3].AsList().at(1).AsTensor().raw(), a.AsTensor().raw());
  const expression::Engine same(expression::Parse("positive(@1)"), DefaultIsa());
  EXPECT_EQ(same.Share(operands).view, 1);
}

TEST(ExpressionLayer, RefusesWhatTorchRefuses) {
  const Tensor x = RangeTensor(DType::kF32, {2, 3});
  Expression("add(@0,@1)")
      .Input(x)
      .Input(RangeTensor(DType::kF32, {4}))
      .ExpectError(ErrorCode::kInvalidArgument, "column 1: shapes (2,3) and (4) do not broadcast");
  Expression("and(@0,3)").Input(x).ExpectError(ErrorCode::kUnsupported, "'and' does not take f32");
  Expression("logaddexp(@0,@0)")
      .Input(RangeTensor(DType::kI32, {3}))
      .ExpectError(ErrorCode::kUnsupported, "'logaddexp' does not take i32");
  Expression("add(@0,neg(None))")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "column 8: 'neg' takes tensors and numbers, got None");
  Expression("add(@0,foo)").Input(x).ExpectError(ErrorCode::kInvalidModel, "got string 'foo'");
  Expression("size(@0,2)").Input(x).ExpectError(ErrorCode::kInvalidArgument, "axis 2");
  Expression("int(@0)").Input(x).ExpectError(ErrorCode::kInvalidModel, "one element");
  Expression("clamp(@0,None,None)").Input(x).ExpectError(ErrorCode::kInvalidModel, "'clamp' needs");
}

TEST(ExpressionLayer, BadTextFailsTheLoad) {
  const Tensor x = RangeTensor(DType::kF32, {2, 3});
  Expression("add(@0,flor(@0))")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel,
                   "column 8: unknown function 'flor'; did you mean 'floor'?");
  Expression("add(@0,@1)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "'@1' is named, but there is 1 input");
  OperatorCase("pnnx.Expression").Input(x).ExpectError(ErrorCode::kInvalidModel, "'expr'");
}

}  // namespace
}  // namespace oort::testing
