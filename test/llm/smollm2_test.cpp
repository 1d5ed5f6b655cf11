// SPDX-License-Identifier: MIT
// SmolLM2-135M-Instruct, a real model, beside reference answers; where both files are at hand
// (tools/fetch-smollm2 brings the model; OORT_SMOLLM2 may name it instead).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cuda/device.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "kit/sanitized.h"
#include "llm/decoder_runner.h"
#include "llm/smollm2_file.h"
#include "oort/engine.h"

namespace oort {
namespace {

const std::filesystem::path kSmolRoot = SourceTree();
/// Where the second best token is this close, rounding decides, and the texts part.
constexpr float kSmolGap = 0.02f;

struct SmolAnswer {
  std::string user, prompt;  ///< no user where the prompt is plain text
  bool is_chat = false;
  std::vector<int32_t> prompt_ids, ids;
  std::vector<float> logprobs, gaps;
};

/// What needs no reference but the model itself.
class SmolLM2Alone : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::kTooSlowForSmol) GTEST_SKIP() << "too slow under a sanitizer";
    file_ = testing::SmolModelFile();
    if (file_.empty()) GTEST_SKIP() << "no model: tools/fetch-smollm2 fetches it";
  }
  std::shared_ptr<const LanguageModel> Load(std::optional<bool> exact,
                                            Device device = Device::Cpu()) const {
    LanguageModelOptions options;
    options.exact = exact;
    options.device = device;
    return LanguageModel::Load(file_, options);
  }
  std::filesystem::path file_;
};

class SmolLM2 : public SmolLM2Alone {
 protected:
  void SetUp() override {
    SmolLM2Alone::SetUp();
    if (file_.empty()) return;
    const char* given = std::getenv("OORT_SHARED_DIR");
    const auto shared =
        given != nullptr ? std::filesystem::path(given) : kSmolRoot / ".." / "shared";
    const std::string text = testing::FileBytes(shared / "llm" / "smollm2_reference.json");
    if (text.empty()) GTEST_SKIP() << "no reference answers";
    for (const auto& row : nlohmann::json::parse(text)) {
      SmolAnswer answer;
      answer.is_chat = !row["user"].is_null();
      if (answer.is_chat) answer.user = row["user"].get<std::string>();
      answer.prompt = row["prompt"].get<std::string>();
      row["prompt_ids"].get_to(answer.prompt_ids);
      row["greedy_ids"].get_to(answer.ids);
      row["greedy_logprobs"].get_to(answer.logprobs);
      row["second_best_gap"].get_to(answer.gaps);
      answers_.push_back(std::move(answer));
    }
    ASSERT_FALSE(answers_.empty());
  }

  std::vector<SmolAnswer> answers_;
};

TEST_F(SmolLM2, ExactModeFollowsTheReference) {
  EngineOptions options;
  options.kv = KvType::kF32;
  options.cache_tokens = 512;
  Engine engine(Load(true), options);
  for (const SmolAnswer& answer : answers_) {
    SCOPED_TRACE(answer.prompt);
    GenerateRequest request;
    const ChatMessage message{"user", answer.user};
    request.prompt = answer.is_chat ? engine.model().EncodeChat({&message, 1})
                                    : engine.model().tokenizer().Encode(answer.prompt);
    EXPECT_EQ(request.prompt, answer.prompt_ids);
    request.max_tokens = static_cast<int64_t>(answer.ids.size());
    request.sampling.top_logprobs = 0;
    const GenerateResult result = engine.Generate(std::move(request));
    for (size_t i = 0; i < answer.ids.size() && answer.gaps[i] > kSmolGap; ++i) {
      ASSERT_LT(i, result.tokens.size());
      ASSERT_EQ(result.tokens[i], answer.ids[i]) << "token " << i;
      EXPECT_NEAR(result.logprobs[i], answer.logprobs[i], 0.02) << "token " << i;
    }
  }
}

TEST_F(SmolLM2, FastModePicksTheTokensOfTheReference) {
  const auto model = Load(false);
  size_t same = 0, all = 0;
  for (const SmolAnswer& answer : answers_) {
    std::vector<int32_t> tokens = answer.prompt_ids;
    tokens.insert(tokens.end(), answer.ids.begin(), answer.ids.end());
    const auto window = static_cast<int64_t>(tokens.size());
    VisitLogits(model, tokens, window, {}, [&](int64_t at, std::span<const float> logits) {
      const auto next = static_cast<size_t>(at) + 1;
      if (next < answer.prompt_ids.size() || next >= tokens.size()) return;
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      same += best == tokens[next];
      ++all;
    });
  }
  EXPECT_GT(all, 100u);
  EXPECT_GE(static_cast<double>(same), 0.97 * static_cast<double>(all)) << same << " of " << all;
}

/// The same with every token in a step of its own, where activations are rounded to bytes.
TEST_F(SmolLM2, FastModePicksThemTokenByTokenToo) {
  const auto model = Load(false);
  size_t same = 0, all = 0;
  DecoderRunner runner(model, KvType::kF16, 512, 0);
  for (const SmolAnswer& answer : answers_) {
    CachedSequence sequence;
    std::vector<int32_t> tokens = answer.prompt_ids;
    tokens.insert(tokens.end(), answer.ids.begin(), answer.ids.end());
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const StepItem item{&sequence, {&tokens[i], 1}, StepItem::kLast};
      const std::span<const float> logits = runner.Step({&item, 1});
      if (i + 1 < answer.prompt_ids.size()) continue;
      same += std::max_element(logits.begin(), logits.end()) - logits.begin() == tokens[i + 1];
      ++all;
    }
    sequence = {};
  }
  EXPECT_GE(static_cast<double>(same), 0.97 * static_cast<double>(all)) << same << " of " << all;
}

class SmolLM2OnGpu : public SmolLM2 {
 protected:
  void SetUp() override {
    std::string reason;
    if (cuda::Devices(&reason).empty()) GTEST_SKIP() << reason;
    SmolLM2::SetUp();
  }

  std::vector<std::vector<int32_t>> Answers(std::optional<bool> exact, Device device) const {
    EngineOptions options;
    options.cache_tokens = 512;
    Engine engine(Load(exact, device), options);
    std::vector<std::vector<int32_t>> texts;
    for (const SmolAnswer& answer : answers_) {
      GenerateRequest request;
      request.prompt = answer.prompt_ids;
      request.max_tokens = static_cast<int64_t>(answer.ids.size());
      texts.push_back(engine.Generate(std::move(request)).tokens);
    }
    return texts;
  }

  /// Tokens that both have before they part; all of them where they do not.
  static size_t Common(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
    const auto ends = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    return static_cast<size_t>(ends.first - a.begin());
  }

  /// The GPU's texts may leave the CPU's exact ones only where two tokens are nearer than `gap`.
  void ExpectTexts(std::optional<bool> exact, float gap) const {
    const auto want = Answers(true, Device::Cpu()), got = Answers(exact, Device::Cuda(0));
    size_t same = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      const size_t common = Common(want[i], got[i]);
      same += common == want[i].size() && want[i].size() == got[i].size();
      if (common == want[i].size()) continue;
      // The reference tells how near they were, as long as the CPU says the same as it.
      const bool known = Common(want[i], answers_[i].ids) >= common;
      EXPECT_TRUE(known && answers_[i].gaps[common] <= gap)
          << answers_[i].prompt << ": token " << common << " of " << want[i].size() << ", gap "
          << (known ? answers_[i].gaps[common] : -1.0f);
    }
    RecordProperty("same_texts", std::to_string(same) + " of " + std::to_string(want.size()));
    std::cout << same << " of " << want.size() << " texts are the same to their ends\n";
  }
};

TEST_F(SmolLM2OnGpu, SaysWhatTheCpusExactModeSays) { ExpectTexts(std::nullopt, 0); }

TEST_F(SmolLM2OnGpu, FastModeSaysWhatTheCpusExactModeSays) { ExpectTexts(false, 0.02f); }

TEST_F(SmolLM2Alone, AnswersAQuestionTheSameInBothModes) {
  std::vector<std::string> texts;
  for (bool exact : {true, false}) {
    EngineOptions options;
    options.cache_tokens = 256;
    Engine engine(Load(exact), options);
    GenerateRequest request;
    const ChatMessage message{"user", "What is the capital of France? Answer in one sentence."};
    request.prompt = engine.model().EncodeChat({&message, 1});
    request.max_tokens = 16;
    texts.push_back(engine.Generate(std::move(request)).text);
  }
  EXPECT_NE(texts[0].find("Paris"), std::string::npos) << texts[0];
  EXPECT_EQ(texts[0], texts[1]);
}

}  // namespace
}  // namespace oort
