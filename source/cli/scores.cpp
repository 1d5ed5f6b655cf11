// SPDX-License-Identifier: MIT
#include "cli/scores.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace oort::cli {
namespace {

double LogSumExp(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return most + std::log(sum);
}

size_t Argmax(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

void Mean::Add(double value) {
  ++count_;
  const double before = value - mean_;
  mean_ += before / static_cast<double>(count_);
  squares_ += before * (value - mean_);
}

double Mean::error() const {
  if (count_ < 2) return 0;
  const double n = static_cast<double>(count_);
  return std::sqrt(squares_ / (n - 1) / n);
}

void Agreement::Add(std::span<const float> reference, std::span<const float> logits) {
  const double reference_sum = LogSumExp(reference), sum = LogSumExp(logits);
  double divergence_here = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double log_p = static_cast<double>(reference[i]) - reference_sum;
    const double log_q = static_cast<double>(logits[i]) - sum;
    divergence_here += std::exp(log_p) * (log_p - log_q);
  }
  divergence.Add(divergence_here);
  if (Argmax(reference) == Argmax(logits)) ++agree;
}

double Agreement::Percent() const {
  return 100.0 * static_cast<double>(agree) /
         static_cast<double>(std::max<int64_t>(1, divergence.count()));
}

/// Window by window, so that no more than one window's logits of the reference are kept.
Scores ScoreText(const ScoredModel& judged, const ScoredModel& reference,
                 std::span<const int32_t> tokens, int64_t window) {
  if (reference.model && reference.model->info().vocabulary != judged.model->info().vocabulary) {
    throw Error(ErrorCode::kInvalidArgument, "the reference has another vocabulary");
  }
  Scores scores;
  scores.compared = reference.model != nullptr;
  std::vector<std::vector<float>> expected;
  const auto size = static_cast<size_t>(window);
  for (size_t begin = 0; begin + 1 < tokens.size(); begin += size) {
    // One more token than the window, for the last of them to predict.
    const auto part = tokens.subspan(begin, std::min(size + 1, tokens.size() - begin));
    const auto loss = [&](int64_t i, std::span<const float> logits) {
      const auto next = static_cast<size_t>(part[static_cast<size_t>(i) + 1]);
      return LogSumExp(logits) - static_cast<double>(logits[next]);
    };
    expected.clear();
    if (scores.compared) {
      VisitLogits(reference.model, part, window + 1, reference.options,
                  [&](int64_t i, std::span<const float> logits) {
                    scores.reference_loss.Add(loss(i, logits));
                    expected.emplace_back(logits.begin(), logits.end());
                  });
    }
    VisitLogits(judged.model, part, window + 1, judged.options,
                [&](int64_t i, std::span<const float> logits) {
                  scores.loss.Add(loss(i, logits));
                  if (scores.compared) {
                    scores.comparison.Add(expected[static_cast<size_t>(i)], logits);
                  }
                });
  }
  return scores;
}

}  // namespace oort::cli
