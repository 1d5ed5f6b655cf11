// SPDX-License-Identifier: MIT
// What goes wrong for one request, and what the others notice of it: nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "oort/engine.h"
#include "oort/pnnx.h"

namespace oort {
namespace {

using testing::ExpectThrows;

const std::filesystem::path kFailureModels = TestData() / "checkpoints";
constexpr int64_t kPlaces = 12;

/// A model that fails at the thirteenth token of a sequence: its table of positions ends there.
std::shared_ptr<const LanguageModel> ModelOfFewPlaces() {
  const testing::TemporaryFolder folder;
  const auto param = folder / "m.pnnx.param", bin = folder / "m.pnnx.bin";
  ConvertLanguageModel(kFailureModels / "gpt2", param, bin, {.weights = "f32"});
  Graph graph = ReadPnnx(param, bin);
  Operator& table =
      graph.operators[static_cast<size_t>(graph.FindOperator("model.embed_positions"))];
  const Tensor all = table.attributes.at("weight");
  const int64_t columns = all.shape()[1];
  table.attributes["weight"] = Tensor::From(
      all.span<float>().first(static_cast<size_t>(kPlaces * columns)), Shape{kPlaces, columns});
  table.params["num_embeddings"] = Parameter::FromValue(Value(kPlaces));
  const auto cut = folder / "cut.pnnx.param";
  WritePnnx(graph, cut, folder / "cut.pnnx.bin");
  return LanguageModel::Load(cut);
}

std::shared_ptr<const LanguageModel> SoundModel() {
  return LanguageModel::Load(kFailureModels / "llama.gguf");
}

GenerateRequest FailureRequest(std::vector<int32_t> prompt, int64_t tokens) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = tokens;
  request.ignore_end = true;
  return request;
}

void RunAll(Engine& engine) {
  while (engine.Step()) {
  }
}

TEST(EngineFailure, AStepThatFailsEndsTheRequestThatMadeItFail) {
  const auto model = ModelOfFewPlaces();
  const std::vector<int32_t> alone = Engine(model).Generate(FailureRequest({5, 6}, 9)).tokens;
  const std::vector<int32_t> later = Engine(model).Generate(FailureRequest({7, 8, 9}, 9)).tokens;
  Engine engine(model);
  const int64_t good = engine.Submit(FailureRequest({5, 6}, 9));
  const int64_t bad = engine.Submit(FailureRequest({1, 2, 3, 4, 5, 6, 7, 8}, 20));
  const int64_t also_good = engine.Submit(FailureRequest({7, 8, 9}, 9));
  const int64_t bad_prompt = engine.Submit(FailureRequest(std::vector<int32_t>(14, 3), 1));
  RunAll(engine);
  EXPECT_EQ(engine.Take(good)->tokens, alone);
  EXPECT_EQ(engine.Take(also_good)->tokens, later);
  for (const int64_t request : {bad, bad_prompt}) {
    EXPECT_THROW(engine.Take(request), Error);
    EXPECT_FALSE(engine.Take(request).has_value());
  }
  // Nothing of it is left: the whole cache can be used again.
  EXPECT_EQ(engine.Generate(FailureRequest({5, 6}, 9)).tokens, alone);
  EXPECT_THROW(engine.Generate(FailureRequest({1, 2}, 20)), Error);
  EXPECT_FALSE(engine.Step());
}

TEST(EngineFailure, ACallbackThatThrowsEndsItsRequest) {
  const auto model = SoundModel();
  const std::vector<int32_t> alone = Engine(model).Generate(FailureRequest({5, 6}, 9)).tokens;
  EngineOptions options;
  options.cache_tokens = 64;
  Engine engine(model, options);
  for (int round = 0; round < 20; ++round) {  // more than the cache would hold if any were lost
    GenerateRequest request = FailureRequest({1, 2, 3, 4, 5, 6, 7, 8, 9}, 9);
    int seen = 0;
    request.on_piece = [&](const GeneratedPiece&) -> bool {
      if (++seen == 4) throw std::runtime_error("the reader went away");
      return true;
    };
    const int64_t bad = engine.Submit(std::move(request));
    const int64_t good = engine.Submit(FailureRequest({5, 6}, 9));
    RunAll(engine);
    EXPECT_EQ(engine.Take(good)->tokens, alone);
    ExpectThrows([&] { engine.Take(bad); }, ErrorCode::kInternal, "the reader went away");
  }
}

TEST(EngineFailure, ARequestThatForbidsAllTokensHarmsNobody) {
  const auto model = SoundModel();
  Engine engine(model);
  GenerateRequest request = FailureRequest({1, 2}, 5);
  for (int32_t token = 0; token < model->info().vocabulary; ++token) {
    request.sampling.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
  }
  const int64_t bad = engine.Submit(request);
  const int64_t good = engine.Submit(FailureRequest({5, 6}, 9));
  RunAll(engine);
  ExpectThrows([&] { engine.Take(bad); }, ErrorCode::kInvalidArgument, "no token can be picked");
  EXPECT_EQ(engine.Take(good)->tokens.size(), 9u);
  ExpectThrows([&] { engine.Generate(request); }, ErrorCode::kInvalidArgument, "no token");
}

TEST(EngineFailure, CancelledRequestsLeaveWhereverTheyAre) {
  const auto model = SoundModel();
  const std::vector<int32_t> alone = Engine(model).Generate(FailureRequest({5, 6}, 12)).tokens;
  EngineOptions options;
  options.cache_tokens = 32;
  options.prompt_chunk = 4;
  Engine engine(model, options);
  const int64_t reading = engine.Submit(FailureRequest({1, 2, 3, 4, 5, 6, 7, 8, 9}, 3));
  GenerateRequest request = FailureRequest({5, 6}, 12);
  int64_t victim = -1;
  request.on_piece = [&](const GeneratedPiece&) {
    engine.Cancel(victim);  // of a neighbour, within the step that both are in
    return true;
  };
  const int64_t good = engine.Submit(std::move(request));
  victim = engine.Submit(FailureRequest({9, 8}, 3));
  const int64_t queued = engine.Submit(FailureRequest(std::vector<int32_t>(20, 1), 3));
  const int64_t behind = engine.Submit(FailureRequest({5, 6}, 12));
  engine.Step();
  engine.Cancel(reading);
  engine.Cancel(queued);
  engine.Cancel(777);  // nobody
  engine.Step();
  EXPECT_EQ(engine.Take(reading)->finish, FinishReason::kCancelled);
  EXPECT_EQ(engine.Take(queued)->finish, FinishReason::kCancelled);
  RunAll(engine);
  EXPECT_EQ(engine.Take(victim)->finish, FinishReason::kCancelled);
  EXPECT_EQ(engine.Take(good)->tokens, alone);
  EXPECT_EQ(engine.Take(behind)->tokens, alone);
}

TEST(EngineFailure, RefusesTimesOfStepsThatAreNone) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  for (const double seconds : {nan, -nan, infinity, -infinity, -0.04, -1e-300}) {
    ExpectThrows([&] { Engine(SoundModel(), {.step_seconds = seconds}); },
                 ErrorCode::kInvalidArgument, "step_seconds is a number of seconds");
  }
  for (const double seconds : {0.0, -0.0, 1e-300, 1e300}) {
    Engine engine(SoundModel(), {.step_seconds = seconds});
    EXPECT_EQ(engine.Generate(FailureRequest({1, 2}, 3)).tokens.size(), 3u) << seconds;
  }
}

TEST(EngineFailure, RefusesRequestsThatMakeNoSense) {
  Engine engine(SoundModel());
  const auto refuses = [&](ErrorCode code, std::string_view message, auto change) {
    GenerateRequest request = FailureRequest({1, 2}, 3);
    change(request);
    ExpectThrows([&] { engine.Submit(request); }, code, message);
  };
  const ErrorCode wrong = ErrorCode::kInvalidArgument, limit = ErrorCode::kLimit;
  const float nan = std::nanf("");
  refuses(wrong, "max_tokens", [](auto& r) { r.max_tokens = -2; });
  refuses(wrong, "max_tokens", [](auto& r) { r.max_tokens = INT64_MIN; });
  refuses(wrong, "temperature", [&](auto& r) { r.sampling.temperature = nan; });
  refuses(wrong, "temperature", [](auto& r) { r.sampling.temperature = -1; });
  refuses(wrong, "top_k", [](auto& r) { r.sampling.top_k = -1; });
  refuses(wrong, "top_p", [&](auto& r) { r.sampling.top_p = nan; });
  refuses(wrong, "min_p", [](auto& r) { r.sampling.min_p = 2; });
  refuses(wrong, "repetition_penalty", [](auto& r) { r.sampling.repetition_penalty = 0; });
  refuses(wrong, "presence_penalty", [&](auto& r) { r.sampling.presence_penalty = nan; });
  refuses(wrong, "frequency_penalty", [](auto& r) { r.sampling.frequency_penalty = INFINITY; });
  refuses(wrong, "token 40 of logit_bias", [](auto& r) { r.sampling.logit_bias = {{40, 1.0F}}; });
  refuses(wrong, "token -1 of logit_bias", [](auto& r) { r.sampling.logit_bias = {{-1, 1.0F}}; });
  refuses(wrong, "logit_bias", [&](auto& r) { r.sampling.logit_bias = {{1, nan}}; });
  refuses(limit, "logit_bias", [](auto& r) { r.sampling.logit_bias.assign(41, {1, 0.5F}); });
  refuses(wrong, "top_logprobs", [](auto& r) { r.sampling.top_logprobs = -2; });
  refuses(limit, "top_logprobs", [](auto& r) { r.sampling.top_logprobs = INT_MAX; });
  refuses(limit, "stop strings", [](auto& r) { r.stops.assign(257, "x"); });
  refuses(limit, "stop strings", [](auto& r) { r.stops = {std::string(65537, 'x')}; });
  refuses(wrong, "stop string is empty", [](auto& r) { r.stops = {""}; });
  refuses(wrong, "UTF-8", [](auto& r) { r.stops = {"\xff"}; });
  EXPECT_FALSE(engine.Step());
  GenerateRequest huge = FailureRequest({1, 2}, INT64_MAX);
  huge.sampling.top_k = INT64_MAX;
  huge.sampling.temperature = 1;
  EXPECT_EQ(engine.Generate(huge).finish, FinishReason::kLength);
}

}  // namespace
}  // namespace oort
