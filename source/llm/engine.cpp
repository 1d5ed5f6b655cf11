// SPDX-License-Identifier: MIT
#include "oort/engine.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <utility>

#include "core/guard.h"
#include "llm/check_request.h"
#include "llm/generation.h"
#include "llm/memory_needs.h"
#include "llm/sampling/without_logits.h"

namespace oort {
namespace {

constexpr int64_t kMostCacheTokens = int64_t{1} << 40;
using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

size_t CommonPrefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  const auto ends = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(ends.first - a.begin());
}

}  // namespace

std::string_view Name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
  }
  return "stop";
}

/// What a step gives for each of its rows: logits, or the tokens that sampling makes of them.
struct StepRows {
  std::span<const float> logits;
  std::span<const int32_t> tokens;
};

struct Engine::Impl {
  std::shared_ptr<const LanguageModel> model;
  EngineOptions options;
  int64_t cache_tokens;
  DecoderRunner runner;
  std::deque<std::unique_ptr<Generation>> waiting;
  std::vector<std::unique_ptr<Generation>> running;
  std::map<int64_t, FinishedGeneration> done;
  std::deque<KeptSequence> kept;   ///< the last used at the end
  std::vector<Generation*> ahead;  ///< whose steps the runner has under way
  int64_t next_id = 0;
  bool prompt_turn = true;  ///< prompts and answers take turns

  Impl(std::shared_ptr<const LanguageModel> shared, const EngineOptions& given, int64_t tokens)
      : model(std::move(shared)),
        options(given),
        cache_tokens(tokens),
        runner(model, options.kv.value_or(model->default_kv()), tokens, options.threads) {}
  ~Impl() { runner.Drop(); }  // while the sequences are there

  /// Blocks that the running requests hold by now.
  int64_t running_blocks() const {
    size_t blocks = 0;
    for (const auto& generation : running) blocks += generation->sequence.blocks.size();
    return static_cast<int64_t>(blocks);
  }
  int64_t Submit(GenerateRequest request);
  bool Step();
  void Admit();
  bool StepPrompt();
  bool IsLong(const Generation& generation) const {
    const int64_t most = model->facts().short_context;
    return most > 0 && generation.known_length() > most;
  }
  bool ReadsAgain(Generation& generation);
  void StepAnswers();
  void StepTogether(std::span<Generation* const> ready);
  template <typename Body>
  void Attempt(Generation& generation, const Body& body);
  void Fail(Generation& generation);
  StepRows Run(std::span<const StepItem> items, std::span<const Sampler* const> samplers);
  bool WillGoOn(std::span<Generation* const> ready) const;
  StepRows RunAhead(std::span<Generation* const> ready, std::span<const StepItem> items);
  void Accept(Generation& generation, const StepRows& rows, size_t row);
  void Emit(Generation& generation, const SampledToken& sampled, const std::string& text);
  void Finish(Generation& generation, FinishReason reason);
  void Collect();
  void Keep(Generation& generation);
  void TakePrefix(Generation& generation);
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
  waiting.push_back(std::move(generation));
  return next_id++;
}

/// What the cache holds of a finished request: all its tokens but the last, which was never read.
void Engine::Impl::Keep(Generation& g) {
  std::vector<int32_t> tokens = g.request.prompt;
  tokens.insert(tokens.end(), g.result.tokens.begin(), g.result.tokens.end());
  tokens.resize(static_cast<size_t>(g.sequence.length));
  KeptSequence& keep = kept.emplace_back();  // from here on nothing can throw and lose blocks
  keep.is_long = IsLong(g);
  keep.tokens = std::move(tokens);
  keep.sequence = std::exchange(g.sequence, {});
}

/// Begins with the blocks of the kept sequence that has most of the prompt in common. The last
/// token of a prompt is always read: its logits are wanted.
void Engine::Impl::TakePrefix(Generation& g) {
  size_t most = 0;
  const KeptSequence* best = nullptr;
  const std::span<const int32_t> prompt =
      std::span<const int32_t>(g.request.prompt).first(g.request.prompt.size() - 1);
  for (const KeptSequence& keep : kept) {
    const size_t common = CommonPrefix(keep.tokens, prompt);
    if (common <= most || keep.is_long != IsLong(g)) continue;
    most = common;
    best = &keep;
  }
  const size_t blocks = most / static_cast<size_t>(KvCache::kBlockTokens);
  g.sequence.blocks.reserve(blocks);
  for (size_t i = 0; i < blocks; ++i) {
    runner.Share(best->sequence.blocks[i]);
    g.sequence.blocks.push_back(best->sequence.blocks[i]);
  }
  g.sequence.length = static_cast<int64_t>(blocks) * KvCache::kBlockTokens;
  g.prompt_done = g.sequence.length;
}

/// Requests come in the order of their numbers, each when there is room for all of it: then none
/// has to be stopped for want of memory.
void Engine::Impl::Admit() {
  int64_t reserved = 0;
  for (const auto& generation : running) {
    reserved += KvCache::BlocksFor(generation->most_length());
  }
  while (!waiting.empty()) {
    Generation& next = *waiting.front();
    if (next.finished || next.most_tokens == 0) {
      if (!next.finished) Finish(next, FinishReason::kLength);
      running.push_back(std::move(waiting.front()));
      waiting.pop_front();
      continue;
    }
    const int64_t needed = KvCache::BlocksFor(std::min(next.most_length(), cache_tokens));
    if (reserved + needed > runner.cache().blocks()) return;
    reserved += needed;
    if (options.reuse_prefixes) TakePrefix(next);
    while (!kept.empty() && runner.cache().free_blocks() + running_blocks() < reserved) {
      runner.Release(kept.front().sequence);
      kept.pop_front();
    }
    running.push_back(std::move(waiting.front()));
    waiting.pop_front();
  }
}

/// A part of the first prompt that is not read yet, alone: how the rows of a step are multiplied
/// depends on their number, and must not depend on who else is there.
bool Engine::Impl::StepPrompt() {
  for (const auto& generation : running) {
    Generation& g = *generation;
    if (g.finished || g.prompt_left() == 0) continue;
    const Clock::time_point start = Clock::now();
    const int64_t count = std::min(g.prompt_left(), options.prompt_chunk);
    const bool last = count == g.prompt_left();
    const StepItem item{
        &g.sequence,
        std::span<const int32_t>(g.prompt())
            .subspan(static_cast<size_t>(g.prompt_done), static_cast<size_t>(count)),
        last ? StepItem::kLast : StepItem::kNone, g.known_length()};
    const Sampler* const sampler = &g.sampler;
    Attempt(g, [&] {
      const StepRows rows = Run({&item, 1}, {&sampler, last ? size_t{1} : 0});
      g.prompt_done += count;
      if (last) Accept(g, rows, 0);
    });
    if (g.again.empty()) g.result.timings.prompt_seconds += SecondsSince(start);
    return true;
  }
  return false;
}

/// What the cache holds of a sequence that outgrows the model's short context turned by other
/// angles than what follows: all of it is read once more, as it would be without a cache.
bool Engine::Impl::ReadsAgain(Generation& g) {
  const int64_t most = model->facts().short_context;
  if (most == 0 || g.sequence.length != most) return false;
  g.again = g.request.prompt;
  g.again.insert(g.again.end(), g.result.tokens.begin(), g.result.tokens.end());
  g.prompt_done = 0;
  runner.Release(g.sequence);
  return true;
}

void Engine::Impl::StepAnswers() {
  std::vector<Generation*> ready;
  for (const auto& generation : running) {
    Generation& g = *generation;
    if (!g.finished && g.prompt_left() == 0 && !ReadsAgain(g)) ready.push_back(&g);
  }
  if (!std::ranges::equal(ready, ahead)) runner.Drop();
  const size_t most = static_cast<size_t>(model->facts().decode_rows);
  for (size_t begin = 0; begin < ready.size(); begin += most) {
    StepTogether(std::span(ready).subspan(begin, std::min(most, ready.size() - begin)));
  }
}

void Engine::Impl::StepTogether(std::span<Generation* const> ready) {
  std::vector<StepItem> items;
  std::vector<const Sampler*> samplers;
  for (Generation* g : ready) {
    items.push_back({&g->sequence, {&g->result.tokens.back(), 1}, StepItem::kLast});
    samplers.push_back(&g->sampler);
  }
  StepRows rows;
  try {
    const bool likeliest = std::ranges::all_of(
        samplers, [](const Sampler* sampler) { return PicksArgmax(sampler->options()); });
    // Where a sequence may have to be read again, that shows between two steps.
    const bool ahead_of_host = runner.can_run_ahead() && model->facts().short_context == 0;
    rows = likeliest && ahead_of_host ? RunAhead(ready, items) : Run(items, samplers);
  } catch (...) {
    runner.Drop();
    if (ready.size() == 1) return Fail(*ready[0]);
    // Who it was shows when each steps alone, which gives the others what they would have had.
    for (size_t i = 0; i < ready.size(); ++i) StepTogether(ready.subspan(i, 1));
    return;
  }
  for (size_t i = 0; i < ready.size(); ++i) {
    if (ready[i]->finished) continue;  // cancelled by a callback of this step
    Attempt(*ready[i], [&] { Accept(*ready[i], rows, i); });
  }
  // The next step, if it is under way, was for all of them.
  if (std::ranges::any_of(ready, [](const Generation* g) { return g->finished; })) runner.Drop();
}

/// Whether these will take another step behind the next one, if none of them finds an end.
bool Engine::Impl::WillGoOn(std::span<Generation* const> ready) const {
  const auto wants_more = [](const Generation* g) {
    return static_cast<int64_t>(g->result.tokens.size()) + 1 < g->most_tokens;
  };
  return waiting.empty() && ready.size() == running.size() &&
         std::ranges::all_of(ready, wants_more);
}

/// The next step begins before the tokens of this one are known here: so the GPU never waits for
/// the host.
StepRows Engine::Impl::RunAhead(std::span<Generation* const> ready,
                                std::span<const StepItem> items) {
  ahead.assign(ready.begin(), ready.end());
  if (runner.steps_under_way() == 0) runner.BeginArgmax(items, false);
  if (WillGoOn(ready)) runner.BeginArgmax(items, true);
  return {{}, runner.EndArgmax()};
}

/// Logits come to the host only where somebody needs them there.
StepRows Engine::Impl::Run(std::span<const StepItem> items,
                           std::span<const Sampler* const> samplers) {
  const auto all = [&](const auto& test) {
    return std::ranges::all_of(samplers, [&](const Sampler* s) { return test(s->options()); });
  };
  if (all(PicksArgmax)) return {{}, runner.StepArgmax(items)};
  if (!runner.draws_on_device() || !all(OnlyDraws)) return {runner.Step(items), {}};
  std::vector<cuda::TokenDraw> draws;
  for (const Sampler* sampler : samplers) draws.push_back(NextDraw(*sampler));
  return {{}, runner.StepDrawn(items, draws)};
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

/// Picks the next token and tells whoever waits for it.
void Engine::Impl::Accept(Generation& g, const StepRows& rows, size_t row) {
  const size_t vocabulary = static_cast<size_t>(runner.vocabulary());
  const SampledToken sampled =
      rows.logits.empty() ? SampleDrawn(g.sampler, rows.tokens[row])
                          : g.sampler.Sample(rows.logits.subspan(row * vocabulary, vocabulary));
  if (g.result.tokens.empty()) {
    g.first_token = Clock::now();
    g.result.timings.first_token_seconds = SecondsSince(g.submitted);
  }
  g.result.tokens.push_back(sampled.token);
  if (g.request.sampling.top_logprobs >= 0) {
    g.result.logprobs.push_back(sampled.logprob);
    g.result.top.push_back(sampled.top);
  }
  const bool ended = !g.request.ignore_end && model->IsEnd(sampled.token);
  const std::string text =
      g.text && !ended ? g.stops.Add(g.text->Push(sampled.token)) : std::string();
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
  if (!rest.empty() && reason != FinishReason::kCancelled && g.request.on_piece) {
    g.request.on_piece({-1, rest, 0, {}});
  }
}

/// Moves what is finished out of the way.
void Engine::Impl::Collect() {
  const auto collect = [&](const std::unique_ptr<Generation>& generation) {
    Generation& g = *generation;
    if (!g.finished) return;
    if (options.reuse_prefixes && g.sequence.length > 0 && !g.failure) Keep(g);
    runner.Release(g.sequence);
    done.try_emplace(g.id, std::move(g.result), std::move(g.failure));
  };
  const auto finished = [](const std::unique_ptr<Generation>& g) { return g->finished; };
  std::for_each(running.begin(), running.end(), collect);
  std::erase_if(running, finished);
  std::for_each(waiting.begin(), waiting.end(), collect);  // those may be cancelled, too
  std::erase_if(waiting, finished);
}

void Engine::Impl::Forget(int64_t id) {
  runner.Drop();
  const auto mine = [&](const std::unique_ptr<Generation>& g) { return g->id == id; };
  for (const auto& generation : running) {
    if (mine(generation)) runner.Release(generation->sequence);
  }
  std::erase_if(running, mine);
  std::erase_if(waiting, mine);
  done.erase(id);
}

bool Engine::Impl::Step() {
  Admit();
  // What is under way comes first.
  if (runner.steps_under_way() == 0 && prompt_turn && StepPrompt()) {
    prompt_turn = false;
  } else {
    StepAnswers();
    prompt_turn = true;
  }
  Collect();
  return !running.empty() || !waiting.empty();
}

Engine::Engine(std::shared_ptr<const LanguageModel> model, const EngineOptions& options) {
  Guarded([&] {
    if (!model) throw Error(ErrorCode::kInvalidArgument, "an Engine needs a model");
    if (options.cache_tokens < 0 || options.cache_tokens > kMostCacheTokens ||
        options.prompt_chunk < 1) {
      throw Error(ErrorCode::kInvalidArgument,
                  "cache_tokens is from 0 to 2^40 and prompt_chunk at least 1");
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
  const auto cancel = [&](auto& generations) {
    for (auto& generation : generations) {
      if (generation->id == request && !generation->finished) {
        impl_->Finish(*generation, FinishReason::kCancelled);
      }
    }
  };
  cancel(impl_->waiting);
  cancel(impl_->running);
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

}  // namespace oort
