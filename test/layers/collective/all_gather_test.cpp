// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/collective/on_ranks.h"
#include "oort/testing.h"

namespace oort {
namespace {

using testing::ExpectOnAllRanks;
using testing::RankCase;
using testing::RunOnRanks;

RankCase GatherCase(std::vector<Tensor> inputs, const std::vector<int64_t>& parts) {
  RankCase rank;
  rank.op.type = "oort.AllGather";
  rank.op.params["parts"] = Parameter::FromValue(Value::Ints(parts));
  rank.inputs = std::move(inputs);
  return rank;
}

TEST(AllGather, PutsPartsOfAnySizeSideBySide) {
  const std::vector<int64_t> parts = {1, 3, 2};
  ExpectOnAllRanks<float>(
      RunOnRanks({GatherCase({Tensor::From<float>({1, 11}, {2, 1})}, parts),
                  GatherCase({Tensor::From<float>({2, 3, 4, 12, 13, 14}, {2, 3})}, parts),
                  GatherCase({Tensor::From<float>({5, 6, 15, 16}, {2, 2})}, parts)}),
      {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16});
}

TEST(AllGather, AddsWhatIsWhole) {
  const Tensor addend = Tensor::From<float>({100, 200, 300}, {1, 3});
  ExpectOnAllRanks<float>(
      RunOnRanks({GatherCase({Tensor::From<float>({1, 2}, {1, 2}), addend}, {2, 1}),
                  GatherCase({Tensor::From<float>({3}, {1, 1}), addend}, {2, 1})}),
      {101, 202, 303});
}

TEST(AllGather, PutsManyNumbersSideBySide) {
  constexpr int64_t kRows = 3000;
  const Tensor one = testing::RandomTensor(DType::kF32, {kRows, 2}, 1);
  const Tensor two = testing::RandomTensor(DType::kF32, {kRows, 5}, 2);
  const Tensor addend = testing::RandomTensor(DType::kF32, {kRows, 7}, 3);
  std::vector<float> want;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < 7; ++i) {
      const float part =
          i < 2 ? one.data<float>()[row * 2 + i] : two.data<float>()[row * 5 + i - 2];
      want.push_back(part + addend.data<float>()[row * 7 + i]);
    }
  }
  ExpectOnAllRanks<float>(
      RunOnRanks({GatherCase({one, addend}, {2, 5}), GatherCase({two, addend}, {2, 5})}), want);
}

TEST(AllGather, RefusesPartsOfAnotherRank) {
  const auto results = RunOnRanks({GatherCase({Tensor::From<float>({1}, {1, 1})}, {2, 1}),
                                   GatherCase({Tensor::From<float>({3}, {1, 1})}, {2, 1})});
  for (const auto& result : results) {
    EXPECT_NE(result.error.find("those of another rank"), std::string::npos) << result.error;
  }
}

}  // namespace
}  // namespace oort
