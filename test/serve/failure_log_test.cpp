// SPDX-License-Identifier: MIT
#include "serve/failure_log.h"

#include <gtest/gtest.h>

#include <new>
#include <vector>

namespace oort::serve {
namespace {

struct FailureLogTest : ::testing::Test {
  std::vector<std::string> lines;
  FailureLog log{[this](std::string_view line) { lines.emplace_back(line); }};

  template <typename Thrown>
  int StatusOf(const Thrown& thrown) {
    return log.ErrorOf(std::make_exception_ptr(thrown), "req-1").status;
  }
};

TEST_F(FailureLogTest, TellsTheReasonThatTheAskerDoesNotHear) {
  const auto thrown = std::make_exception_ptr(Error(ErrorCode::kDevice, "rank 1 (two) is gone"));
  const openai::ApiError error = log.ErrorOf(thrown, "req-1");
  EXPECT_EQ(error.status, 500);
  EXPECT_EQ(error.message.find("rank"), std::string::npos);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "request req-1 failed: rank 1 (two) is gone");
  EXPECT_EQ(StatusOf(std::bad_alloc()), 503);
  EXPECT_EQ(StatusOf(1), 500);
  EXPECT_EQ(lines.size(), 3u);
}

TEST_F(FailureLogTest, TellsTheSameReasonOnce) {
  for (int i = 0; i < 5; ++i) StatusOf(Error(ErrorCode::kDevice, "rank 1 is gone"));
  EXPECT_EQ(lines.size(), 1u);
  StatusOf(Error(ErrorCode::kInternal, "another one"));
  EXPECT_EQ(lines.size(), 2u);
}

TEST_F(FailureLogTest, IsSilentAboutWhatTheAskerIsToldWhole) {
  EXPECT_EQ(StatusOf(Error(ErrorCode::kInvalidArgument, "the prompt is empty")), 400);
  EXPECT_EQ(StatusOf(openai::RequestError({504, "the answer did not begin in time"})), 504);
  EXPECT_TRUE(lines.empty());
}

TEST(FailureLog, NeedsNobodyToTell) {
  FailureLog log(nullptr);
  EXPECT_EQ(log.ErrorOf(std::make_exception_ptr(1), "req-1").status, 500);
}

}  // namespace
}  // namespace oort::serve
