// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cuda/device.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "llm/smollm2_file.h"
#include "oort/engine.h"
#include "text/json.h"

namespace oort {
namespace {

const std::filesystem::path kBeamModels = TestData() / "checkpoints";

struct BeamCase {
  GenerateRequest request;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<float> scores;
};

/// What transformers found, by model (make_beams.py).
std::map<std::string, std::vector<BeamCase>> BeamCases(const char* file = "beams.json") {
  std::map<std::string, std::vector<BeamCase>> cases;
  for (const auto& row : json::Json::parse(testing::FileBytes(kBeamModels / file))) {
    BeamCase one;
    row["prompt"].get_to(one.request.prompt);
    row["max_tokens"].get_to(one.request.max_tokens);
    row["num_beams"].get_to(one.request.beams.width);
    row["length_penalty"].get_to(one.request.beams.length_penalty);
    const auto& early = row["early_stopping"];
    one.request.beams.stop = early.is_string()            ? BeamOptions::kImpossible
                             : early.template get<bool>() ? BeamOptions::kEarly
                                                          : BeamOptions::kUnlikely;
    one.request.n = one.request.beams.width;
    one.request.sampling.repetition_penalty = row.value("repetition_penalty", 1.0F);
    one.request.min_tokens = row.value("min_new_tokens", 0);
    for (const auto& answer : row["answers"]) {
      one.tokens.push_back(answer["tokens"].template get<std::vector<int32_t>>());
      one.scores.push_back(answer["score"].template get<float>());
    }
    cases[row["model"].template get<std::string>()].push_back(std::move(one));
  }
  return cases;
}

/// How far scores may be off. They are sums of log-probabilities, over or times a length: where a
/// device rounds weights, their errors grow with them, and answers that are as likely as others may
/// change places.
struct ScoreTolerance {
  double absolute = 2e-4, relative = 0;

  double Of(double score) const { return absolute + relative * std::abs(score); }
  /// The last one also with one that is not among the answers.
  bool MayChangePlaces(const std::vector<float>& scores, size_t i) const {
    if (relative == 0) return false;
    constexpr double kTie = 2e-4;
    const auto near = [&](size_t j) {
      return std::abs(scores[i] - scores[j]) <= 2 * (kTie + relative * std::abs(scores[i]));
    };
    return near(scores.size() - 1) || (i > 0 && near(i - 1)) || near(i + 1);
  }
};

void ExpectBeams(const BeamCase& want, const GenerateResult& result,
                 const ScoreTolerance& tolerance = {}) {
  std::vector<GeneratedAnswer> answers = {result};
  for (const GeneratedAnswer& other : result.others) answers.push_back(other);
  ASSERT_EQ(answers.size(), want.tokens.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_NEAR(answers[i].score, want.scores[i], tolerance.Of(want.scores[i])) << "answer " << i;
    if (tolerance.MayChangePlaces(want.scores, i)) continue;
    EXPECT_EQ(answers[i].tokens, want.tokens[i]) << "answer " << i;
    const bool is_whole = static_cast<int64_t>(want.tokens[i].size()) == want.request.max_tokens;
    if (is_whole) continue;
    EXPECT_EQ(answers[i].finish, FinishReason::kStop);
  }
}

void ExpectBeamsOfTransformers(Device device, const ScoreTolerance& tolerance) {
  const auto cases = BeamCases();
  ASSERT_GE(cases.size(), 4u);
  for (const auto& [name, of_model] : cases) {
    LanguageModelOptions options;
    options.device = device;
    options.exact = true;
    const auto model = LanguageModel::Load(kBeamModels / name, options);
    Engine engine(model, {.cache_tokens = 1024});
    for (size_t i = 0; i < of_model.size(); ++i) {
      SCOPED_TRACE(name + " " + std::to_string(i));
      ExpectBeams(of_model[i], engine.Generate(of_model[i].request), tolerance);
    }
    EXPECT_EQ(engine.stats().used_blocks, 0);
  }
}

TEST(Beams, AreThoseOfTransformers) { ExpectBeamsOfTransformers(Device::Cpu(), {}); }

TEST(Beams, OfSmolLM2AreThoseOfTransformers) {
  if (testing::kTooSlowForSmol) GTEST_SKIP() << "too slow under a sanitizer";
  const std::filesystem::path file = testing::SmolModelFile();
  if (file.empty()) GTEST_SKIP() << "no model: tools/fetch-smollm2 fetches it";
  LanguageModelOptions options;
  options.exact = true;
  Engine engine(LanguageModel::Load(file, options), {.cache_tokens = 1024});
  const std::vector<BeamCase> cases = BeamCases("smollm2_beams.json").at("smollm2");
  ASSERT_GE(cases.size(), 6u);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectBeams(cases[i], engine.Generate(cases[i].request), {.absolute = 5e-4});
  }
}

TEST(Beams, AreThoseOfTransformersOnAGpu) {
  std::string reason;
  if (cuda::Devices(&reason).empty()) GTEST_SKIP() << reason;
  // Weights of f32 are f16 there: sums lose about a thousandth.
  ExpectBeamsOfTransformers(Device::Cuda(0), {.absolute = 5e-3, .relative = 2e-3});
}

/// Side by side, with room for a few: beams of one search wait for each other, and searches for
/// searches.
TEST(Beams, SearchTogetherAsAlone) {
  const auto cases = BeamCases().at("llama");
  const auto model = LanguageModel::Load(kBeamModels / "llama", {.exact = true});
  for (const bool reserve : {true, false}) {
    Engine engine(model, {.cache_tokens = 16 * 26, .reserve_cache = reserve});
    std::vector<int64_t> ids;
    for (const BeamCase& one : cases) {
      ids.push_back(engine.Submit(one.request));
      engine.Step();
    }
    int64_t steps = 0;
    while (engine.Step()) ASSERT_LT(++steps, 100'000) << "the engine goes round in circles";
    for (size_t i = 0; i < ids.size(); ++i) {
      SCOPED_TRACE(i);
      ExpectBeams(cases[i], *engine.Take(ids[i]));
    }
    EXPECT_EQ(engine.stats().used_blocks, 0);
    EXPECT_EQ(engine.stats().preemptions > 0, !reserve);
  }
}

/// Beams of one search share their beginnings.
TEST(Beams, ShareBlocks) {
  const auto model = LanguageModel::Load(kBeamModels / "llama", {.exact = true});
  Engine engine(model, {.cache_tokens = 1024});
  GenerateRequest request;
  for (int32_t i = 0; i < 40; ++i) request.prompt.push_back(i);
  request.max_tokens = 10;
  request.ignore_end = true;
  request.beams.width = 8;
  engine.Submit(request);
  int64_t most = 0;
  while (engine.Step()) most = std::max(most, engine.stats().used_blocks);
  EXPECT_LE(most, 2 + 8 * 2);  // the prompt has two full blocks
  EXPECT_GE(most, 2 + 8);
}

TEST(Beams, EndWhenTheyAreTold) {
  const auto model = LanguageModel::Load(kBeamModels / "llama", {.exact = true});
  Engine engine(model, {.cache_tokens = 1024});
  GenerateRequest request;
  request.prompt = {3, 4, 5};
  request.max_tokens = 30;
  request.ignore_end = true;
  request.n = 2;
  request.beams.width = 4;
  request.sampling.top_logprobs = 2;
  const GenerateResult whole = engine.Generate(request);
  EXPECT_EQ(whole.logprobs.size(), whole.tokens.size());
  ASSERT_EQ(whole.top.at(0).size(), 2u);
  float sum = 0;
  for (const float logprob : whole.logprobs) sum += logprob;
  EXPECT_NEAR(whole.score, sum / 30, 1e-4);
  for (const int steps : {0, 1, 7}) {
    const int64_t id = engine.Submit(request);
    for (int i = 0; i < steps; ++i) engine.Step();
    engine.Cancel(id);
    EXPECT_FALSE(engine.Step());
    const GenerateResult result = *engine.Take(id);
    EXPECT_EQ(result.finish, FinishReason::kCancelled);
    EXPECT_EQ(result.tokens.size(), static_cast<size_t>(steps));
    EXPECT_EQ(engine.stats().used_blocks, 0);
  }
}

}  // namespace
}  // namespace oort
