// SPDX-License-Identifier: MIT
// A weight is held once: packed, or as it came.
#include "oort/testing.h"
#include "runtime/test_layers.h"

namespace oort {
namespace {

constexpr int64_t kWidth = 128;
constexpr size_t kBytes = kWidth * kWidth * sizeof(float);

/// y = x W^T, and the weight of the operator.
Graph LinearGraph() {
  Graph graph;
  Operator input;
  input.type = "pnnx.Input";
  input.name = "pnnx_input_0";
  input.outputs = {graph.AddOperand("x")};
  graph.AddOperator(input);
  Operator linear;
  linear.type = "nn.Linear";
  linear.name = "fc";
  linear.inputs = {0};
  linear.input_names = {""};
  linear.outputs = {graph.AddOperand("y")};
  linear.params.emplace("bias", Parameter("False"));
  linear.params.emplace("in_features", Parameter(std::to_string(kWidth)));
  linear.params.emplace("out_features", Parameter(std::to_string(kWidth)));
  linear.attributes.emplace("weight", testing::RandomTensor(DType::kF32, {kWidth, kWidth}, 1));
  graph.AddOperator(linear);
  Operator output;
  output.type = "pnnx.Output";
  output.name = "pnnx_output_0";
  output.inputs = {1};
  output.input_names = {""};
  graph.AddOperator(output);
  return graph;
}

const Tensor& WeightOf(const RuntimeGraph& graph) {
  const int index = graph.graph().FindOperator("fc");
  return graph.graph().operators[static_cast<size_t>(index)].attributes.at("weight");
}

TEST(Weights, AreLetGoOfOncePacked) {
  Graph source = LinearGraph();
  const Tensor weight = source.operators[1].attributes.at("weight");
  const auto graph = RuntimeGraph::Build(std::move(source));
  EXPECT_FALSE(WeightOf(*graph).has_data());
  EXPECT_EQ(WeightOf(*graph).shape(), (Shape{kWidth, kWidth})) << "but the shape stays";
  EXPECT_EQ(weight.buffer().use_count(), 1) << "somebody still holds the elements";
  const std::vector<Tensor> x = {testing::RandomTensor(DType::kF32, {3, kWidth}, 2)};
  const size_t held = graph->Plan(x).memory.weights;
  EXPECT_GE(held, kBytes);
  EXPECT_LE(held, kBytes + kBytes / 10);
  const Tensor y = Session(graph).Forward(x)[0];
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t column = 0; column < kWidth; ++column) {
      double sum = 0;
      for (int64_t i = 0; i < kWidth; ++i) {
        sum += static_cast<double>(x[0].data<float>()[row * kWidth + i]) *
               static_cast<double>(weight.data<float>()[column * kWidth + i]);
      }
      ASSERT_NEAR(y.data<float>()[row * kWidth + column], sum, 1e-4);
    }
  }
}

TEST(Weights, AreKeptOnRequest) {
  LoadOptions options;
  options.keep_weights = true;
  const auto graph = RuntimeGraph::Build(LinearGraph(), options);
  EXPECT_TRUE(WeightOf(*graph).has_data());
  EXPECT_GE(graph->Plan({Tensor::Meta(DType::kF32, {1, kWidth})}).memory.weights, 2 * kBytes);
}

/// x C, and C + C as well if somebody else reads the constant too.
Graph ConstantGraph(bool read_twice) {
  Graph graph;
  const auto add = [&](const char* type, const char* name, std::vector<int> inputs) {
    Operator op;
    op.type = type;
    op.name = name;
    op.inputs = std::move(inputs);
    op.input_names.resize(op.inputs.size());
    if (op.type == "torch.matmul") op.input_names = {"input", "other"};
    if (op.type == "pnnx.Expression") op.params.emplace("expr", Parameter("add(@0,@1)"));
    if (op.type == "pnnx.Attribute") {
      op.attributes.emplace("data", testing::RandomTensor(DType::kF32, {kWidth, kWidth}, 1));
    }
    if (op.type != "pnnx.Output") op.outputs = {graph.AddOperand(name)};
    const int output = op.outputs.empty() ? -1 : op.outputs[0];
    graph.AddOperator(std::move(op));
    return output;
  };
  const int x = add("pnnx.Input", "pnnx_input_0", {});
  const int c = add("pnnx.Attribute", "c", {});
  int y = add("torch.matmul", "product", {x, c});
  if (read_twice) y = add("pnnx.Expression", "sum", {y, c});
  add("pnnx.Output", "pnnx_output_0", {y});
  return graph;
}

TEST(Weights, AConstantStaysIfSomebodyReadsIt) {
  for (bool read_twice : {false, true}) {
    const auto graph = RuntimeGraph::Build(ConstantGraph(read_twice));
    const size_t held = graph->Plan({Tensor::Meta(DType::kF32, {kWidth, kWidth})}).memory.weights;
    EXPECT_GE(held, (read_twice ? 2 : 1) * kBytes);
    EXPECT_LE(held, (read_twice ? 2 : 1) * kBytes + kBytes / 5);
    const Tensor x = testing::RandomTensor(DType::kF32, {kWidth, kWidth}, 3);
    EXPECT_EQ(Session(graph).Forward({x})[0].shape(), x.shape());
  }
}

/// y = x * weight + 1, with a copy of the weight.
class Affine final : public Layer {
 public:
  explicit Affine(const LayerInit& init)
      : weight_(init.Weight("weight").data<float>()[0]), argument_(init.Arg("@weight")) {}
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(DType::kF32, args.shape(0))};
  }
  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    outputs[0].AsTensor().data<float>()[0] = args.tensor(0).data<float>()[0] * weight_ + 1;
  }
  bool Packs(int argument) const override { return argument == argument_; }

 private:
  float weight_;
  int argument_;
};

/// A chain of test.affine, one for each weight.
Graph AffineGraph(const std::vector<Tensor>& weights) {
  std::string lines = "pnnx.Input in 0 1 x\n";
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::string number = std::to_string(i);
    lines += "test.affine a" + number + " 1 1 " + (i == 0 ? "x" : "y" + std::to_string(i - 1)) +
             " y" + number + "\n";
  }
  lines += "pnnx.Output out 1 0 y" + std::to_string(weights.size() - 1) + "\n";
  Graph graph = GraphFromText(lines);
  for (size_t i = 0; i < weights.size(); ++i) {
    const int index = graph.FindOperator("a" + std::to_string(i));
    graph.operators[static_cast<size_t>(index)].attributes.emplace("weight", weights[i]);
  }
  return graph;
}

/// As embeddings that are the head, too: what the file's pages hold must not wait for the last.
TEST(Weights, AreGoneOnceAllWhoShareThemAreMade) {
  const auto scalar = [](float value) { return Tensor::From<float>(std::vector{value}, {1}); };
  std::vector<Tensor> weights = {scalar(2), scalar(3), scalar(5)};
  weights.push_back(weights[0]);
  const std::weak_ptr<Buffer> shared = weights[0].buffer();
  Graph graph = AffineGraph(weights);
  weights.clear();

  std::vector<std::string> made;
  LayerRegistry registry = LayerRegistry::Global();
  OperatorSchema schema({"test.affine"}, "for tests");
  schema.Tensor("input", kF32Only).Attribute("weight");
  registry.Add(schema, [&](const LayerInit& init) {
    made.push_back(init.op().name);
    EXPECT_EQ(shared.expired(), made.size() > 2) << init.op().name;
    return std::make_unique<Affine>(init);
  });
  LoadOptions options;
  options.registry = &registry;
  const auto built = RuntimeGraph::Build(std::move(graph), options);
  EXPECT_EQ(made, (std::vector<std::string>{"a0", "a3", "a1", "a2"}));
  const Tensor x = scalar(1);
  EXPECT_EQ(Floats(Session(built).Forward({x})[0]), std::vector{103.0f}) << "they run in order";
}

}  // namespace
}  // namespace oort
