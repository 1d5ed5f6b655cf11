// SPDX-License-Identifier: MIT
// Steps whose tokens are drawn where the logits are, and that begin before those of the last one
// are known: without a GPU, against the CPU's own way.
#include <gtest/gtest.h>

#include <algorithm>

#include "kit/errors.h"
#include "kit/paths.h"
#include "llm/decoder_runner.h"
#include "llm/engine_impl.h"
#include "llm/host_drawer.h"
#include "llm/speculation/tiny_heads.h"
#include "llm/turning_constraint.h"
#include "oort/engine.h"

namespace oort {
namespace {

std::shared_ptr<const LanguageModel> DrawnModel() {
  return LanguageModel::Load(TestData() / "checkpoints/llama.gguf");
}

/// One of each kind that is picked in another way.
std::vector<GenerateRequest> AllKinds(const LanguageModel& model) {
  std::vector<GenerateRequest> requests(18);
  for (size_t i = 0; i < requests.size(); ++i) {
    GenerateRequest& request = requests[i];
    request.prompt = {static_cast<int32_t>(3 + i), 17, static_cast<int32_t>(1 + i % 5)};
    request.max_tokens = static_cast<int64_t>(4 + i * 5 % 17);
    request.ignore_end = i % 2 == 0;
    request.sampling.seed = 100 + i;
    if (i % 3 > 0) request.sampling.temperature = 0.9f;
  }
  requests[2].sampling.top_k = 5;
  requests[4].sampling.top_p = 0.8f;
  requests[5].sampling.min_p = 0.05f;
  requests[6].constraint = std::make_shared<TurningConstraint>(3);
  requests[7].constraint = std::make_shared<TurningConstraint>(5);
  requests[8].constraint = std::make_shared<TurningConstraint>(2, 6);
  requests[8].sampling.repetition_penalty = 1.3f;
  requests[9].sampling.frequency_penalty = 0.7f;
  requests[9].sampling.top_logprobs = 3;
  requests[10].sampling.presence_penalty = 1.1f;
  requests[10].sampling.repetition_penalty = 0.8f;
  requests[11].sampling.logit_bias = {{4, 3.0f}, {7, -2.0f}, {4, 1.0f}};
  requests[12].min_tokens = 9;
  requests[12].ignore_end = false;
  requests[12].sampling.logit_bias = {{model.end_tokens()[0], 20.0f}};
  requests[13].sampling.top_logprobs = 0;
  requests[14].n = 3;
  requests[14].constraint = std::make_shared<TurningConstraint>(4);
  requests[14].sampling.top_logprobs = 2;
  requests[15].beams.width = 2;
  requests[16].sampling.top_logprobs = cuda::kMostReported + 1;
  requests[17].n = 2;
  requests[17].best_of = 3;
  return requests;
}

/// Requests that come while others run.
std::vector<int64_t> RunToTheEnd(Engine& engine, const std::vector<GenerateRequest>& requests) {
  std::vector<int64_t> ids;
  for (const GenerateRequest& request : requests) {
    ids.push_back(engine.Submit(request));
    if (ids.size() % 4 == 0) engine.Step();
  }
  while (engine.Step()) {
  }
  return ids;
}

std::vector<GenerateResult> PickedAnswers(Engine& engine,
                                          const std::vector<GenerateRequest>& requests) {
  std::vector<GenerateResult> results;
  for (const int64_t id : RunToTheEnd(engine, requests)) results.push_back(engine.Take(id).value());
  return results;
}

void ExpectPickedAnswer(const GeneratedAnswer& got, const GeneratedAnswer& want) {
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.text, want.text);
  EXPECT_EQ(got.finish, want.finish);
  ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
  ASSERT_EQ(got.top.size(), want.top.size());
  for (size_t i = 0; i < want.logprobs.size(); ++i) {
    EXPECT_NEAR(got.logprobs[i], want.logprobs[i], 1e-5f);
    ASSERT_EQ(got.top[i].size(), want.top[i].size());
    for (size_t j = 0; j < want.top[i].size(); ++j) {
      EXPECT_EQ(got.top[i][j].token, want.top[i][j].token);
      EXPECT_NEAR(got.top[i][j].logprob, want.top[i][j].logprob, 1e-5f);
    }
  }
}

void ExpectPickedResult(const GenerateResult& got, const GenerateResult& want) {
  ExpectPickedAnswer(got, want);
  ASSERT_EQ(got.others.size(), want.others.size());
  for (size_t j = 0; j < want.others.size(); ++j) ExpectPickedAnswer(got.others[j], want.others[j]);
}

void ExpectPicked(const std::vector<GenerateResult>& got, const std::vector<GenerateResult>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    ExpectPickedResult(got[i], want[i]);
  }
}

TEST(DrawnSteps, AnswersAreThoseOfSamplers) {
  const auto model = DrawnModel();
  const std::vector<GenerateRequest> requests = AllKinds(*model);
  for (const int64_t running : {1, 3, 64}) {
    SCOPED_TRACE(running);
    EngineOptions options;
    options.cache_tokens = 2048;
    options.most_running = running;
    std::vector<GenerateRequest> fitting = requests;
    if (running < 2) fitting[15].beams = {};
    Engine plain(model, options);
    const std::vector<GenerateResult> want = PickedAnswers(plain, fitting);
    HostDrawing drawing;
    Engine engine(model, options);
    ExpectPicked(PickedAnswers(engine, fitting), want);
    EXPECT_EQ(engine.stats().used_blocks, 0);
    EXPECT_GT(drawing.log.masks, 0);
    EXPECT_GT(drawing.log.changes, 0);
    EXPECT_GT(drawing.log.reports, 0);
  }
}

/// Rows that are drawn by seed and place alone are under way twice.
TEST(DrawnSteps, DrawnAndGreedyRowsRunAhead) {
  const auto model = DrawnModel();
  std::vector<GenerateRequest> requests = AllKinds(*model);
  requests.resize(6);
  Engine plain(model);
  const std::vector<GenerateResult> want = PickedAnswers(plain, requests);
  HostDrawing drawing;
  Engine engine(model);
  ExpectPicked(PickedAnswers(engine, requests), want);
  EXPECT_EQ(drawing.log.most_open, 2);
  EXPECT_EQ(drawing.log.masks, 0);
}

/// Blocks in use, as who streams finds them when a token comes for which one is full. The step that
/// reads this token has the next one.
int64_t BlocksBehindAFullOne(const std::shared_ptr<const LanguageModel>& model,
                             GenerateRequest request) {
  Engine engine(model);
  int64_t blocks = -1;
  request.prompt = {3, 17, 5};
  request.max_tokens = KvCache::kBlockTokens;
  request.ignore_end = true;
  const auto filling = static_cast<size_t>(KvCache::kBlockTokens) - request.prompt.size() + 1;
  size_t told = 0;
  request.on_piece = [&](const GeneratedPiece&) {
    if (++told == filling) blocks = engine.stats().used_blocks;
    return true;
  };
  engine.Generate(std::move(request));
  return blocks;
}

/// The step behind is under way when the token comes that decides what may come next.
TEST(DrawnSteps, BoundAndPenalizedRowsRunAhead) {
  const auto model = DrawnModel();
  std::vector<GenerateRequest> requests(5);
  requests[0].constraint = std::make_shared<TurningConstraint>(3);
  requests[1].constraint = std::make_shared<TurningConstraint>(4);
  requests[1].sampling.temperature = 0.9f;
  requests[2].sampling.repetition_penalty = 1.3f;
  requests[3].sampling.frequency_penalty = 0.7f;
  requests[3].sampling.temperature = 0.9f;
  requests[4].min_tokens = 40;
  requests[4].stop_tokens = {7};
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(BlocksBehindAFullOne(model, requests[i]), 1);
    const HostDrawing drawing;
    EXPECT_EQ(BlocksBehindAFullOne(model, requests[i]), 2);
    EXPECT_EQ(drawing.log.masks + drawing.log.changes > 0, true);
  }
  // With many log-probabilities the logits come to the host, and nothing runs ahead.
  requests[0].sampling.top_logprobs = cuda::kMostReported + 1;
  const HostDrawing drawing;
  EXPECT_EQ(BlocksBehindAFullOne(model, requests[0]), 1);
}

/// With guesses a step has several rows of one answer.
TEST(DrawnSteps, GuessesAreCheckedAsBefore) {
  const auto model = DrawnModel();
  std::vector<GenerateRequest> requests = AllKinds(*model);
  for (GenerateRequest& request : requests) {
    request.prompt = {5, 6, 7, 8, 5, 6, 7, 8, 5, 6};
    request.max_tokens = 30;
  }
  EngineOptions options;
  options.draft.source = DraftOptions::kNgram;
  options.draft.tokens = 3;
  options.cache_tokens = 2048;
  Engine plain(model, options);
  const std::vector<GenerateResult> want = PickedAnswers(plain, requests);
  HostDrawing drawing;
  Engine engine(model, options);
  ExpectPicked(PickedAnswers(engine, requests), want);
  EXPECT_GT(engine.stats().draft.drafted, 0);
}

/// What heads read comes from whatever kind of step a token was picked in.
TEST(DrawnSteps, GuessesOfHeadsAreCheckedAsBefore) {
  const auto model = testing::LoadWithHeads("llama", {.exact = true});
  for (const int64_t tokens : {0, 2}) {
    EngineOptions options;
    options.draft = {.source = DraftOptions::kHeads, .model = nullptr, .tokens = tokens};
    options.cache_tokens = 2048;
    Engine plain(model, {.cache_tokens = 2048});
    const std::vector<GenerateResult> want = PickedAnswers(plain, AllKinds(*model));
    HostDrawing drawing;
    Engine engine(model, options);
    ExpectPicked(PickedAnswers(engine, AllKinds(*model)), want);
    EXPECT_TRUE(tokens == 0 || engine.stats().draft.drafted > 0);
  }
}

TEST(DrawnSteps, AnswersThatEndEarlyLeaveTheOthersAlone) {
  const auto model = DrawnModel();
  const auto requests = [&](int& pieces) {
    std::vector<GenerateRequest> made = AllKinds(*model);
    made.resize(12);
    made[7].on_piece = [&pieces](const GeneratedPiece&) { return ++pieces < 3; };
    made[2].stop_tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    return made;
  };
  int pieces = 0;
  Engine plain(model);
  const std::vector<GenerateResult> want = PickedAnswers(plain, requests(pieces));
  EXPECT_EQ(want[7].tokens.size(), 3u);
  pieces = 0;
  HostDrawing drawing;
  Engine engine(model);
  ExpectPicked(PickedAnswers(engine, requests(pieces)), want);
}

/// A constraint that contradicts itself ends its own request.
TEST(DrawnSteps, WhatGoesWrongForOneEndsThatOne) {
  const auto model = DrawnModel();
  HostDrawing drawing;
  Engine engine(model);
  GenerateRequest wrong;
  wrong.prompt = {3, 4};
  wrong.max_tokens = 20;
  wrong.constraint = std::make_shared<TurningConstraint>(3, -1, 4);
  GenerateRequest right;
  right.prompt = {5};
  right.max_tokens = 12;
  right.ignore_end = true;
  right.sampling.temperature = 1;
  const int64_t first = engine.Submit(wrong), second = engine.Submit(right);
  while (engine.Step()) {
  }
  testing::ExpectThrows([&] { engine.Take(first); }, ErrorCode::kInvalidArgument,
                        "allows no token");
  EXPECT_EQ(engine.Take(second)->tokens.size(), 12u);
  EXPECT_EQ(engine.stats().used_blocks, 0);
}

/// Wherever it fails once: what was begun is taken back, and all of it is done again. Only who is
/// alone in a step is told.
TEST(DrawnSteps, AFailedDrawIsDoneAgain) {
  const auto model = DrawnModel();
  std::vector<GenerateRequest> requests = AllKinds(*model);
  requests.resize(10);
  requests[5].max_tokens = 24;  // alone in the end
  requests[5].ignore_end = true;
  Engine plain(model);
  const std::vector<GenerateResult> want = PickedAnswers(plain, requests);
  int64_t told = 0, calls = 1;
  for (int64_t failing = 0; failing < calls; ++failing) {
    SCOPED_TRACE(failing);
    HostDrawing drawing;
    drawing.log.failing = {failing};
    Engine engine(model);
    bool alone = false;  // rows of who has ended are still in a step that ran ahead
    drawing.log.at_failure = [&](int64_t rows) {
      alone = rows == 1 || engine.stats().running == 1;
    };
    const std::vector<int64_t> ids = RunToTheEnd(engine, requests);
    for (size_t i = 0; i < ids.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      try {
        ExpectPickedResult(engine.Take(ids[i]).value(), want[i]);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kDevice);
        EXPECT_TRUE(alone);
        ++told;
      }
    }
    EXPECT_EQ(engine.stats().used_blocks, 0);
    calls = drawing.log.begun;
  }
  EXPECT_GT(calls, 15);
  EXPECT_GT(told, 0);
  EXPECT_LT(told, calls / 2);
}

/// The runner by itself: a step computes logits before its mask is known.
TEST(DrawnSteps, AStepBeginsBeforeItsDrawsAreKnown) {
  const auto model = DrawnModel();
  HostDrawing drawing;
  DecoderRunner runner(model, KvType::kF32, 128, 1);
  ASSERT_TRUE(runner.can_run_ahead());
  CachedSequence ahead[2], alone[2];
  const std::vector<int32_t> prompts[2] = {{3}, {17}};
  const auto items = [&](CachedSequence(&sequences)[2], const std::vector<int32_t>(&tokens)[2]) {
    return std::array<StepItem, 2>{StepItem{&sequences[0], tokens[0]},
                                   StepItem{&sequences[1], tokens[1]}};
  };
  std::vector<uint32_t> mask(static_cast<size_t>(runner.vocabulary() + 31) / 32);
  const auto draw = [&](int32_t only) {
    std::ranges::fill(mask, 0);
    mask[static_cast<size_t>(only) / 32] = uint32_t{1} << (only % 32);
    return cuda::TokenDraw{.uniform = 0.5, .row = 1, .allowed = mask};
  };
  const auto first_items = items(ahead, prompts);
  runner.BeginStep(first_items, false);
  cuda::TokenDraw first = draw(5);
  runner.DrawRows({&first, 1});
  runner.BeginStep(first_items, true);
  EXPECT_EQ(runner.steps_under_way(), 2u);
  const StepTokens begun = runner.EndStep();
  const std::vector<int32_t> picked(begun.tokens.begin(), begun.tokens.end());
  EXPECT_EQ(picked[1], 5);
  cuda::TokenDraw second = draw(9);
  runner.DrawRows({&second, 1});
  const StepTokens ended = runner.EndStep();
  EXPECT_EQ(ended.tokens[1], 9);
  EXPECT_EQ(ahead[0].length, 2);
  EXPECT_EQ(runner.StepArgmax(items(alone, prompts))[0], picked[0]);
  const std::vector<int32_t> next[2] = {{picked[0]}, {picked[1]}};
  const int32_t row = ended.tokens[0];
  EXPECT_EQ(runner.StepArgmax(items(alone, next))[0], row);
  // What is dropped leaves the sequences.
  runner.BeginStep(items(alone, next), false);
  runner.DrawRows({&second, 1});
  EXPECT_EQ(drawing.log.open, 1);
  runner.Drop();
  EXPECT_EQ(drawing.log.open, 0);
  EXPECT_EQ(alone[0].length, 2);
}

}  // namespace
}  // namespace oort
