// SPDX-License-Identifier: MIT
#include "oort/engine.h"

#include <gtest/gtest.h>

#include "kit/errors.h"
#include "kit/paths.h"
#include "llm/decoder_runner.h"
#include "llm/engine_impl.h"
#include "llm/memory_needs.h"

namespace oort {
namespace {

using testing::ExpectThrows;

/// All engines of this program, those of other files included, check their blocks after every step.
const bool kChecksSteps = (checks_steps = true);

const std::filesystem::path kEngineModels = TestData() / "checkpoints";

std::shared_ptr<const LanguageModel> TinyModel(const char* file = "llama.gguf") {
  return LanguageModel::Load(kEngineModels / file);
}

GenerateRequest RequestOf(std::vector<int32_t> prompt, int64_t tokens, float temperature = 0) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = tokens;
  request.ignore_end = true;
  request.sampling.temperature = temperature;
  request.sampling.seed = 7;
  return request;
}

TEST(Engine, AnswersWithAsManyTokensAsAsked) {
  Engine engine(TinyModel());
  int pieces = 0;
  GenerateRequest request = RequestOf({3, 17, 29}, 9);
  request.on_piece = [&](const GeneratedPiece& piece) {
    EXPECT_GE(piece.token, 0);
    ++pieces;
    return true;
  };
  const GenerateResult result = engine.Generate(std::move(request));
  EXPECT_EQ(result.tokens.size(), 9u);
  EXPECT_EQ(pieces, 9);
  EXPECT_EQ(result.finish, FinishReason::kLength);
  EXPECT_TRUE(result.logprobs.empty());
}

TEST(Engine, GivesRequestsSideBySideTheAnswersThatTheyHaveAlone) {
  const auto model = TinyModel();
  const std::vector<std::vector<int32_t>> prompts = {
      {3, 17, 29}, {5}, {5, 38, 11, 0, 22, 31, 8, 14, 3, 3, 9, 12, 13, 14, 15, 16, 17}, {31, 8}};
  for (float temperature : {0.0f, 1.0f}) {
    std::vector<std::vector<int32_t>> alone;
    for (const auto& prompt : prompts) {
      Engine engine(model);
      alone.push_back(engine.Generate(RequestOf(prompt, 20, temperature)).tokens);
    }
    // With room for all: who is read again may have other last digits.
    Engine engine(model, {.cache_tokens = 1024});
    std::vector<int64_t> ids;
    for (const auto& prompt : prompts) {
      ids.push_back(engine.Submit(RequestOf(prompt, 20, temperature)));
    }
    while (engine.Step()) {
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto result = engine.Take(ids[i]);
      ASSERT_TRUE(result.has_value());
      EXPECT_EQ(result->tokens, alone[i]) << "request " << i << " at " << temperature;
      EXPECT_FALSE(engine.Take(ids[i]).has_value());
    }
  }
}

/// phi3's angles are others in sequences of more than 8 tokens, also of those that are read
/// already.
TEST(Engine, LongSequencesAnswerAsIfTheyHadNoCache) {
  const auto model = LanguageModel::Load(kEngineModels / "phi3.gguf", {.exact = true});
  ASSERT_EQ(model->facts().short_context, 8);
  std::vector<int32_t> text = {3, 17, 29, 5, 11};
  const auto next = [&] {
    Engine engine(model);
    return engine.Generate(RequestOf(text, 1)).tokens.at(0);
  };
  std::vector<int32_t> want;
  for (int i = 0; i < 12; ++i) {
    want.push_back(next());
    text.push_back(want.back());
  }
  Engine engine(model, {.prompt_chunk = 3});
  // Of the second and third request the cache holds a beginning, once with the wrong angles.
  for (const size_t prompt : {5u, 5u, 12u, 8u, 9u, 12u}) {
    const std::vector<int32_t> begin(text.begin(), text.begin() + static_cast<int64_t>(prompt));
    const std::vector<int32_t> rest(text.begin() + static_cast<int64_t>(prompt), text.end());
    const int64_t tokens = static_cast<int64_t>(rest.size());
    EXPECT_EQ(engine.Generate(RequestOf(begin, tokens)).tokens, rest) << "prompt of " << prompt;
  }
  GenerateRequest cancelled = RequestOf(text, 1);
  const int64_t id = engine.Submit(std::move(cancelled));
  engine.Step();  // three tokens of a long prompt
  engine.Cancel(id);
  while (engine.Step()) {
  }
  EXPECT_EQ(engine.Generate(RequestOf({3, 17, 29, 5, 11}, 12)).tokens, want);
}

/// Greedy requests need no logits; beside one that draws, all get them.
TEST(Engine, PicksTheSameTokensWithAndWithoutLogits) {
  Engine engine(TinyModel());
  const std::vector<int32_t> greedy = engine.Generate(RequestOf({3, 10, 17}, 12)).tokens;
  GenerateRequest told = RequestOf({3, 10, 17}, 12);
  told.sampling.top_logprobs = 0;
  EXPECT_EQ(engine.Generate(std::move(told)).tokens, greedy);
  const int64_t first = engine.Submit(RequestOf({3, 10, 17}, 12));
  engine.Submit(RequestOf({5, 6}, 12, 1));
  while (engine.Step()) {
  }
  EXPECT_EQ(engine.Take(first)->tokens, greedy);
}

TEST(Engine, RunsMoreRequestsThanTheCacheHoldsAtOnce) {
  const auto model = TinyModel();
  EngineOptions options;
  options.cache_tokens = 48;
  Engine engine(model, options);
  std::vector<int64_t> ids;
  for (int32_t i = 0; i < 20; ++i) ids.push_back(engine.Submit(RequestOf({i, i + 1}, 25)));
  while (engine.Step()) {
  }
  for (int64_t id : ids) {
    const auto result = engine.Take(id);
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->tokens.size(), 25u);
  }
}

/// A cache that is too small for all of them: the younger ones are read again and again, and say
/// what they would have said alone.
TEST(Engine, PreemptedRequestsAnswerAsIfAlone) {
  const auto model = LanguageModel::Load(kEngineModels / "llama", {.exact = true});
  std::vector<std::vector<int32_t>> want;
  for (int32_t i = 0; i < 6; ++i) {
    Engine alone(model);
    want.push_back(
        alone.Generate(RequestOf({i, i + 1, i + 2}, 40, i % 2 == 0 ? 0.0f : 1.0f)).tokens);
  }
  for (const bool reserve : {false, true}) {
    Engine engine(model, {.cache_tokens = 80, .reserve_cache = reserve});
    std::vector<int64_t> ids;
    for (int32_t i = 0; i < 6; ++i) {
      ids.push_back(engine.Submit(RequestOf({i, i + 1, i + 2}, 40, i % 2 == 0 ? 0.0f : 1.0f)));
    }
    while (engine.Step()) {
    }
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(engine.Take(ids[i])->tokens, want[i]) << i;
    EXPECT_EQ(engine.stats().preemptions > 0, !reserve);
    EXPECT_EQ(engine.stats().used_blocks, 0);
  }
}

/// More answers than kernels for few rows take: those for many differ in the last digits, unless
/// each answer has to be what it is alone.
TEST(Engine, ManyAnswersOfTheFastModeAreThoseAloneWhereDeterministic) {
  const auto model = LanguageModel::Load(kEngineModels / "llama", {.exact = false});
  const auto request = [](int32_t i) {
    GenerateRequest made = RequestOf({i, i + 1, i + 2}, 12, 0.0f);
    made.sampling.top_logprobs = 0;
    return made;
  };
  constexpr int32_t kAnswers = 20;
  for (const bool deterministic : {true, false}) {
    SCOPED_TRACE(deterministic);
    Engine engine(model, {.deterministic = deterministic});
    std::vector<int64_t> ids;
    for (int32_t i = 0; i < kAnswers; ++i) ids.push_back(engine.Submit(request(i)));
    while (engine.Step()) {
    }
    for (int32_t i = 0; i < kAnswers; ++i) {
      const GenerateResult together = engine.Take(ids[static_cast<size_t>(i)]).value();
      const GenerateResult alone = Engine(model).Generate(request(i));
      if (deterministic) {
        EXPECT_EQ(together.tokens, alone.tokens) << i;
        EXPECT_EQ(together.logprobs, alone.logprobs) << i;
        continue;
      }
      for (size_t t = 0; t < alone.tokens.size() && alone.tokens[t] == together.tokens[t]; ++t) {
        EXPECT_NEAR(together.logprobs[t], alone.logprobs[t], 0.1f) << i << " at " << t;
      }
    }
  }
}

/// A cache that is too small in the fast mode, where keys and values are copied away and back: to
/// the last bit.
TEST(Engine, SwappedRequestsAnswerAsIfAlone) {
  const auto model = LanguageModel::Load(kEngineModels / "llama", {.exact = false});
  const auto request = [](int32_t i) {
    GenerateRequest made = RequestOf({i, i + 1, i + 2}, 40, i % 2 == 0 ? 0.0f : 1.0f);
    made.sampling.top_logprobs = 0;
    return made;
  };
  EngineOptions options;
  options.cache_tokens = 80;
  options.reuse_prefixes = false;
  options.swap_bytes = size_t{1} << 30;
  Engine engine(model, options);
  std::vector<int64_t> ids;
  for (int32_t i = 0; i < 6; ++i) ids.push_back(engine.Submit(request(i)));
  int64_t most_swapped = 0;
  while (engine.Step()) {
    const EngineStats stats = engine.stats();
    most_swapped = std::max(most_swapped, stats.swapped);
    EXPECT_LE(stats.swapped, stats.waiting);
  }
  EXPECT_GT(engine.stats().preemptions, 0);
  EXPECT_GT(most_swapped, 0);
  EXPECT_EQ(engine.stats().swapped, 0);
  for (int32_t i = 0; i < 6; ++i) {
    const GenerateResult together = engine.Take(ids[static_cast<size_t>(i)]).value();
    const GenerateResult alone = Engine(model).Generate(request(i));
    EXPECT_EQ(together.tokens, alone.tokens) << i;
    EXPECT_EQ(together.logprobs, alone.logprobs) << i;
  }
  EXPECT_EQ(engine.stats().used_blocks, 0);
}

/// The step that reads a prompt gives the first token of its answer.
TEST(Engine, CountsTheTokensOfSteps) {
  Engine engine(TinyModel(), {.reuse_prefixes = false});
  engine.Generate(RequestOf({3, 17, 29, 4, 5, 6, 7, 8}, 5));
  std::array<int64_t, 14> want = {};
  want[0] = 4;  // one token
  want[2] = 1;  // 9
  EXPECT_EQ(engine.stats().step_sizes.steps, want);
  EXPECT_EQ(engine.stats().step_sizes.tokens, 13);
  StepSizes sizes;
  for (const int64_t tokens : {8, 16384, 16385}) sizes.Add(tokens);
  sizes += engine.stats().step_sizes;
  want[1] = want[12] = want[13] = 1;
  EXPECT_EQ(sizes.steps, want);
  EXPECT_EQ(sizes.tokens, 13 + 8 + 16384 + 16385);
}

/// The second request begins while the first is running.
TEST(Engine, RunningRequestsShareWhatTheyHaveInCommon) {
  const auto model = LanguageModel::Load(kEngineModels / "llama", {.exact = true});
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 40; ++i) prompt.push_back(i * 3 % 40);
  Engine engine(model);
  const int64_t first = engine.Submit(RequestOf(prompt, 8));
  const int64_t second = engine.Submit(RequestOf(prompt, 8));
  GenerateRequest stranger = RequestOf(prompt, 8);
  stranger.cache_salt = "another caller";
  const int64_t third = engine.Submit(std::move(stranger));
  while (engine.Step()) {
  }
  const GenerateResult one = *engine.Take(first), two = *engine.Take(second),
                       three = *engine.Take(third);
  EXPECT_EQ(one.reused_tokens, 0);
  EXPECT_EQ(two.reused_tokens, 32);
  EXPECT_EQ(three.reused_tokens, 0);
  EXPECT_EQ(one.tokens, two.tokens);
  EXPECT_EQ(one.tokens, three.tokens);
}

/// What may change the last digits is left out: each request has its room from the start, and
/// reads its whole prompt.
TEST(Engine, ADeterministicOneReservesAndSharesNothing) {
  ASSERT_TRUE(kChecksSteps);
  const auto model = TinyModel();
  for (const bool deterministic : {false, true}) {
    Engine engine(model, {.cache_tokens = 80, .deterministic = deterministic});
    std::vector<int64_t> ids;
    for (int i = 0; i < 4; ++i) ids.push_back(engine.Submit(RequestOf({1, 2, 3}, 40)));
    int64_t most_running = 0;
    while (engine.Step()) most_running = std::max(most_running, engine.stats().running);
    EXPECT_EQ(most_running > 1, !deterministic) << "each may need more than half of the blocks";
    EXPECT_TRUE(!deterministic || engine.stats().preemptions == 0);
    const GenerateResult first = engine.Generate(RequestOf(std::vector<int32_t>(40, 3), 4));
    EXPECT_EQ(first.reused_tokens, 0);
    const GenerateResult again = engine.Generate(RequestOf(std::vector<int32_t>(40, 3), 4));
    EXPECT_EQ(again.reused_tokens, deterministic ? 0 : 32);
  }
}

TEST(Engine, EndsWhatIsPastItsDeadline) {
  Engine engine(TinyModel());
  GenerateRequest late = RequestOf({3, 17}, 10);
  late.deadline = std::chrono::steady_clock::now();
  EXPECT_EQ(engine.Generate(std::move(late)).finish, FinishReason::kDeadline);
  GenerateRequest early = RequestOf({3, 17}, 10);
  early.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
  EXPECT_EQ(engine.Generate(std::move(early)).tokens.size(), 10u);
}

TEST(Engine, ReadsLongPromptsInPieces) {
  const auto model = TinyModel();
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 50; ++i) prompt.push_back(i * 7 % 40);
  LanguageModelOptions exact;
  exact.exact = true;
  const auto reference = LanguageModel::Load(kEngineModels / "llama", exact);
  EngineOptions whole, pieces;
  whole.kv = pieces.kv = KvType::kF32;
  pieces.prompt_chunk = 7;
  Engine one(reference, whole), many(reference, pieces);
  EXPECT_EQ(one.Generate(RequestOf(prompt, 10)).tokens,
            many.Generate(RequestOf(prompt, 10)).tokens);
}

/// Parts are as long as time allows, so they must not change a bit.
TEST(Engine, WhereAPromptIsCutChangesNothing) {
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 58; ++i) prompt.push_back(i * 7 % 40);
  for (const bool exact : {true, false}) {
    for (const char* weights : {"f32", "int8", "int4"}) {
      LanguageModelOptions options;
      options.exact = exact;
      options.weights = weights;
      const auto model = LanguageModel::Load(kEngineModels / "llama", options);
      std::vector<GenerateResult> results;
      for (const int64_t chunk : {512, 40, 50, 34}) {
        Engine engine(model, {.prompt_chunk = chunk});
        GenerateRequest request = RequestOf(prompt, 3);
        request.sampling.top_logprobs = 5;
        results.push_back(engine.Generate(request));
      }
      for (const GenerateResult& result : results) {
        EXPECT_EQ(result.tokens, results[0].tokens) << weights;
        EXPECT_EQ(result.logprobs, results[0].logprobs) << weights;
      }
    }
  }
}

TEST(Engine, EndsAtATokenThatEndsAnswersAndWhereTheCallerSays) {
  const auto model = TinyModel();
  ASSERT_FALSE(model->end_tokens().empty());
  Engine engine(model);
  GenerateRequest request = RequestOf({3, 17}, 10);
  request.ignore_end = false;
  request.sampling.logit_bias = {{model->end_tokens()[0], 1000.0f}};
  const GenerateResult ended = engine.Generate(request);
  EXPECT_EQ(ended.finish, FinishReason::kStop);
  EXPECT_EQ(ended.tokens, std::vector<int32_t>{model->end_tokens()[0]});

  request = RequestOf({3, 17}, 10);
  int seen = 0;
  request.on_piece = [&](const GeneratedPiece&) { return ++seen < 3; };
  const GenerateResult cancelled = engine.Generate(request);
  EXPECT_EQ(cancelled.finish, FinishReason::kCancelled);
  EXPECT_EQ(cancelled.tokens.size(), 3u);

  const int64_t id = engine.Submit(RequestOf({3, 17}, 10));
  engine.Step();
  engine.Cancel(id);
  while (engine.Step()) {
  }
  EXPECT_EQ(engine.Take(id)->finish, FinishReason::kCancelled);
}

TEST(Engine, ReusesWhatPromptsHaveInCommon) {
  LanguageModelOptions exact;
  exact.exact = true;
  const auto model = LanguageModel::Load(kEngineModels / "llama", exact);
  EngineOptions options;
  options.kv = KvType::kF32;
  options.cache_tokens = 64;
  Engine keeps(model, options);
  options.reuse_prefixes = false;
  Engine forgets(model, options);
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 20; ++i) prompt.push_back(i * 3 % 40);
  for (int round = 0; round < 6; ++round) {
    const GenerateResult kept = keeps.Generate(RequestOf(prompt, 8));
    EXPECT_EQ(kept.tokens, forgets.Generate(RequestOf(prompt, 8)).tokens) << "round " << round;
    // What comes next begins with this prompt, and with its answer.
    prompt.insert(prompt.end(), kept.tokens.begin(), kept.tokens.begin() + 4);
  }
}

TEST(Engine, KeepsKeysAndValuesAsTheModelComputes) {
  const auto bytes_left = [](const std::shared_ptr<const LanguageModel>& model,
                             EngineOptions with) {
    with.threads = 1;
    const KvType kv = with.kv.value_or(model->default_kv());
    const MemoryNeeds needs = NeedsOf(*model, kv, with.prompt_chunk, with.most_running, 1);
    with.memory_limit = needs.weights + needs.activations + 8 * needs.block;
    return Engine(model, with).cache_tokens();
  };
  for (const std::optional<bool> exact :
       {std::optional<bool>(), std::optional(false), std::optional(true)}) {
    LanguageModelOptions load;
    load.exact = exact;
    const auto model = LanguageModel::Load(kEngineModels / "llama", load);
    const bool f32 = exact.value_or(false);
    EXPECT_EQ(model->default_kv(), f32 ? KvType::kF32 : KvType::kF16);
    EXPECT_EQ(bytes_left(model, {}), 8 * KvCache::kBlockTokens);
    // What was asked for counts.
    EngineOptions bytes;
    bytes.kv = KvType::kInt8;
    EXPECT_EQ(bytes_left(model, bytes), 8 * KvCache::kBlockTokens);
  }
}

/// Of one byte a number, as int8 without its scales, but for a GPU alone.
TEST(Engine, RefusesACacheOfFp8OnTheCpu) {
  EngineOptions options;
  options.kv = KvTypeOf("fp8");
  ExpectThrows([&] { Engine(TinyModel(), options); }, ErrorCode::kUnsupported,
               "fp8 on a GPU alone");
  const KvShape shape{2, 2, 64, KvType::kFp8};
  EXPECT_EQ(KvCache::BlockBytes(shape), size_t{2 * 2 * 2 * 64} * KvCache::kBlockTokens);
}

TEST(Engine, GivesTheCacheWhatAMemoryLimitLeaves) {
  const auto model = TinyModel();
  EngineOptions options;
  options.threads = 1;
  const MemoryNeeds needs =
      NeedsOf(*model, model->default_kv(), options.prompt_chunk, options.most_running, 1);
  EXPECT_GT(needs.weights, 0u);
  EXPECT_GT(needs.activations, 0u);
  EXPECT_EQ(needs.block, KvCache::BlockBytes(model->kv_shape(model->default_kv())));
  options.memory_limit = needs.weights + needs.activations + 5 * needs.block + 1;
  EXPECT_EQ(Engine(model, options).cache_tokens(), 5 * KvCache::kBlockTokens);
  options.cache_tokens = 33;
  EXPECT_EQ(Engine(model, options).cache_tokens(), 33);
  options.cache_tokens = 0;
  options.memory_limit = size_t{1} << 40;
  EXPECT_EQ(Engine(model, options).cache_tokens(), model->info().context * options.most_running);
  options.memory_limit = needs.weights + needs.activations + needs.block - 1;
  ExpectThrows([&] { Engine(model, options); }, ErrorCode::kLimit, "raise the limit");
}

/// What was planned is what a session then holds.
TEST(Engine, KnowsItsActivations) {
  const auto model = TinyModel();
  const size_t planned = NeedsOf(*model, KvType::kF16, 40, 1, 1).activations;
  DecoderRunner runner(model, KvType::kF16, 64, 1);
  CachedSequence sequence;
  const std::vector<int32_t> tokens(40, 3);
  const StepItem item{&sequence, tokens, StepItem::kLast};
  const size_t logits = runner.Step({&item, 1}).size_bytes() + sizeof(int32_t);
  EXPECT_LE(runner.activation_bytes() + logits, planned);
  EXPECT_GE(2 * (runner.activation_bytes() + logits), planned);
  sequence = {};
}

TEST(Engine, ReportsLogProbabilities) {
  Engine engine(TinyModel());
  GenerateRequest request = RequestOf({3, 17}, 4);
  request.sampling.top_logprobs = 2;
  const GenerateResult result = engine.Generate(request);
  ASSERT_EQ(result.logprobs.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(result.top[i].size(), 2u);
    EXPECT_EQ(result.top[i][0].token, result.tokens[i]);
    EXPECT_EQ(result.top[i][0].logprob, result.logprobs[i]);
    EXPECT_LE(result.logprobs[i], 0);
  }
}

TEST(Engine, RefusesWhatCouldNeverRunAndStaysUsable) {
  EngineOptions options;
  options.cache_tokens = 32;
  Engine engine(TinyModel(), options);
  ExpectThrows([&] { engine.Submit(RequestOf({}, 1)); }, ErrorCode::kInvalidArgument,
               "at least one token");
  ExpectThrows([&] { engine.Submit(RequestOf({40}, 1)); }, ErrorCode::kInvalidArgument, "token 40");
  ExpectThrows([&] { engine.Submit(RequestOf({-1}, 1)); }, ErrorCode::kInvalidArgument, "token -1");
  ExpectThrows([&] { engine.Submit(RequestOf(std::vector<int32_t>(33, 1), 1)); }, ErrorCode::kLimit,
               "33 tokens");
  EXPECT_EQ(engine.Generate(RequestOf({1}, 0)).finish, FinishReason::kLength);
  EXPECT_EQ(engine.Generate(RequestOf(std::vector<int32_t>(32, 1), -1)).tokens.size(), 1u);
  EXPECT_EQ(engine.Generate(RequestOf({1}, -1)).tokens.size(), 32u);
}

TEST(LanguageModel, SaysWhatItIs) {
  const auto model = TinyModel("qwen2");
  EXPECT_EQ(model->info().family, "qwen2");
  EXPECT_EQ(model->info().layers, 2);
  EXPECT_EQ(model->info().vocabulary, 40);
  EXPECT_FALSE(model->has_chat_template());
  const ChatMessage message{"user", "hello"};
  ExpectThrows([&] { model->EncodeChat({&message, 1}); }, ErrorCode::kUnsupported, "");
  EXPECT_EQ(model->graph()->inputs().size(), 3u);
}

TEST(LanguageModel, VisitsTheLogitsOfATextWindowByWindow) {
  const auto model = TinyModel();
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 30; ++i) tokens.push_back(i % 40);
  std::vector<int64_t> places;
  VisitLogits(model, tokens, 8, {}, [&](int64_t place, std::span<const float> logits) {
    EXPECT_EQ(logits.size(), 40u);
    places.push_back(place);
  });
  ASSERT_EQ(places.size(), 29u);
  for (size_t i = 0; i < places.size(); ++i) EXPECT_EQ(places[i], static_cast<int64_t>(i));
}

}  // namespace
}  // namespace oort
