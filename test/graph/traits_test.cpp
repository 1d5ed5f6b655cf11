// SPDX-License-Identifier: MIT
// What operators state in their declarations, and that a program's own operators take part in
// passes by that alone.
#include <gtest/gtest.h>

#include "graph/pass_check.h"

namespace oort {
namespace {

/// y = 2 x, in any layout.
class Twice final : public Layer {
 public:
  explicit Twice(const LayerInit&) {}
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(args.tensor(0).dtype(), args.shape(0))};
  }
  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    const std::span<const float> x = args.tensor(0).span<float>();
    float* y = outputs[0].AsTensor().data<float>();
    for (size_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
  }
};

/// Multiplies channel c by c; `axis` is that of the channels, from the end.
class ByChannel final : public Layer {
 public:
  explicit ByChannel(int64_t axis) : axis_(axis) {}
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(DType::kF32, args.shape(0))};
  }
  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const int64_t inner = axis_ == -1 ? 1 : x.dim(-1) * x.dim(-2), channels = x.dim(axis_);
    float* y = outputs[0].AsTensor().data<float>();
    for (int64_t i = 0; i < x.elements(); ++i) {
      y[i] = static_cast<float>(i / inner % channels) * x.data<float>()[i];
    }
  }

 private:
  int64_t axis_;
};

bool IsNotNamedStrange(const Operator& op) { return op.name != "strange"; }

NhwcRole FollowsUnlessOff(const Operator& op, int rank) {
  return op.params.count("off") != 0 || rank != 4 ? NhwcRole::kNone : NhwcRole::kFollows;
}

/// The built-in operators and some of a program's own.
const LayerRegistry& WithOwnOperators() {
  static const LayerRegistry* const registry = [] {
    auto* made = new LayerRegistry(LayerRegistry::Global());
    made->Add(OperatorSchema({"my.Twice"}, "2 x")
                  .Tensor("input", kFloats)
                  .Elementwise(IsNotNamedStrange)
                  .KeepsDType()
                  .F16OnCpu(),
              Create<Twice>());
    made->Add(OperatorSchema({"my.ByChannel"}, "c x")
                  .Tensor("input", kFloats)
                  .Bool("off", false)
                  .HasNhwcForm("my.ByChannelNhwc", FollowsUnlessOff),
              [](const LayerInit&) { return std::make_unique<ByChannel>(-3); });
    made->Add(OperatorSchema({"my.ByChannelNhwc"}, "c x of (…, H, W, C)").Tensor("input", kFloats),
              [](const LayerInit&) { return std::make_unique<ByChannel>(-1); });
    made->Add(OperatorSchema({"my.WideTwice"}, "2 x of f32 alone")
                  .Tensor("input", kF32Only)
                  .Elementwise()
                  .KeepsDType()
                  .F16OnCpu(),
              Create<Twice>());
    made->Add(OperatorSchema({"my.Plain"}, "2 x, and states nothing").Tensor("input", kFloats),
              Create<Twice>());
    return made;
  }();
  return *registry;
}

/// Two convolutions with an operator of type `type` between them.
std::string Between(const std::string& type, const std::string& name = "own",
                    const std::string& params = "") {
  return "pnnx.Input pnnx_input_0 0 1 0 #0=(1,3,5,4)f32\n"
         "nn.Conv2d conv1 1 1 0 1 @weight=(4,3,1,1)f32 #0=(1,3,5,4)f32 #1=(1,4,5,4)f32\n" +
         type + " " + name + " 1 1 1 2 " + params +
         "#1=(1,4,5,4)f32 #2=(1,4,5,4)f32\n"
         "nn.Conv2d conv2 1 1 2 3 @weight=(2,4,1,1)f32 #2=(1,4,5,4)f32 #3=(1,2,5,4)f32\n"
         "pnnx.Output pnnx_output_0 1 0 3 #3=(1,2,5,4)f32\n";
}

/// Types of operators after `run`, with the program's operators.
std::string OwnTypesAfter(const std::string& lines, DType narrow,
                          std::vector<void (*)(Graph&, const PassContext&)> runs) {
  Graph graph = RandomGraph(lines);
  PassContext context = NothingEvaluated();
  context.registry = &WithOwnOperators();
  context.narrow = narrow;
  for (const auto run : runs) run(graph, context);
  EXPECT_EQ(EdgeProblems(graph), "");
  EXPECT_TRUE(graph.Check().empty());
  std::string types;
  for (int index : graph.TopologicalOrder()) {
    const Operator& op = graph.operators[static_cast<size_t>(index)];
    if (!op.IsPort()) types += (types.empty() ? "" : " ") + op.type;
  }
  return types;
}

TEST(Traits, AnOperatorOfOnesOwnStaysInsideOfAnNhwcRegion) {
  const std::string apart = "nhwc.enter nhwc.Conv2d nhwc.leave ";
  const std::string again = " nhwc.enter nhwc.Conv2d nhwc.leave";
  EXPECT_EQ(OwnTypesAfter(Between("my.Twice"), DType::kNull, {Nhwc}),
            "nhwc.enter nhwc.Conv2d my.Twice nhwc.Conv2d nhwc.leave");
  EXPECT_EQ(OwnTypesAfter(Between("my.ByChannel"), DType::kNull, {Nhwc}),
            "nhwc.enter nhwc.Conv2d my.ByChannelNhwc nhwc.Conv2d nhwc.leave");
  EXPECT_EQ(OwnTypesAfter(Between("my.Plain"), DType::kNull, {Nhwc}), apart + "my.Plain" + again);
  // Conditions are asked for each operator.
  EXPECT_EQ(OwnTypesAfter(Between("my.Twice", "strange"), DType::kNull, {Nhwc}),
            apart + "my.Twice" + again);
  EXPECT_EQ(OwnTypesAfter(Between("my.ByChannel", "own", "off=True "), DType::kNull, {Nhwc}),
            apart + "my.ByChannel" + again);
}

TEST(Traits, AnOperatorOfOnesOwnStaysInF16) {
  EXPECT_EQ(OwnTypesAfter(Between("my.Twice"), DType::kF16, {Nhwc, NarrowFloats}),
            "nhwc.pack nhwc.Conv2d my.Twice nhwc.Conv2d nhwc.leave Tensor.to");
  EXPECT_EQ(OwnTypesAfter(Between("my.WideTwice"), DType::kF16, {Nhwc, NarrowFloats}),
            "nhwc.pack nhwc.Conv2d Tensor.to my.WideTwice Tensor.to nhwc.Conv2d nhwc.leave "
            "Tensor.to");
  EXPECT_EQ(OwnTypesAfter(Between("my.ByChannel"), DType::kF16, {Nhwc, NarrowFloats}),
            "nhwc.pack nhwc.Conv2d Tensor.to my.ByChannelNhwc Tensor.to nhwc.Conv2d nhwc.leave "
            "Tensor.to");
}

TEST(Traits, AnOperatorOfOnesOwnGivesTheSameAnswersInEitherLayout) {
  const Tensor input = testing::RandomTensor(DType::kF32, {1, 3, 5, 4}, 3);
  for (const char* type : {"my.Twice", "my.ByChannel"}) {
    SCOPED_TRACE(type);
    LoadOptions plain, passes;
    plain.registry = passes.registry = &WithOwnOperators();
    plain.disabled_passes = {"all"};
    const auto expected =
        Session(RuntimeGraph::Build(RandomGraph(Between(type)), plain)).Forward({input});
    const auto graph = RuntimeGraph::Build(RandomGraph(Between(type)), passes);
    EXPECT_EQ(std::count_if(graph->graph().operators.begin(), graph->graph().operators.end(),
                            [](const Operator& op) { return op.type == "nhwc.enter"; }),
              1);
    testing::ExpectNear(Session(graph).Forward({input})[0], expected[0], {1e-5, 1e-5});
  }
}

TEST(Traits, NhwcFormsAreDeclaredAndTakeWhatTheirOperatorsTake) {
  const LayerRegistry& registry = LayerRegistry::Global();
  int forms = 0;
  for (const std::string& type : registry.Types()) {
    const OperatorSchema& schema = *registry.Schema(type);
    if (schema.nhwc_form().type.empty()) continue;
    ++forms;
    const OperatorSchema* form = registry.Schema(schema.nhwc_form().type);
    ASSERT_NE(form, nullptr) << type << " -> " << schema.nhwc_form().type;
    for (const ArgSpec& arg : form->args()) {
      const std::string name = (arg.attribute ? "@" : "") + arg.name;
      if (arg.required) {
        EXPECT_GE(schema.Find(name), 0) << type << " has no " << name;
      }
    }
    EXPECT_TRUE(form->nhwc_form().type.empty()) << form->types()[0];
  }
  EXPECT_GE(forms, 28);
}

TEST(Traits, ExpressionsStateTheirsByTheirText) {
  const OperatorSchema& schema = *LayerRegistry::Global().Schema("pnnx.Expression");
  Operator op;
  const auto has = [&](const char* text, Trait trait) {
    op.params["expr"] = Parameter(text);
    return schema.Has(trait, op);
  };
  EXPECT_TRUE(has("add(@0,@1)", Trait::kElementwise));
  EXPECT_TRUE(has("add(@0,@1)", Trait::kKeepsDType));
  EXPECT_TRUE(has("torch.float(@0)", Trait::kElementwise));
  EXPECT_FALSE(has("torch.float(@0)", Trait::kKeepsDType));
  EXPECT_FALSE(has("size(@0,1)", Trait::kElementwise));
  EXPECT_FALSE(has("size(@0,1)", Trait::kKeepsDType));
  EXPECT_TRUE(schema.Has(Trait::kElementwise));
  EXPECT_FALSE(schema.Has(Trait::kRandom));
}

TEST(Traits, HaveNamesOfTheirOwn) {
  EXPECT_EQ(Name(Trait::kElementwise), "elementwise");
  EXPECT_NE(Name(Trait::kKeepsDType), Name(Trait::kF16OnCpu));
}

}  // namespace
}  // namespace oort
