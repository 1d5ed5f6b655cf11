// SPDX-License-Identifier: MIT
#include "llm/generation.h"

#include <algorithm>
#include <numeric>

namespace oort {
namespace {

/// How answer `index` is sampled: as by a lone request of that seed.
SamplingOptions SamplingOf(const AnswerGroup& group, int index) {
  SamplingOptions options = group.request.sampling;
  options.seed += static_cast<uint64_t>(index);
  if (group.picks_best()) options.top_logprobs = std::max(options.top_logprobs, 0);
  return options;
}

float MeanLogprob(const GeneratedAnswer& answer) {
  const double sum = std::accumulate(answer.logprobs.begin(), answer.logprobs.end(), 0.0);
  return static_cast<float>(sum / static_cast<double>(std::max<size_t>(answer.logprobs.size(), 1)));
}

}  // namespace

AnswerGroup::AnswerGroup(int64_t number, GenerateRequest wanted)
    : id(number), request(std::move(wanted)), unborn(made() - 1) {
  result.timings.arrived = request.arrived.value_or(Clock::now());
}

Generation::Generation(int64_t number, std::shared_ptr<AnswerGroup> of, int index)
    : id(number),
      group(std::move(of)),
      request(group->request),
      sampler(SamplingOf(*group, index)),
      stops(request.stops),
      constraint(request.constraint ? request.constraint->Clone() : nullptr),
      most_tokens(group->most_tokens) {
  sampler.AddPrompt(group->beginning());
  result.index = index;
  result.timings.arrived = group->result.timings.arrived;
  ++group->live;
}

GenerateResult AnswerGroup::Assemble(const LanguageModel& model) {
  const auto better = [](const GeneratedAnswer& a, const GeneratedAnswer& b) {
    return a.score > b.score;
  };
  if (search) {
    // One that was ended before its time has the beginnings that it had.
    if (!search->done()) std::ranges::stable_sort(answers, better);
    const GenerateTimings timings = answers.at(0).timings;
    if (search->done()) answers = std::move(search->answers());
    for (GeneratedAnswer& answer : answers) {
      answer.timings = timings;
      if (!model.has_tokenizer()) continue;
      TokenStream text(model.tokenizer(), {.skip_special = !request.special_text});
      for (const int32_t token : answer.tokens) {
        if (request.ignore_end || !model.IsEnd(token)) answer.text += text.Push(token);
      }
      answer.text += text.Flush();
    }
  } else {
    std::ranges::sort(answers, {}, &GeneratedAnswer::index);
    // Ended before they began: as the first one was.
    for (; unborn > 0; --unborn) {
      GeneratedAnswer answer = answers.at(0);
      answer.index = static_cast<int>(answers.size());
      answers.push_back(std::move(answer));
    }
  }
  if (picks_best()) {
    for (GeneratedAnswer& answer : answers) {
      answer.score = MeanLogprob(answer);
      if (request.sampling.top_logprobs >= 0) continue;
      answer.logprobs.clear();
      answer.top.clear();
    }
    std::ranges::stable_sort(answers, better);
  }
  answers.resize(std::min(answers.size(), static_cast<size_t>(request.n)));
  static_cast<GeneratedAnswer&>(result) = std::move(answers.at(0));
  result.others.assign(std::make_move_iterator(answers.begin() + 1),
                       std::make_move_iterator(answers.end()));
  return std::move(result);
}

}  // namespace oort
