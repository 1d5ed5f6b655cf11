// SPDX-License-Identifier: MIT
// Tiny rerankers beside what transformers says of them (make_text_encoders.py).
#include "oort/reranker.h"

#include <cmath>
#include <limits>
#include <stop_token>

#include "encoders/folders.h"
#include "kit/errors.h"
#include "oort/embedder.h"

namespace oort {
namespace {

using testing::ExpectThrows;

RerankerOptions OneThreadOf(int64_t batch_tokens = 4096) {
  RerankerOptions options;
  options.threads = 1;
  options.batch_tokens = batch_tokens;
  return options;
}

class TinyReranker : public ::testing::TestWithParam<std::string> {};

TEST_P(TinyReranker, ScoresAreThoseOfTransformersAloneAndTogether) {
  const bool asks_for_raw = GetParam() == "bert_reranker";
  for (const bool raw : {false, true}) {
    for (const int64_t batch_tokens : {1, 100, 4096}) {
      RerankerOptions options = OneThreadOf(batch_tokens);
      options.raw_scores = raw;
      Reranker reranker(TinyEncoder(GetParam()), options);
      EXPECT_EQ(reranker.max_tokens(), 40);
      std::vector<TokenPair> pairs;
      std::vector<float> expected;
      for (const auto& row : AnswersOf(GetParam())) {
        const auto query = row["query"].get<std::string>(),
                   text = row["document"].get<std::string>();
        bool truncated = false;
        const TokenPair pair = reranker.Encode(query, text, &truncated);
        EXPECT_EQ(pair.ids, row["ids"].get<std::vector<int32_t>>()) << query << " / " << text;
        EXPECT_EQ(pair.types, row["types"].get<std::vector<int32_t>>()) << query << " / " << text;
        EXPECT_LE(pair.ids.size(), 40u);
        expected.push_back(row[raw || asks_for_raw ? "logit" : "score"].get<float>());
        const RerankScores alone = reranker.Score(query, std::vector{text});
        EXPECT_NEAR(alone.values.at(0), expected.back(), 1e-4) << query << " / " << text;
        EXPECT_EQ(alone.tokens, static_cast<int64_t>(pair.ids.size()));
        EXPECT_EQ(alone.truncated, truncated ? 1 : 0);
        pairs.push_back(pair);
      }
      ExpectClose(reranker.ScoreTokens(pairs).values, expected, "pair ");
    }
  }
}

TEST_P(TinyReranker, StopsWhereItIsTold) {
  std::stop_source stop;
  stop.request_stop();
  RerankerOptions options = OneThreadOf();
  Reranker reranker(TinyEncoder(GetParam()), options);
  const std::vector<std::string> texts = {"a fox", "a cat"};
  ExpectThrows([&] { reranker.Score("a fox", texts, stop.get_token()); }, ErrorCode::kCancelled,
               "");
  EXPECT_EQ(reranker.Score("a fox", texts).values.size(), 2u);
  options.stop = stop.get_token();
  ExpectThrows([&] { Reranker(TinyEncoder(GetParam()), options); }, ErrorCode::kCancelled, "");
}

INSTANTIATE_TEST_SUITE_P(All, TinyReranker,
                         ::testing::Values("bert_reranker", "modernbert_mean_reranker",
                                           "modernbert_reranker", "xlm_roberta_reranker"),
                         [](const auto& one) { return one.param; });

TEST(Reranker, RefusesWhatItCannotScore) {
  ExpectThrows([] { Reranker(TinyEncoder("tiny_bert"), OneThreadOf()); }, ErrorCode::kUnsupported,
               "holds no reranker");
  ExpectThrows([] { Reranker(TinyEncoder("bert"), OneThreadOf()); }, ErrorCode::kUnsupported,
               "'classifier.weight' is missing");
  ExpectThrows([] { Reranker("/nowhere"); }, ErrorCode::kNotFound, "tokenizer.json");
  RerankerOptions small = OneThreadOf();
  small.max_tokens = 4;
  ExpectThrows([&] { Reranker(TinyEncoder("bert_reranker"), small); }, ErrorCode::kInvalidArgument,
               "no room");
  EncoderCopy copy("bert_reranker");
  ChangeJson(copy.path() / "config.json",
             {{"sentence_transformers", {{"activation_fn", "torch.nn.Tanh"}}}});
  ExpectThrows([&] { Reranker(copy.path(), OneThreadOf()); }, ErrorCode::kUnsupported, "Tanh");
  Reranker reranker(TinyEncoder("bert_reranker"), OneThreadOf());
  const auto score = [&](TokenPair pair) { reranker.ScoreTokens({&pair, 1}); };
  ExpectThrows([&] { score({}); }, ErrorCode::kInvalidArgument, "1 to 40 tokens");
  ExpectThrows([&] { score({{5}, {}}); }, ErrorCode::kInvalidArgument, "for each token");
  ExpectThrows([&] { score({{5}, {2}}); }, ErrorCode::kInvalidArgument, "2 types");
  ExpectThrows([&] { score({{-1}, {0}}); }, ErrorCode::kInvalidArgument, "not among");
  EXPECT_NO_THROW(score({{5}, {1}}));
  EXPECT_TRUE(reranker.Score("a", {}).values.empty());
}

TEST(Reranker, KnowsItsFolders) {
  EXPECT_TRUE(IsReranker(TinyEncoder("bert_reranker")));
  EXPECT_FALSE(IsEncoder(TinyEncoder("bert_reranker")));
  EXPECT_FALSE(IsReranker(TinyEncoder("bert")));
  EXPECT_FALSE(IsReranker(TinyEncoder("tiny_bert")));
  EXPECT_FALSE(IsReranker(SourceTree() / "models" / "storyteller"));
  EXPECT_FALSE(IsReranker("/nowhere"));
}

TEST(Reranker, BestScoresKeepTheOrderOfEqualOnes) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> scores = {0.5F, none, 2, 0.5F, -1};
  EXPECT_EQ(BestScores(scores), (std::vector<size_t>{2, 0, 3, 4, 1}));
  EXPECT_EQ(BestScores(scores, 2), (std::vector<size_t>{2, 0}));
  EXPECT_EQ(BestScores(scores, 9).size(), 5u);
  EXPECT_TRUE(BestScores({}, 3).empty());
}

}  // namespace
}  // namespace oort
