// SPDX-License-Identifier: MIT
#include "oort/constraint.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kit/errors.h"
#include "kit/paths.h"
#include "oort/engine.h"

namespace oort {
namespace {

using testing::ExpectThrows;
using Tokens = std::vector<int32_t>;

std::shared_ptr<const LanguageModel> ConstrainedModel() {
  return LanguageModel::Load(TestData() / "checkpoints/llama.gguf");
}

/// One of some answers.
class OneOf : public TokenConstraint {
 public:
  explicit OneOf(std::vector<Tokens> choices) : choices_(std::move(choices)) {}
  void Mask(std::span<uint32_t> bits) override {
    for (const Tokens& choice : choices_) {
      if (!Fits(choice) || choice.size() == read_.size()) continue;
      const size_t token = static_cast<size_t>(choice[read_.size()]);
      bits[token / 32] |= uint32_t{1} << (token % 32);
    }
  }
  bool Accept(int32_t token) override {
    read_.push_back(token);
    if (std::ranges::any_of(choices_, [&](const Tokens& choice) { return Fits(choice); }))
      return true;
    read_.pop_back();
    return false;
  }
  bool done() const override { return std::ranges::find(choices_, read_) != choices_.end(); }
  std::unique_ptr<TokenConstraint> Clone() const override { return std::make_unique<OneOf>(*this); }

 private:
  bool Fits(const Tokens& choice) const {
    return choice.size() >= read_.size() && std::equal(read_.begin(), read_.end(), choice.begin());
  }
  std::vector<Tokens> choices_;
  Tokens read_;
};

/// Allows what it then refuses, or nothing.
class Contradiction : public TokenConstraint {
 public:
  explicit Contradiction(uint32_t word) : word_(word) {}
  void Mask(std::span<uint32_t> bits) override { bits[0] = word_; }
  bool Accept(int32_t) override { return false; }
  bool done() const override { return false; }
  std::unique_ptr<TokenConstraint> Clone() const override {
    return std::make_unique<Contradiction>(*this);
  }

 private:
  uint32_t word_;
};

GenerateRequest Constrained(std::shared_ptr<const TokenConstraint> constraint,
                            float temperature = 0, uint64_t seed = 0) {
  GenerateRequest request;
  request.prompt = {3, 17, 29};
  request.max_tokens = 20;
  request.sampling.temperature = temperature;
  request.sampling.seed = seed;
  request.constraint = std::move(constraint);
  return request;
}

TEST(TokenConstraint, AnswersSayWhatTheyMay) {
  const auto model = ConstrainedModel();
  const std::vector<Tokens> choices = {{5, 6, 10}, {5, 6, 10, 8, 9}, {39, 38}, {11}};
  const auto one_of = std::make_shared<OneOf>(choices);
  Engine engine(model);
  std::vector<int> seen(choices.size());
  for (uint64_t seed = 0; seed < 40; ++seed) {
    GenerateResult result = engine.Generate(Constrained(one_of, 2.0F, seed));
    EXPECT_EQ(result.finish, FinishReason::kStop);
    ASSERT_FALSE(result.tokens.empty());
    EXPECT_TRUE(model->IsEnd(result.tokens.back()));
    result.tokens.pop_back();
    const auto found = std::ranges::find(choices, result.tokens);
    ASSERT_NE(found, choices.end()) << "seed " << seed;
    ++seen[static_cast<size_t>(found - choices.begin())];
  }
  EXPECT_EQ(std::ranges::count(seen, 0), 0) << "a choice never came";
  // An answer that may not end by a token ends where nothing can follow.
  GenerateRequest request = Constrained(one_of);
  request.ignore_end = true;
  const GenerateResult result = engine.Generate(request);
  EXPECT_EQ(result.finish, FinishReason::kStop);
  EXPECT_NE(std::ranges::find(choices, result.tokens), choices.end());
}

/// Who has no constraint picks the same tokens beside one that has, and the other way round.
TEST(TokenConstraint, NeighboursAreFree) {
  const auto model = ConstrainedModel();
  const auto one_of = std::make_shared<OneOf>(std::vector<Tokens>{Tokens(12, 4), Tokens(9, 6)});
  const auto request = [&](int i) {
    return Constrained(i % 2 == 0 ? one_of : nullptr, i < 2 ? 0.0F : 1.0F,
                       static_cast<uint64_t>(i));
  };
  Engine engine(model);
  std::vector<Tokens> alone;
  for (int i = 0; i < 4; ++i) alone.push_back(engine.Generate(request(i)).tokens);
  std::vector<int64_t> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(engine.Submit(request(i)));
  while (engine.Step()) {
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(engine.Take(ids[i])->tokens, alone[i]) << i;
}

TEST(TokenConstraint, LogProbabilitiesAreTheModels) {
  Engine engine(ConstrainedModel());
  GenerateRequest free = Constrained(nullptr);
  free.sampling.top_logprobs = 40;
  GenerateRequest bound = Constrained(std::make_shared<OneOf>(std::vector<Tokens>{{13, 14}}));
  bound.sampling.top_logprobs = 0;
  const auto top = engine.Generate(free).top.at(0);
  const auto of_13 = std::ranges::find(top, 13, &TokenLogprob::token);
  ASSERT_NE(of_13, top.end());
  EXPECT_EQ(engine.Generate(bound).logprobs.at(0), of_13->logprob);
}

TEST(TokenConstraint, ContradictionsEndOneRequest) {
  Engine engine(ConstrainedModel());
  ExpectThrows([&] { engine.Generate(Constrained(std::make_shared<Contradiction>(0))); },
               ErrorCode::kInvalidArgument, "allows no token");
  ExpectThrows([&] { engine.Generate(Constrained(std::make_shared<Contradiction>(8))); },
               ErrorCode::kInvalidArgument, "refuses token 3");
  EXPECT_EQ(engine.stats().used_blocks, 0);
  EXPECT_FALSE(engine.Generate(Constrained(nullptr)).tokens.empty());
}

TEST(MinTokens, HoldsTheEndBack) {
  const auto model = ConstrainedModel();
  const int32_t end = model->end_tokens()[0];
  Engine engine(model);
  GenerateRequest request = Constrained(nullptr);
  request.sampling.logit_bias = {{end, 1000.0F}};
  for (const int64_t least : {0, 1, 7, 20, 30}) {
    request.min_tokens = least;
    const GenerateResult result = engine.Generate(request);
    const int64_t most = request.max_tokens;
    EXPECT_EQ(static_cast<int64_t>(result.tokens.size()), std::min(least + 1, most));
    EXPECT_EQ(result.finish, least < most ? FinishReason::kStop : FinishReason::kLength);
    EXPECT_EQ(std::ranges::count(result.tokens, end), least < most ? 1 : 0);
  }
  request.min_tokens = -1;
  ExpectThrows([&] { engine.Submit(request); }, ErrorCode::kInvalidArgument, "min_tokens");
}

TEST(StopTokens, EndAnAnswerButNotTooEarly) {
  const auto model = ConstrainedModel();
  Engine engine(model);
  GenerateRequest request = Constrained(nullptr);
  request.ignore_end = true;
  request.sampling.logit_bias = {{7, 1000.0F}};
  request.stop_tokens = {9, 7};
  for (const int64_t least : {0, 1, 5}) {
    request.min_tokens = least;
    const GenerateResult result = engine.Generate(request);
    EXPECT_EQ(static_cast<int64_t>(result.tokens.size()), least + 1);
    EXPECT_EQ(result.finish, FinishReason::kStop);
    EXPECT_EQ(std::ranges::count(result.tokens, 7), 1);
  }
  request.stop_tokens = {-1};
  ExpectThrows([&] { engine.Submit(request); }, ErrorCode::kInvalidArgument, "stop_tokens");
  request.stop_tokens.assign(257, 7);
  ExpectThrows([&] { engine.Submit(request); }, ErrorCode::kLimit, "stop_tokens");
}

/// What a constraint needs comes before what the caller wishes.
TEST(MinTokens, AConstraintMayEndEarlier) {
  Engine engine(ConstrainedModel());
  GenerateRequest request = Constrained(std::make_shared<OneOf>(std::vector<Tokens>{{5, 6}}));
  request.min_tokens = 10;
  const GenerateResult result = engine.Generate(request);
  EXPECT_EQ(result.tokens, (Tokens{5, 6}));
  EXPECT_EQ(result.finish, FinishReason::kStop);
}

TEST(Sampler, PicksAmongAllowedTokens) {
  const std::vector<float> logits = {5, 4, 3, 2, 1};
  Sampler greedy;
  const uint32_t some[] = {0b01100};
  EXPECT_EQ(greedy.Sample(logits, some).token, 2);
  const uint32_t none[] = {0};
  ExpectThrows([&] { greedy.Sample(logits, none); }, ErrorCode::kInvalidArgument, "no token");
  const std::vector<float> many(40, 1.0F);
  ExpectThrows([&] { greedy.Sample(many, some); }, ErrorCode::kInvalidArgument, "fewer bits");
  SamplingOptions options;
  options.temperature = 1;
  options.top_logprobs = 1;
  Sampler draws(options);
  for (int i = 0; i < 20; ++i) {
    const SampledToken sampled = draws.Sample(logits, some);
    EXPECT_TRUE(sampled.token == 2 || sampled.token == 3);
    EXPECT_EQ(sampled.top.at(0).token, 0);
  }
}

}  // namespace
}  // namespace oort
