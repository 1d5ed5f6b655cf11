// SPDX-License-Identifier: MIT
// Requests whose keys have 6 bits and values 4 answer as if they were alone.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kit/errors.h"
#include "kit/paths.h"
#include "llm/engine_impl.h"
#include "llm/memory_needs.h"
#include "oort/engine.h"

namespace oort {
namespace {

const std::filesystem::path kLowBitModels = TestData() / "checkpoints";

std::shared_ptr<const LanguageModel> LowBitModel(const char* file = "llama", bool exact = true) {
  return LanguageModel::Load(kLowBitModels / file, {.exact = exact});
}

EngineOptions LowBits() { return {.threads = 1, .kv = KvType::kK6V4}; }

GenerateRequest LowBitRequest(std::vector<int32_t> prompt, int64_t tokens, float temperature = 0) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = tokens;
  request.ignore_end = true;
  request.sampling.temperature = temperature;
  request.sampling.seed = 7;
  request.sampling.top_logprobs = 0;
  return request;
}

std::vector<int32_t> LongPrompt(int32_t tokens) {
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < tokens; ++i) prompt.push_back(i * 7 % 40);
  return prompt;
}

void ExpectSameAnswer(const GenerateResult& got, const GenerateResult& want) {
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.logprobs, want.logprobs);
}

/// What is read in other pieces meets kernels that add in another order, in the products of the
/// weights: what they give may be rounded to a neighbour here and there.
void ExpectNearAnswer(const GenerateResult& got, const GenerateResult& want) {
  EXPECT_EQ(got.tokens, want.tokens);
  ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
  for (size_t i = 0; i < want.logprobs.size(); ++i) {
    EXPECT_NEAR(got.logprobs[i], want.logprobs[i], 0.02f) << i;
  }
}

TEST(LowBitCache, AnswersAreThoseOfRequestsAlone) {
  const auto model = LowBitModel();
  Engine engine(model, LowBits());
  std::vector<int64_t> ids;
  const auto request = [](int32_t i) {
    return LowBitRequest(LongPrompt(3 + 9 * i), 25, i % 2 == 0 ? 0.0f : 1.0f);
  };
  for (int32_t i = 0; i < 6; ++i) ids.push_back(engine.Submit(request(i)));
  while (engine.Step()) {
  }
  bool rounds = false;
  for (int32_t i = 0; i < 6; ++i) {
    const GenerateResult alone = Engine(model, LowBits()).Generate(request(i));
    ExpectSameAnswer(*engine.Take(ids[static_cast<size_t>(i)]), alone);
    rounds |= alone.logprobs != Engine(model, {.threads = 1}).Generate(request(i)).logprobs;
  }
  EXPECT_TRUE(rounds) << "keys and values were kept as they are";
}

TEST(LowBitCache, WhereAPromptIsCutAndWhatIsReusedChangesNothing) {
  const auto model = LowBitModel();
  const GenerateResult whole = Engine(model, LowBits()).Generate(LowBitRequest(LongPrompt(58), 20));
  for (const int64_t chunk : {1, 7, 16, 33}) {
    EngineOptions options = LowBits();
    options.prompt_chunk = chunk;
    ExpectNearAnswer(Engine(model, options).Generate(LowBitRequest(LongPrompt(58), 20)), whole);
  }
  Engine engine(model, LowBits());
  engine.Generate(LowBitRequest(LongPrompt(45), 1));  // a block that is not full is reused, too
  const GenerateResult again = engine.Generate(LowBitRequest(LongPrompt(58), 20));
  EXPECT_GT(again.reused_tokens, 32);
  ExpectNearAnswer(again, whole);
}

TEST(LowBitCache, RejectedGuessesLeaveNothing) {
  const std::vector<int32_t> repeats = {3, 17, 29, 5, 11, 3, 17, 29, 5, 11, 3, 17, 29};
  int64_t rejected = 0;
  for (const char* file : {"llama", "qwen2.gguf"}) {
    const auto model = LowBitModel(file);
    for (const float temperature : {0.0f, 1.0f}) {
      const GenerateRequest request = LowBitRequest(repeats, 40, temperature);
      const GenerateResult plain = Engine(model, LowBits()).Generate(request);
      EngineOptions guessing = LowBits();
      guessing.draft = {.source = DraftOptions::kNgram, .model = nullptr, .tokens = 4};
      const GenerateResult got = Engine(model, guessing).Generate(request);
      ExpectSameAnswer(got, plain);
      rejected += got.draft.drafted - got.draft.accepted;
    }
  }
  EXPECT_GT(rejected, 0);
}

TEST(LowBitCache, PutAsideAndBroughtBack) {
  const auto model = LowBitModel();
  EngineOptions options = LowBits();
  options.cache_tokens = 80;
  options.reuse_prefixes = false;
  const auto request = [](int32_t i) { return LowBitRequest({i, i + 1, i + 2}, 40); };
  for (const size_t swap : {size_t{0}, size_t{1} << 30}) {
    options.swap_bytes = swap;
    Engine engine(model, options);
    std::vector<int64_t> ids;
    for (int32_t i = 0; i < 6; ++i) ids.push_back(engine.Submit(request(i)));
    while (engine.Step()) {
    }
    EXPECT_GT(engine.stats().preemptions, 0);
    for (int32_t i = 0; i < 6; ++i) {
      const GenerateResult got = *engine.Take(ids[static_cast<size_t>(i)]);
      const GenerateResult alone = Engine(model, LowBits()).Generate(request(i));
      swap > 0 ? ExpectSameAnswer(got, alone) : ExpectNearAnswer(got, alone);
    }
  }
}

/// Several answers to one prompt share its blocks until they write to them.
TEST(LowBitCache, AnswersToOnePromptShareItsBlocks) {
  const auto model = LowBitModel();
  GenerateRequest request = LowBitRequest(LongPrompt(21), 20, 1.0f);
  request.n = 3;
  const GenerateResult three = Engine(model, LowBits()).Generate(request);
  const GenerateResult again = Engine(model, LowBits()).Generate(request);
  ExpectSameAnswer(again, three);
  request.n = 1;
  ExpectSameAnswer(Engine(model, LowBits()).Generate(request), three);
}

TEST(LowBitCache, AMemoryLimitCountsItsBytes) {
  const auto model = LowBitModel("llama", false);
  EngineOptions options = LowBits();
  const MemoryNeeds needs =
      NeedsOf(*model, KvType::kK6V4, options.prompt_chunk, options.most_running, 1);
  EXPECT_EQ(needs.block, KvCache::BlockBytes(model->kv_shape(KvType::kK6V4)));
  options.memory_limit = needs.weights + needs.activations + 8 * needs.block;
  EXPECT_EQ(Engine(model, options).cache_tokens(), 8 * KvCache::kBlockTokens);
}

}  // namespace
}  // namespace oort
