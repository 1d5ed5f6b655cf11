// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/collective/on_ranks.h"
#include "oort/testing.h"

namespace oort {
namespace {

using testing::ExpectOnAllRanks;
using testing::OperatorCase;
using testing::RandomTensor;
using testing::RankCase;
using testing::RunOnRanks;

constexpr int64_t kModelWidth = 16, kExpertWidth = 12, kAllExperts = 5, kUsedExperts = 2;

/// Experts [first, first + count) of five, with those of their weights.
OperatorCase ExpertsFrom(int64_t first, int64_t count) {
  const auto rows = [&](const Shape& shape, uint64_t seed) {
    const int64_t height = shape[0] / kAllExperts;
    const Tensor all = RandomTensor(DType::kF32, shape, seed, -0.3, 0.3);
    return all.Rows(first * height, (first + count) * height).Clone();
  };
  OperatorCase op("oort.ExpertMixture");
  op.Param("in_features", std::to_string(kModelWidth));
  op.Param("intermediate", std::to_string(kExpertWidth)).Param("activation", "silu");
  op.Param("experts", std::to_string(count)).Param("used", std::to_string(kUsedExperts));
  op.Attribute("weight", rows({kAllExperts * kExpertWidth, kModelWidth}, 1));
  op.Attribute("weight_1", rows({kAllExperts * kExpertWidth, kModelWidth}, 2));
  op.Attribute("weight_2", rows({kAllExperts * kModelWidth, kExpertWidth}, 3));
  if (count == kAllExperts) return op;
  op.Param("first_expert", std::to_string(first));
  op.Param("all_experts", std::to_string(kAllExperts));
  return op;
}

RankCase GatherExpertsCase(std::vector<Tensor> inputs, const std::vector<int64_t>& parts) {
  RankCase rank;
  rank.op.type = "oort.GatherExperts";
  rank.op.params["parts"] = Parameter::FromValue(Value::Ints(parts));
  rank.op.params["used"] = Parameter::FromValue(Value(kUsedExperts));
  rank.inputs = std::move(inputs);
  return rank;
}

TEST(GatherExperts, GivesTheBitsOfAllExpertsOnOneRank) {
  for (const int64_t tokens : {1, 2, 9}) {
    const Tensor x = RandomTensor(DType::kF32, {tokens, kModelWidth}, 7);
    const Tensor router = RandomTensor(DType::kF32, {tokens, kAllExperts}, 8, -3, 3);
    const Tensor addend = RandomTensor(DType::kF32, {tokens, kModelWidth}, 9);
    const Tensor want =
        ExpertsFrom(0, kAllExperts).Input(x).Input(router).Input(addend).Run().at(0);
    for (const std::vector<int64_t>& parts : {std::vector<int64_t>{2, 3}, {1, 1, 1, 1, 1}}) {
      std::vector<RankCase> cases;
      int64_t first = 0;
      for (const int64_t part : parts) {
        const Tensor rows =
            ExpertsFrom(first, part).Param("sum", "False").Input(x).Input(router).Run().at(0);
        cases.push_back(GatherExpertsCase({rows, router, addend}, parts));
        first += part;
      }
      const auto bits = want.span<float>();
      ExpectOnAllRanks<float>(RunOnRanks(cases), {bits.begin(), bits.end()});
    }
  }
}

TEST(GatherExperts, PartsOfSumsAddUp) {
  const Tensor x = RandomTensor(DType::kF32, {6, kModelWidth}, 7);
  const Tensor router = RandomTensor(DType::kF32, {6, kAllExperts}, 8, -3, 3);
  const Tensor want = ExpertsFrom(0, kAllExperts).Input(x).Input(router).Run().at(0);
  const Tensor one = ExpertsFrom(0, 2).Input(x).Input(router).Run().at(0);
  const Tensor two = ExpertsFrom(2, 3).Input(x).Input(router).Run().at(0);
  for (int64_t i = 0; i < want.elements(); ++i) {
    EXPECT_NEAR(one.data<float>()[i] + two.data<float>()[i], want.data<float>()[i], 1e-5) << i;
  }
}

TEST(GatherExperts, SaysWhatDoesNotFit) {
  const Tensor rows = RandomTensor(DType::kF32, {6, kModelWidth}, 7);
  const Tensor router = RandomTensor(DType::kF32, {3, kAllExperts}, 8);
  const auto error = [&](const std::vector<Tensor>& inputs, const std::vector<int64_t>& parts) {
    return RunOnRanks({GatherExpertsCase(inputs, parts)}).at(0).error;
  };
  EXPECT_NE(error({rows, router}, {2, 3}).find("those of 2 ranks, not of 1"), std::string::npos);
  EXPECT_NE(error({rows, router}, {4}).find("a router's logits (tokens,4)"), std::string::npos);
  EXPECT_NE(error({router, router}, {5}).find("2 rows for each token"), std::string::npos);
  EXPECT_NE(error({rows, router}, {5, 0}).find("has an expert"), std::string::npos);
  ExpertsFrom(0, 2)
      .Param("first_expert", "4")
      .Input(RandomTensor(DType::kF32, {3, kModelWidth}, 7))
      .Input(router)
      .ExpectError(ErrorCode::kInvalidModel, "2 experts from expert 4 on are no part of 5");
}

}  // namespace
}  // namespace oort
