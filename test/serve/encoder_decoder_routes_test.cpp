// SPDX-License-Identifier: MIT
// T5 and BART behind the server: prompts are read by an encoder.
#include "kit/files.h"
#include "serve/served_model.h"

namespace oort::serve {
namespace {

const std::filesystem::path kTextModels = TestData() / "checkpoints";

ServeOptions WithModel(const std::string& name) {
  ServeOptions options = Options();
  options.served.model = LanguageModel::Load(kTextModels / name);
  options.served.name = name;
  return options;
}

Json AnswersOf(const std::string& name) {
  return Json::parse(testing::FileBytes(kTextModels / (name + ".json")))["answers"];
}

TEST(EncoderDecoderRoutes, CompletionsAnswerAsTransformers) {
  for (const std::string name : {"t5", "bart"}) {
    const Fixture fixture(WithModel(name));
    for (const Json& item : AnswersOf(name)) {
      const Json body = {{"prompt", item["text"]},   {"temperature", 0},
                         {"ignore_eos", true},       {"max_tokens", item["tokens"].size()},
                         {"return_token_ids", true}, {"logprobs", 2}};
      const Answer answer = fixture.Post("/v1/completions", body);
      ASSERT_EQ(answer.status, 200) << answer.body;
      const Json told = Json::parse(answer.body);
      EXPECT_EQ(told["choices"][0]["token_ids"], item["tokens"]) << told;
      EXPECT_EQ(told["usage"]["prompt_tokens"], item["text"].size());
      EXPECT_EQ(told["usage"]["completion_tokens"], item["tokens"].size());
    }
  }
}

TEST(EncoderDecoderRoutes, SeveralPromptsAndAnswersStream) {
  const Fixture fixture(WithModel("t5"));
  const Json answers = AnswersOf("t5");
  const Json prompts = {answers[0]["text"], answers[1]["text"]};
  const Answer whole = fixture.Post(
      "/v1/completions",
      {{"prompt", prompts}, {"n", 2}, {"seed", 4}, {"max_tokens", 6}, {"ignore_eos", true}});
  ASSERT_EQ(whole.status, 200) << whole.body;
  EXPECT_EQ(Json::parse(whole.body)["choices"].size(), 4U);
  const Answer stream = fixture.Post("/v1/completions",
                                     {{"prompt", prompts[0]}, {"max_tokens", 6}, {"stream", true}});
  EXPECT_EQ(stream.status, 200);
  EXPECT_NE(stream.body.find("data: [DONE]"), std::string::npos) << stream.body;
}

/// The context is the answer's alone, and what the encoder cannot read is an error of who asks.
TEST(EncoderDecoderRoutes, RefusesWhatItCannotRead) {
  const Fixture fixture(WithModel("bart"));
  const auto status = [&](const Json& body) {
    return fixture.Post("/v1/completions", body).status;
  };
  const Json longest = std::vector<int>(64, 3), longer = std::vector<int>(65, 3);
  EXPECT_EQ(status({{"prompt", longest}, {"max_tokens", 8}}), 200);
  const Answer refused = fixture.Post("/v1/completions", {{"prompt", longer}, {"max_tokens", 8}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("1 to 64 tokens"), std::string::npos) << refused.body;
  // There is no chat template, and nothing is known of the prompt's tokens.
  EXPECT_NE(fixture.Post("/v1/chat/completions", Chat()).status, 200);
  EXPECT_NE(status({{"prompt", longest}, {"max_tokens", 1}, {"echo", true}, {"logprobs", 1}}), 200);
  EXPECT_EQ(status({{"prompt", longest}, {"max_tokens", 8}}), 200);
}

}  // namespace
}  // namespace oort::serve
