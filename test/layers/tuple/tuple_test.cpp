// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/shape/moved_elements.h"

namespace oort::testing {
namespace {

/// A graph written operator by operator; operands are named by their numbers.
class SmallGraph {
 public:
  explicit SmallGraph(int operands) {
    for (int i = 0; i < operands; ++i) graph_.AddOperand(std::to_string(i));
  }
  SmallGraph& Add(const std::string& type, std::vector<int> inputs, std::vector<int> outputs,
                  const std::map<std::string, std::string>& params = {},
                  std::vector<std::string> names = {}) {
    Operator op;
    op.type = type;
    const bool input = type == "pnnx.Input", output = type == "pnnx.Output";
    op.name = input    ? "pnnx_input_" + std::to_string(inputs_++)
              : output ? "pnnx_output_0"
                       : "op" + std::to_string(graph_.operators.size());
    op.input_names = std::move(names);
    op.input_names.resize(inputs.size());
    op.inputs = std::move(inputs);
    op.outputs = std::move(outputs);
    for (const auto& [key, text] : params) op.params[key] = Parameter(text);
    graph_.AddOperator(std::move(op));
    return *this;
  }
  std::vector<Tensor> Run(const std::vector<Tensor>& inputs, bool passes = true) const {
    LoadOptions options;
    if (!passes) options.disabled_passes = {"all"};
    return Session(RuntimeGraph::Build(graph_, options)).Forward(inputs);
  }

 private:
  Graph graph_;
  int inputs_ = 0;
};

TEST(Tuple, PacksAndUnpacks) {
  const Tensor a = RandomTensor(DType::kF32, {2}), b = RandomTensor(DType::kI64, {3});
  for (const auto& [pack, unpack] : {std::pair("prim::TupleConstruct", "prim::TupleUnpack"),
                                     std::pair("prim::ListConstruct", "prim::ListUnpack")}) {
    for (bool passes : {true, false}) {
      SCOPED_TRACE(std::string(pack) + (passes ? " with" : " without") + " passes");
      SmallGraph graph(6);
      graph.Add("pnnx.Input", {}, {0}).Add("pnnx.Input", {}, {1});
      graph.Add(pack, {0, 1}, {2}).Add(unpack, {2}, {3, 4});
      graph.Add("torch.flip", {3}, {5}, {{"dims", "(0)"}}).Add("pnnx.Output", {5, 4}, {});
      const std::vector<Tensor> outputs = graph.Run({a, b}, passes);
      ASSERT_EQ(outputs.size(), 2u);
      ExpectNear(outputs[0], Tensor::From<float>({a.data<float>()[1], a.data<float>()[0]}, {2}));
      ExpectNear(outputs[1], b);
    }
  }
}

TEST(Tuple, FlattensNestedOutputs) {
  const Tensor a = RandomTensor(DType::kF32, {2}), b = RandomTensor(DType::kI64, {3});
  SmallGraph graph(4);
  graph.Add("pnnx.Input", {}, {0}).Add("pnnx.Input", {}, {1});
  graph.Add("prim::TupleConstruct", {1, 0}, {2}).Add("prim::TupleConstruct", {0, 2}, {3});
  graph.Add("pnnx.Output", {3}, {});
  for (bool passes : {true, false}) {
    const std::vector<Tensor> outputs = graph.Run({a, b}, passes);
    ASSERT_EQ(outputs.size(), 3u);
    ExpectNear(outputs[0], a);
    ExpectNear(outputs[1], b);
    ExpectNear(outputs[2], a);
  }
}

TEST(Tuple, UnpacksWhatAnOperatorGivesAsAList) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  SmallGraph graph(4);
  graph.Add("pnnx.Input", {}, {0}).Add("torch.unbind", {0}, {1}, {{"dim", "0"}});
  graph.Add("prim::ListUnpack", {1}, {2, 3}).Add("pnnx.Output", {3, 2}, {});
  const std::vector<Tensor> outputs = graph.Run({x});
  ASSERT_EQ(outputs.size(), 2u);
  ExpectNear(outputs[0], x.Rows(1, 2).Reshaped({3}));
  ExpectNear(outputs[1], x.Rows(0, 1).Reshaped({3}));
}

TEST(Tuple, RefusesAWrongCount) {
  SmallGraph graph(4);
  graph.Add("pnnx.Input", {}, {0}).Add("torch.unbind", {0}, {1}, {{"dim", "0"}});
  graph.Add("prim::ListUnpack", {1}, {2, 3}).Add("pnnx.Output", {3, 2}, {});
  EXPECT_THROW(graph.Run({RandomTensor(DType::kF32, {3, 3})}), Error);
}

TEST(Tuple, KeepsTheValuesOfADictionary) {
  const Tensor x = RandomTensor(DType::kF32, {2});
  SmallGraph graph(5);
  graph.Add("pnnx.Input", {}, {0}).Add("prim::Constant", {}, {1}, {{"value", "first"}});
  graph.Add("prim::Constant", {}, {2}, {{"value", "second"}});
  graph.Add("torch.flip", {0}, {3}, {{"dims", "(0)"}});
  graph.Add("prim::DictConstruct", {1, 0, 2, 3}, {4}).Add("pnnx.Output", {4}, {});
  const std::vector<Tensor> outputs = graph.Run({x});
  ASSERT_EQ(outputs.size(), 2u);
  ExpectNear(outputs[0], x);
}

TEST(SliceIndexes, FillsInComputedPositions) {
  const Tensor x = RandomTensor(DType::kF32, {4, 5});
  SmallGraph graph(6);
  graph.Add("pnnx.Input", {}, {0});
  graph.Add("Tensor.size", {0}, {1}, {{"dim", "0"}});  // 4
  graph.Add("pnnx.SliceIndexes", {1}, {2}, {{"indexes", "(0,@0)"}});
  graph.Add("Tensor.slice", {0, 2}, {3},
            {{"dims", "(0,1)"},
             {"starts", "(1,1)"},
             {"steps", "(1,1)"},
             {"selects", "(2147483647,2147483647)"}},
            {"input", "ends"});
  graph.Add("pnnx.Output", {3}, {});
  ExpectNear(graph.Run({x})[0], Tensor(DType::kF32, {0, 3}));

  SmallGraph scalar(5);  // an index that only the elements tell
  scalar.Add("pnnx.Input", {}, {0}).Add("pnnx.Input", {}, {1});
  scalar.Add("pnnx.SliceIndexes", {1}, {2}, {{"indexes", "(@0,2147483647)"}});
  scalar.Add("Tensor.slice", {0, 2}, {3},
             {{"dims", "(0,1)"}, {"starts", "(0,0)"}, {"ends", "(0,2)"}, {"steps", "(0,1)"}},
             {"input", "selects"});
  scalar.Add("pnnx.Output", {3}, {});
  ExpectNear(scalar.Run({x, Tensor::Scalar<int64_t>(3)})[0],
             Tensor::From<float>({x.data<float>()[15], x.data<float>()[16]}, {2}));
}

TEST(SliceIndexes, RefusesWhatIsNoIndex) {
  for (const char* text : {"(@1)", "(@)", "(1.5)", "(a)", "(@-1)", "(,)"}) {
    SCOPED_TRACE(text);
    SmallGraph graph(3);
    graph.Add("pnnx.Input", {}, {0});
    graph.Add("pnnx.SliceIndexes", {0}, {1}, {{"indexes", text}}).Add("pnnx.Output", {1}, {});
    EXPECT_THROW(graph.Run({Tensor::Scalar<int64_t>(3)}), Error);
  }
}

}  // namespace
}  // namespace oort::testing
