// SPDX-License-Identifier: MIT
#include "llm/beam_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace oort {

/// Of each beam so many that `width` go on even where all tokens that end answers come first.
BeamSearch::BeamSearch(const BeamOptions& options, int64_t most_tokens,
                       std::vector<int32_t> end_tokens, int top_logprobs)
    : options_(options),
      most_tokens_(most_tokens),
      end_tokens_(std::move(end_tokens)),
      top_logprobs_(top_logprobs),
      candidates_(options.width *
                  std::max<int64_t>(2, 1 + static_cast<int64_t>(end_tokens_.size()))) {}

float BeamSearch::Normalized(float score, int64_t length) const {
  return score / static_cast<float>(std::pow(static_cast<double>(length),
                                             static_cast<double>(options_.length_penalty)));
}

void BeamSearch::Append(GeneratedAnswer& answer, const TokenLogprob& token,
                        std::span<const TokenLogprob> top_tokens) const {
  answer.tokens.push_back(token.token);
  if (top_logprobs_ < 0) return;
  answer.logprobs.push_back(token.logprob);
  const auto first =
      top_tokens.first(std::min(static_cast<size_t>(top_logprobs_), top_tokens.size()));
  answer.top.emplace_back(first.begin(), first.end());
}

/// Keeps the best `width`; of equal ones those that came first.
void BeamSearch::Keep(GeneratedAnswer answer, float score) {
  answer.score = score;
  const auto place =
      std::ranges::upper_bound(answers_, score, std::ranges::greater(), &GeneratedAnswer::score);
  answers_.insert(place, std::move(answer));
  if (static_cast<int64_t>(answers_.size()) > options_.width) answers_.pop_back();
}

std::vector<BeamStep> BeamSearch::Advance(std::span<const Beam> beams) {
  const size_t width = static_cast<size_t>(options_.width);
  std::vector<BeamStep> steps;
  int64_t length = 1;
  for (size_t i = 0; i < beams.size(); ++i) {
    const GeneratedAnswer& answer = *beams[i].answer;
    const int64_t tokens = static_cast<int64_t>(answer.tokens.size());
    length = tokens + 1;
    if (beams[i].complete) Keep(answer, Normalized(answer.score, std::max<int64_t>(tokens, 1)));
    for (const TokenLogprob& token : beams[i].top_tokens) {
      steps.push_back({i, token, answer.score + token.logprob});
    }
  }
  std::ranges::stable_sort(steps, std::ranges::greater(), &BeamStep::score);
  steps.resize(std::min(steps.size(), static_cast<size_t>(candidates_)));

  std::vector<BeamStep> next;
  for (size_t i = 0; i < steps.size(); ++i) {
    const BeamStep& step = steps[i];
    const bool ends = std::ranges::find(end_tokens_, step.token.token) != end_tokens_.end();
    if (!ends && length < most_tokens_) {
      if (next.size() < width) next.push_back(step);
    } else if (i < width) {
      GeneratedAnswer answer = *beams[step.beam].answer;
      Append(answer, step.token, beams[step.beam].top_tokens);
      answer.finish = ends ? FinishReason::kStop : FinishReason::kLength;
      Keep(std::move(answer), Normalized(step.score, length));
    }
  }
  const bool full = answers_.size() == width;
  if (next.empty() || (full && options_.stop == BeamOptions::kEarly)) {
    done_ = true;
  } else if (full) {
    const bool may_grow = options_.stop == BeamOptions::kImpossible && options_.length_penalty > 0;
    done_ = Normalized(next[0].score, may_grow ? most_tokens_ : length) <= answers_.back().score;
  }
  if (done_) next.clear();
  return next;
}

}  // namespace oort
