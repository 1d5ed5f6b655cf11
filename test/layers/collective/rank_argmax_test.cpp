// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <limits>

#include "layers/collective/on_ranks.h"

namespace oort {
namespace {

using testing::ExpectOnAllRanks;
using testing::RankCase;
using testing::RunOnRanks;

RankCase PickCase(const Tensor& logits, int64_t first) {
  RankCase rank;
  rank.op.type = "oort.RankArgmax";
  rank.op.params["first"] = Parameter::FromValue(Value(first));
  rank.inputs = {logits};
  return rank;
}

TEST(RankArgmax, PicksTheLowestOfTheLargestOfAllRanks) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Tensor low = Tensor::From<float>({1, 5, 7, 0, kNan, kNan, -kInf, kNan}, {4, 2});
  const Tensor high =
      Tensor::From<float>({5, 4, 3, 7, 1, 1, kNan, -2, 3, -kInf, kNan, -kInf}, {4, 3});
  ExpectOnAllRanks<int32_t>(RunOnRanks({PickCase(low, 0), PickCase(high, 2)}), {1, 0, 4, -1});
}

TEST(RankArgmax, TakesWhatWasFoundAlready) {
  RankCase low = PickCase(Tensor::From<float>({5, 7, 0}, {3}), 0);
  RankCase high = PickCase(Tensor::From<float>({5, 8, 0}, {3}), 100);
  low.inputs.push_back(Tensor::From<int32_t>({9, 4, -1}, {3}));
  high.inputs.push_back(Tensor::From<int32_t>({1, 2, -1}, {3}));
  ExpectOnAllRanks<int32_t>(RunOnRanks({low, high}), {9, 102, -1});
}

}  // namespace
}  // namespace oort
