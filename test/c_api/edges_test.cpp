// SPDX-License-Identifier: MIT
// What a careless caller does: each must come out as a code and an error object.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "c_api/border.h"
#include "c_api/failure.h"
#include "kit/paths.h"
#include "oort/c.h"

namespace {

using oort::testing::Failure;

constexpr char kTwoInputs[] =
    "7767517\n4 3\n"
    "pnnx.Input pnnx_input_0 0 1 a\n"
    "pnnx.Input pnnx_input_1 0 1 b\n"
    "pnnx.Expression add 2 1 a b c expr=add(@0,@1)\n"
    "pnnx.Output pnnx_output_0 1 0 c\n";

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

TEST(CApiEdges, WhatTheSystemRefusesIsNoBug) {
  Failure failure;
  const std::system_error no_thread(
      std::make_error_code(std::errc::resource_unavailable_try_again));
  const auto start = [&] { throw no_thread; };
  EXPECT_EQ(oort::c_api::AtBorder(failure.slot(), start), OORT_OUT_OF_MEMORY);
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
