// SPDX-License-Identifier: MIT
#include "openai/response.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "openai/embeddings.h"
#include "openai/served.h"

namespace oort::openai {
namespace {

using nlohmann::json;

const ResponseHead kHead{"cmpl-1", 1234};

struct Answered {
  GenerateCall call;
  std::vector<GenerateResult> results;
  json body;
  std::vector<json> chunks;
};

/// Runs a call as a server would, whole and as a stream.
Answered Run(GenerateCall call) {
  const ServedModel& served = Storyteller();
  Answered answered{std::move(call), {}, {}, {}};
  EngineOptions options;
  options.threads = 1;
  Engine engine(served.model, options);
  ChunkWriter writer(answered.call, served, kHead);
  const auto add = [&](const std::string& chunk) {
    EXPECT_EQ(chunk.find('\n'), std::string::npos);
    if (!chunk.empty()) answered.chunks.push_back(json::parse(chunk));
  };
  for (size_t p = 0; p < answered.call.requests.size(); ++p) {
    const auto n = static_cast<int64_t>(answered.call.n);
    const int64_t first = static_cast<int64_t>(p) * n;
    GenerateRequest request = answered.call.requests[p];
    const bool streams = request.best_of == 0;
    std::set<int64_t> begun;
    const auto begin = [&](int64_t i) {
      if (begun.insert(i).second) add(writer.First(first + i));
    };
    if (streams) {
      request.on_prompt = [&](std::span<const float> logprobs,
                              std::span<const std::vector<TokenLogprob>> top) {
        EXPECT_TRUE(begun.empty());
        writer.Prompt(p, {logprobs.begin(), logprobs.end()}, {top.begin(), top.end()});
      };
      request.on_piece = [&](const GeneratedPiece& piece) {
        begin(piece.answer);
        add(writer.Piece(first + piece.answer, piece));
        return true;
      };
    }
    answered.results.push_back(engine.Generate(std::move(request)));
    for (int64_t i = 0; streams && i < n; ++i) {
      begin(i);
      const GeneratedAnswer& answer = AnswerOf(answered.results.back(), static_cast<size_t>(i));
      for (const std::string& chunk : writer.Last(first + i, answer)) add(chunk);
    }
  }
  add(writer.UsageChunk(UsageOf(answered.call, served, answered.results)));
  answered.body = json::parse(ResponseBody(answered.call, served, kHead, answered.results));
  return answered;
}

Answered RunChat(const std::string& fields) {
  return Run(ParseChatRequest(
      ParseBody(R"({"messages":[{"role":"user","content":"Tell me a story about a fox."}],)" +
                fields + "}"),
      Storyteller()));
}

Answered RunPrompt(const std::string& fields) {
  return Run(ParseCompletionsRequest(ParseBody("{" + fields + "}"), Storyteller()));
}

Answered RunCompletion(const std::string& fields) {
  return RunPrompt(R"("prompt":"Once upon",)" + fields);
}

std::string Joined(const Answered& answered, int64_t choice) {
  std::string text;
  for (const json& chunk : answered.chunks) {
    for (const json& part : chunk["choices"]) {
      if (part["index"] != choice) continue;
      text += part.contains("delta") ? part["delta"].value("content", "") : part.value("text", "");
    }
  }
  return text;
}

TEST(OpenAiResponse, ChatHasMessageReasonAndUsage) {
  const Answered answered = RunChat(R"("temperature":0,"max_tokens":8)");
  const json& body = answered.body;
  EXPECT_EQ(body["id"], "cmpl-1");
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["created"], 1234);
  EXPECT_EQ(body["model"], "storyteller");
  EXPECT_EQ(body["system_fingerprint"], "fp_1");
  const json& choice = body["choices"].at(0);
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], answered.results[0].text);
  EXPECT_FALSE(answered.results[0].text.empty());
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_EQ(body["usage"]["prompt_tokens"], 12);
  EXPECT_EQ(body["usage"]["completion_tokens"], 8);
  EXPECT_EQ(body["usage"]["total_tokens"], 20);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

TEST(OpenAiResponse, ChunksOfAStreamAreTheWholeAnswer) {
  for (const int most : {1, 3, 400}) {
    const Answered answered =
        RunChat(R"("temperature":0,"stream":true,"stream_options":{"include_usage":true},)"
                R"("logprobs":true,"top_logprobs":1,"max_tokens":)" +
                std::to_string(most));
    EXPECT_EQ(Joined(answered, 0), answered.results[0].text);
    EXPECT_EQ(answered.chunks.front()["choices"][0]["delta"]["role"], "assistant");
    EXPECT_EQ(answered.chunks.front()["object"], "chat.completion.chunk");
    const json& usage = answered.chunks.back();
    EXPECT_TRUE(usage["choices"].empty());
    EXPECT_EQ(usage["usage"], answered.body["usage"]);
    const json& last = answered.chunks[answered.chunks.size() - 2];
    EXPECT_EQ(last["choices"][0]["finish_reason"], answered.body["choices"][0]["finish_reason"]);
    json scored = json::array();
    for (size_t i = 0; i + 2 < answered.chunks.size(); ++i) {
      const json& choice = answered.chunks[i]["choices"][0];
      EXPECT_TRUE(choice["finish_reason"].is_null());
      EXPECT_TRUE(answered.chunks[i]["usage"].is_null());
      if (choice["logprobs"].is_null()) continue;
      for (const json& entry : choice["logprobs"]["content"]) scored.push_back(entry);
    }
    if (!last["choices"][0]["logprobs"].is_null()) {
      for (const json& entry : last["choices"][0]["logprobs"]["content"]) scored.push_back(entry);
    }
    EXPECT_EQ(scored, answered.body["choices"][0]["logprobs"]["content"]);
  }
}

TEST(OpenAiResponse, LogprobsOfChatsSpellTheAnswer) {
  const Answered answered =
      RunChat(R"("temperature":0,"logprobs":true,"top_logprobs":3,"max_tokens":400)");
  ASSERT_EQ(answered.body["choices"][0]["finish_reason"], "stop");
  std::string spelled;
  for (const json& entry : answered.body["choices"][0]["logprobs"]["content"]) {
    EXPECT_EQ(entry["top_logprobs"].size(), 3u);
    EXPECT_EQ(entry["top_logprobs"][0]["logprob"], entry["logprob"]);
    EXPECT_LE(entry["logprob"].get<float>(), 0);
    for (const int byte : entry["bytes"]) spelled += static_cast<char>(byte);
  }
  EXPECT_EQ(spelled, answered.results[0].text);
}

TEST(OpenAiResponse, LogprobsOfCompletionsStandSideBySide) {
  const Answered answered = RunCompletion(R"("temperature":0,"logprobs":2,"max_tokens":6)");
  const json& choice = answered.body["choices"][0];
  EXPECT_EQ(answered.body["object"], "text_completion");
  const json& logprobs = choice["logprobs"];
  const std::string text = choice["text"];
  ASSERT_EQ(logprobs["tokens"].size(), 6u);
  ASSERT_EQ(logprobs["text_offset"].size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    const std::string token = logprobs["tokens"][i];
    EXPECT_EQ(text.substr(logprobs["text_offset"][i], token.size()), token);
    EXPECT_EQ(logprobs["top_logprobs"][i].size(), 2u);
    EXPECT_EQ(logprobs["top_logprobs"][i][token], logprobs["token_logprobs"][i]);
  }
}

TEST(OpenAiResponse, EchoBeginsWithThePrompt) {
  const Answered answered = RunCompletion(R"("temperature":0,"echo":true,"max_tokens":4)");
  const std::string text = answered.body["choices"][0]["text"];
  EXPECT_EQ(text, "Once upon" + answered.results[0].text);
  EXPECT_EQ(Joined(answered, 0), text);
  EXPECT_EQ(RunCompletion(R"("echo":true,"max_tokens":0)").body["choices"][0]["text"], "Once upon");
}

TEST(OpenAiResponse, StopsAndTokenIdsAreTold) {
  const Answered answered =
      RunCompletion(R"("temperature":0,"stop":[" a"],"max_tokens":50,"return_token_ids":true)");
  const json& choice = answered.body["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["stop_reason"], " a");
  EXPECT_EQ(choice["token_ids"], answered.results[0].tokens);
  EXPECT_EQ(choice["prompt_token_ids"], answered.call.requests[0].prompt);
}

/// The ids of choice `index` in a stream: those of its prompt, and its own.
std::pair<json, json> StreamedIds(const Answered& answered, int64_t index) {
  json prompt, own = json::array();
  for (const json& chunk : answered.chunks) {
    for (const json& part : chunk["choices"]) {
      if (part["index"] != index) continue;
      if (part.contains("prompt_token_ids")) {
        EXPECT_TRUE(prompt.is_null()) << "told twice";
        prompt = part["prompt_token_ids"];
      }
      for (const json& id : part.value("token_ids", json::array())) own.push_back(id);
    }
  }
  return {prompt, own};
}

TEST(OpenAiResponse, StreamsTellTheTokenIdsOfTheWholeAnswer) {
  const std::string ids = R"("temperature":0,"return_token_ids":true,)";
  const Answered free = RunCompletion(R"("temperature":0,"max_tokens":6)");
  const std::string ends =
      R"("stop_token_ids":[)" + std::to_string(free.results[0].tokens.at(2)) + "]";
  const Answered all[] = {RunCompletion(ids + R"("max_tokens":6)"),
                          RunCompletion(ids + R"("max_tokens":6,"n":2,"logprobs":1)"),
                          RunCompletion(ids + R"("max_tokens":6,"echo":true,)" + ends),
                          RunCompletion(ids + R"("max_tokens":6,)" + ends),
                          RunChat(ids + R"("max_tokens":400)")};
  for (const Answered& answered : all) {
    for (const json& choice : answered.body["choices"]) {
      const auto [prompt, own] = StreamedIds(answered, choice["index"]);
      EXPECT_EQ(prompt, choice["prompt_token_ids"]);
      EXPECT_EQ(own, choice["token_ids"]);
    }
  }
  EXPECT_EQ(all[3].body["choices"][0]["token_ids"].size(), 3u);  // with the one that ended it
}

TEST(OpenAiResponse, ADeadlineIsALengthThatSaysSo) {
  for (const Endpoint endpoint : {Endpoint::kChat, Endpoint::kCompletions}) {
    Answered answered = endpoint == Endpoint::kChat ? RunChat(R"("max_tokens":2)")
                                                    : RunCompletion(R"("max_tokens":2)");
    const auto choice = [&] {
      return json::parse(ResponseBody(answered.call, Storyteller(), kHead, answered.results))
          .at("choices")
          .at(0);
    };
    EXPECT_FALSE(choice().contains("ended_by"));
    answered.results[0].finish = FinishReason::kDeadline;
    EXPECT_EQ(choice()["finish_reason"], "length");
    EXPECT_EQ(choice()["ended_by"], "deadline");
    ChunkWriter writer(answered.call, Storyteller(), kHead);
    const json last = json::parse(writer.Last(0, answered.results[0]).back())["choices"][0];
    EXPECT_EQ(last["finish_reason"], "length");
    EXPECT_EQ(last["ended_by"], "deadline");
  }
}

TEST(OpenAiResponse, ManyChoicesAreNumberedAndCountThePromptOnce) {
  const Answered answered = RunCompletion(R"("n":3,"seed":1,"max_tokens":5)");
  ASSERT_EQ(answered.body["choices"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(answered.body["choices"][i]["index"], i);
    EXPECT_EQ(answered.body["choices"][i]["text"], AnswerOf(answered.results[0], i).text);
    EXPECT_EQ(Joined(answered, static_cast<int64_t>(i)), AnswerOf(answered.results[0], i).text);
  }
  EXPECT_EQ(answered.body["usage"]["prompt_tokens"], answered.call.prompts[0].tokens);
  EXPECT_EQ(answered.body["usage"]["completion_tokens"], 15);
}

TEST(OpenAiResponse, BestOfGivesTheLikeliestFirst) {
  // All of them, to find the best two by hand.
  const Answered all = RunCompletion(R"("n":5,"seed":1,"max_tokens":5,"logprobs":0)");
  std::vector<std::pair<double, std::string>> ranked;
  for (size_t i = 0; i < 5; ++i) {
    const GeneratedAnswer& answer = AnswerOf(all.results[0], i);
    double sum = 0;
    for (const float logprob : answer.logprobs) sum += logprob;
    ranked.emplace_back(-sum / static_cast<double>(answer.logprobs.size()), answer.text);
  }
  std::ranges::sort(ranked);
  const Answered answered = RunCompletion(R"("n":2,"best_of":5,"seed":1,"max_tokens":5)");
  ASSERT_EQ(answered.body["choices"].size(), 2u);
  EXPECT_EQ(answered.body["choices"][0]["text"], ranked[0].second);
  EXPECT_EQ(answered.body["choices"][1]["text"], ranked[1].second);
  EXPECT_TRUE(answered.body["choices"][0]["logprobs"].is_null());
}

TEST(OpenAiResponse, LogprobsOfAnEchoedPromptStandBeforeThoseOfTheAnswer) {
  const Answered plain = RunCompletion(R"("temperature":0,"logprobs":2,"max_tokens":3)");
  const Answered echoed =
      RunCompletion(R"("temperature":0,"logprobs":2,"max_tokens":3,"echo":true)");
  const json& choice = echoed.body["choices"][0];
  const json& logprobs = choice["logprobs"];
  const std::vector<int32_t>& prompt = echoed.call.requests[0].prompt;
  ASSERT_EQ(logprobs["tokens"].size(), prompt.size() + 3);
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  for (size_t i = 1; i < prompt.size(); ++i) {
    EXPECT_EQ(logprobs["token_logprobs"][i].get<float>(),
              echoed.results[0].prompt_logprobs.at(i - 1));
    EXPECT_GE(logprobs["top_logprobs"][i].size(), 2u);
  }
  const std::string text = choice["text"];
  for (size_t i = 1; i < prompt.size() + 3; ++i) {
    const std::string token = logprobs["tokens"][i];
    EXPECT_EQ(text.substr(logprobs["text_offset"][i], token.size()), token) << i;
  }
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(logprobs["tokens"][prompt.size() + i],
              plain.body["choices"][0]["logprobs"]["tokens"][i]);
  }
  // The prompt alone.
  const json none = RunCompletion(R"("logprobs":0,"max_tokens":0,"echo":true)").body["choices"][0];
  EXPECT_EQ(none["logprobs"]["tokens"].size(), prompt.size());
  EXPECT_EQ(none["text"], "Once upon");
}

TEST(OpenAiResponse, LogprobsOfAnEchoedPromptComeWithItsChunk) {
  for (const char* fields :
       {R"("prompt":"Once upon a time","max_tokens":3)", R"("prompt":[5],"max_tokens":2)",
        R"("prompt":["Once upon","A fox"],"n":2,"max_tokens":2)",
        R"("prompt":"Once upon","max_tokens":0)"}) {
    const Answered answered = RunPrompt(
        fields + std::string(R"(,"temperature":0,"logprobs":2,"echo":true,"stream":true)"));
    for (const json& choice : answered.body["choices"]) {
      json joined = {{"tokens", json::array()},
                     {"token_logprobs", json::array()},
                     {"top_logprobs", json::array()},
                     {"text_offset", json::array()}};
      for (const json& chunk : answered.chunks) {
        const json& part = chunk["choices"][0];
        if (part["index"] != choice["index"] || part["logprobs"].is_null()) continue;
        for (auto& [key, list] : joined.items()) {
          for (const json& value : part["logprobs"][key]) list.push_back(value);
        }
      }
      EXPECT_EQ(joined, choice["logprobs"]) << fields;
      EXPECT_EQ(json(Joined(answered, choice["index"])), choice["text"]) << fields;
    }
  }
}

TEST(OpenAiResponse, AStopStringIsPartOfTheTextWhereThatIsAsked) {
  const std::string fields = R"("temperature":0,"stop":[" a"],"max_tokens":50)";
  const Answered without = RunCompletion(fields);
  const Answered with = RunCompletion(fields + R"(,"include_stop_str_in_output":true)");
  const std::string text = without.body["choices"][0]["text"];
  EXPECT_EQ(with.body["choices"][0]["text"], text + " a");
  EXPECT_EQ(Joined(with, 0), text + " a");
  EXPECT_EQ(Joined(without, 0), text);
}

TEST(OpenAiResponse, ATokenThatEndsAnAnswerIsNoneOfItsText) {
  const Answered free = RunCompletion(R"("temperature":0,"max_tokens":6)");
  const std::vector<int32_t>& tokens = free.results[0].tokens;
  const Answered ended =
      RunCompletion(R"("temperature":0,"logprobs":0,"max_tokens":6,"stop_token_ids":[)" +
                    std::to_string(tokens.at(2)) + "]");
  const json& choice = ended.body["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["stop_reason"], tokens[2]);
  EXPECT_EQ(choice["logprobs"]["tokens"].size(), 2u);
  EXPECT_EQ(choice["text"], Storyteller().model->tokenizer().Decode(
                                std::vector<int32_t>(tokens.begin(), tokens.begin() + 2)));
  EXPECT_EQ(choice["text"], Joined(ended, 0));
}

TEST(OpenAiResponse, NumbersAndTextsThatJsonCannotSay) {
  JsonWriter out;
  out.Open('[').Number(-INFINITY).Number(0.1f).String("a\xff\"\n\x01").StringOrNull("");
  out.Open('{').Close('}').Close(']');
  EXPECT_EQ(out.Take(), "[-9999.0,0.1,\"a\xEF\xBF\xBD\\\"\\n\\u0001\",null,{}]");
}

TEST(OpenAiResponse, IdsDiffer) {
  const ResponseHead one = NewResponseHead(Endpoint::kChat), two = NewResponseHead(Endpoint::kChat);
  EXPECT_TRUE(one.id.starts_with("chatcmpl-"));
  EXPECT_NE(one.id, two.id);
  EXPECT_GT(one.created, 1'600'000'000);
}

EmbeddingsCall Embed(std::string_view body) {
  return ParseEmbeddingsRequest(ParseBody(body), "minilm", {}, false, 2, {.vocabulary = 100});
}

TEST(OpenAiEmbeddings, InputsComeInFourForms) {
  EXPECT_EQ(std::get<std::string>(Embed(R"({"input":"a"})").inputs.at(0)), "a");
  EXPECT_EQ(Embed(R"({"input":["a","b"],"model":"minilm"})").inputs.size(), 2u);
  EXPECT_EQ(std::get<1>(Embed(R"({"input":[7,8]})").inputs.at(0)), (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(std::get<1>(Embed(R"({"input":[[7],[8,9]],"dimensions":2})").inputs.at(1)),
            (std::vector<int32_t>{8, 9}));
  for (const char* bad :
       {R"({})", R"({"input":""})", R"({"input":[]})", R"({"input":[""]})", R"({"input":[100]})",
        R"({"input":"a","dimensions":3})", R"({"input":"a","encoding_format":"f16"})",
        R"({"input":{}})", R"({"input":"a","prefix":"query: "})"}) {
    EXPECT_EQ(ErrorOf([&] { Embed(bad); }).status, 400) << bad;
  }
  EXPECT_EQ(ErrorOf([] { Embed(R"({"input":"a","model":"other"})"); }).status, 404);
}

TEST(OpenAiEmbeddings, VectorsAreNumbersOrBase64) {
  const std::vector<float> vectors = {1, -0.5f, 0, 0.25f};
  const json plain =
      json::parse(EmbeddingsBody(Embed(R"({"input":["a","b"]})"), "minilm", vectors, 2, 9));
  EXPECT_EQ(plain["object"], "list");
  EXPECT_EQ(plain["data"][1]["embedding"], (std::vector<float>{0, 0.25f}));
  EXPECT_EQ(plain["data"][1]["index"], 1);
  EXPECT_EQ(plain["usage"]["prompt_tokens"], 9);
  const json coded = json::parse(EmbeddingsBody(
      Embed(R"({"input":["a","b"],"encoding_format":"base64"})"), "minilm", vectors, 2, 9));
  EXPECT_EQ(coded["data"][0]["embedding"], "AACAPwAAAL8=");
}

}  // namespace
}  // namespace oort::openai
