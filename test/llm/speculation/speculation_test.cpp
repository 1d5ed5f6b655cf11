// SPDX-License-Identifier: MIT
// Answers with guesses are those without, in fewer steps.
#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"
#include "cuda/device.h"
#include "kit/errors.h"
#include "kit/paths.h"
#include "llm/engine_impl.h"
#include "llm/model_drafter.h"
#include "llm/speculation/tiny_heads.h"
#include "oort/engine.h"

namespace oort {
namespace {

using testing::ExpectThrows;

const std::filesystem::path kDraftModels = TestData() / "checkpoints";

std::shared_ptr<const LanguageModel> LoadTiny(const char* file, bool exact) {
  return LanguageModel::Load(kDraftModels / file, {.exact = exact});
}

GenerateRequest Ask(std::vector<int32_t> prompt, int64_t tokens, float temperature = 0,
                    uint64_t seed = 7) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = tokens;
  request.ignore_end = true;
  request.sampling.temperature = temperature;
  request.sampling.seed = seed;
  return request;
}

DraftOptions Ngrams(int64_t tokens) {
  return {.source = DraftOptions::kNgram, .model = nullptr, .tokens = tokens};
}

DraftOptions Guessing(std::shared_ptr<const LanguageModel> model, int64_t tokens) {
  return {.source = DraftOptions::kModel, .model = std::move(model), .tokens = tokens};
}

/// Of a model of LoadWithHeads.
DraftOptions Heads(int64_t tokens) {
  return {.source = DraftOptions::kHeads, .model = nullptr, .tokens = tokens};
}

/// A text that repeats itself, so that there is something to guess.
std::vector<int32_t> Repeats() { return {3, 17, 29, 5, 11, 3, 17, 29, 5, 11, 3, 17, 29}; }

void ExpectEqual(const GeneratedAnswer& got, const GeneratedAnswer& want) {
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.text, want.text);
  EXPECT_EQ(got.finish, want.finish);
  EXPECT_EQ(got.stop, want.stop);
  EXPECT_EQ(got.logprobs, want.logprobs);  // bit for bit
  ASSERT_EQ(got.top.size(), want.top.size());
  for (size_t i = 0; i < want.top.size(); ++i) {
    ASSERT_EQ(got.top[i].size(), want.top[i].size());
    for (size_t j = 0; j < want.top[i].size(); ++j) {
      EXPECT_EQ(got.top[i][j].token, want.top[i][j].token);
      EXPECT_EQ(got.top[i][j].logprob, want.top[i][j].logprob);
    }
  }
}

class Speculation : public ::testing::TestWithParam<bool> {};

TEST_P(Speculation, GivesTheVeryTokensAndLogprobsOfPlainDecoding) {
  for (const char* file : {"llama", "qwen2.gguf", "gemma2", "gpt2.gguf", "phi3"}) {
    SCOPED_TRACE(file);
    const auto model = LoadTiny(file, GetParam());
    int64_t accepted = 0;
    for (const float temperature : {0.0F, 0.3F, 1.0F}) {
      for (const int64_t guesses : {0, 1, 4, 15}) {
        GenerateRequest request = Ask(Repeats(), 40, temperature);
        request.sampling.top_logprobs = 2;
        const GenerateResult plain = Engine(model).Generate(request);
        Engine engine(model, {.draft = Ngrams(guesses)});
        const GenerateResult got = engine.Generate(request);
        ExpectEqual(got, plain);
        EXPECT_EQ(plain.draft.drafted, 0);
        EXPECT_GE(got.draft.drafted, got.draft.accepted);
        accepted += got.draft.accepted;
        EXPECT_EQ(engine.stats().draft.accepted, got.draft.accepted);
        EXPECT_EQ(engine.stats().used_blocks, 0);
      }
    }
    EXPECT_GT(accepted, 0);
  }
}

/// Without logits: tokens are picked by the model itself.
TEST_P(Speculation, TakesFewerStepsWhereTextRepeats) {
  const auto model = LoadTiny("llama", GetParam());
  Engine plain(model), engine(model, {.draft = Guessing(model, 5)});
  EXPECT_EQ(engine.Generate(Ask({3, 17, 29}, 48)).tokens,
            plain.Generate(Ask({3, 17, 29}, 48)).tokens);
  EXPECT_EQ(plain.stats().steps, 48);
  // A model that guesses for itself is always right: six tokens a step, behind the first.
  EXPECT_EQ(engine.stats().steps, 1 + 8);
  const DraftCounts draft = engine.stats().draft;
  EXPECT_EQ(draft.accepted, draft.drafted);
  EXPECT_EQ(draft.accepted, 48 - 1 - 8);
  EXPECT_EQ(draft.accepted_at[0], 8);
}

TEST_P(Speculation, SamplesTheSameWithADraftModel) {
  const auto model = LoadTiny("llama", GetParam());
  for (const char* file : {"llama", "mistral", "qwen2"}) {
    SCOPED_TRACE(file);
    const auto draft = LoadTiny(file, GetParam());
    if (draft->info().vocabulary != model->info().vocabulary) continue;
    Engine plain(model);
    Engine engine(model, {.draft = Guessing(draft, 4)});
    Engine adaptive(model, {.draft = Guessing(draft, 0)});
    for (uint64_t seed = 0; seed < 12; ++seed) {
      GenerateRequest request = Ask(Repeats(), 30, seed % 3 == 0 ? 0.0F : 0.8F, seed);
      if (seed % 4 == 1) request.sampling.top_p = 0.9F;
      if (seed % 4 == 2) request.sampling.repetition_penalty = 1.3F;
      const GenerateResult want = plain.Generate(request);
      ExpectEqual(engine.Generate(request), want);
      ExpectEqual(adaptive.Generate(request), want);
    }
    EXPECT_GT(engine.stats().draft.drafted, 0);
  }
}

/// Heads that know nothing: nearly all guesses are wrong, and go again.
TEST_P(Speculation, GivesTheVeryTokensAndLogprobsWithHeads) {
  for (const char* file : {"llama", "qwen2.gguf", "gemma2", "gpt2.gguf", "phi3"}) {
    SCOPED_TRACE(file);
    const auto plain_model = LoadTiny(file, GetParam());
    const auto model = testing::LoadWithHeads(file, {.exact = GetParam()}, 5, 2);
    int64_t drafted = 0;
    for (const float temperature : {0.0F, 0.3F, 1.0F}) {
      for (const int64_t guesses : {0, 1, 4, 15}) {
        GenerateRequest request = Ask(Repeats(), 40, temperature);
        request.sampling.top_logprobs = 2;
        Engine engine(model, {.draft = Heads(guesses)});
        const GenerateResult got = engine.Generate(request);
        ExpectEqual(got, Engine(plain_model).Generate(request));
        EXPECT_LE(got.draft.drafted, 5 * got.draft.steps);
        EXPECT_EQ(engine.stats().used_blocks, 0);
        drafted += got.draft.drafted;
      }
    }
    EXPECT_GT(drafted, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(ExactAndFast, Speculation, ::testing::Bool());

TEST_P(Speculation, PicksTheSameTokensOnAGpu) {
  std::string reason;
  if (cuda::Devices(&reason).empty()) GTEST_SKIP() << reason;
  LanguageModelOptions options;
  options.device = Device::Cuda(0);
  options.exact = GetParam();
  const auto model = testing::LoadWithHeads("llama", options);
  for (const DraftOptions& draft :
       {Ngrams(0), Ngrams(4), Ngrams(15), Guessing(model, 3), Heads(0), Heads(3)}) {
    for (const float temperature : {0.0F, 0.8F}) {
      for (const int top : {-1, 0}) {
        GenerateRequest request = Ask(Repeats(), 40, temperature);
        request.sampling.top_logprobs = top;
        Engine engine(model, {.draft = draft});
        ExpectEqual(engine.Generate(request), Engine(model).Generate(request));
        EXPECT_EQ(engine.stats().used_blocks, 0);
      }
    }
  }
}

/// Odd tokens after even ones and even after odd ones.
class InTurns : public TokenConstraint {
 public:
  void Mask(std::span<uint32_t> bits) override {
    for (int32_t token = odd_ ? 1 : 0; token < 40; token += 2) {
      bits[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token % 32);
    }
  }
  bool Accept(int32_t token) override {
    if ((token % 2 == 1) != odd_) return false;
    odd_ = !odd_;
    return true;
  }
  bool done() const override { return true; }
  std::unique_ptr<TokenConstraint> Clone() const override {
    return std::make_unique<InTurns>(*this);
  }

 private:
  bool odd_ = true;
};

/// Each option changes which token is picked, or where the answer ends.
TEST(SpeculativeRequests, KeepToAllThatRequestsAskFor) {
  const auto model = testing::LoadWithHeads("llama", {.exact = true});
  std::vector<GenerateRequest> requests(12, Ask(Repeats(), 40, 0));
  requests[1].constraint = std::make_shared<InTurns>();
  requests[2].sampling.temperature = 1;
  requests[2].constraint = std::make_shared<InTurns>();
  requests[3].sampling.frequency_penalty = 0.4F;
  requests[4].sampling.logit_bias = {{4, 3.0F}, {9, -INFINITY}};
  requests[5].sampling.temperature = 0.7F;
  requests[5].n = 3;
  requests[6].sampling.temperature = 1;
  requests[6].n = 2;
  requests[6].best_of = 4;
  requests[7].beams.width = 3;
  requests[8].ignore_end = false;
  requests[8].min_tokens = 9;
  requests[9].prompt_logprobs = 1;
  requests[10].max_tokens = 1;
  requests[11].draft_tokens = 0;
  const std::vector<int32_t> greedy = Engine(model).Generate(requests[0]).tokens;
  GenerateRequest stopped = requests[0];
  stopped.stop_tokens = {greedy[23]};
  requests.push_back(stopped);
  for (const DraftOptions& draft :
       {Ngrams(3), Ngrams(15), Ngrams(0), Guessing(model, 6), Heads(0), Heads(3)}) {
    Engine engine(model, {.cache_tokens = 1024, .draft = draft});
    std::vector<int64_t> ids;
    for (const GenerateRequest& request : requests) ids.push_back(engine.Submit(request));
    while (engine.Step()) {
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      Engine alone(model, {.cache_tokens = 1024});
      const GenerateResult want = alone.Generate(requests[i]), got = *engine.Take(ids[i]);
      ExpectEqual(got, want);
      ASSERT_EQ(got.others.size(), want.others.size());
      for (size_t j = 0; j < want.others.size(); ++j) ExpectEqual(got.others[j], want.others[j]);
      EXPECT_EQ(got.prompt_logprobs, want.prompt_logprobs);
      if (i == 7 || i == 10 || i == 11) {
        EXPECT_EQ(got.draft.drafted, 0);
      }
    }
  }
}

/// A stop string may end in the middle of what a step gave, and what comes behind it is not told.
TEST(SpeculativeRequests, StopAndStreamTokenByToken) {
  const auto model = LanguageModel::Load(SourceTree() / "models" / "storyteller");
  GenerateRequest request =
      Ask(model->tokenizer().Encode("Once upon a time, there was a little girl named Lily. She "
                                    "had a red ball. One day, Lily lost her red ball."),
          60);
  const GenerateResult whole = Engine(model).Generate(request);
  ASSERT_GT(whole.text.size(), 40u);
  Engine engine(model, {.draft = Guessing(model, 7)});
  for (const size_t at : {10u, 23u, 31u}) {
    request.stops = {whole.text.substr(at, 5)};
    const GenerateResult want = Engine(model).Generate(request);
    std::string streamed;
    size_t pieces = 0;
    request.on_piece = [&](const GeneratedPiece& piece) {
      streamed += piece.text;
      pieces += piece.token >= 0 ? 1 : 0;
      return true;
    };
    const GenerateResult got = engine.Generate(request);
    request.on_piece = nullptr;
    ExpectEqual(got, want);
    EXPECT_EQ(got.finish, FinishReason::kStop);
    EXPECT_EQ(streamed, want.text);
    EXPECT_EQ(pieces, want.tokens.size());
  }
  // Who says no after some tokens has these, though the step had more.
  request.stops.clear();
  int seen = 0;
  request.on_piece = [&](const GeneratedPiece&) { return ++seen < 4; };
  const GenerateResult cancelled = engine.Generate(request);
  EXPECT_EQ(cancelled.finish, FinishReason::kCancelled);
  EXPECT_EQ(cancelled.tokens.size(), 4u);
  request.on_piece = [](const GeneratedPiece&) -> bool { throw std::runtime_error("no"); };
  EXPECT_ANY_THROW(engine.Generate(request));
  EXPECT_EQ(engine.stats().used_blocks, 0);
}

/// The cache is full: guesses take what is left and make nobody wait.
TEST(SpeculativeRequests, TakeNoRoomFromOthers) {
  const auto model = LoadTiny("llama", true);
  const std::vector<int32_t> want = Engine(model).Generate(Ask(Repeats(), 35)).tokens;
  for (const DraftOptions& draft : {Ngrams(15), Guessing(model, 9)}) {
    for (const bool reserve : {false, true}) {
      Engine engine(model, {.cache_tokens = 48, .reserve_cache = reserve, .draft = draft});
      for (int i = 0; i < 3; ++i) engine.Submit(Ask(Repeats(), 35));
      while (engine.Step()) {
      }
      for (int64_t id = 0; id < 3; ++id) EXPECT_EQ(engine.Take(id)->tokens, want);
      EXPECT_EQ(engine.stats().used_blocks, 0);
      EXPECT_GT(engine.stats().draft.accepted, 0);
    }
  }
}

/// What later requests find of an answer are its own tokens, not guesses that were wrong.
TEST(SpeculativeRequests, LeaveNoWrongGuessesInSharedPrefixes) {
  const auto model = testing::LoadWithHeads("llama", {.exact = true});
  const auto other = LoadTiny("mistral", true);
  for (const DraftOptions& draft : {Ngrams(15), Guessing(other, 15), Heads(3)}) {
    Engine engine(model, {.cache_tokens = 512, .reuse_prefixes = true, .draft = draft});
    std::vector<int32_t> text = Repeats();
    for (int turn = 0; turn < 5; ++turn) {
      GenerateRequest request = Ask(text, 10, 0.9F, static_cast<uint64_t>(turn));
      const std::vector<int32_t> want = Engine(model).Generate(request).tokens;
      const GenerateResult got = engine.Generate(request);
      EXPECT_EQ(got.tokens, want);
      if (turn > 0) {
        EXPECT_GE(got.reused_tokens, 16);
      }
      text.insert(text.end(), want.begin(), want.end());
    }
  }
}

TEST(SpeculativeRequests, GuessesStayWithinAShortContext) {
  const auto model = LoadTiny("phi3.gguf", true);  // angles are others behind 8 tokens
  GenerateRequest request = Ask({3, 17, 29}, 30);
  EXPECT_EQ(Engine(model, {.draft = Guessing(model, 5)}).Generate(request).tokens,
            Engine(model).Generate(request).tokens);
}

TEST(ModelDrafter, RefusesAnotherVocabulary) {
  const auto model = LoadTiny("llama.gguf", true);
  const auto story = LanguageModel::Load(SourceTree() / "models" / "storyteller");
  const auto engine_with = [&](const DraftOptions& draft) {
    return [&model, draft] { Engine(model, {.draft = draft}); };
  };
  constexpr ErrorCode kCode = ErrorCode::kInvalidArgument;
  ExpectThrows(engine_with(Guessing(story, 0)), kCode, "tokens, and the model");
  ExpectThrows(engine_with(Guessing(nullptr, 0)), kCode, "no draft model");
  ExpectThrows(engine_with(Ngrams(16)), kCode, "from 1 to 15 guesses");
  Engine engine(model, {.draft = Ngrams(3)});
  GenerateRequest request = Ask({1}, 1);
  request.draft_tokens = -2;
  ExpectThrows([&] { engine.Submit(request); }, kCode, "draft_tokens");
}

/// More answers than its cache has room for: who has none goes on without guesses.
TEST(ModelDrafter, MakesRoomForWhoAsksNow) {
  const auto model = LoadTiny("llama", true);
  ModelDrafter drafter(model, KvType::kF32, 48, 1);
  const Sampler sampler;
  std::vector<int32_t> tokens = Repeats();
  for (int64_t id = 0; id < 6; ++id) {
    std::vector<DraftAsk> asks;
    for (int64_t i = 0; i < 2; ++i) {
      asks.push_back({.id = id + i, .tokens = tokens, .sampler = &sampler, .most = 3});
    }
    drafter.Draft(asks);
    EXPECT_EQ(asks[0].guesses.size(), 3u);
    EXPECT_EQ(asks[1].guesses.size(), tokens.size() > 13 ? 0u : 3u);
    drafter.pool().Check();
    tokens.push_back(asks[0].guesses[0].token);
    tokens.push_back(static_cast<int32_t>(id));
  }
  for (int64_t id = 0; id < 8; ++id) drafter.Forget(id);
  EXPECT_EQ(drafter.pool().used_blocks(), 0);
}

/// What is drawn with guesses is distributed as the model says, whatever the guesses are, and
/// models that agree pick the same.
TEST(SpeculativeSampling, KeepsTheDistribution) {
  constexpr size_t kTokens = 20;
  constexpr int kDraws = 100'000;
  std::vector<float> target(kTokens), draft(kTokens);
  const RandomSeries random(5);
  for (size_t i = 0; i < kTokens; ++i) {
    target[i] = static_cast<float>(random.Normal(static_cast<int64_t>(i)));
    draft[i] = target[i] + 0.3F * static_cast<float>(random.Normal(static_cast<int64_t>(i + 100)));
  }
  double total = 0;
  for (const float logit : target) total += std::exp(static_cast<double>(logit));
  std::vector<int> drawn(kTokens);
  int right = 0;
  for (int i = 0; i < kDraws; ++i) {
    SamplingOptions options;
    options.temperature = 1;
    options.seed = static_cast<uint64_t>(i);
    Sampler sampler(options);
    sampler.Accept(0);  // not the first token of the answer
    const int32_t guess = sampler.Clone().Sample(draft).token;
    const int32_t token = sampler.Sample(target).token;
    ++drawn[static_cast<size_t>(token)];
    right += guess == token ? 1 : 0;
  }
  double chi_square = 0;
  for (size_t i = 0; i < kTokens; ++i) {
    const double want = kDraws * std::exp(static_cast<double>(target[i])) / total;
    chi_square += (drawn[i] - want) * (drawn[i] - want) / want;
  }
  EXPECT_LT(chi_square, 43.8) << "19 degrees of freedom: one in a thousand is above that";
  EXPECT_GT(right, kDraws / 2);
}

/// The same through the engine: the second token of many answers, which a guess may have given.
TEST(SpeculativeSampling, EnginesDrawAlike) {
  const auto model = LoadTiny("llama", true);
  const auto draft = LoadTiny("mistral", true);
  ASSERT_EQ(draft->info().vocabulary, model->info().vocabulary);
  Engine plain(model, {.cache_tokens = 4096}), engine(model, {.draft = Guessing(draft, 2)});
  GenerateRequest request = Ask({3, 17, 29}, 4, 1);
  int64_t wrong = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    request.sampling.seed = seed;
    const GenerateResult got = engine.Generate(request);
    EXPECT_EQ(got.tokens, plain.Generate(request).tokens);
    wrong += got.draft.drafted - got.draft.accepted;
  }
  EXPECT_GT(wrong, 0);
}

}  // namespace
}  // namespace oort
