// SPDX-License-Identifier: MIT
// Steps whose tokens are picked where the logits are, and steps that begin before those of the one
// before are known here, so that the GPU never waits for the host.
#include "llm/engine_impl.h"

namespace oort {

StepItem ItemOf(const StepPart& part) {
  static constexpr int32_t kAnyToken = 0;
  if (part.generation == nullptr) return {nullptr, {&kAnyToken, 1}, StepItem::kLast};
  Sequence& sequence = *part.generation->sequence;
  if (part.guesses > 0) {
    return {.sequence = &sequence.cached,
            .tokens = part.generation->checked,
            .logits = StepItem::kAll,
            .length = sequence.length() + part.guesses,
            .one_by_one = true};
  }
  const std::span<const int32_t> tokens =
      std::span<const int32_t>(sequence.tokens)
          .subspan(static_cast<size_t>(sequence.computed), static_cast<size_t>(part.count));
  return {&sequence.cached, tokens, part.last ? StepItem::kLast : StepItem::kNone,
          sequence.length()};
}

/// How a row's token is drawn, `ahead` tokens behind those that are known; nothing where it is the
/// argmax, or does not count. What goes wrong is told when the answer gets its token.
std::optional<cuda::TokenDraw> Engine::Impl::DrawOf(Generation& g, size_t row, int64_t ahead) {
  NextToken& next = g.next;
  next.failure = nullptr;
  try {
    next.is_none = !MakeMask(g);
    next.is_found = g.is_bound();
    if (next.is_none) return {};
    FindLogitChanges(g.sampler, static_cast<size_t>(runner.vocabulary()), next.changes);
  } catch (...) {
    next.failure = std::current_exception();
    next.is_found = true;
    return {};
  }
  cuda::TokenDraw draw = NextDraw(g.sampler, ahead);
  draw.row = static_cast<int32_t>(row);
  draw.changes = next.changes;
  draw.allowed = next.allowed;
  return draw;
}

/// Logits come to the host only of rows that need them there. What may come next is found while the
/// device computes them.
StepRows Engine::Impl::Run(std::span<const StepItem> items, std::span<Generation* const> rows) {
  StepRows result;
  if (std::ranges::all_of(rows, &Generation::picks_argmax)) {
    result.tokens = runner.StepArgmax(items);
    result.hidden = runner.hidden();
    return result;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    // Rows of one answer are for one token after another.
    const bool has_others =
        (i > 0 && rows[i] == rows[i - 1]) || (i + 1 < rows.size() && rows[i] == rows[i + 1]);
    if (rows[i]->needs_logits() || (has_others && rows[i]->awaits_tokens())) {
      result.with_logits.push_back(static_cast<int32_t>(i));
    }
  }
  if (!runner.draws_on_device() || result.with_logits.size() == rows.size()) {
    result.with_logits.clear();
    result.logits = runner.Step(items);
    result.hidden = runner.hidden();
    return result;
  }
  runner.BeginStep(items, false);
  StepTokens picked;
  try {
    std::vector<cuda::TokenDraw> draws;
    int64_t ahead = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      ahead = i > 0 && rows[i] == rows[i - 1] ? ahead + 1 : 0;
      if (std::ranges::binary_search(result.with_logits, static_cast<int32_t>(i)) ||
          rows[i]->picks_argmax())
        continue;
      if (const auto draw = DrawOf(*rows[i], i, ahead)) draws.push_back(*draw);
    }
    runner.DrawRows(draws);
    picked = runner.EndStep(result.with_logits);
  } catch (...) {
    runner.Drop();
    for (Generation* g : rows) g->next = {};
    throw;
  }
  result.tokens = picked.tokens;
  result.reports = picked.reports;
  result.logits = picked.logits;
  result.hidden = runner.hidden();
  return result;
}

// ---- Running ahead -----------------------------------------------------------------------------
// Who turns out to be finished has a row in one more step, whose result nobody reads. A step
// computes logits before anybody needs to know how tokens are picked of them: where that depends on
// the tokens of the step before, it is told when these are there.

bool Engine::Impl::RunsAhead(std::span<const StepPart> parts) const {
  // Where a sequence may have to be read again, that shows between two steps.
  if (!runner.can_run_ahead() || model->facts().short_context > 0) return false;
  return std::ranges::all_of(parts, [&](const StepPart& part) {
    const Generation& g = *part.generation;
    // Other answers of the request have their first tokens of the same logits.
    return part.count == 1 && part.last && !g.needs_logits() && g.group->unborn == 0;
  });
}

/// The step behind the newest flight, if that is for certain what the scheduler would have it be:
/// nobody could be admitted or needs another kind of step, and there are blocks for it.
std::optional<std::vector<StepPart>> Engine::Impl::NextFlight() {
  if (scheduler.CouldAdmit()) return {};
  const int64_t begun = static_cast<int64_t>(flights.size());
  std::vector<StepPart> next = flights.back().parts;
  int64_t needed = 0;
  size_t live = 0;
  for (StepPart& part : next) {
    Generation* const g = part.generation;
    if (g == nullptr) continue;
    if (drafter && HasGuesses(*g)) return {};
    const int64_t answered = static_cast<int64_t>(g->result.tokens.size()) + begun;
    // Where a draw went wrong, its answer ends when that is told: another draw would hide it.
    if (g->finished || answered >= g->most_tokens || g->next.failure) {
      part.generation = nullptr;
      continue;
    }
    ++live;
    const int64_t blocks = KvCache::BlocksFor(g->sequence->length() + begun);
    needed += std::max<int64_t>(0, blocks - g->sequence->cached.blocks.size());
  }
  size_t others = 0;  // running, but not in the flight
  for (const auto& [id, g] : active) others += !g->finished && g->flights == 0 ? 1 : 0;
  const bool waits = others > static_cast<size_t>(scheduler.waiting());
  if (live == 0 || waits || needed > runner.pool().free_blocks()) return {};
  return next;
}

void Engine::Impl::BeginFlight(std::vector<StepPart> parts, bool continues) {
  std::vector<StepItem> items;
  for (const StepPart& part : parts) items.push_back(ItemOf(part));
  flights.push_back({std::move(parts)});
  try {
    runner.BeginStep(items, continues);
  } catch (...) {
    flights.pop_back();
    throw;
  }
  for (const StepPart& part : flights.back().parts) {
    if (part.generation != nullptr) ++part.generation->flights;
  }
  const auto awaits = [](const StepPart& part) {
    return part.generation != nullptr && part.generation->awaits_tokens();
  };
  if (!continues || std::ranges::none_of(flights.back().parts, awaits)) DrawFlight();
}

/// Tells how tokens of the newest flight are picked.
void Engine::Impl::DrawFlight() {
  Flight& flight = flights.back();
  const int64_t ahead = static_cast<int64_t>(flights.size()) - 1;
  std::vector<cuda::TokenDraw> draws;
  for (size_t row = 0; row < flight.parts.size(); ++row) {
    Generation* const g = flight.parts[row].generation;
    if (g == nullptr || g->finished || g->picks_argmax()) continue;
    if (const auto draw = DrawOf(*g, row, ahead)) draws.push_back(*draw);
  }
  runner.DrawRows(draws);
  flight.drawn = true;
}

/// The same when all tokens before are known.
void Engine::Impl::DrawFlightLate() {
  if (flights.empty() || flights.back().drawn) return;
  try {
    Guarded([&] { DrawFlight(); });
  } catch (...) {
    DropFlights();  // the next step begins anew, and fails where this was no accident
  }
}

/// Ends the first flight, with the next one under way where there will be one.
void Engine::Impl::StepFlight() {
  std::vector<StepPart> parts = flights.front().parts;
  const Clock::time_point start = Clock::now();
  StepRows rows;
  try {
    if (flights.size() == 1) {
      if (std::optional<std::vector<StepPart>> next = NextFlight()) {
        BeginFlight(std::move(*next), true);
      }
    }
    const StepTokens picked = runner.EndStep();
    rows.tokens = picked.tokens;
    rows.reports = picked.reports;
    rows.hidden = runner.hidden();
    const double seconds = SecondsSince(start);
    costs.Observe(std::ssize(parts), seconds);
    ledger.Observe(seconds, seconds);
  } catch (...) {
    DropFlights();
    std::erase_if(parts, [](const StepPart& part) {
      return part.generation == nullptr || part.generation->finished;
    });
    return StepEachAlone(parts);
  }
  flights.pop_front();
  for (const StepPart& part : parts) {
    if (part.generation != nullptr) --part.generation->flights;
  }
  AcceptRows(parts, rows);
  DrawFlightLate();
}

void Engine::Impl::DropFlights() noexcept {
  runner.Drop();
  flights.clear();
  for (const auto& [id, generation] : active) {
    if (generation->flights > 0) generation->next = {};  // of tokens that nobody will have
    generation->flights = 0;
  }
}

}  // namespace oort
