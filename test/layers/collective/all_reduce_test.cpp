// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/collective/on_ranks.h"
#include "oort/testing.h"

namespace oort {
namespace {

using testing::ExpectOnAllRanks;
using testing::RankCase;
using testing::RunOnRanks;

RankCase ReduceCase(std::vector<Tensor> inputs) {
  RankCase rank;
  rank.op.type = "oort.AllReduce";
  rank.inputs = std::move(inputs);
  return rank;
}

TEST(AllReduce, AddsInTheOrderOfTheRanks) {
  // (1e8 + 1) - 1e8 is 0 in f32, and 1e8 - 1e8 + 1 is 1: the order shows.
  std::vector<RankCase> cases;
  for (const float value : {1e8f, 1.0f, -1e8f}) {
    cases.push_back(ReduceCase({Tensor::From<float>({value, 2}, {1, 2})}));
  }
  ExpectOnAllRanks<float>(RunOnRanks(cases), {0, 6});
}

TEST(AllReduce, AddsBiasAndAddendOnce) {
  std::vector<RankCase> cases;
  for (int rank = 0; rank < 2; ++rank) {
    RankCase one = ReduceCase(
        {Tensor::From<float>({1, 2, 3, 4}, {2, 2}), Tensor::From<float>({10, 20, 30, 40}, {2, 2})});
    one.op.attributes["bias"] = Tensor::From<float>({100, 200}, {2});
    cases.push_back(one);
  }
  ExpectOnAllRanks<float>(RunOnRanks(cases), {112, 224, 136, 248});
}

TEST(AllReduce, ManyNumbersHaveTheBitsOfFew) {
  // So many are added where they lie, a part by each rank: 12345 is no multiple of anything.
  constexpr int64_t kMany = 12345, kWidth = 5;
  for (const auto& [ranks, knows] :
       {std::pair{1, false}, {2, false}, {2, true}, {3, true}, {7, false}}) {
    const Tensor addend = testing::RandomTensor(DType::kF32, {kMany / kWidth, kWidth}, 90);
    const Tensor bias = testing::RandomTensor(DType::kF32, {kWidth}, 91);
    std::vector<RankCase> cases;
    std::vector<float> want(kMany, 0.0f);
    for (int rank = 0; rank < ranks; ++rank) {
      const Tensor mine = testing::RandomTensor(DType::kF32, addend.shape(),
                                                10U + static_cast<uint64_t>(rank), -1e3, 1e3);
      for (size_t i = 0; i < want.size(); ++i) {
        want[i] = rank == 0 ? mine.data<float>()[i] : want[i] + mine.data<float>()[i];
      }
      cases.push_back(ReduceCase({mine, addend}));
      cases.back().op.attributes["bias"] = bias;
      // Where it is known that there are two, each adds up all.
      cases.back().op.params["ranks"] = Parameter::FromValue(Value(int64_t{knows ? ranks : 0}));
    }
    for (size_t i = 0; i < want.size(); ++i) {
      want[i] = want[i] + bias.data<float>()[i % kWidth] + addend.data<float>()[i];
    }
    ExpectOnAllRanks<float>(RunOnRanks(cases), want);
  }
}

TEST(AllReduce, TwoThatEachAddAllKeepWhatTheOtherReads) {
  // The second sum reads what the first one made, which is nobody's input: it may not be
  // overwritten.
  RankCase one = ReduceCase({testing::RandomTensor(DType::kF32, {100, 1000}, 7)});
  one.op.params["ranks"] = Parameter::FromValue(Value(int64_t{2}));
  one.twice = true;
  std::vector<float> want;
  for (const float value : one.inputs[0].span<float>()) want.push_back(4 * value);
  for (int i = 0; i < 20; ++i) ExpectOnAllRanks<float>(RunOnRanks({one, one}), want);
}

TEST(AllReduce, ManyNumbersThatDoNotFitEndAllRanks) {
  const auto case_of = [](int64_t count) {
    return ReduceCase({testing::RandomTensor(DType::kF32, {1, count}, 3)});
  };
  const auto results = RunOnRanks({case_of(20000), case_of(20001), case_of(20000)});
  for (const auto& result : results) {
    EXPECT_NE(result.error.find("do not compute the same model"), std::string::npos)
        << result.error;
  }
}

TEST(AllReduce, OfNothingIsNothing) {
  const Tensor none(DType::kF32, Shape{0, 8});
  ExpectOnAllRanks<float>(RunOnRanks({ReduceCase({none, none}), ReduceCase({none, none})}), {});
}

TEST(AllReduce, ASumOfAnotherNumberOfRanksIsRefused) {
  RankCase one = ReduceCase({Tensor::From<float>({1, 2}, {1, 2})});
  one.op.params["ranks"] = Parameter::FromValue(Value(int64_t{3}));
  for (const auto& result : RunOnRanks({one, one})) {
    EXPECT_NE(result.error.find("3 ranks have, and there are 2"), std::string::npos)
        << result.error;
  }
}

TEST(AllReduce, RanksThatDisagreeAllSaySo) {
  const auto results = RunOnRanks({ReduceCase({Tensor::From<float>({1, 2}, {1, 2})}),
                                   ReduceCase({Tensor::From<float>({1, 2, 3}, {1, 3})})});
  for (const auto& result : results) {
    EXPECT_NE(result.error.find("do not compute the same model"), std::string::npos)
        << result.error;
  }
}

TEST(AllReduce, AloneItSaysWhatIsMissing) {
  const RankCase alone = ReduceCase({Tensor::From<float>({1, 2}, {1, 2})});
  Session session(testing::GraphOf(alone), {.threads = 1});
  try {
    session.Forward(alone.inputs);
    FAIL() << "it ran";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("other ranks"), std::string::npos);
  }
}

}  // namespace
}  // namespace oort
