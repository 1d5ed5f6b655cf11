// SPDX-License-Identifier: MIT
#include "llm/experts_place.h"

#include <gtest/gtest.h>

#include "oort/tensor.h"

namespace oort {
namespace {

/// A mixture beside an operator that has weights as well.
Graph GraphOfExperts() {
  Graph graph;
  for (const char* type : {"oort.ExpertMixture", "oort.QuantizedLinear"}) {
    Operator op;
    op.type = op.name = type;
    op.attributes["weight"] = Tensor::Zeros(DType::kF32, {450, 1000});
    graph.operators.push_back(std::move(op));
  }
  return graph;
}

TEST(ExpertsPlace, StayOnTheHostWhereNineTenthsOfTheGpuDoNotHoldTheModel) {
  constexpr size_t kWeights = 3'600'000;
  EXPECT_TRUE(FitWeights(kWeights, kWeights * 10 / 9));
  EXPECT_FALSE(FitWeights(kWeights, kWeights * 10 / 9 - 100));
  Graph graph = GraphOfExperts();
  PlaceExperts(graph, kWeights * 2);
  EXPECT_FALSE(graph.operators[0].params.contains("on_host"));
  PlaceExperts(graph, kWeights);
  ASSERT_TRUE(graph.operators[0].params.contains("on_host"));
  EXPECT_TRUE(graph.operators[0].params.at("on_host").value().AsBool());
  EXPECT_FALSE(graph.operators[1].params.contains("on_host"));
}

TEST(ExpertsPlace, AreNoQuestionOnTheCpu) {
  Graph graph = GraphOfExperts();
  PlaceExperts(graph, Device::Cpu());
  EXPECT_FALSE(graph.operators[0].params.contains("on_host"));
}

}  // namespace
}  // namespace oort
