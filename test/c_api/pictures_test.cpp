// SPDX-License-Identifier: MIT
// Pictures in chats from C: a tiny vision-language model answers as transformers does.
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "kit/files.h"
#include "kit/paths.h"
#include "oort/c.h"
#include "oort/image.h"
#include "text/json.h"

namespace {

namespace json = oort::json;

const std::filesystem::path kFolder = oort::TestData() / "checkpoints";

/// A model in the exact mode with its engine, and what transformers says of pictures.
class CApiPictures : public ::testing::Test {
 protected:
  void SetUp() override {
    options_ = oort_options_new();
    Set("exact", "true");
    Set("max_tokens", "10");
    Set("ignore_end", "true");
    const std::string path = (kFolder / "smolvlm").string();
    ASSERT_EQ(oort_model_load(path.c_str(), options_, &model_, &error_), OORT_OK) << Message();
    ASSERT_EQ(oort_engine_new(model_, options_, &engine_, &error_), OORT_OK) << Message();
    answers_ = json::Parse(oort::testing::FileBytes(kFolder / "smolvlm.json"), "")["answers"];
  }
  void TearDown() override {
    oort_engine_free(engine_);
    oort_model_free(model_);
    oort_options_free(options_);
    oort_error_free(error_);
  }
  std::string Message() const { return oort_error_message(error_); }
  void Set(const char* name, const char* value) {
    ASSERT_EQ(oort_options_set(options_, name, value, &error_), OORT_OK) << Message();
  }
  oort_error** Slot() {
    oort_error_free(error_);
    error_ = nullptr;
    return &error_;
  }
  static std::string FileOf(const json::Json& item) {
    return oort::testing::FileBytes(kFolder / item["picture"].get<std::string>());
  }
  void AddFile(oort_chat* chat, const std::string& file) {
    ASSERT_EQ(oort_chat_add_picture(chat, file.data(), file.size(), Slot()), OORT_OK) << Message();
  }
  void AddText(oort_chat* chat, const std::string& text) {
    ASSERT_EQ(oort_chat_add(chat, "user", text.data(), text.size(), Slot()), OORT_OK) << Message();
  }
  std::vector<int32_t> Answer(const oort_chat* chat) {
    oort_result* result = nullptr;
    EXPECT_EQ(oort_engine_chat(engine_, chat, options_, nullptr, nullptr, &result, Slot()), OORT_OK)
        << Message();
    return Taken(result);
  }
  static std::vector<int32_t> Taken(oort_result* result) {
    size_t count = 0;
    const int32_t* tokens = oort_result_tokens(result, 0, &count);
    std::vector<int32_t> list(tokens, tokens + count);
    oort_result_free(result);
    return list;
  }
  static std::vector<int32_t> Wanted(const json::Json& list) {
    return list.get<std::vector<int32_t>>();
  }

  oort_options* options_ = nullptr;
  oort_model* model_ = nullptr;
  oort_engine* engine_ = nullptr;
  oort_error* error_ = nullptr;
  json::Json answers_;
};

TEST_F(CApiPictures, AnswersAsTransformers) {
  for (const json::Json& item : answers_) {
    oort_chat* chat = oort_chat_new();
    AddFile(chat, FileOf(item));
    AddText(chat, item["question"]);
    int32_t* tokens = nullptr;
    size_t count = 0;
    ASSERT_EQ(oort_model_encode_chat(model_, chat, options_, &tokens, &count, Slot()), OORT_OK)
        << Message();
    EXPECT_EQ(std::vector<int32_t>(tokens, tokens + count), Wanted(item["prompt"]));
    oort_free(tokens);
    EXPECT_EQ(Answer(chat), Wanted(item["tokens"]));
    oort_chat_free(chat);
  }
}

/// The same picture as pixels, in a message of JSON, and behind another one without a picture.
TEST_F(CApiPictures, PixelsAndMessagesOfJson) {
  const json::Json& item = answers_[0];
  const oort::Image image = oort::ReadImage(kFolder / item["picture"].get<std::string>());
  const std::vector<uint8_t> pixels(image.pixels.begin(), image.pixels.end());
  oort_chat* chat = oort_chat_new();
  ASSERT_EQ(
      oort_chat_add_pixels(chat, pixels.data(), image.width, image.height, image.channels, Slot()),
      OORT_OK)
      << Message();
  const json::Json message = {
      {"role", "user"},
      {"content", {{{"type", "image"}}, {{"type", "text"}, {"text", item["question"]}}}}};
  const std::string text = message.dump();
  ASSERT_EQ(oort_chat_add_json(chat, text.data(), text.size(), Slot()), OORT_OK) << Message();
  EXPECT_EQ(Answer(chat), Wanted(item["tokens"]));
  AddText(chat, "And now?");
  EXPECT_EQ(Answer(chat).size(), 10U);
  oort_chat_free(chat);
}

TEST_F(CApiPictures, RequestsThatDoNotWait) {
  std::vector<oort_request*> requests;
  for (const json::Json& item : answers_) {
    oort_chat* chat = oort_chat_new();
    AddFile(chat, FileOf(item));
    AddText(chat, item["question"]);
    oort_request* request = nullptr;
    ASSERT_EQ(oort_engine_submit_chat(engine_, chat, options_, nullptr, nullptr, nullptr, &request,
                                      Slot()),
              OORT_OK)
        << Message();
    requests.push_back(request);
    oort_chat_free(chat);
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    oort_result* result = nullptr;
    ASSERT_EQ(oort_request_wait(requests[i], -1, &result, Slot()), OORT_OK) << Message();
    EXPECT_EQ(Taken(result), Wanted(answers_[i]["tokens"]));
    oort_request_free(requests[i]);
  }
}

TEST_F(CApiPictures, WhatDoesNotFitIsAnError) {
  oort_chat* chat = oort_chat_new();
  oort_result* result = nullptr;
  const auto answer = [&](oort_engine* engine) {
    return oort_engine_chat(engine, chat, options_, nullptr, nullptr, &result, Slot());
  };
  EXPECT_EQ(oort_chat_add_picture(nullptr, "x", 1, Slot()), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_chat_add_picture(chat, nullptr, 1, Slot()), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_chat_add_pixels(chat, nullptr, 1, 1, 3, Slot()), OORT_INVALID_ARGUMENT);
  const uint8_t gray[4] = {1, 2, 3, 4};
  EXPECT_EQ(oort_chat_add_pixels(chat, gray, 1, 2, 2, Slot()), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_chat_add_pixels(chat, gray, -1, 2, 1, Slot()), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_chat_add_pixels(chat, gray, 1 << 20, 1 << 20, 1, Slot()), OORT_LIMIT);
  EXPECT_EQ(oort_chat_add_pixels(chat, gray, 2, 2, 1, Slot()), OORT_OK) << Message();
  EXPECT_EQ(answer(engine_), OORT_INVALID_ARGUMENT);
  EXPECT_NE(Message().find("ends with a picture"), std::string::npos) << Message();
  AddText(chat, "What?");
  EXPECT_EQ(answer(engine_), OORT_OK) << Message();
  oort_result_free(result);
  AddFile(chat, "no picture");
  AddText(chat, "What?");
  EXPECT_EQ(answer(engine_), OORT_INVALID_MODEL);
  oort_chat_free(chat);
  // A model of text alone says so.
  oort_model* text = nullptr;
  oort_engine* engine = nullptr;
  const std::string path = (oort::SourceTree() / "models/storyteller").string();
  ASSERT_EQ(oort_model_load(path.c_str(), nullptr, &text, Slot()), OORT_OK);
  ASSERT_EQ(oort_engine_new(text, nullptr, &engine, Slot()), OORT_OK);
  chat = oort_chat_new();
  AddFile(chat, FileOf(answers_[0]));
  AddText(chat, "What?");
  EXPECT_EQ(answer(engine), OORT_UNSUPPORTED);
  EXPECT_NE(Message().find("text alone"), std::string::npos) << Message();
  oort_chat_free(chat);
  oort_engine_free(engine);
  oort_model_free(text);
}

}  // namespace
