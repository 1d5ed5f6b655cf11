// SPDX-License-Identifier: MIT
// What a careless caller does: each must come out as a code and an error object.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "c_api/border.h"
#include "kit/paths.h"
#include "oort/c.h"

namespace {

constexpr char kTwoInputs[] =
    "7767517\n4 3\n"
    "pnnx.Input pnnx_input_0 0 1 a\n"
    "pnnx.Input pnnx_input_1 0 1 b\n"
    "pnnx.Expression add 2 1 a b c expr=add(@0,@1)\n"
    "pnnx.Output pnnx_output_0 1 0 c\n";

/// Frees an error, and has what it said.
struct Failure {
  oort_error* error = nullptr;
  ~Failure() { oort_error_free(error); }
  std::string message() const { return oort_error_message(error); }
  oort_error** slot() {
    oort_error_free(error);
    error = nullptr;
    return &error;
  }
};

std::string Models() { return oort::SourceTree().string() + "/models"; }

class CApiNetwork : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(oort_network_load_memory(kTwoInputs, sizeof kTwoInputs - 1, nullptr, 0, nullptr,
                                       &network_, failure_.slot()),
              OORT_OK)
        << failure_.message();
    ASSERT_EQ(oort_session_new(network_, nullptr, &session_, failure_.slot()), OORT_OK);
  }
  void TearDown() override {
    oort_session_free(session_);
    oort_network_free(network_);
  }
  oort_tensor* Floats(std::vector<int64_t> extents) {
    oort_tensor* tensor = nullptr;
    EXPECT_EQ(oort_tensor_new(OORT_F32, static_cast<int32_t>(extents.size()), extents.data(),
                              &tensor, failure_.slot()),
              OORT_OK)
        << failure_.message();
    return tensor;
  }

  Failure failure_;
  oort_network* network_ = nullptr;
  oort_session* session_ = nullptr;
};

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

TEST(CApiEdges, NullHandlesAreFreedAndRead) {
  oort_error_free(nullptr);
  oort_options_free(nullptr);
  oort_tensor_free(nullptr);
  oort_network_free(nullptr);
  oort_session_free(nullptr);
  oort_session_cancel(nullptr);
  oort_model_free(nullptr);
  oort_chat_free(nullptr);
  oort_result_free(nullptr);
  oort_engine_free(nullptr);
  oort_request_free(nullptr);
  oort_request_cancel(nullptr);
  oort_free(nullptr);
  EXPECT_EQ(oort_error_code(nullptr), OORT_OK);
  EXPECT_STREQ(oort_error_message(nullptr), "");
  EXPECT_STREQ(oort_error_problem(nullptr, 0), "");
  EXPECT_EQ(oort_error_problem_count(nullptr), 0u);
  EXPECT_EQ(oort_tensor_data(nullptr), nullptr);
  EXPECT_EQ(oort_tensor_extents(nullptr), nullptr);
  EXPECT_EQ(oort_network_input_name(nullptr, 0), nullptr);
  EXPECT_EQ(oort_network_input_rank(nullptr, 0), -1);
  EXPECT_EQ(oort_network_output_rank(nullptr, 0), -1);
  EXPECT_STREQ(oort_model_family(nullptr), "");
  EXPECT_EQ(oort_model_is_end(nullptr, 0), 0);
  size_t count = 7;
  EXPECT_STREQ(oort_result_text(nullptr, 0, &count), "");
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(oort_result_tokens(nullptr, 0, nullptr), nullptr);
  EXPECT_EQ(oort_result_top(nullptr, 0, 0, nullptr), nullptr);
  EXPECT_EQ(oort_result_prompt_top(nullptr, 0, &count), nullptr);
  EXPECT_STREQ(oort_piece_text(nullptr), "");
  EXPECT_EQ(oort_piece_top(nullptr, nullptr), nullptr);
  EXPECT_EQ(oort_piece_token(nullptr), -1);
}

TEST(CApiEdges, NullArgumentsAreErrors) {
  Failure failure;
  oort_network* network = nullptr;
  oort_tensor* tensor = nullptr;
  oort_model* model = nullptr;
  oort_engine* engine = nullptr;
  oort_result* result = nullptr;
  EXPECT_EQ(oort_network_load(nullptr, nullptr, nullptr, &network, failure.slot()),
            OORT_INVALID_ARGUMENT);
  EXPECT_EQ(failure.message(), "param is NULL");
  EXPECT_EQ(oort_network_load("a.param", nullptr, nullptr, nullptr, failure.slot()),
            OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_network_load_memory(nullptr, 4, nullptr, 0, nullptr, &network, nullptr),
            OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_session_new(nullptr, nullptr, nullptr, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_session_run(nullptr, nullptr, 1, nullptr, 1, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_tensor_new(OORT_F32, 1, nullptr, &tensor, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_model_load(nullptr, nullptr, &model, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_engine_new(nullptr, nullptr, &engine, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_engine_chat(nullptr, nullptr, nullptr, nullptr, nullptr, &result, nullptr),
            OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_engine_drain(nullptr, 1, nullptr, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_request_wait(nullptr, 1, &result, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_request_read(nullptr, 1, nullptr, nullptr, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_options_set(nullptr, "threads", "1", nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_chat_add(nullptr, "user", "", 0, nullptr), OORT_INVALID_ARGUMENT);
}

TEST(CApiEdges, OptionsAreCheckedWhenTheyAreSet) {
  oort_options* options = oort_options_new();
  Failure failure;
  const auto set = [&](const char* name, const char* value) {
    return oort_options_set(options, name, value, failure.slot());
  };
  EXPECT_EQ(set("temperatur", "1"), OORT_INVALID_ARGUMENT);
  EXPECT_NE(failure.message().find("did you mean 'temperature'"), std::string::npos)
      << failure.message();
  for (const char* value : {"", "x", "1.5", "-1", "99999999999999999999", " 1"}) {
    EXPECT_EQ(set("threads", value), OORT_INVALID_ARGUMENT) << value;
  }
  EXPECT_EQ(failure.message(), "option 'threads' takes an integer from 0 on, not ' 1'");
  EXPECT_EQ(set("temperature", "nan"), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(set("deterministic", "yes"), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(set("device", "cuda:-1"), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(set("device", "tpu"), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(set("precision", "f64"), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(failure.message(), "option 'precision' takes one of f32, bf16, f16, tf32, not 'f64'");
  EXPECT_EQ(set("logit_bias", "5"), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(set("load_adapter", "=x"), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(set(nullptr, "1"), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(set("logit_bias", "5=-inf"), OORT_OK);
  EXPECT_EQ(set("seed", "18446744073709551615"), OORT_OK);
  EXPECT_EQ(set("device", "cuda:7"), OORT_OK);
  EXPECT_EQ(set("device", nullptr), OORT_OK);
  oort_options_free(options);
}

TEST(CApiEdges, EveryOptionIsInTheDocs) {
  std::ifstream file(oort::SourceTree().string() + "/docs/c-api.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(page.empty());
  for (size_t i = 0; i < oort_option_count(); ++i) {
    const std::string row =
        "| `" + std::string(oort_option_name(i)) + "` | " + oort_option_help(i) + " |";
    EXPECT_NE(page.find(row), std::string::npos) << "docs/c-api.md lacks:\n" << row;
  }
  EXPECT_EQ(oort_option_name(oort_option_count()), nullptr);
  EXPECT_EQ(oort_option_help(oort_option_count()), nullptr);
}

TEST(CApiEdges, TensorsThatCannotBe) {
  Failure failure;
  oort_tensor* tensor = nullptr;
  float data[4] = {};
  const int64_t four = 4, five = 5, negative = -1, huge = int64_t{1} << 62;
  const int64_t many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  const auto borrow = [&](oort_dtype dtype, int32_t rank, const int64_t* extents, void* memory) {
    return oort_tensor_borrow(dtype, rank, extents, memory, sizeof data, nullptr, nullptr, &tensor,
                              failure.slot());
  };
  EXPECT_EQ(borrow(OORT_F32, 1, &four, data), OORT_OK);
  EXPECT_EQ(oort_tensor_data(tensor), data);
  oort_tensor_free(tensor);
  const int64_t one = 1;
  auto* const bytes = reinterpret_cast<char*>(data);
  EXPECT_EQ(borrow(OORT_F32, 1, &one, bytes + 2), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(failure.message(),
            "data of f32 begins at a multiple of 4 bytes, not 2 behind one: copy it there");
  for (const auto& [dtype, offset] : {std::pair{OORT_F16, 2}, {OORT_C64, 4}, {OORT_U8, 1}}) {
    EXPECT_EQ(borrow(dtype, 1, &one, bytes + offset), OORT_OK) << failure.message();
    oort_tensor_free(tensor);
  }
  EXPECT_EQ(borrow(OORT_F32, 1, &five, data), OORT_INVALID_ARGUMENT);  // 16 bytes hold four
  EXPECT_EQ(tensor, nullptr);
  EXPECT_EQ(borrow(OORT_F32, 1, &four, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(borrow(OORT_F32, 1, &negative, data), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(borrow(OORT_F64, 1, &huge, data), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(borrow(OORT_F32, 9, many, data), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(borrow(OORT_F32, -1, &four, data), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(borrow(OORT_UNKNOWN, 1, &four, data), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(borrow(14, 1, &four, data), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_tensor_new(OORT_F32, 1, &huge, &tensor, failure.slot()) == OORT_OK, false);
  EXPECT_EQ(oort_dtype_size(OORT_BF16), 2u);
  EXPECT_EQ(oort_dtype_size(99), 0u);
  EXPECT_STREQ(oort_dtype_name(OORT_BF16), "bf16");
  EXPECT_STREQ(oort_dtype_name(-3), "null");
}

TEST(CApiEdges, ErrorsListTheProblemsOfAModel) {
  const std::string broken =
      "7767517\n3 2\n"
      "pnnx.Input pnnx_input_0 0 1 a #a=(1,4)f32\n"
      "nn.NoSuchThing odd 1 1 a b\n"
      "pnnx.Output pnnx_output_0 1 0 b\n";
  Failure failure;
  oort_network* network = nullptr;
  EXPECT_NE(oort_network_load_memory(broken.data(), broken.size(), nullptr, 0, nullptr, &network,
                                     failure.slot()),
            OORT_OK);
  ASSERT_EQ(oort_error_problem_count(failure.error), 1u) << failure.message();
  EXPECT_STREQ(oort_error_problem_operator(failure.error, 0), "odd");
  EXPECT_EQ(oort_error_problem_line(failure.error, 0), 4);
  EXPECT_NE(std::string(oort_error_problem(failure.error, 0)), "");
  EXPECT_STREQ(oort_error_problem(failure.error, 1), "");
}

TEST_F(CApiNetwork, WrongRunsLeaveTheSessionUsable) {
  oort_tensor* a = Floats({2, 3});
  oort_tensor* b = Floats({2, 4});
  oort_tensor* wrong = Floats({7});
  oort_tensor* out = nullptr;
  const oort_tensor* inputs[] = {a, b};
  EXPECT_EQ(oort_session_run(session_, inputs, 2, &out, 1, failure_.slot()), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(out, nullptr);
  inputs[1] = nullptr;
  EXPECT_EQ(oort_session_run(session_, inputs, 2, &out, 1, failure_.slot()), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(failure_.message(), "input 1 is NULL");
  inputs[1] = a;
  EXPECT_EQ(oort_session_run(session_, inputs, 1, &out, 1, failure_.slot()), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_session_run(session_, inputs, 2, &out, 0, failure_.slot()), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(failure_.message(), "the network has 1 outputs, and there is room for 0");
  EXPECT_EQ(oort_session_run(session_, inputs, 2, &wrong, 1, failure_.slot()),
            OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_session_run(session_, inputs, 2, &out, 1, failure_.slot()), OORT_OK)
      << failure_.message();
  for (oort_tensor* tensor : {a, b, wrong, out}) oort_tensor_free(tensor);
}

TEST_F(CApiNetwork, TheSessionOutlivesItsNetwork) {
  oort_network_free(network_);
  network_ = nullptr;
  oort_tensor* a = Floats({3});
  static_cast<float*>(oort_tensor_data(a))[1] = 2;
  oort_tensor* out = nullptr;
  const oort_tensor* inputs[] = {a, a};
  ASSERT_EQ(oort_session_run(session_, inputs, 2, &out, 1, failure_.slot()), OORT_OK);
  EXPECT_EQ(static_cast<float*>(oort_tensor_data(out))[1], 4);
  oort_tensor_free(a);
  oort_tensor_free(out);
}

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

TEST(CApiEdges, WhatTheSystemRefusesIsNoBug) {
  Failure failure;
  const std::system_error no_thread(
      std::make_error_code(std::errc::resource_unavailable_try_again));
  const auto start = [&] { throw no_thread; };
  EXPECT_EQ(oort::c_api::AtBorder(failure.slot(), start), OORT_LIMIT);
  EXPECT_EQ(failure.message(), "the operating system refused: " + std::string(no_thread.what()));
}

TEST(CApiEdges, TheLogHasAFunction) {
  Failure failure;
  const auto hear = [](const char*, const char*, void*) {};
  EXPECT_EQ(oort_log("loud", hear, nullptr, failure.slot()), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_log(nullptr, hear, nullptr, failure.slot()), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_log("debug", hear, nullptr, failure.slot()), OORT_OK);
  EXPECT_EQ(oort_log(nullptr, nullptr, nullptr, failure.slot()), OORT_OK);
}

}  // namespace
