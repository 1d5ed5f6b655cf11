// SPDX-License-Identifier: MIT
// The committed storyteller beside the answers of transformers (models/storyteller/answers.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "oort/engine.h"
#include "text/utf8.h"

namespace oort {
namespace {

const std::filesystem::path kStoryteller = SourceTree() / "models" / "storyteller";

struct StoryAnswer {
  std::vector<ChatMessage> messages;  ///< none for text that is gone on with
  std::string prompt, text;
  std::vector<int32_t> prompt_ids, ids;
  std::vector<float> logprobs;
};

std::vector<StoryAnswer> StoryAnswers() {
  std::vector<StoryAnswer> answers;
  for (const auto& row : nlohmann::json::parse(testing::FileBytes(kStoryteller / "answers.json"))) {
    StoryAnswer answer{{},
                       row["prompt"].get<std::string>(),
                       row["text"].get<std::string>(),
                       row["prompt_ids"].get<std::vector<int32_t>>(),
                       row["ids"].get<std::vector<int32_t>>(),
                       row["logprobs"].get<std::vector<float>>()};
    for (const auto& message : row["messages"]) {
      answer.messages.push_back({message["role"], message["content"]});
    }
    answers.push_back(std::move(answer));
  }
  EXPECT_GE(answers.size(), 8u);
  return answers;
}

std::shared_ptr<const LanguageModel> LoadStoryteller(bool exact) {
  LanguageModelOptions options;
  options.exact = exact;
  return LanguageModel::Load(kStoryteller, options);
}

/// One thread: the model is so small that more would only wait for each other.
EngineOptions StoryOptions(KvType kv = KvType::kF16) {
  EngineOptions options;
  options.threads = 1;
  options.kv = kv;
  return options;
}

GenerateRequest StoryRequest(const StoryAnswer& answer, float temperature = 0) {
  GenerateRequest request;
  request.prompt = answer.prompt_ids;
  request.max_tokens = 200;
  request.sampling.temperature = temperature;
  request.sampling.seed = 11;
  return request;
}

TEST(Storyteller, ReadsPromptsAsTransformersDoes) {
  const auto model = LoadStoryteller(false);
  for (const StoryAnswer& answer : StoryAnswers()) {
    if (answer.messages.empty()) {
      EXPECT_EQ(model->tokenizer().Encode(answer.prompt), answer.prompt_ids) << answer.prompt;
      continue;
    }
    ChatInputs inputs;
    inputs.messages = ToJson(answer.messages);
    EXPECT_EQ(model->FormatChat(inputs), answer.prompt);
    EXPECT_EQ(model->EncodeChat(answer.messages), answer.prompt_ids) << answer.prompt;
  }
  const ChatMessage system{"system", "You are a poet."};
  testing::ExpectThrows(
      [&] {
        model->EncodeChat({&system, 1});
      },
      ErrorCode::kInvalidArgument, "user and assistant alone");
}

TEST(Storyteller, AnswersExactlyWhatTransformersAnswers) {
  Engine engine(LoadStoryteller(true), StoryOptions(KvType::kF32));
  for (const StoryAnswer& answer : StoryAnswers()) {
    SCOPED_TRACE(answer.prompt);
    GenerateRequest request = StoryRequest(answer);
    request.sampling.top_logprobs = 0;
    const GenerateResult result = engine.Generate(std::move(request));
    EXPECT_EQ(result.tokens, answer.ids);
    EXPECT_EQ(result.text, answer.text);
    ASSERT_EQ(result.logprobs.size(), answer.logprobs.size());
    for (size_t i = 0; i < result.logprobs.size(); ++i) {
      EXPECT_NEAR(result.logprobs[i], answer.logprobs[i], 1e-3) << "token " << i;
    }
    const bool ended = engine.model().IsEnd(answer.ids.back());
    EXPECT_EQ(result.finish, ended ? FinishReason::kStop : FinishReason::kLength);
  }
}

TEST(Storyteller, FastModeMostlyPicksTheSameTokens) {
  const auto model = LoadStoryteller(false);
  int64_t same = 0, all = 0;
  for (const StoryAnswer& answer : StoryAnswers()) {
    std::vector<int32_t> tokens = answer.prompt_ids;
    tokens.insert(tokens.end(), answer.ids.begin(), answer.ids.end());
    const auto first = static_cast<int64_t>(answer.prompt_ids.size()) - 1;
    const auto last = static_cast<int64_t>(tokens.size()) - 1;
    VisitLogits(model, tokens, model->info().context, StoryOptions(),
                [&](int64_t i, std::span<const float> x) {
                  if (i < first || i >= last) return;
                  const auto best = std::max_element(x.begin(), x.end()) - x.begin();
                  same += best == tokens[static_cast<size_t>(i) + 1];
                  ++all;
                });
  }
  EXPECT_GT(all, 500);
  EXPECT_GE(static_cast<double>(same), 0.97 * static_cast<double>(all)) << same << " of " << all;
}

TEST(Storyteller, StreamsPiecesThatJoinToTheText) {
  Engine engine(LoadStoryteller(false), StoryOptions());
  GenerateRequest request = StoryRequest(StoryAnswers()[0]);
  std::string joined;
  size_t tokens = 0;
  request.on_piece = [&](const GeneratedPiece& piece) {
    joined += piece.text;
    tokens += piece.token >= 0;
    return true;
  };
  const GenerateResult result = engine.Generate(std::move(request));
  EXPECT_EQ(joined, result.text);
  EXPECT_EQ(tokens, result.tokens.size());
  EXPECT_GT(result.text.size(), 100u);
}

/// However an answer is cut, what is streamed is what is returned, and whole characters.
TEST(Storyteller, StreamsWholeCharactersHoweverItIsCut) {
  Engine engine(LoadStoryteller(false), StoryOptions());
  bool replaced = false;
  for (int64_t tokens = 1; tokens <= 40; ++tokens) {
    GenerateRequest request = StoryRequest(StoryAnswers()[0], 50);  // any token: bytes, too
    request.max_tokens = tokens;
    request.ignore_end = true;
    request.stops = {"a b", "zzz"};
    std::string joined;
    request.on_piece = [&](const GeneratedPiece& piece) {
      EXPECT_TRUE(text::IsValidUtf8(piece.text)) << piece.text;
      joined += piece.text;
      return true;
    };
    const GenerateResult result = engine.Generate(std::move(request));
    EXPECT_EQ(joined, result.text) << tokens << " tokens";
    EXPECT_EQ(static_cast<int64_t>(result.tokens.size()), tokens);
    replaced = replaced || result.text.find("\xEF\xBF\xBD") != std::string::npos;
  }
  EXPECT_TRUE(replaced) << "no byte of a character was drawn alone";
}

TEST(Storyteller, EndsBeforeAStopString) {
  Engine engine(LoadStoryteller(true), StoryOptions(KvType::kF32));
  const StoryAnswer answer = StoryAnswers()[0];
  // A piece of the story that ends and begins within tokens.
  const size_t at = answer.text.size() / 2;
  const std::string stop = answer.text.substr(at, 9);
  GenerateRequest request = StoryRequest(answer);
  request.stops = {"a text that is not there", stop};
  const GenerateResult result = engine.Generate(std::move(request));
  EXPECT_EQ(result.text, answer.text.substr(0, answer.text.find(stop)));
  EXPECT_EQ(result.stop, stop);
  EXPECT_EQ(result.finish, FinishReason::kStop);
  EXPECT_LT(result.tokens.size(), answer.ids.size());
}

TEST(Storyteller, TellsFourStoriesTogetherAsItTellsThemAlone) {
  const auto model = LoadStoryteller(false);
  std::vector<StoryAnswer> answers = StoryAnswers();
  std::sort(answers.begin(), answers.end(), [](const StoryAnswer& a, const StoryAnswer& b) {
    return a.prompt_ids.size() > b.prompt_ids.size();
  });
  for (size_t i = 1; i < 4; ++i) answers[i] = answers[i * (answers.size() - 1) / 3];
  answers.resize(4);
  for (float temperature : {0.0f, 0.9f}) {
    Engine together(model, StoryOptions());
    std::vector<int64_t> numbers;
    for (const StoryAnswer& answer : answers) {
      numbers.push_back(together.Submit(StoryRequest(answer, temperature)));
    }
    while (together.Step()) {
    }
    for (size_t i = 0; i < answers.size(); ++i) {
      Engine alone(model, StoryOptions());
      const GenerateResult expected = alone.Generate(StoryRequest(answers[i], temperature));
      const auto result = together.Take(numbers[i]);
      ASSERT_TRUE(result.has_value());
      EXPECT_EQ(result->text, expected.text) << answers[i].prompt << " at " << temperature;
      EXPECT_EQ(result->tokens, expected.tokens);
    }
  }
}

TEST(Storyteller, NeighboursMayBeDrawnInOtherWays) {
  const auto model = LoadStoryteller(false);
  const std::vector<StoryAnswer> answers = StoryAnswers();
  std::vector<GenerateRequest> requests;
  for (size_t i = 0; i < 6; ++i) {
    GenerateRequest request = StoryRequest(answers[i % answers.size()]);
    request.max_tokens = static_cast<int64_t>(40 + 25 * i);
    request.sampling.seed = 100 + i;
    requests.push_back(std::move(request));
  }
  requests[1].sampling.temperature = 1.2F;
  requests[2].sampling.temperature = 0.8F;
  requests[2].sampling.top_k = 5;
  requests[2].sampling.frequency_penalty = 0.5F;
  requests[3].sampling.temperature = 1;
  requests[3].sampling.top_p = 0.7F;
  requests[3].sampling.repetition_penalty = 1.3F;
  requests[3].stops = {"the"};
  requests[4].sampling.temperature = 1;
  requests[4].sampling.min_p = 0.1F;
  requests[4].sampling.logit_bias = {{17, 3.0F}, {18, -5.0F}};
  requests[5].sampling.presence_penalty = 1;
  requests[5].sampling.top_logprobs = 3;
  Engine together(model, StoryOptions());
  std::vector<int64_t> numbers;
  for (const GenerateRequest& request : requests) numbers.push_back(together.Submit(request));
  while (together.Step()) {
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    const GenerateResult alone = Engine(model, StoryOptions()).Generate(requests[i]);
    const auto result = together.Take(numbers[i]);
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->tokens, alone.tokens) << "request " << i;
    EXPECT_EQ(result->text, alone.text);
    EXPECT_EQ(result->logprobs, alone.logprobs);
    EXPECT_EQ(result->finish, alone.finish);
  }
}

}  // namespace
}  // namespace oort
