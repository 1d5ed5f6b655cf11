// SPDX-License-Identifier: MIT
// Tokens of answers: how they are picked, who hears of them, and when an answer ends.
#include "llm/engine_impl.h"

namespace oort {

void FailRefused(int32_t token) {
  throw Error(ErrorCode::kInvalidArgument,
              "the constraint refuses token " + std::to_string(token) + ", which it allowed");
}

/// The tokens that may come next, in NextToken::allowed. False where the answer is complete and
/// none may.
bool Engine::Impl::FindAllowed(Generation& g) {
  if (!std::exchange(g.next.is_found, false)) return MakeMask(g);
  if (g.next.failure) std::rethrow_exception(std::exchange(g.next.failure, nullptr));
  return !g.next.is_none;
}

bool Engine::Impl::MakeMask(Generation& g) {
  std::vector<uint32_t>& allowed = g.next.allowed;
  allowed.clear();
  if (g.is_forced()) {
    const auto token = static_cast<size_t>(*g.group->first_token);
    allowed.assign((static_cast<size_t>(runner.vocabulary()) + 31) / 32, 0);
    allowed[token / 32] = uint32_t{1} << (token % 32);
    return true;
  }
  const bool forbids_end = g.forbids_end();
  if (!g.constraint && !forbids_end) return true;
  const size_t words = (static_cast<size_t>(runner.vocabulary()) + 31) / 32;
  allowed.assign(words, g.constraint ? 0 : ~uint32_t{0});
  bool may_end = !forbids_end;
  if (g.constraint) {
    g.constraint->Mask(allowed);
    may_end = may_end && g.constraint->done();
  }
  const auto bit_of = [&](int32_t token) { return uint32_t{1} << (token % 32); };
  if (!g.request.ignore_end) {
    for (const int32_t token : model->end_tokens()) {
      if (token >= runner.vocabulary()) continue;
      uint32_t& word = allowed[static_cast<size_t>(token) / 32];
      word = may_end ? word | bit_of(token) : word & ~bit_of(token);
    }
  }
  // A constraint says itself where these may come: to it they are text.
  if (forbids_end) {
    for (const int32_t token : g.request.stop_tokens) {
      allowed[static_cast<size_t>(token) / 32] &= ~bit_of(token);
    }
  }
  if (const int64_t rest = runner.vocabulary() % 32; rest > 0) {
    allowed.back() &= (uint32_t{1} << rest) - 1;
  }
  if (std::ranges::any_of(allowed, [](uint32_t word) { return word != 0; })) return true;
  if (g.constraint && g.constraint->done()) return false;
  throw Error(ErrorCode::kInvalidArgument,
              "the answer is not complete, and its constraint allows no token of the model");
}

/// What the sampler makes of a row; `again`: after another answer had its token of it. FindAllowed
/// comes before.
SampledToken Engine::Impl::Pick(Generation& g, const StepRows& rows, size_t row, bool again) {
  if (const std::optional<size_t> logits_row = rows.LogitsRow(row)) {
    const size_t vocabulary = static_cast<size_t>(runner.vocabulary());
    return g.sampler.Sample(rows.logits.subspan(*logits_row * vocabulary, vocabulary),
                            g.next.allowed);
  }
  if (!again || g.picks_argmax()) {
    const cuda::DrawReport* const report = rows.ReportOf(row);
    if (report == nullptr && !g.picks_argmax()) {
      throw Error(ErrorCode::kInternal, "a token of an answer was not drawn");
    }
    return SampleDrawn(g.sampler, rows.tokens[row], report);
  }
  const std::optional<cuda::TokenDraw> draw = DrawOf(g, row, 0);
  if (!FindAllowed(g) || !draw) return SampleDrawn(g.sampler, -1);
  const DrawnToken drawn = runner.DrawAgain(*draw);
  return SampleDrawn(g.sampler, drawn.token, &drawn.report);
}

/// Picks the next token and tells whoever waits for it.
void Engine::Impl::Accept(Generation& g, const StepRows& rows, size_t row) {
  if (g.most_tokens == 0) return Finish(g, FinishReason::kLength);
  if (g.group->search) {
    const size_t vocabulary = static_cast<size_t>(runner.vocabulary());
    return ScoreBeam(g, rows.logits.subspan(*rows.LogitsRow(row) * vocabulary, vocabulary));
  }
  const bool is_first = g.id == g.group->id;
  KeepHidden(g, rows, row);
  if (FindAllowed(g)) {
    AcceptToken(g, Pick(g, rows, row, false));
  } else {
    Finish(g, FinishReason::kStop);
  }
  if (is_first && g.group->unborn > 0) ForkAnswers(g, rows, row);
}

/// The prompt was read for the first answer: the others have it from there. One for which there is
/// no room reads it when there is, as it would alone.
void Engine::Impl::ForkAnswers(Generation& first, const StepRows& rows, size_t row) {
  AnswerGroup& group = *first.group;
  std::vector<Generation*> born;
  std::vector<std::pair<int32_t, int32_t>> copies;
  for (; group.unborn > 0; --group.unborn) {
    const int index = static_cast<int>(group.made() - group.unborn);
    Generation& g = AddGeneration(std::make_unique<Generation>(next_id, first.group, index));
    std::optional<std::pair<int32_t, int32_t>> copy;
    g.sequence = scheduler.Fork(*first.sequence, MakeSequence(g), copy);
    if (g.sequence == nullptr) {
      g.sequence = &scheduler.Add(MakeSequence(g));
      continue;
    }
    g.Start(first.result.timings.started);
    if (copy) copies.push_back(*copy);
    born.push_back(&g);
  }
  runner.CopyBlocks(copies);
  for (Generation* g : born) {
    KeepHidden(*g, rows, row);
    if (FindAllowed(*g)) {
      AcceptToken(*g, Pick(*g, rows, row, true));
    } else {
      Finish(*g, FinishReason::kStop);
    }
  }
}

void Engine::Impl::AcceptToken(Generation& g, const SampledToken& sampled) {
  if (g.result.tokens.empty()) g.SetFirstToken();
  const bool early = g.must_go_on(), forced = g.is_forced();
  ++counts.generated_tokens;
  g.result.tokens.push_back(sampled.token);
  g.sequence->tokens.push_back(sampled.token);
  if (g.sampler.options().top_logprobs >= 0) {
    g.result.logprobs.push_back(sampled.logprob);
    g.result.top.push_back(sampled.top);
  }
  const bool ended =
      (!g.request.ignore_end && model->IsEnd(sampled.token)) ||
      std::ranges::find(g.request.stop_tokens, sampled.token) != g.request.stop_tokens.end();
  if (g.constraint && !ended && !forced && !g.constraint->Accept(sampled.token))
    FailRefused(sampled.token);
  std::string text = g.text && !ended ? g.text->Push(sampled.token) : std::string();
  if (!early) text = g.stops.Add(text);
  Emit(g, sampled, text);
  if (g.finished) return;
  if (ended || g.stops.stopped()) {
    Finish(g, FinishReason::kStop);
  } else if (static_cast<int64_t>(g.result.tokens.size()) >= g.most_tokens) {
    Finish(g, FinishReason::kLength);
  }
}

void Engine::Impl::Emit(Generation& g, const SampledToken& sampled, const std::string& text) {
  g.result.text += text;
  if (!g.request.on_piece) return;
  if (!g.request.on_piece({g.result.index, sampled.token, text, sampled.logprob, sampled.top})) {
    Finish(g, FinishReason::kCancelled);
  }
}

void Engine::Impl::Finish(Generation& g, FinishReason reason) {
  g.finished = some_ended = true;
  g.result.finish = reason;
  std::string rest;
  if (g.text) rest = g.stops.Add(g.text->Flush());
  rest += g.stops.Finish();
  g.result.text += rest;
  g.result.stop = g.stops.matched();
  if (g.stops.stopped()) g.result.finish = FinishReason::kStop;
  GenerateTimings& timings = g.result.timings;
  timings.finished = Clock::now();
  if (!g.result.tokens.empty()) {
    timings.generate_seconds = Seconds(timings.finished - timings.first_token);
  }
  const bool is_told = reason != FinishReason::kCancelled && g.request.on_piece;
  if (!rest.empty() && is_told) {
    g.request.on_piece({g.result.index, -1, rest, 0, {}});
  }
}

/// Within a handler: the request ends with what was thrown.
void Engine::Impl::Fail(Generation& g) {
  g.finished = some_ended = true;
  g.group->failure = std::current_exception();
}

/// Gives back what a generation has that is about to go.
void Engine::Impl::Discard(Generation& g) {
  if (g.sequence == nullptr) return;
  std::erase(g.group->beams, &g);
  if (drafter) drafter->Forget(g.id);
  if (g.id == g.group->id) g.group->result.reused_tokens = g.sequence->reused;
  scheduler.Remove(*std::exchange(g.sequence, nullptr));
}

/// Moves what is finished out of the way.
void Engine::Impl::Collect() {
  if (!some_ended) return;
  bool under_way = false;
  std::erase_if(active, [&](auto& entry) {
    Generation& g = *entry.second;
    AnswerGroup& group = *g.group;
    if (group.failure) g.finished = true;
    // A step under way still writes into its blocks.
    under_way = under_way || (g.finished && g.flights > 0);
    if (!g.finished || g.flights > 0) return false;
    Discard(g);
    if (group.live > 1) {
      group.answers.push_back(std::move(g.result));
      return true;
    }
    FinishedGeneration& finished = done.try_emplace(group.id).first->second;
    try {
      if (!group.failure) {
        group.answers.push_back(std::move(g.result));
        finished.result = group.Assemble(*model);
      }
    } catch (...) {
      group.failure = std::current_exception();
    }
    finished.failure = group.failure;
    counts.prompt_tokens += static_cast<int64_t>(group.request.prompt.size());
    counts.reused_tokens += group.result.reused_tokens;
    return true;
  });
  some_ended = under_way;
}

void Engine::Impl::Forget(int64_t id) {
  DropFlights();
  std::erase_if(active, [&](auto& entry) {
    if (entry.second->group->id != id) return false;
    Discard(*entry.second);
    return true;
  });
  done.erase(id);
}

/// Ends what is past its deadline.
void Engine::Impl::EndOverdue() {
  const Clock::time_point now = Clock::now();
  if (now < earliest) return;
  earliest = Clock::time_point::max();
  for (const auto& [id, generation] : active) {
    Generation& g = *generation;
    if (g.finished || !g.request.deadline) continue;
    if (now < *g.request.deadline) {
      earliest = std::min(earliest, *g.request.deadline);
    } else {
      Attempt(g, [&] { Finish(g, FinishReason::kDeadline); });
    }
  }
}

}  // namespace oort
