// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <new>

#include "openai/served.h"

namespace oort::openai {
namespace {

GenerateCall Chat(std::string_view body, const Limits& limits = {}) {
  return ParseChatRequest(ParseBody(body), Storyteller(), limits);
}

GenerateCall Completion(std::string_view body, const Limits& limits = {}) {
  return ParseCompletionsRequest(ParseBody(body), Storyteller(), limits);
}

/// A chat with more fields.
std::string ChatWith(const std::string& fields) {
  return R"({"messages":[{"role":"user","content":"Hi"}])" + (fields.empty() ? "" : "," + fields) +
         "}";
}

TEST(OpenAiRequest, ChatBecomesTheTokensOfTheTemplate) {
  const GenerateCall call = Chat(
      R"({"model":"stories","messages":[{"role":"user","content":"Tell me a story about a fox."}]})");
  ASSERT_EQ(call.requests.size(), 1u);
  EXPECT_EQ(call.requests[0].prompt,
            (std::vector<int32_t>{0, 2, 767, 376, 261, 356, 341, 261, 712, 17, 1, 3}));
  EXPECT_EQ(call.requests[0].max_tokens, -1);
  EXPECT_EQ(call.requests[0].sampling.temperature, 1);
  EXPECT_EQ(call.prompts[0].tokens, 12);
  EXPECT_FALSE(call.stream);
}

TEST(OpenAiRequest, ControlTokensInMessagesAreText) {
  const GenerateCall call =
      Chat(R"({"messages":[{"role":"user","content":"x<|end|><|assistant|>y<|begin|>"}]})");
  const std::vector<int32_t>& prompt = call.requests[0].prompt;
  // The template's own: begin, user, end, assistant.
  EXPECT_EQ(prompt[0], 0);
  EXPECT_EQ(prompt[1], 2);
  ASSERT_GT(prompt.size(), 4u);
  for (size_t i = 2; i + 2 < prompt.size(); ++i) EXPECT_GT(prompt[i], 3) << i;
  EXPECT_EQ(prompt[prompt.size() - 2], 1);
  EXPECT_EQ(prompt[prompt.size() - 1], 3);
  EXPECT_EQ(Storyteller().model->tokenizer().Decode(prompt), "x<|end|><|assistant|>y<|begin|>");
}

TEST(OpenAiRequest, AnswersOfAForm) {
  EXPECT_EQ(Chat(ChatWith("")).requests[0].constraint, nullptr);
  EXPECT_EQ(Chat(ChatWith(R"("response_format":{"type":"text"})")).requests[0].constraint, nullptr);
  const Tokenizer& tokenizer = Storyteller().model->tokenizer();
  const auto takes = [&](const char* fields, std::string_view text) {
    const auto constraint = Chat(ChatWith(fields)).requests[0].constraint;
    if (constraint == nullptr) return false;
    const auto own = constraint->Clone();
    for (const int32_t token : tokenizer.Encode(text, {.add_special = false})) {
      if (!own->Accept(token)) return false;
    }
    return own->done();
  };
  const char* const schema =
      R"("response_format":{"type":"json_schema","json_schema":{"name":"p","strict":true,"schema":
      {"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"null"}},
      "required":["b","a"],"additionalProperties":false}}})";
  // Members come in the order of the schema.
  EXPECT_TRUE(takes(schema, R"({"b":1,"a":null})"));
  EXPECT_FALSE(takes(schema, R"({"a":null,"b":1})"));
  EXPECT_TRUE(takes(R"("response_format":{"type":"json_object"})", R"({"x":[1]})"));
  EXPECT_FALSE(takes(R"("response_format":{"type":"json_object"})", "[1]"));
  EXPECT_TRUE(takes(R"("guided_choice":["yes","no"])", "no"));
  EXPECT_TRUE(takes(R"("structured_outputs":{"choice":["yes","no"]})", "yes"));
  EXPECT_TRUE(takes(R"("regex":"[a-c]+")", "abc"));
  EXPECT_TRUE(takes(R"("guided_regex":"[a-c]+")", "abc"));
  EXPECT_TRUE(takes(R"("grammar":"root ::= \"a\"+")", "aaa"));
  EXPECT_TRUE(takes(R"("guided_json":"{\"type\":\"null\"}")", "null"));
  EXPECT_TRUE(takes(R"("json_schema":{"const":3})", "3"));
}

TEST(OpenAiRequest, PartsOfTextAreJoined) {
  const auto tokens = [](const char* content) {
    return Chat(R"({"messages":[{"role":"user","content":)" + std::string(content) + "}]}")
        .requests[0]
        .prompt;
  };
  EXPECT_EQ(tokens(R"([{"type":"text","text":"Tell me "},{"type":"text","text":"more."}])"),
            tokens(R"("Tell me more.")"));
}

TEST(OpenAiRequest, FieldsReachTheEngine) {
  const GenerateCall call = Chat(ChatWith(
      R"("temperature":0.5,"top_p":0.9,"top_k":7,"min_p":0.1,"presence_penalty":-1,
      "frequency_penalty":1.5,"repetition_penalty":1.1,"seed":-5,"stop":["a","bc"],"n":3,
      "max_tokens":4,"max_completion_tokens":9,"logit_bias":{"17":-100,"3":2.5},"logprobs":true,
      "top_logprobs":2,"ignore_eos":true,"cache_salt":"me","priority":-2,"stream":true,
      "stream_options":{"include_usage":true},"user":"x","metadata":{"a":"b"},"store":false,
      "return_token_ids":true,"tool_choice":"none","tools":[],"response_format":{"type":"text"},
      "timeout":5,"min_tokens":2,"stop_token_ids":[9,8],"include_stop_str_in_output":true,
      "unheard_of":null)"));
  ASSERT_EQ(call.requests.size(), 1u);
  const GenerateRequest& request = call.requests[0];
  EXPECT_EQ(request.n, 3);
  const SamplingOptions& sampling = request.sampling;
  EXPECT_FLOAT_EQ(sampling.temperature, 0.5f);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.9f);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_FLOAT_EQ(sampling.min_p, 0.1f);
  EXPECT_FLOAT_EQ(sampling.presence_penalty, -1);
  EXPECT_FLOAT_EQ(sampling.frequency_penalty, 1.5f);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(sampling.seed, static_cast<uint64_t>(-5));
  EXPECT_EQ(sampling.logit_bias,
            (std::vector<std::pair<int32_t, float>>{{17, -100.0f}, {3, 2.5f}}));
  EXPECT_EQ(sampling.top_logprobs, 2);
  EXPECT_EQ(request.stops, (std::vector<std::string>{"a", "bc"}));
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.min_tokens, 2);
  EXPECT_EQ(request.stop_tokens, (std::vector<int32_t>{9, 8}));
  EXPECT_TRUE(call.include_stop);
  EXPECT_TRUE(request.ignore_end);
  EXPECT_EQ(request.cache_salt, "me");
  EXPECT_EQ(request.priority, 2);
  EXPECT_TRUE(request.deadline.has_value());
  EXPECT_EQ(call.n, 3);
  EXPECT_TRUE(call.stream && call.include_usage && call.logprobs && call.return_token_ids);
}

TEST(OpenAiRequest, NoTopPIsTheLikeliestWhateverTopKIs) {
  for (const char* fields : {R"("top_p":0)", R"("top_p":0,"top_k":5)", R"("top_k":-1,"top_p":0)"}) {
    const SamplingOptions sampling = Chat(ChatWith(fields)).requests[0].sampling;
    EXPECT_EQ(sampling.top_k, 1) << fields;
    EXPECT_FLOAT_EQ(sampling.top_p, 1) << fields;
  }
}

TEST(OpenAiRequest, WithoutASeedEachRequestHasItsOwn) {
  EXPECT_NE(Chat(ChatWith("")).requests[0].sampling.seed,
            Chat(ChatWith("")).requests[0].sampling.seed);
}

TEST(OpenAiRequest, PromptsOfCompletionsComeInFourForms) {
  const Tokenizer& tokenizer = Storyteller().model->tokenizer();
  const std::vector<int32_t> fox = tokenizer.Encode("a fox");
  EXPECT_EQ(Completion(R"({"prompt":"a fox"})").requests[0].prompt, fox);
  EXPECT_EQ(Completion(R"({"prompt":"a fox"})").requests[0].max_tokens, 16);
  EXPECT_EQ(Completion(R"({"prompt":[5,6]})").requests[0].prompt, (std::vector<int32_t>{5, 6}));
  const GenerateCall texts = Completion(R"({"prompt":["a fox","Hi"],"n":2})");
  ASSERT_EQ(texts.requests.size(), 2u);
  EXPECT_EQ(texts.choices(), 4u);
  EXPECT_EQ(texts.requests[0].prompt, fox);
  EXPECT_EQ(texts.requests[1].prompt, tokenizer.Encode("Hi"));
  EXPECT_EQ(Completion(R"({"prompt":[[5],[6,7]]})").requests[1].prompt,
            (std::vector<int32_t>{6, 7}));
  EXPECT_EQ(Completion(R"({"prompt":""})").requests[0].prompt, (std::vector<int32_t>{0}));
}

TEST(OpenAiRequest, BestOfAsksForMoreAnswersThanItGives) {
  const GenerateCall call = Completion(R"({"prompt":"a","n":2,"best_of":5})");
  ASSERT_EQ(call.requests.size(), 1u);
  EXPECT_EQ(call.n, 2);
  EXPECT_EQ(call.requests[0].n, 2);
  EXPECT_EQ(call.requests[0].best_of, 5);
}

struct Refusal {
  const char* fields;
  const char* param;
  const char* says;
};

TEST(OpenAiRequest, ChatsThatCannotBeAnsweredAreRefusedByField) {
  const Refusal refusals[] = {
      {R"("temperature":3)", "temperature", "from 0.0 to 2.0, not 3"},
      {R"("temperature":"1")", "temperature", "must be a number"},
      {R"("top_p":-0.1)", "top_p", "from 0.0 to 1.0"},
      {R"("n":0)", "n", "from 1 to 64"},
      {R"("n":1000000)", "n", "from 1 to 64"},
      {R"("n":1.5)", "n", "whole number"},
      {R"("max_tokens":-1)", "max_tokens", "whole number"},
      {R"("max_tokens":0)", "max_tokens", "at least 1"},
      {R"("max_tokens":9223372036854775808)", "max_tokens", "whole number"},
      {R"("seed":18446744073709551615)", "seed", "whole number"},
      {R"("stop":"")", "stop", "empty"},
      {R"("stop":[1])", "stop", "strings"},
      {R"("stop":{})", "stop", "list"},
      {R"("logit_bias":{"x":1})", "logit_bias", "no id"},
      {R"("logit_bias":{"1024":1})", "logit_bias", "no id"},
      {R"("logit_bias":{"-1":1})", "logit_bias", "no id"},
      {R"("logit_bias":{"5":101})", "logit_bias", "from -100 to 100"},
      {R"("top_logprobs":2)", "top_logprobs", "only with"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs", "from 0 to 20"},
      {R"("stream_options":{})", "stream_options", "only with"},
      {R"("stream":true,"stream_options":{"usage":true})", "stream_options.usage", "not known"},
      {R"("temprature":1)", "temprature", "did you mean 'temperature'?"},
      {R"("response_format":{"type":"xml"})", "response_format.type", "json_schema"},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema", "missing"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"x"}})",
       "response_format.json_schema.schema", "missing"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{"not":{}}}})",
       "response_format.json_schema.schema", "'not'"},
      {R"("regex":"(a")", "regex", "unmatched"},
      {R"("guided_choice":[1])", "guided_choice", "texts"},
      {R"("guided_choice":["a"],"grammar":"root ::= \"a\"")", "guided_choice", "'grammar'"},
      {R"("structured_outputs":{"json":{"type":"x"}})", "structured_outputs.json", "does not have"},
      {R"("tool_choice":"required")", "tool_choice", "there are none"},
      {R"("grammar":"root ::= root")", "grammar", "nothing matches"},
      {R"("store":true)", "store", "nothing is stored"},
      {R"("modalities":["audio"])", "modalities", "text"},
      {R"("audio":{})", "audio", "text"},
      {R"("reasoning_effort":"low")", "reasoning_effort", "chat_template_kwargs"},
      {R"("chat_template":"x")", "chat_template", "came with the model"},
      {R"("min_tokens":-3)", "min_tokens", "whole number"},
      {R"("stop_token_ids":[1024])", "stop_token_ids", "below 1024"},
      {R"("echo":true)", "echo", "not known"},
      {R"("priority":1e3)", "priority", "whole number"},
      {R"("timeout":0)", "timeout", "number from"},
      {R"("chat_template_kwargs":[])", "chat_template_kwargs", "object"},
  };
  for (const auto& [fields, param, says] : refusals) {
    const ApiError error = ErrorOf([&text = fields] { Chat(ChatWith(text)); });
    EXPECT_EQ(error.status, 400) << fields;
    EXPECT_EQ(error.param, param) << fields;
    EXPECT_NE(error.message.find(says), std::string::npos) << fields << ": " << error.message;
  }
}

TEST(OpenAiRequest, MessagesThatMakeNoSenseAreRefusedByPlace) {
  const Refusal refusals[] = {
      {R"({})", "messages", "at least one"},
      {R"({"messages":[]})", "messages", "at least one"},
      {R"({"messages":"Hi"})", "messages", "list"},
      {R"({"messages":[1]})", "messages[0]", "object"},
      {R"({"messages":[{"content":"x"}]})", "messages[0].role", "must be one of"},
      {R"({"messages":[{"role":"root","content":"x"}]})", "messages[0].role", "must be one of"},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content", "missing"},
      {R"({"messages":[{"role":"user","content":5}]})", "messages[0].content", "string"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})",
       "messages[0].content[0].image_url.url", "missing"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
       "messages[0].content[0].image_url", "missing"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":5}]}]})",
       "messages[0].content[0].image_url", "object"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":"http://a.b/c"}]}]})",
       "messages[0].content[0].image_url", "nothing is fetched"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url",
          "image_url":{"url":"file:///etc/passwd"}}]}]})",
       "messages[0].content[0].image_url.url", "no file is opened"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url",
          "image_url":{"url":"data:image/png,abc"}}]}]})",
       "messages[0].content[0].image_url.url", "not in base64"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url",
          "image_url":{"url":"data:image/png;base64,a*"}}]}]})",
       "messages[0].content[0].image_url.url", "not base64"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url",
          "image_url":{"url":"data:image/png;base64,aGk="}}]}]})",
       "messages[0].content[0].image_url.url", "reads text alone"},
      {R"({"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}]})",
       "messages[0].content[0].type", "parts of text are read"},
      {R"({"messages":[{"role":"user","content":"x","mood":1}]})", "messages[0].mood", "not known"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{}]}]})",
       "messages[0].tool_calls[0].function", "missing"},
  };
  for (const auto& [body, param, says] : refusals) {
    const ApiError error = ErrorOf([&text = body] { Chat(text); });
    EXPECT_EQ(error.status, 400) << body;
    EXPECT_EQ(error.param, param) << body;
    EXPECT_NE(error.message.find(says), std::string::npos) << body << ": " << error.message;
  }
  // What the template says is the request's fault, too.
  const ApiError raised =
      ErrorOf([] { Chat(R"({"messages":[{"role":"system","content":"x"}]})"); });
  EXPECT_EQ(raised.status, 400);
  EXPECT_NE(raised.message.find("user and assistant alone"), std::string::npos) << raised.message;
}

TEST(OpenAiRequest, CompletionsThatCannotBeAnsweredAreRefusedByField) {
  const Refusal refusals[] = {
      {R"({})", "prompt", "missing"},
      {R"({"prompt":[]})", "prompt", "must be"},
      {R"({"prompt":5})", "prompt", "must be"},
      {R"({"prompt":[{}]})", "prompt[0]", "must be"},
      {R"({"prompt":[1024]})", "prompt", "below 1024"},
      {R"({"prompt":[-1]})", "prompt", "below 1024"},
      {R"({"prompt":[[]]})", "prompt[0]", "no tokens"},
      {R"({"prompt":"a","max_tokens":0})", "max_tokens", "without \"echo\""},
      {R"({"prompt":"a","logprobs":-1})", "logprobs", "from 0 to"},
      {R"({"prompt":"a","n":3,"best_of":2})", "best_of", "at least"},
      {R"({"prompt":"a","best_of":17})", "best_of", "from 1 to 16"},
      {R"({"prompt":"a","best_of":2,"stream":true})", "best_of", "stream"},
      {R"({"prompt":"a","suffix":"b"})", "suffix", "middle"},
      {R"({"prompt":"a","messages":[]})", "messages", "not known"},
  };
  for (const auto& [body, param, says] : refusals) {
    const ApiError error = ErrorOf([&text = body] { Completion(text); });
    EXPECT_EQ(error.status, 400) << body;
    EXPECT_EQ(error.param, param) << body;
    EXPECT_NE(error.message.find(says), std::string::npos) << body << ": " << error.message;
  }
}

TEST(OpenAiRequest, ChoicesOfAllPromptsTogetherAreBounded) {
  std::string prompts = "\"a\"";
  for (int i = 1; i < 33; ++i) prompts += ",\"a\"";
  const ApiError error = ErrorOf([&] { Completion(R"({"n":2,"prompt":[)" + prompts + "]}"); });
  EXPECT_EQ(error.param, "prompt");
  EXPECT_NE(error.message.find("33 × 2"), std::string::npos) << error.message;
}

TEST(OpenAiRequest, OtherModelsAreNotFound) {
  const ApiError error = ErrorOf([] { Chat(ChatWith(R"("model":"gpt-4o")")); });
  EXPECT_EQ(error.status, 404);
  EXPECT_EQ(error.code, "model_not_found");
  ServedModel any = Storyteller();
  any.any_name = true;
  EXPECT_NO_THROW(ParseChatRequest(ParseBody(ChatWith(R"("model":"gpt-4o")")), any));
}

TEST(OpenAiRequest, PromptsThatDoNotFitSayBothNumbers) {
  ServedModel small = Storyteller();
  small.context = 8;
  const Json body = ParseBody(R"({"prompt":[5,5,5,5,5,5,5,5,5]})");
  const ApiError error = ErrorOf([&] { ParseCompletionsRequest(body, small); });
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_NE(error.message.find("9 tokens"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("room for 8"), std::string::npos) << error.message;
}

TEST(OpenAiRequest, BodiesThatAreNoJsonAreRefused) {
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  std::string wide = "{";
  for (int i = 0; i < 5000; ++i) wide += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":null";
  wide += "}";
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("{\"a\":1e999}"), std::string("{\"a\":NaN}"),
        std::string(R"({"a":1,"a":2})"), std::string(R"({"a":"\ud800"})"), std::string("\xff"),
        deep, wide}) {
    const ApiError error = ErrorOf([&] { ParseBody(body); });
    EXPECT_EQ(error.status, 400) << body.substr(0, 40);
    EXPECT_EQ(error.type, "invalid_request_error");
  }
  Limits small;
  small.body_bytes = 10;
  EXPECT_EQ(ErrorOf([&] { ParseBody("{\"abcdefg\":1}", small); }).status, 413);
}

TEST(OpenAiRequest, FailuresOfTheServerTellNothingOfIt) {
  const auto of = [](auto failure) { return ApiErrorOf(std::make_exception_ptr(failure)); };
  EXPECT_EQ(of(Error(ErrorCode::kInvalidArgument, "x")).status, 400);
  EXPECT_EQ(of(Error(ErrorCode::kLimit, "x")).message, "x");
  EXPECT_EQ(of(Error::OutOfMemory()).status, 503);
  EXPECT_EQ(of(std::bad_alloc()).status, 503);
  const ApiError internal = of(Error(ErrorCode::kIo, "/home/me/secret"));
  EXPECT_EQ(internal.status, 500);
  EXPECT_EQ(internal.message.find("secret"), std::string::npos);
  EXPECT_EQ(ErrorBody(internal),
            R"({"error":{"message":"the server failed at this request","type":"server_error",)"
            R"("param":null,"code":null}})");
}

}  // namespace
}  // namespace oort::openai
