// SPDX-License-Identifier: MIT
#include "oort/engine.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "core/guard.h"
#include "llm/check_request.h"
#include "llm/decoder_runner.h"
#include "llm/generation.h"
#include "llm/memory_needs.h"
#include "llm/step_budget.h"
#include "llm/swap_space.h"

namespace oort {
namespace {

constexpr int64_t kMostCacheTokens = int64_t{1} << 40;
using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Reading a sequence again costs a GPU more than copying it, and the CPU's memory is the cache's.
size_t SwapBytes(const KvCache& cache, const EngineOptions& options) {
  constexpr size_t kOfGpu = size_t{4} << 30;
  return options.swap_bytes.value_or(cache.device().type == DeviceType::kCpu ? 0 : kOfGpu);
}

/// Where prefixes of this request are shared: not with callers of another salt, nor with sequences
/// whose keys were turned by other angles.
uint64_t NameSpace(const GenerateRequest& request, bool is_long) {
  return 2 * std::hash<std::string>()(request.cache_salt) + (is_long ? 1 : 0);
}

}  // namespace

std::string_view Name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kDeadline: return "deadline";
  }
  return "stop";
}

/// What a step gives for each of its rows: logits, or the tokens that sampling makes of them.
struct StepRows {
  std::span<const float> logits{};
  std::span<const int32_t> tokens{};
  /// Where tokens has some: the rows that logits has, whose tokens do not count.
  std::vector<int32_t> with_logits{};

  /// Which row of logits that of the step is; none where it has a token.
  std::optional<size_t> LogitsRow(size_t row) const {
    if (tokens.empty()) return row;
    const auto found = std::ranges::lower_bound(with_logits, static_cast<int32_t>(row));
    if (found == with_logits.end() || *found != static_cast<int32_t>(row)) return {};
    return static_cast<size_t>(found - with_logits.begin());
  }
};

/// The next tokens of one request in a step.
struct StepPart {
  Generation* generation = nullptr;  ///< null: a row that stands for nobody any more
  int64_t count = 1;
  bool last = true;  ///< ends with the last token that is known, whose logits pick the next one
};

StepItem ItemOf(const StepPart& part) {
  static constexpr int32_t kAnyToken = 0;
  if (part.generation == nullptr) return {nullptr, {&kAnyToken, 1}, StepItem::kLast};
  Sequence& sequence = *part.generation->sequence;
  const std::span<const int32_t> tokens =
      std::span<const int32_t>(sequence.tokens)
          .subspan(static_cast<size_t>(sequence.computed), static_cast<size_t>(part.count));
  return {&sequence.cached, tokens, part.last ? StepItem::kLast : StepItem::kNone,
          sequence.length()};
}

struct Engine::Impl {
  std::shared_ptr<const LanguageModel> model;
  EngineOptions options;
  int64_t cache_tokens;
  DecoderRunner runner;
  SwapSpace saver;
  Scheduler scheduler;
  std::map<int64_t, std::unique_ptr<Generation>> active;  ///< waiting or running
  std::map<int64_t, FinishedGeneration> done;
  StepBudget budget{options.step_tokens, options.step_seconds};
  std::deque<std::vector<StepPart>> flights;  ///< steps that the runner has under way
  std::vector<uint32_t> allowed;              ///< tokens, of the answer that picks one
  int64_t next_id = 0;
  EngineStats counts;  ///< what only grows

  Impl(std::shared_ptr<const LanguageModel> shared, const EngineOptions& given, int64_t tokens)
      : model(std::move(shared)),
        options(given),
        cache_tokens(tokens),
        runner(model, options.kv.value_or(model->default_kv()), tokens, options.threads,
               mixes_steps()),
        saver(runner.cache(), SwapBytes(runner.cache(), options)),
        scheduler(runner.pool(),
                  {.step_tokens = mixes_steps() ? options.step_tokens : options.prompt_chunk,
                   .prompt_tokens = options.prompt_chunk,
                   .most_running = options.most_running,
                   .mixed_steps = mixes_steps(),
                   .reserve = options.reserve_cache,
                   .share_prefixes = options.reuse_prefixes},
                  saver) {}
  ~Impl() { DropFlights(); }  // while the sequences are there

  /// Answers that one step computes.
  int64_t step_rows() const {
    return options.deterministic ? model->facts().decode_rows : model->facts().step_rows;
  }
  bool mixes_steps() const { return MixesSteps(*model, options); }

  int64_t Submit(GenerateRequest request);
  bool Step();
  EngineStats stats() const;
  void EndOverdue();
  bool IsLong(int64_t length) const {
    const int64_t most = model->facts().short_context;
    return most > 0 && length > most;
  }
  bool ReadsAgain(Generation& generation);
  void StepShares(std::span<const StepShare> shares);
  void StepTogether(std::span<const StepPart> parts);
  void StepEachAlone(std::span<const StepPart> parts);
  void StepFlight();
  void AcceptRows(std::span<const StepPart> parts, const StepRows& rows);
  template <typename Body>
  void Attempt(Generation& generation, const Body& body);
  void Fail(Generation& generation);
  StepRows Run(std::span<const StepItem> items, std::span<Generation* const> rows);
  bool RunsAhead(std::span<const StepPart> parts) const;
  std::optional<std::vector<StepPart>> NextFlight() const;
  void BeginFlight(std::vector<StepPart> parts, bool continues);
  void DropFlights() noexcept;
  bool FindAllowed(Generation& generation);
  void Accept(Generation& generation, const StepRows& rows, size_t row);
  void Emit(Generation& generation, const SampledToken& sampled, const std::string& text);
  void Finish(Generation& generation, FinishReason reason);
  void Collect();
  void Forget(int64_t id);
};

int64_t Engine::Impl::Submit(GenerateRequest request) {
  CheckRequest(request, model->info().vocabulary);
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t room = std::min(cache_tokens, model->info().context) - prompt;
  if (room < 0) {
    throw Error(ErrorCode::kLimit, "the prompt has " + std::to_string(prompt) +
                                       " tokens; the model's context and the cache have room for " +
                                       std::to_string(room + prompt));
  }
  // The last token of an answer is never read again: it needs no room.
  const int64_t most = room + 1;
  auto generation = std::make_unique<Generation>(next_id, std::move(request));
  const int64_t wanted = generation->request.max_tokens;
  generation->most_tokens = wanted < 0 ? most : std::min(wanted, most);
  if (model->has_tokenizer()) generation->text.emplace(model->tokenizer());

  auto sequence = std::make_unique<Sequence>();
  sequence->id = next_id;
  sequence->priority = generation->request.priority;
  sequence->caller = generation->request.caller;
  sequence->name_space = NameSpace(generation->request, IsLong(prompt));
  sequence->tokens = generation->request.prompt;
  sequence->most_length = prompt + std::max<int64_t>(generation->most_tokens, 1) - 1;
  Generation& added = *active.try_emplace(next_id, std::move(generation)).first->second;
  try {
    added.sequence = &scheduler.Add(std::move(sequence));
  } catch (...) {
    active.erase(next_id);
    throw;
  }
  if (added.most_tokens == 0) Finish(added, FinishReason::kLength);
  return next_id++;
}

/// What the cache holds of a sequence that outgrows the model's short context turned by other
/// angles than what follows: all of it is read once more, as it would be without a cache.
bool Engine::Impl::ReadsAgain(Generation& g) {
  const int64_t most = model->facts().short_context;
  if (most == 0 || g.sequence->computed != most || g.sequence->length() <= most) return false;
  const uint64_t name_space = NameSpace(g.request, true);
  if (g.sequence->name_space == name_space) return false;
  scheduler.Restart(*g.sequence, name_space);
  return true;
}

/// What the scheduler hands out becomes one step, or several where a step has no room for all.
void Engine::Impl::StepShares(std::span<const StepShare> shares) {
  const size_t most = static_cast<size_t>(step_rows());
  std::vector<StepPart> parts;
  size_t answers = 0;
  for (const StepShare& share : shares) {
    Generation& g = *active.at(share.sequence->id);
    const bool is_answer = share.sequence->pending() == 1;
    if (g.finished || (is_answer && ReadsAgain(g))) continue;
    if (is_answer && answers == most) {
      StepTogether(std::exchange(parts, {}));
      answers = 0;
    }
    answers += is_answer ? 1 : 0;
    parts.push_back({&g, share.count, share.count == share.sequence->pending()});
  }
  if (!parts.empty()) StepTogether(parts);
}

/// Parts of prompts and answers in one step.
void Engine::Impl::StepTogether(std::span<const StepPart> parts) {
  if (RunsAhead(parts)) {
    try {
      BeginFlight({parts.begin(), parts.end()}, false);
    } catch (...) {
      return StepEachAlone(parts);
    }
    return StepFlight();
  }
  const Clock::time_point start = Clock::now();
  std::vector<StepItem> items;
  std::vector<Generation*> wanted, readers;
  for (const StepPart& part : parts) {
    items.push_back(ItemOf(part));
    if (part.last) wanted.push_back(part.generation);
    if (part.generation->result.tokens.empty()) readers.push_back(part.generation);
  }
  StepRows rows;
  try {
    rows = Guarded([&] { return Run(items, wanted); });
  } catch (...) {
    return StepEachAlone(parts);
  }
  const double taken = SecondsSince(start);
  for (Generation* g : readers) g->result.timings.prompt_seconds += taken;
  int64_t tokens = 0;
  for (const StepPart& part : parts) tokens += part.count;
  budget.Observe(tokens, taken);
  AcceptRows(parts, rows);
}

/// Within a handler of what a step threw. Whose fault it was shows when each steps alone, which
/// gives the others what they would have had.
void Engine::Impl::StepEachAlone(std::span<const StepPart> parts) {
  if (parts.size() == 1) return Fail(*parts[0].generation);
  for (size_t i = 0; i < parts.size(); ++i) StepTogether(parts.subspan(i, 1));
}

/// Tells each request what the step gave for it.
void Engine::Impl::AcceptRows(std::span<const StepPart> parts, const StepRows& rows) {
  size_t row = 0;
  for (const StepPart& part : parts) {
    Generation* const g = part.generation;
    const size_t at = row;
    row += part.last ? 1 : 0;
    if (g == nullptr || g->finished) continue;  // by a callback of this step, or before it ended
    Attempt(*g, [&] {
      scheduler.Computed(*g->sequence, part.count);
      if (part.last) Accept(*g, rows, at);
    });
  }
}

// ---- Running ahead -----------------------------------------------------------------------------
// The next step begins before the tokens of this one are known here, so that the GPU never waits
// for the host. Who turns out to be finished has a row in one more step, whose result nobody reads.

bool Engine::Impl::RunsAhead(std::span<const StepPart> parts) const {
  // Where a sequence may have to be read again, that shows between two steps.
  if (!runner.can_run_ahead() || model->facts().short_context > 0) return false;
  return std::ranges::all_of(parts, [&](const StepPart& part) {
    return part.count == 1 && part.last && part.generation->picks_argmax();
  });
}

/// The step behind the newest flight, if that is for certain what the scheduler would have it be:
/// nobody could be admitted or needs another kind of step, and there are blocks for it.
std::optional<std::vector<StepPart>> Engine::Impl::NextFlight() const {
  if (scheduler.CouldAdmit()) return {};
  const int64_t begun = static_cast<int64_t>(flights.size());
  std::vector<StepPart> next = flights.back();
  int64_t needed = 0;
  size_t live = 0;
  for (StepPart& part : next) {
    const Generation* const g = part.generation;
    if (g == nullptr) continue;
    const int64_t answered = static_cast<int64_t>(g->result.tokens.size()) + begun;
    if (g->finished || answered >= g->most_tokens) {
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
  flights.push_back(std::move(parts));
  try {
    runner.BeginArgmax(items, continues);
  } catch (...) {
    flights.pop_back();
    throw;
  }
  for (const StepPart& part : flights.back()) {
    if (part.generation != nullptr) ++part.generation->flights;
  }
}

/// Ends the first flight, with the next one under way where there will be one.
void Engine::Impl::StepFlight() {
  std::vector<StepPart> parts = flights.front();
  StepRows rows;
  try {
    if (flights.size() == 1) {
      if (std::optional<std::vector<StepPart>> next = NextFlight()) {
        BeginFlight(std::move(*next), true);
      }
    }
    rows = {{}, runner.EndArgmax()};
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
}

void Engine::Impl::DropFlights() noexcept {
  runner.Drop();
  flights.clear();
  for (const auto& [id, generation] : active) generation->flights = 0;
}

/// Logits come to the host only of rows that need them there.
StepRows Engine::Impl::Run(std::span<const StepItem> items, std::span<Generation* const> rows) {
  if (std::ranges::all_of(rows, &Generation::picks_argmax)) return {{}, runner.StepArgmax(items)};
  if (!runner.draws_on_device() || std::ranges::none_of(rows, &Generation::only_draws)) {
    return {runner.Step(items)};
  }
  StepRows result;
  std::vector<cuda::TokenDraw> draws;
  for (size_t i = 0; i < rows.size(); ++i) {
    draws.push_back(NextDraw(rows[i]->sampler));
    if (!rows[i]->only_draws()) result.with_logits.push_back(static_cast<int32_t>(i));
  }
  result.tokens = runner.StepDrawn(items, draws);
  if (!result.with_logits.empty()) result.logits = runner.DrawnLogits(result.with_logits);
  return result;
}

/// What goes wrong for one request ends that one.
template <typename Body>
void Engine::Impl::Attempt(Generation& g, const Body& body) {
  try {
    Guarded(body);
  } catch (...) {
    Fail(g);
  }
}

/// Within a handler: the request ends with what was thrown.
void Engine::Impl::Fail(Generation& g) {
  g.finished = true;
  g.failure = std::current_exception();
}

/// The tokens that may come next, in `allowed`, which stays empty where all may. False where the
/// answer is complete and none may.
bool Engine::Impl::FindAllowed(Generation& g) {
  allowed.clear();
  const bool forbids_end = g.must_go_on() && !g.request.ignore_end;
  if (!g.constraint && !forbids_end) return true;
  const size_t words = (static_cast<size_t>(runner.vocabulary()) + 31) / 32;
  allowed.assign(words, g.constraint ? 0 : ~uint32_t{0});
  bool may_end = !forbids_end;
  if (g.constraint) {
    g.constraint->Mask(allowed);
    may_end = may_end && g.constraint->done();
  }
  if (!g.request.ignore_end) {
    for (const int32_t token : model->end_tokens()) {
      if (token >= runner.vocabulary()) continue;
      uint32_t& word = allowed[static_cast<size_t>(token) / 32];
      const uint32_t bit = uint32_t{1} << (token % 32);
      word = may_end ? word | bit : word & ~bit;
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

/// Picks the next token and tells whoever waits for it.
void Engine::Impl::Accept(Generation& g, const StepRows& rows, size_t row) {
  const size_t vocabulary = static_cast<size_t>(runner.vocabulary());
  const std::optional<size_t> logits_row = rows.LogitsRow(row);
  if (!FindAllowed(g)) return Finish(g, FinishReason::kStop);
  const SampledToken sampled =
      logits_row
          ? g.sampler.Sample(rows.logits.subspan(*logits_row * vocabulary, vocabulary), allowed)
          : SampleDrawn(g.sampler, rows.tokens[row]);
  if (g.result.tokens.empty()) {
    g.first_token = Clock::now();
    g.result.timings.first_token_seconds = SecondsSince(g.submitted);
  }
  const bool early = g.must_go_on();
  ++counts.generated_tokens;
  g.result.tokens.push_back(sampled.token);
  g.sequence->tokens.push_back(sampled.token);
  if (g.request.sampling.top_logprobs >= 0) {
    g.result.logprobs.push_back(sampled.logprob);
    g.result.top.push_back(sampled.top);
  }
  const bool ended = !g.request.ignore_end && model->IsEnd(sampled.token);
  if (g.constraint && !ended && !g.constraint->Accept(sampled.token)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "the constraint refuses token " + std::to_string(sampled.token) + ", which it allowed");
  }
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
  if (!g.request.on_piece({sampled.token, text, sampled.logprob, sampled.top})) {
    Finish(g, FinishReason::kCancelled);
  }
}

void Engine::Impl::Finish(Generation& g, FinishReason reason) {
  g.finished = true;
  g.result.finish = reason;
  std::string rest;
  if (g.text) rest = g.stops.Add(g.text->Flush());
  rest += g.stops.Finish();
  g.result.text += rest;
  g.result.stop = g.stops.matched();
  if (g.stops.stopped()) g.result.finish = FinishReason::kStop;
  if (!g.result.tokens.empty()) g.result.timings.generate_seconds = SecondsSince(g.first_token);
  const bool is_told = reason != FinishReason::kCancelled && g.request.on_piece;
  if (!rest.empty() && is_told) {
    g.request.on_piece({-1, rest, 0, {}});
  }
}

/// Moves what is finished out of the way.
void Engine::Impl::Collect() {
  std::erase_if(active, [&](auto& entry) {
    Generation& g = *entry.second;
    // A step under way still writes into its blocks.
    if (!g.finished || g.flights > 0) return false;
    g.result.reused_tokens = g.sequence->reused;
    counts.prompt_tokens += static_cast<int64_t>(g.request.prompt.size());
    counts.reused_tokens += g.sequence->reused;
    scheduler.Remove(*g.sequence);
    done.try_emplace(g.id, std::move(g.result), std::move(g.failure));
    return true;
  });
}

void Engine::Impl::Forget(int64_t id) {
  DropFlights();
  const auto found = active.find(id);
  if (found != active.end()) {
    scheduler.Remove(*found->second->sequence);
    active.erase(found);
  }
  done.erase(id);
}

/// Ends what is past its deadline.
void Engine::Impl::EndOverdue() {
  const Clock::time_point now = Clock::now();
  for (const auto& [id, generation] : active) {
    Generation& g = *generation;
    if (g.finished || !g.request.deadline || now < *g.request.deadline) continue;
    Attempt(g, [&] { Finish(g, FinishReason::kDeadline); });
  }
}

EngineStats Engine::Impl::stats() const {
  EngineStats stats = counts;
  const BlockPool& pool = runner.pool();
  stats.waiting = scheduler.waiting();
  stats.waiting_tokens = scheduler.waiting_tokens();
  stats.running = scheduler.running();
  stats.blocks = pool.blocks();
  stats.used_blocks = pool.used_blocks();
  stats.cached_blocks = pool.cached_blocks();
  stats.preemptions = scheduler.preemptions();
  return stats;
}

bool Engine::Impl::Step() {
  ++counts.steps;
  EndOverdue();
  Collect();  // what was cancelled since the last step
  if (!flights.empty()) {
    StepFlight();  // what is under way comes first; nothing was decided since it began
  } else {
    if (mixes_steps()) scheduler.set_step_tokens(budget.Tokens(scheduler.answering() > 0));
    StepShares(scheduler.Next());
  }
  Collect();
  return !active.empty();
}

Engine::Engine(std::shared_ptr<const LanguageModel> model, const EngineOptions& options) {
  Guarded([&] {
    if (!model) throw Error(ErrorCode::kInvalidArgument, "an Engine needs a model");
    if (options.cache_tokens < 0 || options.cache_tokens > kMostCacheTokens ||
        options.prompt_chunk < 1 || options.step_tokens < 1) {
      throw Error(ErrorCode::kInvalidArgument,
                  "cache_tokens is from 0 to 2^40, prompt_chunk and step_tokens are at least 1");
    }
    const int64_t tokens = CacheTokens(*model, options);
    impl_ = std::make_unique<Impl>(std::move(model), options, tokens);
  });
}

Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

int64_t Engine::Submit(GenerateRequest request) {
  return Guarded([&] { return impl_->Submit(std::move(request)); });
}

bool Engine::Step() {
  return Guarded([&] { return impl_->Step(); });
}

std::optional<GenerateResult> Engine::Take(int64_t request) {
  const auto found = impl_->done.find(request);
  if (found == impl_->done.end()) return {};
  FinishedGeneration finished = std::move(found->second);
  impl_->done.erase(found);
  if (finished.failure) Guarded([&] { std::rethrow_exception(finished.failure); });
  return std::move(finished.result);
}

void Engine::Cancel(int64_t request) {
  const auto found = impl_->active.find(request);
  if (found == impl_->active.end() || found->second->finished) return;
  impl_->Finish(*found->second, FinishReason::kCancelled);
}

GenerateResult Engine::Generate(GenerateRequest request) {
  const int64_t id = Submit(std::move(request));
  try {
    while (true) {
      Step();
      if (std::optional<GenerateResult> result = Take(id)) return std::move(*result);
    }
  } catch (...) {
    impl_->Forget(id);
    throw;
  }
}

const LanguageModel& Engine::model() const { return *impl_->model; }
int64_t Engine::cache_tokens() const { return impl_->cache_tokens; }
int Engine::threads() const { return impl_->runner.threads(); }
EngineStats Engine::stats() const { return impl_->stats(); }

}  // namespace oort
