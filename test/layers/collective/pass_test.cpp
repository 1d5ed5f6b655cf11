// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/collective/on_ranks.h"

namespace oort {
namespace {

using testing::RankCase;
using testing::RunOnRanks;

RankCase PassCase(const char* name, const Tensor& tensor, int64_t width, int64_t from, int64_t to) {
  RankCase rank;
  rank.op.type = "oort.Pass";
  rank.op.input_names = {name};
  rank.op.params["width"] = Parameter::FromValue(Value(width));
  rank.op.params["from"] = Parameter::FromValue(Value(from));
  rank.op.params["to"] = Parameter::FromValue(Value(to));
  rank.inputs = {tensor};
  return rank;
}

TEST(Pass, HandsRowsToOneRank) {
  const Tensor numbers = Tensor::From<float>({1, 2, 3, 4}, {2, 2});
  const Tensor like = Tensor::From<int32_t>({0, 0}, {2});
  const auto results =
      RunOnRanks({PassCase("like", like, 2, 1, 2), PassCase("input", numbers, 2, 1, 2),
                  PassCase("like", like, 2, 1, 2)});
  const std::vector<std::vector<float>> want = {{0, 0, 0, 0}, {1, 2, 3, 4}, {1, 2, 3, 4}};
  for (size_t rank = 0; rank < want.size(); ++rank) {
    ASSERT_EQ(results[rank].error, "");
    const auto got = results[rank].output.span<float>();
    EXPECT_EQ(std::vector<float>(got.begin(), got.end()), want[rank]) << rank;
  }
}

TEST(Pass, HandsTokensToOneRank) {
  const Tensor tokens = Tensor::From<int32_t>({7, 8, 9}, {3});
  const auto results = RunOnRanks({PassCase("like", Tensor::From<int32_t>({0, 0, 0}, {3}), 0, 1, 0),
                                   PassCase("input", tokens, 0, 1, 0)});
  testing::ExpectOnAllRanks<int32_t>(results, {7, 8, 9});
}

TEST(Pass, RanksThatDisagreeAllSaySo) {
  const auto results =
      RunOnRanks({PassCase("like", Tensor::From<int32_t>({0}, {1}), 2, 1, 0),
                  PassCase("input", Tensor::From<float>({1, 2, 3, 4}, {2, 2}), 2, 1, 0)});
  EXPECT_NE(results[0].error.find("do not compute the same model"), std::string::npos)
      << results[0].error;
}

TEST(Pass, RowsOfAnotherWidthAreRefused) {
  const RankCase wrong = PassCase("input", Tensor::From<float>({1, 2, 3}, {1, 3}), 2, 0, 1);
  try {
    Session session(testing::GraphOf(wrong), {.threads = 1});
    session.Forward(wrong.inputs);
    FAIL() << "it ran";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("expected rows of 2 numbers"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace oort
