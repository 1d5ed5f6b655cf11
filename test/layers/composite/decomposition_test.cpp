// SPDX-License-Identifier: MIT
#include "layers/composite/decomposition.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "layers/composite/inner_operator.h"
#include "oort/testing.h"

namespace oort {
namespace {

using testing::ExpectNear;
using testing::OperatorCase;
using testing::RandomTensor;

/// What an operator was called with.
class Recorder final : public Decomposer {
 public:
  Value Reshape(const Value& value, const Shape&) const override { return value; }
  int outputs() const override { return 1; }
  bool computes() const override { return false; }
  mutable Operator part;
  mutable std::vector<Value> operands;

 protected:
  std::vector<Value> Call(Operator op, const std::vector<Value>& given,
                          int outputs) const override {
    part = std::move(op);
    operands = given;
    return std::vector<Value>(static_cast<size_t>(outputs), Value::Deferred());
  }
};

TEST(Decomposer, TensorsAreOperandsAndNumbersParameters) {
  const Recorder call;
  const Value x = Tensor::Meta(DType::kF32, {2});
  call("torch.sum", {{"input", x}, {"dim", Value(Value::List{0})}, {"keepdim", Value()}});
  EXPECT_EQ(call.part.input_names, std::vector<std::string>{"input"});
  EXPECT_EQ(call.operands.size(), 1u);
  EXPECT_EQ(call.part.params.size(), 1u);
  EXPECT_EQ(call.part.params.at("dim").text(), "(0)");
}

TEST(Decomposer, NumbersStandInFormulas) {
  const Recorder call;
  const Value x = Tensor::Meta(DType::kF32, {2});
  call.Formula("add(mul(@2,@0),sub(@1,@2))", {Value(0.5), Value(3), x, x});
  EXPECT_EQ(call.part.params.at("expr").text(), "add(mul(@0,0.5),sub(3,@0))");
  EXPECT_EQ(call.operands.size(), 1u);
}

/// An operator in an other form that gives its input plus one.
OperatorSchema PlusOneSchema() {
  return DecompositionSchema({"test.PlusOne"}, "x + 1", "*input", kFloats);
}

TEST(DecompositionLayer, ConstantsOfAnyPlaceGiveTheSame) {
  LayerRegistry registry(LayerRegistry::Global());
  AddDecomposition(registry, PlusOneSchema(),
                   [](const Decomposer& call, const Args& args) -> std::vector<Value> {
                     // The rank is known at run time only.
                     const Value flat = call.Reshape(args[0], {args.tensor(0).elements()});
                     return {call.Formula("add(@0,@1)", {flat, Value(1)})};
                   });
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  const auto one = [](const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
    Tensor y = inputs[0].To(DType::kF64).Reshaped({inputs[0].elements()});
    Tensor sum(DType::kF64, y.shape());
    for (int64_t i = 0; i < y.elements(); ++i) sum.data<double>()[i] = y.data<double>()[i] + 1;
    return {sum};
  };
  OperatorCase("test.PlusOne").Registry(&registry).Input(x).ExpectLike(one);
  OperatorCase("test.PlusOne").Registry(&registry).Constant(x).ExpectLike(one);
}

/// A layer may let go of weights once its parts have them: later calls find the parts.
TEST(DecompositionLayer, PartsOutliveTheWeightsThatTheyWereMadeOf) {
  Operator op;
  op.type = "oort.Linear";
  op.inputs = {0};
  op.outputs = {1};
  op.attributes.emplace("weight", RandomTensor(DType::kF32, {4, 3}));
  const OperatorSchema& schema = *LayerRegistry::Global().Schema(op.type);
  std::vector<Problem> problems;
  BoundArgs bound = BindArguments(schema, op, problems);
  ASSERT_TRUE(problems.empty());
  const std::vector<Value> unknown{Value::Deferred()};
  const Operand output;
  const std::vector<const Operand*> outputs = {&output};
  const LayerInit init(op, schema, bound, unknown, DefaultIsa(), outputs);
  const int input = init.Arg("input"), weight = init.Arg("@weight");
  const auto weights = std::make_shared<std::map<std::string, Tensor>>(op.attributes);
  const DecompositionLayer layer(init,
                                 [=](const Decomposer& call, const Args& args) {
                                   return call.Module("nn.Linear",
                                                      {{"", args[input]}, {"bias", Value(false)}},
                                                      *weights, 1, "weight");
                                 },
                                 {weight});
  EXPECT_TRUE(layer.Packs(weight));
  const Tensor gone = Tensor::Meta(DType::kF32, {4, 3});
  weights->at("weight") = gone;
  bound.args[static_cast<size_t>(weight)].value = gone;
  const std::vector<Value> inputs = {Tensor::Meta(DType::kF32, {2, 3})};
  const CallArgs call(bound, inputs);
  const std::vector<Value> results = layer.Infer(call.args());
  ASSERT_TRUE(results.at(0).IsTensor());
  EXPECT_EQ(results[0].AsTensor().shape(), (Shape{2, 4}));
}

TEST(Fallback, IsMadeOnce) {
  Operator op;
  op.type = "oort.Linear";
  op.name = "fused";
  op.inputs = {0};
  op.outputs = {1};
  op.attributes.emplace("weight", RandomTensor(DType::kF32, {4, 3}));
  const OperatorSchema& schema = *LayerRegistry::Global().Schema(op.type);
  std::vector<Problem> problems;
  const BoundArgs bound = BindArguments(schema, op, problems);
  ASSERT_TRUE(problems.empty());
  const std::vector<Value> unknown{Value::Deferred()};
  const LayerInit init(op, schema, bound, unknown, DefaultIsa(), {});
  const int input = init.Arg("input"), weight = init.Arg("@weight");
  const Fallback fallback(init, [=](const Decomposer& call, const Args& args) {
    return call.Module("nn.Linear", {{"", args[input]}}, {{"weight", args.tensor(weight)}});
  });
  std::atomic<int> made = 0;
  const auto weights = [&] {
    ++made;
    return op.attributes;
  };
  std::vector<const Layer*> layers(4);
  std::vector<std::thread> threads;
  for (const Layer*& layer : layers) {
    threads.emplace_back([&] { layer = &fallback.Get(weights); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  for (const Layer* layer : layers) EXPECT_EQ(layer, layers[0]);
}

}  // namespace
}  // namespace oort
