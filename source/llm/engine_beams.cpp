// SPDX-License-Identifier: MIT
// Beams of a request: sequences that go on together, and fork and end where the search says.
#include "llm/engine_impl.h"

namespace oort {

/// How a beam may go on. What it becomes shows when all beams of its search have come so far.
void Engine::Impl::ScoreBeam(Generation& g, std::span<const float> logits) {
  if (g.result.timings.first_token == Clock::time_point{}) g.SetFirstToken();
  const int64_t count =
      std::max<int64_t>(g.group->search->candidates(), g.request.sampling.top_logprobs);
  g.complete = !FindAllowed(g);
  g.top_tokens.clear();
  if (!g.complete) g.top_tokens = g.sampler.TopTokens(logits, count, g.next.allowed);
  g.scored = true;
}

/// The next tokens of all searches whose beams have been scored.
void Engine::Impl::AdvanceBeams() {
  if (!some_search) return;
  bool is_search = false;
  std::vector<std::shared_ptr<AnswerGroup>> ready;
  for (const auto& [id, g] : active) {
    const AnswerGroup& group = *g->group;
    is_search = is_search || group.search;
    if (group.failure || group.beams.empty() || group.beams.front() != g.get()) continue;
    const auto waits = [](const Generation* beam) { return beam->scored && !beam->finished; };
    if (std::ranges::all_of(group.beams, waits)) ready.push_back(g->group);
  }
  some_search = is_search;
  for (const std::shared_ptr<AnswerGroup>& group : ready) {
    try {
      Guarded([&] { Advance(*group); });
    } catch (...) {
      group->failure = std::current_exception();
      some_ended = true;
    }
  }
}

void Engine::Impl::Advance(AnswerGroup& group) {
  const std::vector<Generation*> before = group.beams;
  std::vector<Beam> beams;
  for (Generation* g : before) beams.push_back({&g->result, g->top_tokens, g->complete});
  const std::vector<BeamStep> steps = group.search->Advance(beams);
  if (group.search->done()) {
    for (Generation* g : before) Finish(*g, FinishReason::kStop);
    return;
  }
  // Those that do not go on make room for forks of the others.
  std::vector<std::vector<TokenLogprob>> top_tokens(before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    top_tokens[i] = std::move(before[i]->top_tokens);
    if (std::ranges::find(steps, i, &BeamStep::beam) != steps.end()) continue;
    Discard(*before[i]);
    active.erase(before[i]->id);
  }
  std::vector<bool> is_taken(before.size());
  std::vector<Generation*> next;
  std::vector<std::pair<int32_t, int32_t>> copies;
  for (const BeamStep& step : steps) {
    Generation& parent = *before[step.beam];
    next.push_back(is_taken[step.beam] ? &ForkBeam(parent, copies) : &parent);
    is_taken[step.beam] = true;
  }
  runner.CopyBlocks(copies);
  for (size_t i = 0; i < steps.size(); ++i) {
    Extend(*next[i], steps[i], top_tokens[steps[i].beam]);
  }
  group.beams = std::move(next);
}

/// Another beam that begins like this one, which has not got its next token yet.
Generation& Engine::Impl::ForkBeam(Generation& parent,
                                   std::vector<std::pair<int32_t, int32_t>>& copies) {
  Generation& g = AddGeneration(std::make_unique<Generation>(next_id, parent.group, 0));
  g.sampler = parent.sampler.Clone();
  if (parent.constraint) g.constraint = parent.constraint->Clone();
  g.result = parent.result;
  std::optional<std::pair<int32_t, int32_t>> copy;
  g.sequence = scheduler.Fork(*parent.sequence, MakeSequence(g, parent.sequence), copy);
  // Without room it waits, and is read again.
  if (g.sequence == nullptr) g.sequence = &scheduler.Add(MakeSequence(g, parent.sequence));
  if (copy) copies.push_back(*copy);
  return g;
}

void Engine::Impl::Extend(Generation& g, const BeamStep& step,
                          std::span<const TokenLogprob> top_tokens) {
  const bool forced = g.is_forced();
  ++counts.generated_tokens;
  g.group->search->Append(g.result, step.token, top_tokens);
  g.result.score = step.score;
  g.sequence->tokens.push_back(step.token.token);
  g.sampler.Accept(step.token.token);
  g.scored = false;
  if (g.constraint && !forced && !g.constraint->Accept(step.token.token)) {
    FailRefused(step.token.token);
  }
}

}  // namespace oort
