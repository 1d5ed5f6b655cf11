// SPDX-License-Identifier: MIT
// Logits of a model in steps, compared with those of transformers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "llm/decoder_runner.h"
#include "text/json.h"

namespace oort::testing {

inline void ExpectRows(std::span<const float> got, const json::Json& want, size_t first,
                       size_t rows) {
  const size_t vocabulary = want[0].size();
  ASSERT_EQ(got.size(), rows * vocabulary);
  for (size_t i = 0; i < got.size(); ++i) {
    const double number = want[first + i / vocabulary][i % vocabulary].get<double>();
    ASSERT_NEAR(got[i], number, 2e-4 + 2e-5 * std::abs(number))
        << "token " << first + i / vocabulary << ", logit " << i % vocabulary;
  }
}

/// Runs all tokens in steps of so many and compares every row.
inline void ExpectLogits(const std::shared_ptr<const LanguageModel>& model,
                         const std::vector<int32_t>& tokens, const json::Json& want, size_t step) {
  DecoderRunner runner(model, KvType::kF32, 64, 1);
  CachedSequence sequence;
  for (size_t at = 0; at < tokens.size(); at += step) {
    const size_t count = std::min(step, tokens.size() - at);
    const StepItem item{&sequence, std::span(tokens).subspan(at, count), StepItem::kAll,
                        static_cast<int64_t>(tokens.size())};
    ExpectRows(runner.Step({&item, 1}), want, at, count);
    if (::testing::Test::HasFatalFailure()) return;
  }
  sequence = {};
}

}  // namespace oort::testing
