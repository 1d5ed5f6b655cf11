// SPDX-License-Identifier: MIT
// Engines from C: what they answer, what they refuse, and callbacks that do what they must not.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "c_api/failure.h"
#include "kit/paths.h"
#include "kit/storyteller_with.h"
#include "oort/c.h"

namespace {

using oort::testing::Failure;

std::string Models() { return oort::SourceTree().string() + "/models"; }

/// The storyteller, loaded once.
class CApiEngine : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Failure failure;
    ASSERT_EQ(
        oort_model_load((Models() + "/storyteller").c_str(), nullptr, &model_, failure.slot()),
        OORT_OK)
        << failure.message();
  }
  static void TearDownTestSuite() {
    oort_model_free(model_);
    model_ = nullptr;
  }
  void SetUp() override {
    options_ = oort_options_new();
    Set("max_tokens", "8");
    ASSERT_EQ(oort_engine_new(model_, options_, &engine_, failure_.slot()), OORT_OK)
        << failure_.message();
  }
  void TearDown() override {
    oort_engine_free(engine_);
    oort_options_free(options_);
  }
  void Set(const char* name, const char* value) {
    ASSERT_EQ(oort_options_set(options_, name, value, failure_.slot()), OORT_OK)
        << failure_.message();
  }
  oort_code Complete(const std::string& text, oort_result** result) {
    return oort_engine_complete(engine_, text.data(), text.size(), options_, nullptr, nullptr,
                                result, failure_.slot());
  }

  static inline oort_model* model_ = nullptr;
  Failure failure_;
  oort_options* options_ = nullptr;
  oort_engine* engine_ = nullptr;
};

TEST_F(CApiEngine, TheSameOptionsGiveTheSameAnswer) {
  Set("temperature", "1");
  Set("seed", "3");
  oort_result *one = nullptr, *two = nullptr;
  ASSERT_EQ(Complete("A fox", &one), OORT_OK) << failure_.message();
  ASSERT_EQ(Complete("A fox", &two), OORT_OK) << failure_.message();
  EXPECT_STREQ(oort_result_text(one, 0, nullptr), oort_result_text(two, 0, nullptr));
  oort_result_free(one);
  oort_result_free(two);
}

TEST_F(CApiEngine, SeveralAnswersWithLogprobs) {
  Set("n", "2");
  Set("temperature", "1");
  Set("top_logprobs", "3");
  Set("prompt_logprobs", "2");
  oort_result* result = nullptr;
  ASSERT_EQ(Complete("A fox", &result), OORT_OK) << failure_.message();
  ASSERT_EQ(oort_result_count(result), 2u);
  for (size_t answer = 0; answer < 2; ++answer) {
    size_t tokens = 0, logprobs = 0, top = 0;
    oort_result_tokens(result, answer, &tokens);
    ASSERT_NE(oort_result_logprobs(result, answer, &logprobs), nullptr);
    EXPECT_EQ(tokens, logprobs);
    const oort_token_logprob* likely = oort_result_top(result, answer, 0, &top);
    ASSERT_EQ(top, 3u);
    EXPECT_GE(likely[0].logprob, likely[1].logprob);
    EXPECT_EQ(oort_result_top(result, answer, tokens, &top), nullptr);
    EXPECT_EQ(top, 0u);
  }
  size_t prompt = 0;
  EXPECT_NE(oort_result_prompt_logprobs(result, &prompt), nullptr);
  EXPECT_GT(prompt, 0u);
  for (size_t place = 0; place < prompt; ++place) {
    size_t top = 0;
    const oort_token_logprob* likely = oort_result_prompt_top(result, place, &top);
    ASSERT_EQ(top, 2u);
    EXPECT_GE(likely[0].logprob, likely[1].logprob);
  }
  EXPECT_EQ(oort_result_prompt_top(result, prompt, nullptr), nullptr);
  EXPECT_STREQ(oort_result_finish(result, 2), "");
  oort_result_free(result);
}

TEST_F(CApiEngine, PiecesHaveTheMostLikelyTokens) {
  Set("top_logprobs", "3");
  Set("stream", "true");
  oort_request* request = nullptr;
  const int32_t prompt[] = {2, 3};
  ASSERT_EQ(oort_engine_submit(engine_, prompt, 2, options_, nullptr, nullptr, nullptr, &request,
                               failure_.slot()),
            OORT_OK);
  std::vector<std::vector<oort_token_logprob>> pieces;
  int ended = 0;
  while (true) {
    const oort_piece* piece = nullptr;
    ASSERT_EQ(oort_request_read(request, -1, &piece, &ended, failure_.slot()), OORT_OK);
    if (ended != 0) break;
    size_t count = 0;
    const oort_token_logprob* top = oort_piece_top(piece, &count);
    if (oort_piece_token(piece) >= 0) pieces.emplace_back(top, top + count);
  }
  oort_result* result = nullptr;
  ASSERT_EQ(oort_request_wait(request, -1, &result, failure_.slot()), OORT_OK);
  size_t tokens = 0;
  oort_result_tokens(result, 0, &tokens);
  ASSERT_EQ(pieces.size(), tokens);
  for (size_t place = 0; place < tokens; ++place) {
    size_t count = 0;
    const oort_token_logprob* top = oort_result_top(result, 0, place, &count);
    ASSERT_EQ(count, 3u);
    ASSERT_EQ(pieces[place].size(), count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(pieces[place][i].token, top[i].token);
      EXPECT_EQ(pieces[place][i].logprob, top[i].logprob);
    }
  }
  oort_result_free(result);
  oort_request_free(request);
}

TEST_F(CApiEngine, GuessesLeaveTheAnswerAsItIs) {
  Set("max_tokens", "40");
  oort_result *alone = nullptr, *guessed = nullptr;
  ASSERT_EQ(Complete("A fox", &alone), OORT_OK) << failure_.message();
  oort_engine_free(engine_);
  engine_ = nullptr;
  Set("draft", "model");
  EXPECT_EQ(oort_engine_new(model_, options_, &engine_, failure_.slot()), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(failure_.message(), "draft=model needs option draft_model, a path");
  Set("draft_model", (Models() + "/storyteller").c_str());  // it guesses right
  Set("draft_tokens", "3");
  Set("load_adapter", "fox=no/such/folder");  // of the main model: the one that guesses has none
  Set("weights", "int8");
  Set("group", "1");
  ASSERT_EQ(oort_engine_new(model_, options_, &engine_, failure_.slot()), OORT_OK)
      << failure_.message();
  ASSERT_EQ(Complete("A fox", &guessed), OORT_OK) << failure_.message();
  EXPECT_STREQ(oort_result_text(alone, 0, nullptr), oort_result_text(guessed, 0, nullptr));
  int64_t accepted = 0;
  EXPECT_EQ(oort_engine_number(engine_, "accepted_tokens", &accepted, failure_.slot()), OORT_OK);
  EXPECT_GT(accepted, 0);
  oort_result_free(alone);
  oort_result_free(guessed);
}

TEST_F(CApiEngine, HeadsOfTheModelGuess) {
  Set("max_tokens", "40");
  oort_result *alone = nullptr, *guessed = nullptr;
  ASSERT_EQ(Complete("A fox", &alone), OORT_OK) << failure_.message();
  oort_engine_free(engine_);
  engine_ = nullptr;
  Set("draft", "heads");
  EXPECT_EQ(oort_engine_new(model_, options_, &engine_, failure_.slot()), OORT_INVALID_ARGUMENT);
  const std::string path = Models() + "/storyteller";
  Set("draft_heads", (path + "/heads").c_str());
  Set("draft_tokens", "3");
  oort_model* model = nullptr;
  ASSERT_EQ(oort_model_load(path.c_str(), options_, &model, failure_.slot()), OORT_OK)
      << failure_.message();
  ASSERT_EQ(oort_engine_new(model, options_, &engine_, failure_.slot()), OORT_OK)
      << failure_.message();
  oort_model_free(model);
  ASSERT_EQ(Complete("A fox", &guessed), OORT_OK) << failure_.message();
  EXPECT_STREQ(oort_result_text(alone, 0, nullptr), oort_result_text(guessed, 0, nullptr));
  int64_t accepted = 0;
  EXPECT_EQ(oort_engine_number(engine_, "accepted_tokens", &accepted, failure_.slot()), OORT_OK);
  EXPECT_GT(accepted, 0);
  oort_result_free(alone);
  oort_result_free(guessed);
}

TEST_F(CApiEngine, RanksAnswerAsOneDoes) {
  oort_result* alone = nullptr;
  ASSERT_EQ(Complete("A fox", &alone), OORT_OK) << failure_.message();
  for (const char* const split : {"exact", "pipeline"}) {  // these two have the bits of one rank
    Set("ranks", "2");
    Set("threads", "1");
    Set("split", split);
    oort_model* model = nullptr;
    ASSERT_EQ(
        oort_model_load((Models() + "/storyteller").c_str(), options_, &model, failure_.slot()),
        OORT_OK)
        << failure_.message();
    oort_engine_free(engine_);
    engine_ = nullptr;
    ASSERT_EQ(oort_engine_new(model, options_, &engine_, failure_.slot()), OORT_OK)
        << failure_.message();
    oort_model_free(model);
    oort_result* together = nullptr;
    ASSERT_EQ(Complete("A fox", &together), OORT_OK) << failure_.message();
    EXPECT_STREQ(oort_result_text(together, 0, nullptr), oort_result_text(alone, 0, nullptr));
    oort_result_free(together);
  }
  oort_result_free(alone);
  oort_model* model = nullptr;
  Set("ranks", "1000000");
  EXPECT_EQ(oort_model_load((Models() + "/storyteller").c_str(), options_, &model, failure_.slot()),
            OORT_INVALID_ARGUMENT);
  EXPECT_NE(failure_.message().find("ranks, not 1000000"), std::string::npos) << failure_.message();
  for (const auto& [name, value] :
       {std::pair{"ranks", "0"}, {"split", "half"}, {"exchange", "mpi"}}) {
    EXPECT_EQ(oort_options_set(options_, name, value, nullptr), OORT_INVALID_ARGUMENT) << name;
  }
}

TEST_F(CApiEngine, AnswersKeepToAChoice) {
  Set("choice", "yes");
  Set("choice", "no");
  oort_result* result = nullptr;
  ASSERT_EQ(Complete("A fox", &result), OORT_OK) << failure_.message();
  const std::string text = oort_result_text(result, 0, nullptr);
  EXPECT_TRUE(text == "yes" || text == "no") << text;
  oort_result_free(result);
  Set("regex", "[ab]+");
  EXPECT_EQ(Complete("A fox", &result), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(result, nullptr);
}

TEST_F(CApiEngine, WhatTheEngineRefusesIsAnError) {
  oort_result* result = nullptr;
  const int32_t unknown = 1 << 30;
  EXPECT_EQ(oort_engine_generate(engine_, &unknown, 1, options_, nullptr, nullptr, &result,
                                 failure_.slot()),
            OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_engine_generate(engine_, nullptr, 0, options_, nullptr, nullptr, &result,
                                 failure_.slot()),
            OORT_INVALID_ARGUMENT);
  Set("top_p", "7");
  EXPECT_EQ(Complete("A fox", &result), OORT_INVALID_ARGUMENT);
  Set("top_p", nullptr);
  Set("top_logprobs", "9999999999");
  EXPECT_NE(Complete("A fox", &result), OORT_OK);
  int64_t number = 0;
  EXPECT_EQ(oort_engine_number(engine_, "speed", &number, failure_.slot()), OORT_INVALID_ARGUMENT);
  EXPECT_NE(failure_.message().find("generated_tokens"), std::string::npos);
  double value = 0;
  EXPECT_EQ(oort_engine_drain(engine_, std::numeric_limits<double>::quiet_NaN(), nullptr,
                              failure_.slot()),
            OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_result_number(nullptr, "score", &value, failure_.slot()), OORT_INVALID_ARGUMENT);
}

TEST_F(CApiEngine, MessagesAsJson) {
  oort_chat* chat = oort_chat_new();
  const auto add = [&](const std::string& message) {
    return oort_chat_add_json(chat, message.data(), message.size(), failure_.slot());
  };
  EXPECT_EQ(add("[1]"), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(add(R"({"role": "user")"), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(add(R"({"role": "user", "content": "Hi <|end|>"})"), OORT_OK) << failure_.message();
  char* text = nullptr;
  ASSERT_EQ(oort_model_format_chat(model_, chat, nullptr, &text, nullptr, failure_.slot()), OORT_OK)
      << failure_.message();
  EXPECT_STREQ(text, "<|begin|><|user|>Hi <|end|><|end|><|assistant|>");
  oort_free(text);
  ASSERT_EQ(oort_chat_add(chat, "system", "Be brief.", 9, failure_.slot()), OORT_OK);
  EXPECT_EQ(oort_model_format_chat(model_, chat, nullptr, &text, nullptr, failure_.slot()),
            OORT_INVALID_ARGUMENT);  // the template raises it
  EXPECT_EQ(text, nullptr);
  oort_chat_free(chat);
}

/// Tools from C: what the model must call, and the answer as a message for the next turn.
class CApiTools : public ::testing::Test {
 protected:
  void SetUp() override {
    options_ = oort_options_new();
    chat_ = oort_chat_new();
    const std::string path =
        oort::testing::StorytellerWith(oort::testing::ToolTemplate("<tool_call>"));
    Failure failure;
    ASSERT_EQ(oort_model_load(path.c_str(), nullptr, &model_, failure.slot()), OORT_OK)
        << failure.message();
    ASSERT_EQ(oort_engine_new(model_, nullptr, &engine_, failure.slot()), OORT_OK);
    ASSERT_EQ(oort_chat_add(chat_, "user", "Hi", 2, nullptr), OORT_OK);
    Set("max_tokens", "80");
    Set("tools", R"([{"type": "function", "function": {"name": "weather", "parameters":
        {"type": "object", "properties": {"today": {"type": "boolean"}}, "required": ["today"]}}}])");
  }
  void TearDown() override {
    oort_engine_free(engine_);
    oort_model_free(model_);
    oort_chat_free(chat_);
    oort_options_free(options_);
  }
  void Set(const char* name, const char* value) {
    ASSERT_EQ(oort_options_set(options_, name, value, nullptr), OORT_OK) << name;
  }
  oort_code Answer(oort_result** result, oort_error** error) {
    return oort_engine_chat(engine_, chat_, options_, nullptr, nullptr, result, error);
  }
  static nlohmann::json MessageOf(const oort_result* result) {
    char* text = nullptr;
    size_t length = 0;
    EXPECT_EQ(oort_result_message(result, 0, &text, &length, nullptr), OORT_OK);
    const nlohmann::json message = nlohmann::json::parse(std::string(text, length));
    oort_free(text);
    return message;
  }

  oort_options* options_ = nullptr;
  oort_chat* chat_ = nullptr;
  oort_model* model_ = nullptr;
  oort_engine* engine_ = nullptr;
};

TEST_F(CApiTools, CallsAreMessages) {
  Failure failure;
  Set("tool_choice", "weather");
  oort_result* result = nullptr;
  ASSERT_EQ(Answer(&result, failure.slot()), OORT_OK) << failure.message();
  const nlohmann::json message = MessageOf(result);
  EXPECT_EQ(MessageOf(result), message);  // with the same ids
  oort_result_free(result);
  EXPECT_TRUE(message["content"].is_null()) << message;
  ASSERT_EQ(message["tool_calls"].size(), 1u) << message;
  const nlohmann::json& call = message["tool_calls"][0];
  EXPECT_FALSE(call["id"].get<std::string>().empty());
  EXPECT_EQ(call["function"]["name"], "weather");
  const auto arguments = nlohmann::json::parse(call["function"]["arguments"].get<std::string>());
  EXPECT_TRUE(arguments["today"].is_boolean());

  // It goes back as it is, with arguments as templates want them.
  const std::string text = message.dump();
  ASSERT_EQ(oort_chat_add_json(chat_, text.data(), text.size(), failure.slot()), OORT_OK);
  char* formatted = nullptr;
  ASSERT_EQ(oort_model_format_chat(model_, chat_, options_, &formatted, nullptr, failure.slot()),
            OORT_OK)
      << failure.message();
  EXPECT_NE(std::string(formatted).find("[weather{\"today\": "), std::string::npos) << formatted;
  oort_free(formatted);
}

TEST_F(CApiTools, AnswersWithoutCallsAreContent) {
  Failure failure;
  Set("tool_choice", "none");
  oort_result* result = nullptr;
  ASSERT_EQ(Answer(&result, failure.slot()), OORT_OK) << failure.message();
  const nlohmann::json message = MessageOf(result);
  EXPECT_EQ(message["content"], oort_result_text(result, 0, nullptr));
  EXPECT_FALSE(message.contains("tool_calls"));
  char* text = nullptr;
  EXPECT_EQ(oort_result_message(result, 1, &text, nullptr, failure.slot()), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(text, nullptr);
  EXPECT_EQ(oort_result_message(result, 0, nullptr, nullptr, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_result_message(nullptr, 0, &text, nullptr, nullptr), OORT_INVALID_ARGUMENT);
  oort_result_free(result);
}

TEST_F(CApiTools, WhatCannotBeIsRefused) {
  const auto refuses = [&](const char* name, const char* value, const std::string& words) {
    Failure failure;
    Set(name, value);
    oort_result* result = nullptr;
    EXPECT_EQ(Answer(&result, failure.slot()), OORT_INVALID_ARGUMENT) << name;
    EXPECT_NE(failure.message().find(words), std::string::npos) << failure.message();
  };
  refuses("tool_choice", "clock", "none of the tools");
  Set("tool_choice", "required");
  refuses("regex", "a+", "no other form");
  refuses("tools", "[{}]", "tools is a list");
}

/// A callback that does what callbacks must not do.
struct Meddler {
  oort_engine* engine = nullptr;
  std::atomic<oort_request*> request = nullptr;
  std::atomic<int> pieces = 0, refused = 0;
};

int WaitInside(const oort_piece*, void* user) {
  auto* meddler = static_cast<Meddler*>(user);
  ++meddler->pieces;
  const int32_t prompt[] = {2, 3};
  oort_result* result = nullptr;
  if (oort_engine_generate(meddler->engine, prompt, 2, nullptr, nullptr, nullptr, &result,
                           nullptr) == OORT_INVALID_ARGUMENT &&
      oort_engine_drain(meddler->engine, 1, nullptr, nullptr) == OORT_INVALID_ARGUMENT) {
    ++meddler->refused;
  }
  return 0;
}

TEST_F(CApiEngine, CallbacksThatWaitAreRefused) {
  Meddler meddler;
  meddler.engine = engine_;
  oort_result* result = nullptr;
  ASSERT_EQ(oort_engine_complete(engine_, "A fox", 5, options_, WaitInside, &meddler, &result,
                                 failure_.slot()),
            OORT_OK)
      << failure_.message();
  EXPECT_GT(meddler.pieces, 0);
  EXPECT_EQ(meddler.refused, meddler.pieces);
  oort_result_free(result);
}

int FreeInside(const oort_piece*, void* user) {
  auto* meddler = static_cast<Meddler*>(user);
  ++meddler->pieces;
  while (meddler->request.load() == nullptr) std::this_thread::yield();
  oort_request_free(meddler->request.exchange(nullptr));
  oort_engine_free(meddler->engine);
  return 0;
}

TEST_F(CApiEngine, CallbacksMayFreeRequestAndEngine) {
  Meddler meddler;
  const oort_options* const none = nullptr;
  ASSERT_EQ(oort_engine_new(model_, none, &meddler.engine, failure_.slot()), OORT_OK);
  const int32_t prompt[] = {2, 3};
  oort_request* request = nullptr;
  ASSERT_EQ(oort_engine_submit(meddler.engine, prompt, 2, options_, FreeInside, nullptr, &meddler,
                               &request, failure_.slot()),
            OORT_OK)
      << failure_.message();
  meddler.request = request;
  while (meddler.pieces == 0 || meddler.request != nullptr) std::this_thread::yield();
  // The other engine still answers, and nothing called back once more.
  oort_result* result = nullptr;
  EXPECT_EQ(Complete("A fox", &result), OORT_OK);
  oort_result_free(result);
  EXPECT_EQ(meddler.pieces, 1);
}

/// What a callback uses, and who calls when that is gone.
struct Watched {
  std::atomic<bool> gone = false;
  std::atomic<int> ready = 0, late = 0;
};

void ReadySlowly(void* user) {
  auto* watched = static_cast<Watched*>(user);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ++watched->ready;
  if (watched->gone) ++watched->late;
}

TEST_F(CApiEngine, BehindTheResultNoCallbackComes) {
  const int32_t prompt[] = {2, 3}, unknown[] = {1 << 30, 3};  // one is refused: no result
  for (const int32_t* tokens : {prompt, unknown}) {
    Watched watched;
    oort_request* request = nullptr;
    ASSERT_EQ(oort_engine_submit(engine_, tokens, 2, options_, nullptr, ReadySlowly, &watched,
                                 &request, failure_.slot()),
              OORT_OK)
        << failure_.message();
    oort_result* result = nullptr;
    EXPECT_EQ(oort_request_wait(request, -1, &result, failure_.slot()) == OORT_OK,
              tokens == prompt);
    watched.gone = true;
    ASSERT_EQ(oort_engine_drain(engine_, 60, nullptr, failure_.slot()), OORT_OK);
    oort_engine_free(engine_);  // behind it the thread is in no callback
    EXPECT_EQ(watched.late, 0);
    oort_result_free(result);
    oort_request_free(request);
    ASSERT_EQ(oort_engine_new(model_, options_, &engine_, failure_.slot()), OORT_OK);
  }
}

/// What a callback that takes its own result has to do with.
struct Taker {
  std::atomic<oort_request*> request = nullptr;
  std::atomic<int> code = -1;
};

void TakeInside(void* user) {
  auto* taker = static_cast<Taker*>(user);
  while (taker->request.load() == nullptr) std::this_thread::yield();
  oort_result* result = nullptr;
  const oort_code code = oort_request_wait(taker->request, -1, &result, nullptr);
  oort_result_free(result);
  oort_request_free(taker->request);
  taker->code = code;
}

TEST_F(CApiEngine, OnReadyMayTakeTheResult) {
  Taker taker;
  oort_request* request = nullptr;
  const int32_t prompt[] = {2, 3};
  ASSERT_EQ(oort_engine_submit(engine_, prompt, 2, options_, nullptr, TakeInside, &taker, &request,
                               failure_.slot()),
            OORT_OK);
  taker.request = request;
  while (taker.code < 0) std::this_thread::yield();
  EXPECT_EQ(taker.code, OORT_OK);
}

void CountReady(void* user) { ++static_cast<Watched*>(user)->ready; }

TEST_F(CApiEngine, FreedInACallbackAnEngineCallsNobody) {
  Meddler meddler;
  Watched watched;
  const oort_options* const none = nullptr;
  ASSERT_EQ(oort_engine_new(model_, none, &meddler.engine, failure_.slot()), OORT_OK);
  const int32_t prompt[] = {2, 3};
  oort_request *freed = nullptr, *other = nullptr;
  ASSERT_EQ(oort_engine_submit(meddler.engine, prompt, 2, options_, FreeInside, nullptr, &meddler,
                               &freed, failure_.slot()),
            OORT_OK);
  Set("stream", "true");
  ASSERT_EQ(oort_engine_submit(meddler.engine, prompt, 2, options_, nullptr, CountReady, &watched,
                               &other, failure_.slot()),
            OORT_OK);
  meddler.request = freed;  // what the callback waits for: the other one cannot end before
  const oort_piece* piece = nullptr;
  int ended = 0;
  while (ended == 0) {
    ASSERT_EQ(oort_request_read(other, -1, &piece, &ended, failure_.slot()), OORT_OK);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // on_ready would come at once
  EXPECT_EQ(watched.ready, 0);
  oort_result* result = nullptr;
  EXPECT_EQ(oort_request_wait(other, -1, &result, failure_.slot()), OORT_OK) << failure_.message();
  oort_result_free(result);
  oort_request_free(other);
}

TEST_F(CApiEngine, RequestsAreReadableBehindTheirEngine) {
  oort_request* request = nullptr;
  const int32_t prompt[] = {2, 3};
  Set("stream", "true");
  ASSERT_EQ(oort_engine_submit(engine_, prompt, 2, options_, nullptr, nullptr, nullptr, &request,
                               failure_.slot()),
            OORT_OK);
  oort_engine_free(engine_);
  engine_ = nullptr;
  const oort_piece* piece = nullptr;
  int ended = 0;
  while (ended == 0) {
    ASSERT_EQ(oort_request_read(request, -1, &piece, &ended, failure_.slot()), OORT_OK);
  }
  oort_result* result = nullptr;
  EXPECT_EQ(oort_request_wait(request, -1, &result, failure_.slot()), OORT_OK)
      << failure_.message();
  oort_result_free(result);
  oort_request_free(request);
}

TEST_F(CApiEngine, ReadingNeedsTheOption) {
  oort_request* request = nullptr;
  const int32_t prompt[] = {2, 3};
  ASSERT_EQ(oort_engine_submit(engine_, prompt, 2, options_, nullptr, nullptr, nullptr, &request,
                               failure_.slot()),
            OORT_OK);
  const oort_piece* piece = nullptr;
  EXPECT_EQ(oort_request_read(request, 0, &piece, nullptr, failure_.slot()), OORT_INVALID_ARGUMENT);
  oort_request_free(request);
}

}  // namespace
