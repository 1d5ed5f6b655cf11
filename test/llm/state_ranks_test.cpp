// SPDX-License-Identifier: MIT
// Models whose layers keep a state of each sequence, on several ranks: what becomes of a sequence
// on rank 0 becomes of it on all.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "kit/sanitized.h"
#include "llm/decoder_runner.h"
#include "llm/kept_state.h"
#include "llm/memory_needs.h"
#include "llm/step_message.h"
#include "oort/engine.h"
#include "oort/pnnx.h"

namespace oort {
namespace {

using testing::ExpectThrows;

struct StateSplit {
  int ranks = 2;
  bool pipeline = false;
};

/// Splits that have the bits of one rank: the model has 8 heads in 2 groups, and 2 layers.
std::vector<StateSplit> StateSplits() {
  if (testing::TriesFewer()) return {{3}};
  return {{2}, {3}, {4}, {8}, {2, true}};
}

const std::filesystem::path kStateRankModel = TestData() / "checkpoints/mamba2";

std::shared_ptr<const LanguageModel> StateModelOn(
    const StateSplit& split, const std::filesystem::path& file = kStateRankModel) {
  LanguageModelOptions options{.exact = true};
  options.ranks.count = split.ranks;
  options.ranks.exact = split.ranks > 1 && !split.pipeline;
  options.ranks.pipeline = split.pipeline;
  options.ranks.deadline = 120;  // machines that test are slow now and then
  return LanguageModel::Load(file, options);
}

/// Prompts of 1 to 21 tokens; some want several answers, which begin with copies of a state.
std::vector<GenerateRequest> StateRankRequests() {
  std::vector<GenerateRequest> requests;
  for (int32_t i = 0; i < 12; ++i) {
    GenerateRequest& request = requests.emplace_back();
    for (int32_t at = 0; at <= (i * 5) % 23; ++at) request.prompt.push_back((i * 7 + at * 3) % 40);
    request.max_tokens = 12 + i;
    request.ignore_end = true;
    request.sampling.temperature = i % 3 == 0 ? 1.0f : 0.0f;
    request.sampling.seed = 5;
    if (i % 6 == 3) request.n = 3;
    if (i % 6 == 4) request.n = request.beams.width = 3;
  }
  return requests;
}

using StateAnswers = std::vector<std::vector<std::vector<int32_t>>>;

/// Every fourth request has a neighbour that is cancelled while it runs.
StateAnswers StateAnswersOf(const std::shared_ptr<const LanguageModel>& model,
                            const EngineOptions& options, int64_t* preemptions = nullptr) {
  Engine engine(model, options);
  std::vector<int64_t> ids, cancelled;
  for (const GenerateRequest& request : StateRankRequests()) {
    ids.push_back(engine.Submit(request));
    if (ids.size() % 4 == 0) cancelled.push_back(engine.Submit(request));
  }
  for (int steps = 0; engine.Step(); ++steps) {
    if (steps % 5 == 4 && !cancelled.empty()) {
      engine.Cancel(cancelled.back());
      cancelled.pop_back();
    }
  }
  if (preemptions != nullptr) *preemptions = engine.stats().preemptions;
  StateAnswers answers;
  for (const int64_t id : ids) {
    const GenerateResult result = engine.Take(id).value();
    auto& all = answers.emplace_back();
    all.push_back(result.tokens);
    for (const GeneratedAnswer& other : result.others) all.push_back(other.tokens);
  }
  return answers;
}

TEST(StateRanks, ManyRequestsAnswerAsOnOneRank) {
  EngineOptions few, tight;
  few.threads = tight.threads = 1;
  few.prompt_chunk = 5;
  few.most_running = 3;  // the others wait
  tight.cache_tokens = 160;
  tight.reserve_cache = false;  // some are read again
  const auto alone = StateModelOn({1});
  std::vector<EngineOptions> all = {tight};
  if (!testing::TriesFewer()) all.push_back(few);
  for (const EngineOptions& options : all) {
    const bool is_tight = options.cache_tokens > 0;
    SCOPED_TRACE(is_tight ? "little room" : "few at a time");
    const StateAnswers want = StateAnswersOf(alone, options);
    for (const StateSplit& split : StateSplits()) {
      const auto model = StateModelOn(split);
      int64_t preemptions = 0;
      EXPECT_EQ(StateAnswersOf(model, options, &preemptions), want)
          << split.ranks << (split.pipeline ? " by layers" : "");
      if (is_tight) {
        EXPECT_GT(preemptions, 0);
      }
    }
  }
}

TEST(StateRanks, TheFastSplitAnswersAlikeInEveryRun) {
  LanguageModelOptions options;
  options.ranks.count = 3;
  options.ranks.deadline = 120;
  const auto model = LanguageModel::Load(kStateRankModel, options);
  EXPECT_EQ(StateAnswersOf(model, {.threads = 1}), StateAnswersOf(model, {.threads = 1}));
}

TEST(StateRanks, EachRankOfAPipelineKeepsItsOwnLayers) {
  const auto model = StateModelOn({2, true});
  EXPECT_EQ(model->state_shape().layers, 1);
  EXPECT_EQ(model->info().state_bytes, 2 * model->state_shape().bytes());
}

/// A rank has a half of each state, and room for twice as many.
TEST(StateRanks, AMemoryLimitIsThatOfARank) {
  const auto model = StateModelOn({2});
  EXPECT_EQ(model->info().state_bytes, StateModelOn({1})->info().state_bytes);
  EXPECT_LT(model->state_shape().bytes(), model->info().state_bytes * 6 / 10);
  EngineOptions options;
  options.threads = 1;
  options.memory_limit = NeedsOf(*model, options).fixed() + 3 * model->state_shape().bytes() + 1;
  Engine engine(model, options);
  for (const GenerateRequest& request : StateRankRequests()) {
    if (request.n == 1) engine.Submit(request);
  }
  int64_t most = 0;
  while (engine.Step()) most = std::max(most, engine.stats().running);
  EXPECT_EQ(most, 3);
}

/// Between the two layers of the model, which keep a state, one with keys and values: 8 heads.
void WriteMixedModel(const std::filesystem::path& param) {
  const testing::TemporaryFolder folder;
  const auto plain = folder / "m.pnnx.param", bin = folder / "m.pnnx.bin";
  ConvertLanguageModel(kStateRankModel, plain, bin, {.weights = "f32"});
  Graph graph = ReadPnnx(plain, bin);
  const int layer = graph.FindOperator("model.layers.0.mixer.out_proj");
  const int x = graph.operators[static_cast<size_t>(layer)].outputs[0];
  const int behind = graph.AddOperand("behind");
  graph.ReplaceUses(x, behind);
  const auto product = [&](const std::string& name, std::vector<int> inputs, int64_t rows,
                           int64_t columns, int output) {
    std::vector<float> weight(static_cast<size_t>(rows * columns));
    for (size_t i = 0; i < weight.size(); ++i) {
      weight[i] = static_cast<float>((i * 37 + name.size() * 11) % 41) / 100 - 0.2f;
    }
    Operator op;
    op.type = "oort.QuantizedLinear";
    op.name = name;
    op.params["in_features"] = Parameter::FromValue(Value(columns));
    op.params["out_features"] = Parameter::FromValue(Value(rows));
    op.params["format"] = Parameter("f32");
    op.attributes["weight"] = Tensor::From(std::span<const float>(weight), Shape{rows, columns});
    op.inputs = std::move(inputs);
    op.outputs = {output};
    graph.AddOperator(std::move(op));
    return output;
  };
  Operator attend;
  attend.type = "oort.PagedAttention";
  attend.name = "between.self_attn";
  for (const auto& [name, value] : {std::pair<const char*, int64_t>{"layer", 0},
                                    {"heads", 8},
                                    {"kv_heads", 8},
                                    {"head_dim", 8}}) {
    attend.params[name] = Parameter::FromValue(Value(value));
  }
  attend.params["scale"] = Parameter("0.35");
  for (const char* part : {"q", "key", "value"}) {
    attend.inputs.push_back(product(part, {x}, 64, 32, graph.AddOperand(part)));
  }
  const int attended = graph.AddOperand("attended");
  attend.outputs = {attended};
  graph.AddOperator(std::move(attend));
  product("between.o_proj", {attended, x}, 32, 64, behind);
  auto target = param;
  WritePnnx(graph, param, target.replace_extension("bin"));
}

TEST(StateRanks, BothKindsOfLayersInOneModel) {
  const testing::TemporaryFolder folder;
  const auto file = folder / "mixed.pnnx.param";
  WriteMixedModel(file);
  const auto alone = StateModelOn({1}, file);
  ASSERT_EQ(alone->kv_shape(KvType::kF32).heads, 8);
  EXPECT_EQ(alone->kv_shape(KvType::kF32).layers, 1);
  EXPECT_EQ(alone->state_shape().layers, 2);
  EngineOptions options;
  options.threads = 1;
  options.prompt_chunk = 5;
  options.most_running = 3;
  const StateAnswers want = StateAnswersOf(alone, options);
  EXPECT_NE(want, StateAnswersOf(StateModelOn({1}), options));
  std::vector<StateSplit> splits = StateSplits();
  splits.push_back({3, true});  // a rank has no states, and two have no keys
  for (const StateSplit& split : splits) {
    const auto model = StateModelOn(split, file);
    EXPECT_EQ(StateAnswersOf(model, options), want)
        << split.ranks << (split.pipeline ? " by layers" : "");
    if (split.ranks == 2 && !split.pipeline) {
      EXPECT_EQ(model->kv_shape(KvType::kF32).heads, 4);
      EXPECT_EQ(model->state_shape().recurrence, alone->state_shape().recurrence / 2);
    }
  }
}

/// What memory rank 0 has says nothing then of the room for keys and values.
TEST(StateRanks, AMemoryLimitWhereOtherRanksHaveTheKeys) {
  const testing::TemporaryFolder folder;
  const auto file = folder / "mixed.pnnx.param";
  WriteMixedModel(file);
  const auto model = StateModelOn({3, true}, file);
  ASSERT_EQ(model->kv_shape(KvType::kF32).layers, 0);
  ASSERT_TRUE(model->facts().caches_tokens);
  EngineOptions options;
  options.threads = 1;
  const int64_t usual = CacheTokens(*model, options);
  options.memory_limit = NeedsOf(*model, options).fixed() + 4 * model->state_shape().bytes();
  EXPECT_EQ(CacheTokens(*model, options), usual);
  options.cache_tokens = 64;
  EXPECT_EQ(CacheTokens(*model, options), 64);
  GenerateRequest request = StateRankRequests()[0];
  request.n = 1;
  const auto alone = StateModelOn({1}, file);
  EXPECT_EQ(Engine(model, options).Generate(request).tokens,
            Engine(alone, {.threads = 1}).Generate(request).tokens);
}

TEST(StateLog, TellsWhatHasBecomeOfStatesOnce) {
  const StateShape shape{1, 2, 3};
  const auto log = std::make_shared<StateLog>();
  auto first = std::make_unique<KeptState>(shape, log);
  first->Inputs(0)[0] = 7;
  EXPECT_TRUE(log->Take().empty());  // a step at position 0 makes it
  auto copy = first->Clone();
  EXPECT_EQ(copy->Inputs(0)[0], 7);
  copy->Inputs(0)[0] = 8;
  EXPECT_EQ(first->Inputs(0)[0], 7);
  const int64_t number = first->number();
  EXPECT_NE(copy->number(), number);
  first.reset();
  const std::vector<StateChange> want = {{copy->number(), number}, {number, -1}};
  EXPECT_EQ(log->Take(), want);
  EXPECT_TRUE(log->Take().empty());
  EXPECT_LT(KeptState(shape, nullptr).number(), 0);
}

TEST(FollowedStates, DoAsRankZeroSays) {
  FollowedStates states({1, 2, 3});
  EXPECT_EQ(states.At(-1, 0), nullptr);
  states.At(4, 0)->Inputs(0)[1] = 9;
  EXPECT_EQ(states.At(4, 17)->Inputs(0)[1], 9);
  const std::vector<StateChange> copied = {{5, 4}, {4, -1}, {77, -1}};
  states.Change(copied);
  EXPECT_EQ(states.size(), 1U);
  EXPECT_EQ(states.At(5, 17)->Inputs(0)[1], 9);
  ExpectThrows([&] { states.At(4, 17); }, ErrorCode::kDevice, "is not there");
  ExpectThrows([&] { states.Change(copied); }, ErrorCode::kDevice, "is not there");
}

TEST(StepMessage, NamesStatesAndTexts) {
  RankMessage message;
  message.command = RankCommand::kStep;
  message.step.tokens = message.step.positions = {3, 4};
  message.step.slices = {{0, 1, 5, {}}, {1, 1, 0, {}}};
  message.step.states = {6, -1};
  message.step.texts = {-1, 8};
  message.step.state_changes = {{6, 2}, {2, -1}};
  std::vector<std::byte> bytes = message.Write();
  const RankMessage read = RankMessage::Read(bytes);
  EXPECT_EQ(read.step.states, message.step.states);
  EXPECT_EQ(read.step.texts, message.step.texts);
  EXPECT_EQ(read.step.state_changes, message.step.state_changes);
  EXPECT_EQ(read.step.slices[0].position, 5);
  bytes.pop_back();
  ExpectThrows([&] { RankMessage::Read(bytes); }, ErrorCode::kDevice, "makes no sense");
}

}  // namespace
}  // namespace oort
