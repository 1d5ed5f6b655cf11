// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "small_graph.h"

namespace oort::testing {
namespace {

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

}  // namespace
}  // namespace oort::testing
