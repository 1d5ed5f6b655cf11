// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "oort/c_language.h"
#include "oort/engine.h"
#include "oort/tool_calls.h"

struct oort_piece {
  std::string text;
  int32_t token = 0;
  int32_t answer = 0;
  float logprob = 0;
  std::vector<oort::TokenLogprob> top;
};

struct oort_result {
  oort::GenerateResult result;
  oort::AnswerParserOptions parts;  ///< what its answers are taken apart into
  bool parallel_calls = true;       ///< else the first call of an answer is its only one
  mutable std::mutex mutex;         ///< of what follows
  /// Answers that were taken apart: the ids of calls are made there, and stay.
  mutable std::map<size_t, std::string> messages;
};
