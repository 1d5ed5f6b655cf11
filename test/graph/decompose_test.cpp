// SPDX-License-Identifier: MIT
// Operators that are made of others: what the pass puts into their places, and what it leaves.
#include "graph/decomposition.h"
#include "graph/pass_check.h"
#include "kit/errors.h"

namespace oort {
namespace {

using testing::RandomTensor;

PassContext WithRegistry() {
  PassContext context = NothingEvaluated();
  context.registry = &LayerRegistry::Global();
  return context;
}

Graph Decomposed(const std::string& lines) {
  Graph graph = RandomGraph(lines);
  DecomposeOperators(graph, WithRegistry());
  FlattenTuples(graph, WithRegistry());
  RemoveDeadCode(graph, WithRegistry());
  EXPECT_TRUE(graph.Check().empty());
  return graph;
}

/// The types in between for an operator of two inputs.
std::string PartsOf(const std::string& op) {
  const std::string types =
      Types(Decomposed("pnnx.Input pnnx_input_0 0 1 a\n"
                       "pnnx.Input pnnx_input_1 0 1 b\n" +
                       op + "\npnnx.Output pnnx_output_0 1 0 out\n"));
  const std::string begin = "pnnx.Input pnnx.Input ", end = " pnnx.Output";
  EXPECT_TRUE(types.starts_with(begin) && types.ends_with(end)) << types;
  return types.substr(begin.size(), types.size() - begin.size() - end.size());
}

TEST(Decompose, PutsPartsIntoTheGraph) {
  EXPECT_EQ(PartsOf("aten::mse_loss x 2 1 a b out reduction=1"), "pnnx.Expression torch.mean");
  EXPECT_EQ(PartsOf("aten::mse_loss x 2 1 a b out reduction=0"), "pnnx.Expression");
  EXPECT_EQ(PartsOf("aten::linalg_matmul x 2 1 a b out"), "torch.matmul");
  EXPECT_EQ(PartsOf("aten::matrix_power x 1 1 a out n=3"), "torch.matmul torch.matmul");
  EXPECT_EQ(PartsOf("aten::softmax x 1 1 a out dim=1"), "F.softmax");
  // Parts of parts.
  EXPECT_EQ(PartsOf("aten::conv_tbc x 3 1 a b b out pad=1"),
            "torch.permute torch.permute F.conv1d torch.permute");
}

TEST(Decompose, NumbersStandInTheFormula) {
  const Graph graph = Decomposed(
      "pnnx.Input pnnx_input_0 0 1 a\n"
      "pnnx.Input pnnx_input_1 0 1 b\n"
      "aten::margin_ranking_loss x 3 1 a b a out margin=0.5 reduction=0\n"
      "pnnx.Output pnnx_output_0 1 0 out\n");
  const Operator& formula = graph.operators[2];
  EXPECT_EQ(formula.type, "pnnx.Expression");
  EXPECT_EQ(formula.params.at("expr").text(), "clamp(add(mul(neg(@0),sub(@1,@2)),0.5),0,None)");
  EXPECT_EQ(formula.inputs.size(), 3u);
}

TEST(Decompose, SeesThroughLists) {
  const Graph graph = Decomposed(
      "pnnx.Input pnnx_input_0 0 1 a\n"
      "pnnx.Input pnnx_input_1 0 1 b\n"
      "prim::ListConstruct list 2 1 a b ab\n"
      "aten::cat x 1 1 ab out dim=0\n"
      "pnnx.Output pnnx_output_0 1 0 out\n");
  EXPECT_EQ(Types(graph), "pnnx.Input pnnx.Input torch.cat pnnx.Output");
  EXPECT_EQ(graph.operators[2].inputs.size(), 2u);
}

TEST(Decompose, PartsSayWhatTheyAreOf) {
  const Graph graph = Decomposed(
      "pnnx.Input pnnx_input_0 0 1 a\n"
      "aten::mse_loss far 2 1 a a c reduction=1\n"
      "aten::relu near 1 1 c out\n"
      "pnnx.Output pnnx_output_0 1 0 out\n");
  ASSERT_EQ(Types(graph), "pnnx.Input pnnx.Expression torch.mean F.relu pnnx.Output");
  EXPECT_EQ(graph.operators[1].name, "far/0");
  EXPECT_EQ(graph.operators[2].name, "far/1");
  EXPECT_EQ(graph.operators[2].Describe(), "operator 'far' (aten::mse_loss, line 4)");
  EXPECT_EQ(graph.operators[3].name, "near");
  EXPECT_EQ(graph.operators[3].Describe(), "operator 'near' (aten::relu, line 5)");
}

TEST(Decompose, LeavesWhatConstantsDoNotTell) {
  for (const std::string op : {
           "aten::cosine_embedding_loss x 3 1 a b b out margin=0.0 reduction=1",  // asks for the
                                                                                  // rank
           "aten::vdot x 2 1 a b out",                                            // for the dtype
           "aten::linalg_vander x 1 1 a out N=3",                                 // for the shape
           "torch.frexp x 1 2 a out other",                                       // for elements
           "aten::softmax x 2 1 a b out",                                         // dim is computed
           "aten::_int_mm x 2 1 a b out",  // its parts would take floats
           "aten::softmax x 1 1 a out dim=what", "aten::mse_loss x 2 1 a b out reduction=7",
           "aten::matrix_power x 1 1 a out n=1000",  // would be too many
       }) {
    EXPECT_EQ(PartsOf(op), op.substr(0, op.find(' ')));
  }
}

TEST(Decompose, TracedShapesDecideNothing) {
  // Traced with a matrix, run with a vector: the axis of the classes is another.
  const std::string lines =
      "pnnx.Input pnnx_input_0 0 1 a #a=(4,3)f32\n"
      "pnnx.Input pnnx_input_1 0 1 b #b=(4)i64\n"
      "aten::cross_entropy_loss x 2 1 a b out reduction=1 #out=()f32\n"
      "pnnx.Output pnnx_output_0 1 0 out\n";
  const int64_t one = 1;
  ExpectSameAnswers(lines, {RandomTensor(DType::kF32, {3}),
                            Tensor::From(std::span<const int64_t>(&one, 1), Shape{})});
}

TEST(Decompose, AnswersStayTheSame) {
  const std::string ports =
      "pnnx.Input pnnx_input_0 0 1 a #a=(4,6)f32\n"
      "pnnx.Input pnnx_input_1 0 1 b #b=(4,6)f32\n";
  const std::vector<Tensor> inputs = {RandomTensor(DType::kF32, {4, 6}, 1, 0.1, 0.9),
                                      RandomTensor(DType::kF32, {4, 6}, 2, 0.1, 0.9)};
  for (const std::string op : {
           "aten::huber_loss x 2 1 a b out reduction=2 delta=0.3",
           "aten::smooth_l1_loss x 2 1 a b out reduction=1 beta=0.2",
           "aten::kl_div x 2 1 a b out reduction=1 log_target=False",
           "aten::binary_cross_entropy x 2 1 a b out reduction=1",
           "aten::binary_cross_entropy_with_logits x 2 1 a b out reduction=0",
           "aten::triplet_margin_loss x 3 1 a b b out margin=1.0 p=2 eps=1e-6 swap=True "
           "reduction=1",
           "torch.nanmean x 1 1 a out dim=(1) keepdim=True",
           "torch.dist x 2 1 a b out p=3",
           "aten::linalg_norm x 1 1 a out ord=fro dim=(0,1)",
           "aten::_safe_softmax x 1 1 a out dim=1",
           "torch.diagflat x 1 1 a out offset=1",
       }) {
    SCOPED_TRACE(op);
    ExpectSameAnswers(ports + op + "\npnnx.Output pnnx_output_0 1 0 out\n", inputs);
  }
}

TEST(Decompose, ErrorsNameTheOperatorOfTheFile) {
  Session session(RuntimeGraph::Build(RandomGraph("pnnx.Input pnnx_input_0 0 1 a\n"
                                                  "pnnx.Input pnnx_input_1 0 1 b\n"
                                                  "aten::matrix_power cubed 1 1 a c n=3\n"
                                                  "aten::mse_loss far 2 1 c b out reduction=1\n"
                                                  "pnnx.Output pnnx_output_0 1 0 out\n"),
                                      {}));
  const auto square = RandomTensor(DType::kF32, {3, 3});
  testing::ExpectThrows(
      [&] {
        session.Forward({RandomTensor(DType::kF32, {2, 3}), square});
      },
      ErrorCode::kInvalidArgument, "operator 'cubed' (aten::matrix_power, line 5)");
  testing::ExpectThrows(
      [&] {
        session.Forward({square, RandomTensor(DType::kF32, {2, 2})});
      },
      ErrorCode::kInvalidArgument, "operator 'far' (aten::mse_loss, line 6)");
}

/// Gives its input; counts how often it was made with its weight.
class Weighted final : public Layer {
 public:
  Weighted(const LayerInit& init, int& made) {
    if (init.IsConstant("@weight")) ++made;
  }
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(DType::kF32, {args.shape(0)[0], args.shape(1)[0]})};
  }
  void Forward(const Context&, const Args&, std::span<Value> outputs) const override {
    Tensor& y = outputs[0].AsTensor();
    std::fill_n(y.data<float>(), y.elements(), 1.0f);
  }
};

TEST(Decompose, WeightsOfPartsArePackedOnce) {
  int made = 0;
  LayerRegistry registry(LayerRegistry::Global());
  registry.Add(
      OperatorSchema({"test.Weighted"}, "").Tensor("input", kAllDTypes).Attribute("weight"),
      [&](const LayerInit& init) { return std::make_unique<Weighted>(init, made); });
  registry.Add(OperatorSchema({"test.Whole"}, "").Tensor("input", kAllDTypes).Attribute("weight"),
               [](const LayerInit&) -> std::unique_ptr<Layer> {
                 throw Error(ErrorCode::kInternal, "was left whole");
               });
  registry.SetDecomposition({"test.Whole"}, [](const Decomposer& call, const Args& args) {
    const Value y =
        call.Module("test.Weighted", {{"", args[0]}}, {{"weight", args.tensor(1)}}).front();
    return std::vector<Value>{call("F.relu", {{"input", y}})};
  });
  LoadOptions options;
  options.registry = &registry;
  const auto built = RuntimeGraph::Build(RandomGraph("pnnx.Input pnnx_input_0 0 1 x #x=(2,3)f32\n"
                                                     "test.Whole w 1 1 x y @weight=(5,3)f32\n"
                                                     "pnnx.Output pnnx_output_0 1 0 y\n"),
                                         options);
  EXPECT_EQ(made, 1);
  const Graph& graph = built->graph();
  ASSERT_EQ(Types(graph), "pnnx.Input test.Weighted F.relu pnnx.Output");
  // Its weight tells the shape all the same.
  const Operand& between = graph.operands[static_cast<size_t>(graph.operators[1].outputs[0])];
  EXPECT_TRUE(between.has_shape);
  EXPECT_EQ(between.shape, (Shape{2, 5}));
}

/// A transformer's encoder layer that torch has fused, of 8 features and two heads.
std::string EncoderLines(const char* norm_first) {
  std::string lines = "pnnx.Input pnnx_input_0 0 1 x #x=(2,5,8)f32\n", inputs = " x", names;
  const std::pair<const char*, const char*> weights[] = {
      {"qkv_weight", "(24,8)"}, {"qkv_bias", "(24)"},       {"proj_weight", "(8,8)"},
      {"proj_bias", "(8)"},     {"norm_weight_1", "(8)"},   {"norm_bias_1", "(8)"},
      {"norm_weight_2", "(8)"}, {"norm_bias_2", "(8)"},     {"ffn_weight_1", "(12,8)"},
      {"ffn_bias_1", "(12)"},   {"ffn_weight_2", "(8,12)"}, {"ffn_bias_2", "(8)"}};
  for (const auto& [name, shape] : weights) {
    lines += std::string("pnnx.Attribute ") + name + " 0 1 " + name + " @data=" + shape + "f32\n";
    inputs += std::string(" ") + name;
    names += std::string(" $") + name + "=" + name;
  }
  return lines + "aten::_transformer_encoder_layer_fwd block 13 1" + inputs + " y" + names +
         " $src=x embed_dim=8 num_heads=2 use_gelu=True eps=1e-5 norm_first=" + norm_first +
         " #y=(2,5,8)f32\npnnx.Output pnnx_output_0 1 0 y\n";
}

TEST(Decompose, EncoderLayersAreSeenByOtherPasses) {
  for (const char* norm_first : {"True", "False"}) {
    SCOPED_TRACE(norm_first);
    const std::string lines = EncoderLines(norm_first);
    const auto built = RuntimeGraph::Build(RandomGraph(lines));
    const std::string types = Types(built->graph());
    EXPECT_NE(types.find("nn.MultiheadAttention"), std::string::npos) << types;
    EXPECT_NE(types.find("oort.Linear"), std::string::npos) << "no gelu in a product: " << types;
    for (const Operand& operand : built->graph().operands) {
      EXPECT_TRUE(operand.producer < 0 || operand.has_shape) << operand.name;
    }
    ExpectSameAnswers(lines, {RandomTensor(DType::kF32, {2, 5, 8})}, {1e-5, 1e-5});
    ExpectSameAnswers(lines, {RandomTensor(DType::kF32, {3, 4, 8})}, {1e-5, 1e-5});
  }
}

TEST(Decompose, EncoderLayersTakeBatchesAlone) {
  for (const char* norm_first : {"True", "False"}) {
    Session session(RuntimeGraph::Build(RandomGraph(EncoderLines(norm_first))));
    testing::ExpectThrows(
        [&] {
          session.Forward({RandomTensor(DType::kF32, {5, 8})});
        },
        ErrorCode::kInvalidArgument,
        "operator 'block' (aten::_transformer_encoder_layer_fwd, line 16): "
        "expected an input of rank 3");
  }
}

}  // namespace
}  // namespace oort
