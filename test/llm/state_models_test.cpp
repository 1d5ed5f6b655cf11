// SPDX-License-Identifier: MIT
// Models whose layers keep a state of each sequence, all of them (mamba2) or some
// (granitemoehybrid, and qwen3_next with another recurrence), or keys and values besides
// (falcon_h1): whatever happens to a sequence, it goes on from its own state, or is read again.
// What they answer is in family_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "llm/decoder_runner.h"
#include "llm/host_drawer.h"
#include "llm/memory_needs.h"
#include "llm/turning_constraint.h"
#include "oort/engine.h"
#include "oort/pnnx.h"

namespace oort {
namespace {

using testing::ExpectThrows;

const std::filesystem::path kStateModels = TestData() / "checkpoints";

std::shared_ptr<const LanguageModel> StateModel(const std::string& name = "mamba2") {
  return LanguageModel::Load(kStateModels / name, {.exact = true});
}

class EveryStateModel : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, EveryStateModel,
                         ::testing::Values("mamba2", "granitemoehybrid", "falcon_h1",
                                           "qwen3_next"));

/// Prompts of 1 to 21 tokens.
GenerateRequest StateRequest(int32_t i, int64_t tokens = 30, float temperature = 0) {
  GenerateRequest request;
  for (int32_t at = 0; at <= (i * 5) % 23; ++at) request.prompt.push_back((i * 7 + at * 3) % 40);
  request.max_tokens = tokens;
  request.ignore_end = true;
  request.sampling.temperature = temperature;
  request.sampling.seed = 5;
  return request;
}

void StepUntilIdle(Engine& engine) {
  while (engine.Step()) {
  }
}

/// Twelve requests in an engine, and each of them alone.
void ExpectStatesAsAlone(const std::shared_ptr<const LanguageModel>& model, Engine& engine) {
  std::vector<int64_t> ids;
  for (int32_t i = 0; i < 12; ++i) {
    ids.push_back(engine.Submit(StateRequest(i, 30, i % 3 == 0 ? 1.0f : 0.0f)));
  }
  StepUntilIdle(engine);
  for (int32_t i = 0; i < 12; ++i) {
    const auto alone = Engine(model).Generate(StateRequest(i, 30, i % 3 == 0 ? 1.0f : 0.0f));
    EXPECT_EQ(engine.Take(ids[static_cast<size_t>(i)])->tokens, alone.tokens) << i;
  }
}

TEST(StateModel, SaysWhatItKeeps) {
  const auto model = StateModel();
  EXPECT_EQ(model->state_shape(), (StateShape{2, 3 * (64 + 2 * 2 * 12), 64 * 12}));
  EXPECT_EQ(model->info().state_bytes, model->state_shape().bytes());
  EXPECT_EQ(model->kv_shape(KvType::kF32).layers, 0);
  const auto hybrid = StateModel("granitemoehybrid");
  EXPECT_EQ(hybrid->state_shape(), (StateShape{3, 3 * (64 + 2 * 2 * 12), 64 * 12}));
  EXPECT_EQ(hybrid->kv_shape(KvType::kF32).layers, 2);
}

TEST_P(EveryStateModel, RequestsSideBySideAnswerAsAlone) {
  const auto model = StateModel(GetParam());
  Engine engine(model);
  ExpectStatesAsAlone(model, engine);
}

TEST_P(EveryStateModel, PromptsInPartsAndFewAtATimeAnswerAsAlone) {
  const auto model = StateModel(GetParam());
  EngineOptions options;
  options.prompt_chunk = 5;
  options.most_running = 3;  // the others wait, and get what those have left
  Engine engine(model, options);
  ExpectStatesAsAlone(model, engine);
}

TEST_P(EveryStateModel, PreemptedRequestsAreReadAgain) {
  const auto model = StateModel(GetParam());
  EngineOptions options;
  options.cache_tokens = 80;
  options.reserve_cache = false;
  options.swap_bytes = 1 << 20;  // blocks would be saved, which are not all that there is
  Engine engine(model, options);
  ExpectStatesAsAlone(model, engine);
  EXPECT_GT(engine.stats().preemptions, 0);
}

/// The tokens of a prompt are known to the cache's book-keeping, but nobody begins with them.
TEST_P(EveryStateModel, NothingIsSharedBetweenRequests) {
  const auto model = StateModel(GetParam());
  EngineOptions options;
  options.reuse_prefixes = true;
  Engine engine(model, options);
  GenerateRequest request = StateRequest(0);
  for (int32_t i = 0; i < 40; ++i) request.prompt.push_back(i);
  const GenerateResult first = engine.Generate(request), second = engine.Generate(request);
  EXPECT_EQ(first.tokens, second.tokens);
  EXPECT_EQ(second.reused_tokens, 0);
}

TEST_P(EveryStateModel, CancelledRequestsLeaveNothingBehind) {
  const auto model = StateModel(GetParam());
  const std::vector<int32_t> alone = Engine(model).Generate(StateRequest(4)).tokens;
  EngineOptions options;
  options.most_running = 2;
  Engine engine(model, options);
  for (int steps = 0; steps < 8; ++steps) {
    const int64_t gone = engine.Submit(StateRequest(9)), stays = engine.Submit(StateRequest(4));
    for (int i = 0; i < steps; ++i) engine.Step();
    engine.Cancel(gone);
    StepUntilIdle(engine);
    EXPECT_EQ(engine.Take(gone)->finish, FinishReason::kCancelled);
    EXPECT_EQ(engine.Take(stays)->tokens, alone) << steps;
  }
}

std::vector<GeneratedAnswer> AllAnswers(const GenerateResult& result) {
  std::vector<GeneratedAnswer> answers = {result};
  answers.insert(answers.end(), result.others.begin(), result.others.end());
  return answers;
}

/// Answers to one prompt begin with copies of the state behind it.
TEST_P(EveryStateModel, ManyAnswersToOnePromptAreThoseOfSeeds) {
  const auto model = StateModel(GetParam());
  for (const int64_t tokens : {int64_t{0}, int64_t{96}}) {  // with little room some are read again
    EngineOptions options;
    options.cache_tokens = tokens;
    Engine engine(model, options);
    GenerateRequest request = StateRequest(3, 20, 1.5f);
    request.n = 4;
    std::vector<GeneratedAnswer> answers = AllAnswers(engine.Generate(request));
    ASSERT_EQ(answers.size(), 4u);
    for (const GeneratedAnswer& answer : answers) {
      GenerateRequest one = StateRequest(3, 20, 1.5f);
      one.sampling.seed += static_cast<uint64_t>(answer.index);
      EXPECT_EQ(answer.tokens, Engine(model).Generate(one).tokens) << answer.index;
    }
  }
}

/// The sum of log-probabilities of a beam is what reading all of it says.
TEST_P(EveryStateModel, BeamsHaveStatesOfTheirOwn) {
  const auto model = StateModel(GetParam());
  EngineOptions options;
  options.cache_tokens = 256;
  Engine engine(model, options);
  GenerateRequest request = StateRequest(3, 8);
  request.n = request.beams.width = 4;
  request.beams.length_penalty = 0;
  const std::vector<GeneratedAnswer> found = AllAnswers(engine.Generate(request));
  ASSERT_EQ(found.size(), 4u);
  for (const GeneratedAnswer& answer : found) {
    GenerateRequest read = request;
    read.n = 1;
    read.beams = {};
    read.prompt.insert(read.prompt.end(), answer.tokens.begin(), answer.tokens.end());
    read.max_tokens = 0;
    read.prompt_logprobs = 0;
    const GenerateResult known = engine.Generate(read);
    float sum = 0;
    for (size_t i = request.prompt.size() - 1; i < known.prompt_logprobs.size(); ++i) {
      sum += known.prompt_logprobs[i];
    }
    EXPECT_NEAR(answer.score, sum, 1e-3);
  }
}

/// A model that fails behind its first layer where a sequence has more tokens than that.
std::shared_ptr<const LanguageModel> ModelOfFewTokens(const std::string& name = "mamba2",
                                                      int64_t tokens = 12) {
  const testing::TemporaryFolder folder;
  const auto param = folder / "m.pnnx.param", bin = folder / "m.pnnx.bin";
  ConvertLanguageModel(kStateModels / name, param, bin, {.weights = "f32"});
  Graph graph = ReadPnnx(param, bin);
  const auto at = [&](int op) -> Operator& { return graph.operators[static_cast<size_t>(op)]; };
  const int x = at(graph.FindOperator("model.layers.0.mixer.out_proj")).outputs[0];
  const int positions = at(graph.FindOperator("pnnx_input_1")).outputs[0];
  Operator table;
  table.type = "oort.QuantizedEmbedding";
  table.name = "places";
  table.params["num_embeddings"] = Parameter(std::to_string(tokens));
  table.params["embedding_dim"] = Parameter("32");
  table.attributes["weight"] = Tensor::Zeros(DType::kF32, {tokens, 32});
  const int places = graph.AddOperand("places");
  table.inputs = {positions};
  table.outputs = {places};
  const int sum = graph.AddOperand("placed");
  graph.ReplaceUses(x, sum);
  graph.AddOperator(std::move(table));
  Operator add;
  add.type = "pnnx.Expression";
  add.name = "place";
  add.params["expr"] = Parameter("add(@0,@1)");
  add.inputs = {x, places};
  add.outputs = {sum};
  graph.AddOperator(std::move(add));
  const auto cut = folder / "cut.pnnx.param";
  WritePnnx(graph, cut, folder / "cut.pnnx.bin");
  return LanguageModel::Load(cut, {.exact = true});
}

/// A step that fails in the middle has changed the first layer's state of all its sequences.
TEST_P(EveryStateModel, AStepThatFailsHarmsNoOtherRequest) {
  const auto model = ModelOfFewTokens(GetParam());
  const auto request = [](std::vector<int32_t> prompt, int64_t tokens) {
    GenerateRequest made;
    made.prompt = std::move(prompt);
    made.max_tokens = tokens;
    made.ignore_end = true;
    return made;
  };
  const std::vector<int32_t> alone = Engine(model).Generate(request({5, 6}, 10)).tokens;
  const std::vector<int32_t> later = Engine(model).Generate(request({7, 8, 9}, 9)).tokens;
  Engine engine(model);
  const int64_t good = engine.Submit(request({5, 6}, 10));
  const int64_t bad = engine.Submit(request({1, 2, 3, 4, 5, 6, 7, 8}, 20));
  const int64_t also_good = engine.Submit(request({7, 8, 9}, 9));
  StepUntilIdle(engine);
  EXPECT_EQ(engine.Take(good)->tokens, alone);
  EXPECT_EQ(engine.Take(also_good)->tokens, later);
  EXPECT_THROW(engine.Take(bad), Error);
}

/// Answers that begin with the same blocks are each read again, to blocks of their own.
TEST_P(EveryStateModel, AStepThatFailsHarmsNoAnswersOfOnePrompt) {
  const auto model = ModelOfFewTokens(GetParam(), 40);
  GenerateRequest request = StateRequest(3, 15, 1.5f);
  for (int32_t i = 0; i < 4; ++i) request.prompt.push_back(i);
  ASSERT_GT(std::ssize(request.prompt), KvCache::kBlockTokens);
  request.n = 3;
  const std::vector<GeneratedAnswer> alone = AllAnswers(Engine(model).Generate(request));
  GenerateRequest too_long = StateRequest(4, 60);
  too_long.prompt.assign(30, 7);
  Engine engine(model);
  const int64_t good = engine.Submit(request), bad = engine.Submit(too_long);
  StepUntilIdle(engine);
  EXPECT_THROW(engine.Take(bad), Error);
  const std::vector<GeneratedAnswer> answers = AllAnswers(engine.Take(good).value());
  ASSERT_EQ(answers.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(answers[i].tokens, alone[i].tokens) << i;
}

TEST(StateModel, AStateIsLostWithTheStepThatFailed) {
  const auto model = ModelOfFewTokens();
  DecoderRunner runner(model, KvType::kF32, 64, 1);
  CachedSequence sequence;
  const std::vector<int32_t> tokens(13, 3);
  const StepItem first{&sequence, std::span(tokens).first(8)}, rest{&sequence, tokens};
  runner.Step({&first, 1});
  EXPECT_THROW(runner.Step({&rest, 1}), Error);
  EXPECT_EQ(sequence.length, 8);
  ExpectThrows([&] { runner.Step({&first, 1}); }, ErrorCode::kInternal, "read again");
  sequence.length = 0;
  EXPECT_NO_THROW(runner.Step({&first, 1}));
}

/// Where logits are drawn on a device, steps come in two parts, and none runs ahead.
TEST_P(EveryStateModel, TokensDrawnOnADeviceAreThoseOfTheHost) {
  const auto model = StateModel(GetParam());
  std::vector<GenerateRequest> requests;
  for (int32_t i = 0; i < 7; ++i) requests.push_back(StateRequest(i, 12, 0.9f));
  requests[1].sampling.logit_bias = {{4, 3.0f}};
  requests[2].sampling.repetition_penalty = 1.3f;
  requests[3].constraint = std::make_shared<TurningConstraint>(3);
  requests[4].sampling.top_logprobs = 2;
  requests[5].sampling.temperature = 0;
  requests[6].n = 3;
  std::vector<std::vector<GeneratedAnswer>> want;
  for (const GenerateRequest& request : requests) {
    want.push_back(AllAnswers(Engine(model).Generate(request)));
  }
  for (const int64_t running : {1, 64}) {
    SCOPED_TRACE(running);
    EngineOptions options;
    options.most_running = running;
    options.cache_tokens = 1024;
    const HostDrawing drawing;
    Engine engine(model, options);
    std::vector<int64_t> ids;
    for (const GenerateRequest& request : requests) ids.push_back(engine.Submit(request));
    StepUntilIdle(engine);
    EXPECT_GT(drawing.log.begun, 0);
    if (running > 1) {
      EXPECT_LT(drawing.log.begun, 30);  // together, and not each alone
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::vector<GeneratedAnswer> got = AllAnswers(engine.Take(ids[i]).value());
      ASSERT_EQ(got.size(), want[i].size());
      for (size_t j = 0; j < got.size(); ++j) EXPECT_EQ(got[j].tokens, want[i][j].tokens) << i;
    }
  }
}

TEST(StateModel, StepsDoNotContinueOthers) {
  const HostDrawing drawing;
  DecoderRunner runner(StateModel(), KvType::kF32, 64, 1);
  EXPECT_FALSE(runner.can_run_ahead());
  CachedSequence sequence;
  const std::vector<int32_t> tokens = {3};
  const StepItem items[] = {{&sequence, tokens}, {nullptr, tokens}};
  EXPECT_THROW(runner.Step(items), Error);  // rows of nobody have no state
  EXPECT_EQ(sequence.length, 0);
  runner.BeginStep({items, 1}, false);
  runner.EndStep();
  runner.BeginStep({items, 1}, false);
  ExpectThrows([&] { runner.BeginStep({items, 1}, true); }, ErrorCode::kInternal, "read again");
  runner.Drop();
  EXPECT_EQ(sequence.length, 1);
  ExpectThrows([&] { runner.Step({items, 1}); }, ErrorCode::kInternal, "read again");
}

TEST_P(EveryStateModel, IsTheSameConverted) {
  const testing::TemporaryFolder folder;
  const auto model = StateModel(GetParam());
  ConvertLanguageModel(kStateModels / (std::string(GetParam()) + ".gguf"), folder / "m.pnnx.param",
                       folder / "m.pnnx.bin", {});
  const auto converted = LanguageModel::Load(folder / "m.pnnx.param", {.exact = true});
  EXPECT_EQ(converted->state_shape(), model->state_shape());
  EXPECT_EQ(converted->kv_shape(KvType::kF32).layers, model->kv_shape(KvType::kF32).layers);
  EXPECT_EQ(Engine(converted).Generate(StateRequest(2)).tokens,
            Engine(model).Generate(StateRequest(2)).tokens);
}

/// Weights of fewer bits, and activations in 16 bits, answer the same side by side, too.
TEST_P(EveryStateModel, RoundedWeightsAnswerAsAlone) {
  LanguageModelOptions options;
  options.weights = "int8";
  const auto model = LanguageModel::Load(kStateModels / GetParam(), options);
  EngineOptions deterministic;
  deterministic.deterministic = true;
  Engine engine(model, deterministic);
  std::vector<int64_t> ids;
  for (int32_t i = 0; i < 5; ++i) ids.push_back(engine.Submit(StateRequest(i)));
  StepUntilIdle(engine);
  for (int32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(engine.Take(ids[static_cast<size_t>(i)])->tokens,
              Engine(model, deterministic).Generate(StateRequest(i)).tokens)
        << i;
  }
}

/// As many sequences run as there is room for their states.
TEST(StateModel, AMemoryLimitSaysHowManyStatesThereAre) {
  const auto model = StateModel();
  EngineOptions options;
  options.threads = 1;
  const MemoryNeeds needs = NeedsOf(*model, options);
  options.memory_limit = needs.fixed() + 3 * model->info().state_bytes + 1;
  Engine engine(model, options);
  for (int32_t i = 0; i < 6; ++i) engine.Submit(StateRequest(i));
  int64_t most = 0;
  while (engine.Step()) most = std::max(most, engine.stats().running);
  EXPECT_EQ(most, 3);
  options.memory_limit = needs.fixed() + model->info().state_bytes - 1;
  ExpectThrows([&] { Engine refused(model, options); }, ErrorCode::kLimit, "state of a sequence");
}

/// States and blocks share what weights leave.
TEST(StateModel, AMemoryLimitHasRoomForStatesAndBlocks) {
  const auto model = StateModel("granitemoehybrid");
  EngineOptions options;
  options.threads = 1;
  const MemoryNeeds needs = NeedsOf(*model, options);
  const size_t state = model->info().state_bytes;
  options.memory_limit = needs.fixed() + 6 * state + 1000;
  Engine engine(model, options);
  for (int32_t i = 0; i < 6; ++i) engine.Submit(StateRequest(i));
  int64_t most = 0;
  while (engine.Step()) most = std::max(most, engine.stats().running);
  EXPECT_EQ(most, 3);
  const auto blocks = static_cast<size_t>(CacheTokens(*model, options) / KvCache::kBlockTokens);
  EngineOptions fitting = options;
  fitting.most_running = 3;
  EXPECT_LE(NeedsOf(*model, fitting).fixed() + 3 * state + blocks * needs.block,
            options.memory_limit);
  EXPECT_GE(blocks, (3 * state + 1000) / needs.block);
  options.memory_limit = needs.fixed() + state + needs.block - 1;
  ExpectThrows([&] { Engine refused(model, options); }, ErrorCode::kLimit, "state of a sequence");
  options.memory_limit += 1;
  EXPECT_GE(CacheTokens(*model, options), KvCache::kBlockTokens);
}

TEST_P(EveryStateModel, WhatTakesTokensBackIsRefused) {
  const auto model = StateModel(GetParam());
  EngineOptions options;
  options.draft.source = DraftOptions::kNgram;
  ExpectThrows([&] { Engine refused(model, options); }, ErrorCode::kUnsupported, "guessing");
  options.draft.source = DraftOptions::kModel;
  options.draft.model = model;
  const auto usual = LanguageModel::Load(kStateModels / "llama");
  ExpectThrows([&] { Engine refused(usual, options); }, ErrorCode::kUnsupported, "drafting");
}

}  // namespace
}  // namespace oort
