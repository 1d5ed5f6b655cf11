// SPDX-License-Identifier: MIT
#include "oort/testing.h"
#include "runtime/test_layers.h"

namespace oort {
namespace {

constexpr const char* kOne =
    "pnnx.Input pnnx_input_0 0 1 0\n"
    "test.add_one a 1 1 0 1\n"
    "pnnx.Output pnnx_output_0 1 0 1\n";

TEST(LayerRegistry, AModelUsesTheRegistryItIsGiven) {
  EXPECT_THROW(RuntimeGraph::Build(GraphFromText(kOne)), Error);
  Session session(BuildText(kOne));
  EXPECT_EQ(Floats(session.Forward({Tensor::From<float>({1}, {1})})[0]), (std::vector<float>{2}));
}

TEST(LayerRegistry, RefusesATypeThatIsTaken) {
  LayerRegistry registry = TestRegistry();
  OperatorSchema again({"test.new", "test.add_one"}, "for tests");
  const auto creator = [](const LayerInit&) { return std::make_unique<AddOne>(); };
  EXPECT_THROW(registry.Add(again, creator), Error);
  EXPECT_EQ(registry.Schema("test.new"), nullptr) << "half of it was registered";
}

struct AddTwo : Layer {
  explicit AddTwo(const LayerInit& init) : by(init.Float("by")) {}
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(DType::kF32, args.shape(0))};
  }
  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    for (int64_t i = 0; i < args.tensor(0).elements(); ++i) {
      outputs[0].AsTensor().data<float>()[i] =
          args.tensor(0).data<float>()[i] + static_cast<float>(by);
    }
  }
  double by;
};

TEST(LayerRegistry, ReplaceOverridesAndLoadedModelsStayAsTheyWere) {
  LayerRegistry registry = TestRegistry();
  LoadOptions options;
  options.registry = &registry;
  const auto before = RuntimeGraph::Build(GraphFromText(kOne), options);
  OperatorSchema schema({"test.add_one"}, "for tests");
  schema.Tensor("input", kF32Only).Float("by", 2);
  registry.Replace(schema, Create<AddTwo>());
  const auto after = RuntimeGraph::Build(GraphFromText(kOne), options);
  const Tensor x = Tensor::From<float>({1}, {1});
  EXPECT_EQ(Floats(Session(before).Forward({x})[0]), (std::vector<float>{2}));
  EXPECT_EQ(Floats(Session(after).Forward({x})[0]), (std::vector<float>{3}));
}

TEST(LayerRegistry, CustomOperatorsGetTheTestKit) {
  LayerRegistry registry = TestRegistry();
  const Tensor x = testing::RandomTensor(DType::kF32, {5});
  testing::OperatorCase("test.add_one")
      .Registry(&registry)
      .Input(x)
      .ExpectLike([](const std::vector<Tensor>& inputs) {
        Tensor y = inputs[0].Clone();
        for (int64_t i = 0; i < y.elements(); ++i) y.data<double>()[i] += 1;
        return std::vector<Tensor>{y};
      });
}

/// What pnnx passes through: a module kept whole by `moduleop=`, and an operator of a library.
struct Described : Layer {
  explicit Described(const LayerInit& init)
      : scale(init.Float("scale")), weight(init.Weight("inner.weight")) {}
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(DType::kF32, args.shape(0))};
  }
  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    for (int64_t i = 0; i < args.tensor(0).elements(); ++i) {
      outputs[0].AsTensor().data<float>()[i] =
          args.tensor(0).data<float>()[i] * weight.data<float>()[i] * static_cast<float>(scale);
    }
  }
  double scale;
  Tensor weight;
};

TEST(LayerRegistry, ModulesThatPnnxPassesThroughGetParametersAndAttributesByName) {
  LayerRegistry registry = TestRegistry();
  registry.Add(OperatorSchema({"models.blocks.Gate"}, "for tests")
                   .Tensor("input", kF32Only)
                   .Attribute("inner.weight")
                   .Float("scale")
                   .Open(),  // what else the module has does not matter
               Create<Described>());
  Graph graph = GraphFromText(
      "pnnx.Input pnnx_input_0 0 1 0\n"
      "models.blocks.Gate gate 1 1 0 1 scale=2.0 name=first @inner.weight=(3)f32 @unused=(1)f32\n"
      "pnnx.Output pnnx_output_0 1 0 1\n");
  graph.operators[1].attributes.at("inner.weight") = Tensor::From<float>({1, 10, 100}, {3});
  graph.operators[1].attributes.at("unused") = Tensor::From<float>({0}, {1});
  LoadOptions options;
  options.registry = &registry;
  Session session(RuntimeGraph::Build(std::move(graph), options));
  EXPECT_EQ(Floats(session.Forward({Tensor::From<float>({1, 2, 3}, {3})})[0]),
            (std::vector<float>{2, 40, 600}));
}

/// arg_0 - arg_2 * arg_1
struct CustomDifference : Layer {
  explicit CustomDifference(const LayerInit& init) : factor(init.Int("arg_2")) {}
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(DType::kF32, args.shape(0))};
  }
  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    for (int64_t i = 0; i < args.tensor(0).elements(); ++i) {
      outputs[0].AsTensor().data<float>()[i] =
          args.tensor(0).data<float>()[i] -
          static_cast<float>(factor) * args.tensor(1).data<float>()[i];
    }
  }
  int64_t factor;
};

TEST(LayerRegistry, OperatorsOfLibrariesGetTheirArgumentsByNumber) {
  LayerRegistry registry = TestRegistry();
  registry.Add(OperatorSchema({"pnnx.custom_op.mylib.difference"}, "for tests")
                   .Tensor("arg_0", kF32Only)
                   .Tensor("arg_1", kF32Only)
                   .Int("arg_2"),
               Create<CustomDifference>());
  LoadOptions options;
  options.registry = &registry;
  Session session(RuntimeGraph::Build(
      GraphFromText("pnnx.Input pnnx_input_0 0 1 a\n"
                    "pnnx.Input pnnx_input_1 0 1 b\n"
                    "pnnx.custom_op.mylib.difference d 2 1 b a c arg_2=10 $arg_1=b $arg_0=a\n"
                    "pnnx.Output pnnx_output_0 1 0 c\n"),
      options));
  EXPECT_EQ(Floats(session.Forward(
                {Tensor::From<float>({1, 2}, {2}), Tensor::From<float>({3, 4}, {2})})[0]),
            (std::vector<float>{-29, -38}));
}

TEST(Build, SaysWhatToDoAboutBranchesThatPnnxLost) {
  try {
    BuildText(
        "pnnx.Input pnnx_input_0 0 1 0\n"
        "prim::If branch 1 1 0 1\n"
        "pnnx.Output pnnx_output_0 1 0 1\n");
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("torch.jit.trace"), std::string::npos) << error.what();
  }
}

TEST(Build, SaysWhyQuantizedModulesDoNotRun) {
  for (const char* type :
       {"nn.quantized.Embedding", "nn.intrinsic.quantized.BNReLU2d", "nn.quantized.Conv3d"}) {
    try {
      BuildText("pnnx.Input pnnx_input_0 0 1 0\n" + std::string(type) +
                " module 1 1 0 1\n"
                "pnnx.Output pnnx_output_0 1 0 1\n");
      FAIL() << "expected an error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("scales of all weights"), std::string::npos)
          << error.what();
    }
  }
}

TEST(Build, ListsEverythingThatKeepsAModelFromRunning) {
  try {
    BuildText(
        "pnnx.Input pnnx_input_0 0 1 0\n"
        "test.ad_one a 1 1 0 1\n"
        "test.ones b 0 1 2 count=-3\n"
        "test.add_one c 1 1 1 3 speed=9\n"
        "some.Thing d 1 1 3 4\n"
        "pnnx.Output pnnx_output_0 2 0 2 4\n");
    FAIL() << "expected an error";
  } catch (const Error& error) {
    ASSERT_EQ(error.problems().size(), 4u) << error.what();
    EXPECT_NE(error.problems()[0].message.find("similar: test.add_one"), std::string::npos)
        << error.what();
    EXPECT_NE(error.problems()[1].message.find("count=-3"), std::string::npos) << error.what();
    EXPECT_NE(error.problems()[2].message.find("unknown parameter speed=9"), std::string::npos);
    EXPECT_EQ(error.problems()[3].operator_type, "some.Thing");
    EXPECT_EQ(error.problems()[3].line, 7);
  }
}

TEST(Build, RefusesShapesThatContradictTheTrace) {
  const std::string lines =
      "pnnx.Input pnnx_input_0 0 1 0 #0=(2)f32\n"
      "pnnx.Input pnnx_input_1 0 1 1 #1=(3)f32\n"
      "test.sum2 both 2 2 0 1 2 3\n"
      "pnnx.Output pnnx_output_0 2 0 2 3\n";
  EXPECT_THROW(BuildText(lines), Error);
  const LayerRegistry registry = TestRegistry();
  LoadOptions options;
  options.registry = &registry;
  options.check_traced_shapes = false;
  EXPECT_NO_THROW(RuntimeGraph::Build(GraphFromText(lines), options));
}

TEST(Build, ReportsProgressAndCanBeCancelled) {
  std::stop_source stop;
  const LayerRegistry registry = TestRegistry();
  LoadOptions options;
  options.registry = &registry;
  options.stop = stop.get_token();
  uint64_t last = 0, total = 0;
  options.progress = [&](const Progress& progress) {
    EXPECT_EQ(progress.phase, "build");
    EXPECT_GE(progress.done, last);
    last = progress.done;
    total = progress.total;
  };
  RuntimeGraph::Build(GraphFromText(kOne), options);
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, 3u);
  options.progress = [&](const Progress&) { stop.request_stop(); };
  try {
    RuntimeGraph::Build(GraphFromText(kOne), options);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
}

}  // namespace
}  // namespace oort
