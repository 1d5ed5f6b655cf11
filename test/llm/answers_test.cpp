// SPDX-License-Identifier: MIT
// Several answers of one request.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <set>

#include "cuda/device.h"
#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "llm/sampling/token_drawer.h"
#include "oort/engine.h"

namespace oort {
namespace {

using testing::ExpectThrows;

const std::filesystem::path kAnswerModels = TestData() / "checkpoints";

std::shared_ptr<const LanguageModel> AnswerModel(bool exact = false) {
  return LanguageModel::Load(kAnswerModels / "llama", {.exact = exact});
}

std::vector<int32_t> PromptOf(int32_t length) {
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < length; ++i) prompt.push_back((i * 7 + 3) % 40);
  return prompt;
}

GenerateRequest AnswersOf(std::vector<int32_t> prompt, int64_t n, int64_t tokens = 12) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = tokens;
  request.ignore_end = true;
  request.n = n;
  request.sampling.temperature = 1;
  request.sampling.seed = 11;
  request.sampling.top_logprobs = 1;
  return request;
}

std::vector<GeneratedAnswer> All(GenerateResult result) {
  std::vector<GeneratedAnswer> answers = {result};
  for (GeneratedAnswer& other : result.others) answers.push_back(std::move(other));
  return answers;
}

/// What lone requests with the seeds of these answers say.
void ExpectAsAlone(const std::shared_ptr<const LanguageModel>& model, GenerateRequest request,
                   const GenerateResult& result, float tolerance = 0) {
  const std::vector<GeneratedAnswer> answers = All(result);
  ASSERT_EQ(static_cast<int64_t>(answers.size()), request.n);
  const uint64_t seed = request.sampling.seed;
  request.n = 1;
  std::set<std::vector<int32_t>> different;
  for (size_t i = 0; i < answers.size(); ++i) {
    request.sampling.seed = seed + i;
    const GenerateResult alone = Engine(model).Generate(request);
    EXPECT_EQ(answers[i].index, static_cast<int>(i));
    EXPECT_EQ(answers[i].tokens, alone.tokens) << "answer " << i;
    ASSERT_EQ(answers[i].logprobs.size(), alone.logprobs.size());
    for (size_t k = 0; k < alone.logprobs.size(); ++k) {
      EXPECT_LE(std::abs(answers[i].logprobs[k] - alone.logprobs[k]), tolerance)
          << "answer " << i << " token " << k;
    }
    EXPECT_EQ(answers[i].finish, alone.finish);
    different.insert(alone.tokens);
  }
  EXPECT_GT(different.size(), 1u);
}

/// Prompts that end within a block, and with it; bit for bit without the exact mode, too.
TEST(Answers, AreThoseOfLoneRequests) {
  const auto model = AnswerModel();
  for (const int32_t length : {1, 3, 16, 17, 40}) {
    SCOPED_TRACE(length);
    Engine engine(model, {.cache_tokens = 512});  // room for all of them
    GenerateRequest request = AnswersOf(PromptOf(length), 5);
    const GenerateResult result = engine.Generate(request);
    EXPECT_EQ(engine.stats().used_blocks, 0);
    EXPECT_EQ(engine.stats().prompt_tokens, length);
    ExpectAsAlone(model, request, result);
  }
}

/// There a step ends in tokens, and blocks are copied beside it: with log-probabilities that the
/// GPU tells, and with more, which bring the logits to the host.
TEST(Answers, AreThoseOfLoneRequestsOnAGpu) {
  std::string reason;
  if (cuda::Devices(&reason).empty()) GTEST_SKIP() << reason;
  LanguageModelOptions options;
  options.device = Device::Cuda(0);
  options.exact = true;
  const auto model = LanguageModel::Load(kAnswerModels / "llama", options);
  for (const int32_t length : {3, 16, 17, 40}) {
    for (const int top : {0, 1, cuda::kMostReported + 1}) {
      SCOPED_TRACE(std::to_string(length) + " tokens, top " + std::to_string(top));
      GenerateRequest request = AnswersOf(PromptOf(length), 5);
      request.sampling.top_logprobs = top;
      Engine engine(model);
      const GenerateResult result = engine.Generate(request);
      EXPECT_EQ(engine.stats().used_blocks, 0);
      EXPECT_EQ(engine.stats().prompt_tokens, length);
      ExpectAsAlone(model, request, result, 1e-4f);
    }
  }
}

/// Those that do not fit beside the first wait, and read the prompt themselves.
TEST(Answers, WaitWhereThereIsNoRoomForAll) {
  const auto model = AnswerModel();
  for (const int64_t cache : {48, 64, 96}) {
    for (const int64_t running : {1, 3, 256}) {
      SCOPED_TRACE(cache);
      Engine engine(model, {.cache_tokens = cache, .most_running = running, .deterministic = true});
      GenerateRequest request = AnswersOf(PromptOf(19), 6, 20);
      ExpectAsAlone(model, request, engine.Generate(request));
      EXPECT_EQ(engine.stats().preemptions, 0);
    }
  }
}

TEST(Answers, PreemptedOnesGoOn) {
  const auto model = AnswerModel(true);
  Engine engine(model, {.cache_tokens = 96});
  GenerateRequest request = AnswersOf(PromptOf(19), 6, 40);
  ExpectAsAlone(model, request, engine.Generate(request), 1e-4F);
  EXPECT_GT(engine.stats().preemptions, 0);
  EXPECT_EQ(engine.stats().used_blocks, 0);
}

/// The tiny Llama with a context of 1024.
std::shared_ptr<const LanguageModel> LongModel() {
  const testing::TemporaryFolder folder;
  std::filesystem::copy(kAnswerModels / "llama", folder / "long");
  std::string config = testing::FileBytes(folder / "long" / "config.json");
  const std::string_view places = "\"max_position_embeddings\": 64";
  config.replace(config.find(places), places.size(), "\"max_position_embeddings\": 1024");
  std::ofstream(folder / "long" / "config.json") << config;
  return LanguageModel::Load(folder / "long");
}

/// While one answers, the prompt of another is read in parts that take no longer than a step may:
/// here in the shortest ones.
TEST(Answers, GoOnWhileALongPromptIsRead) {
  const auto model = LongModel();
  const auto answers_between = [&](double step_seconds) {
    Engine engine(model, {.step_seconds = step_seconds, .reuse_prefixes = false});
    engine.Generate(AnswersOf(PromptOf(300), 1, 1));  // tells how long steps take
    int64_t answered = 0, between = -1;
    GenerateRequest first = AnswersOf(PromptOf(3), 1, 40), second = AnswersOf(PromptOf(300), 1, 1);
    first.on_piece = [&](const GeneratedPiece&) { return ++answered > 0; };
    second.on_piece = [&](const GeneratedPiece&) { return (between = answered) >= 0; };
    engine.Submit(std::move(first));
    engine.Step();
    answered = 0;
    engine.Submit(std::move(second));
    while (engine.Step()) {
    }
    EXPECT_EQ(answered, 39);
    return between;
  };
  EXPECT_LE(answers_between(0), 1) << "the prompt is read at once";
  EXPECT_GE(answers_between(1e-9), 8) << "in parts of 32";
}

/// The blocks of eight answers to a prompt of 512 tokens, and of eight requests.
TEST(Answers, ShareTheBlocksOfThePrompt) {
  const auto model = LongModel();
  const auto most_blocks = [&](int64_t requests, int64_t n) {
    Engine engine(model, {.cache_tokens = 8 * 576, .step_seconds = 0, .reuse_prefixes = false});
    for (int64_t i = 0; i < requests; ++i) {
      GenerateRequest request = AnswersOf(PromptOf(512), n, 64);
      request.sampling.seed += static_cast<uint64_t>(i);
      engine.Submit(std::move(request));
    }
    int64_t most = 0;
    while (engine.Step()) most = std::max(most, engine.stats().used_blocks);
    return most;
  };
  const int64_t together = most_blocks(1, 8), apart = most_blocks(8, 1);
  EXPECT_EQ(apart, 8 * KvCache::BlocksFor(512 + 63));
  EXPECT_EQ(together, 32 + 8 * 4);
  EXPECT_LE(static_cast<double>(together), 0.55 * static_cast<double>(apart));
}

TEST(Answers, TheBestAreGivenFirst) {
  const auto model = AnswerModel();
  GenerateRequest request = AnswersOf(PromptOf(9), 6);
  std::vector<GeneratedAnswer> all = All(Engine(model).Generate(request));
  const auto mean = [](const GeneratedAnswer& answer) {
    return std::accumulate(answer.logprobs.begin(), answer.logprobs.end(), 0.0) /
           static_cast<double>(answer.logprobs.size());
  };
  std::ranges::sort(all, std::ranges::greater(), mean);
  request.n = 2;
  request.best_of = 6;
  request.sampling.top_logprobs = -1;
  const std::vector<GeneratedAnswer> best = All(Engine(model).Generate(request));
  ASSERT_EQ(best.size(), 2u);
  for (size_t i = 0; i < best.size(); ++i) {
    EXPECT_EQ(best[i].index, all[i].index);
    EXPECT_EQ(best[i].tokens, all[i].tokens);
    EXPECT_NEAR(best[i].score, mean(all[i]), 1e-6);
    EXPECT_TRUE(best[i].logprobs.empty()) << "nobody asked for them";
  }
}

TEST(Answers, PiecesSayWhoseTheyAre) {
  Engine engine(AnswerModel());
  GenerateRequest request = AnswersOf(PromptOf(5), 3);
  std::vector<std::vector<int32_t>> pieces(3);
  request.on_piece = [&](const GeneratedPiece& piece) {
    pieces.at(static_cast<size_t>(piece.answer)).push_back(piece.token);
    return true;
  };
  const std::vector<GeneratedAnswer> answers = All(engine.Generate(request));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(pieces[i], answers[i].tokens);
}

TEST(Answers, EndOneByOneAndAllTogether) {
  const auto model = AnswerModel();
  const std::vector<GeneratedAnswer> whole = All(Engine(model).Generate(AnswersOf(PromptOf(5), 3)));
  Engine engine(model);
  GenerateRequest request = AnswersOf(PromptOf(5), 3);
  int seen = 0;
  request.on_piece = [&](const GeneratedPiece& piece) { return piece.answer != 1 || ++seen < 4; };
  const std::vector<GeneratedAnswer> answers = All(engine.Generate(request));
  EXPECT_EQ(answers[1].finish, FinishReason::kCancelled);
  EXPECT_EQ(answers[1].tokens.size(), 4u);
  for (const size_t i : {0u, 2u}) {
    EXPECT_EQ(answers[i].finish, FinishReason::kLength);
    EXPECT_EQ(answers[i].tokens, whole[i].tokens);
  }
  // Before the prompt is read, and in the middle.
  for (const int steps : {0, 1, 5}) {
    const int64_t id = engine.Submit(AnswersOf(PromptOf(5), 3));
    for (int i = 0; i < steps; ++i) engine.Step();
    engine.Cancel(id);
    EXPECT_FALSE(engine.Step()) << "a cancelled request ends within a step";
    const std::vector<GeneratedAnswer> cancelled = All(*engine.Take(id));
    ASSERT_EQ(cancelled.size(), 3u);
    for (const GeneratedAnswer& answer : cancelled) {
      EXPECT_EQ(answer.finish, FinishReason::kCancelled);
      EXPECT_EQ(answer.tokens.size(), static_cast<size_t>(steps));
    }
    EXPECT_EQ(engine.stats().used_blocks, 0);
  }
  request = AnswersOf(PromptOf(5), 3);
  request.deadline = std::chrono::steady_clock::now();
  for (const GeneratedAnswer& answer : All(engine.Generate(request))) {
    EXPECT_EQ(answer.finish, FinishReason::kDeadline);
  }
  EXPECT_EQ(engine.Generate(AnswersOf(PromptOf(5), 3, 0)).others.size(), 2u);
}

TEST(Answers, RefuseWhatMakesNoSense) {
  Engine engine(AnswerModel(), {.cache_tokens = 128});
  const auto refused = [&](const auto& change, ErrorCode code, const char* what) {
    GenerateRequest request = AnswersOf(PromptOf(5), 2);
    change(request);
    ExpectThrows([&] { engine.Submit(request); }, code, what);
  };
  const ErrorCode invalid = ErrorCode::kInvalidArgument;
  refused([](GenerateRequest& r) { r.n = 0; }, invalid, "n is at least 1");
  refused([](GenerateRequest& r) { r.n = -5; }, invalid, "n is at least 1");
  refused([](GenerateRequest& r) { r.n = 1'000'000; }, ErrorCode::kLimit, "at most 128");
  refused([](GenerateRequest& r) { r.best_of = 1 << 30; }, ErrorCode::kLimit, "at most 128");
  refused([](GenerateRequest& r) { r.best_of = 1; }, invalid, "at least n");
  refused([](GenerateRequest& r) { r.beams.width = 1; }, invalid, "at least n");
  refused([](GenerateRequest& r) { r.beams.width = 3; }, invalid, "temperature");
  refused(
      [](GenerateRequest& r) {
        r.best_of = 3;
        r.on_piece = [](const GeneratedPiece&) { return true; };
      },
      invalid, "on_piece");
  refused(
      [](GenerateRequest& r) {
        r.sampling.temperature = 0;
        r.beams.width = 60;
      },
      ErrorCode::kLimit, "no room for 60 beams");
  refused([](GenerateRequest& r) { r.prompt_logprobs = 1025; }, ErrorCode::kLimit, "1025");
  refused([](GenerateRequest& r) { r.prompt_logprobs = -2; }, invalid, "-2");
  EXPECT_FALSE(engine.Step());
}

TEST(PromptLogprobs, AreThoseOfTheWholeText) {
  const auto model = AnswerModel(true);
  const std::vector<int32_t> prompt = PromptOf(50);
  std::vector<float> want;
  VisitLogits(model, prompt, 64, {}, [&](int64_t place, std::span<const float> logits) {
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    const size_t token = static_cast<size_t>(prompt[static_cast<size_t>(place) + 1]);
    want.push_back(static_cast<float>(static_cast<double>(logits[token]) - std::log(sum)));
  });
  for (const int64_t tokens : {0, 5}) {
    for (const int64_t chunk : {7, 512}) {
      Engine engine(model, {.prompt_chunk = chunk});
      for (int round = 0; round < 2; ++round) {
        GenerateRequest request = AnswersOf(prompt, 2, tokens);
        request.prompt_logprobs = 3;
        const GenerateResult result = engine.Generate(request);
        EXPECT_EQ(result.tokens.size(), static_cast<size_t>(tokens));
        EXPECT_EQ(result.reused_tokens, 0);
        ASSERT_EQ(result.prompt_logprobs.size(), want.size());
        for (size_t i = 0; i < want.size(); ++i) {
          EXPECT_NEAR(result.prompt_logprobs[i], want[i], 1e-4) << i;
          ASSERT_EQ(result.prompt_top[i].size(), 3u);
          EXPECT_GE(result.prompt_top[i][0].logprob, result.prompt_logprobs[i]);
        }
      }
    }
  }
  GenerateRequest one = AnswersOf({3}, 1, 0);
  one.prompt_logprobs = 0;
  EXPECT_TRUE(Engine(model).Generate(one).prompt_logprobs.empty());
}

TEST(Timings, AreInOrder) {
  Engine engine(AnswerModel());
  GenerateRequest request = AnswersOf(PromptOf(20), 2);
  const auto before = std::chrono::steady_clock::now() - std::chrono::seconds(3);
  request.arrived = before;
  for (const GeneratedAnswer& answer : All(engine.Generate(request))) {
    const GenerateTimings& timings = answer.timings;
    EXPECT_EQ(timings.arrived, before);
    EXPECT_GE(timings.first_token_seconds, 3);
    EXPECT_LT(timings.arrived, timings.started);
    EXPECT_LE(timings.started, timings.first_token);
    EXPECT_LE(timings.first_token, timings.finished);
  }
}

}  // namespace
}  // namespace oort
