// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "small_graph.h"

namespace oort::testing {
namespace {

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
