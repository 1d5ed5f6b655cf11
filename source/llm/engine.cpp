// SPDX-License-Identifier: MIT
#include "oort/engine.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <utility>

#include "core/guard.h"
#include "llm/generation.h"

namespace oort {
namespace {

constexpr int64_t kDefaultCacheTokens = 8192;
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

struct Engine::Impl {
  std::shared_ptr<const LanguageModel> model;
  EngineOptions options;
  DecoderRunner runner;
  std::deque<std::unique_ptr<Generation>> waiting;
  std::vector<std::unique_ptr<Generation>> running;
  std::map<int64_t, GenerateResult> done;
  std::deque<KeptSequence> kept;  ///< the last used at the end
  int64_t next_id = 0;
  bool prompt_turn = true;  ///< prompts and answers take turns

  Impl(std::shared_ptr<const LanguageModel> shared, const EngineOptions& given, int64_t tokens)
      : model(std::move(shared)),
        options(given),
        runner(model, options.kv, tokens, options.threads) {}

  int64_t cache_tokens() const { return runner.cache().blocks() * KvCache::kBlockTokens; }
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
  void StepAnswers();
  void Accept(Generation& generation, std::span<const float> logits);
  void Emit(Generation& generation, const SampledToken& sampled, const std::string& text);
  void Finish(Generation& generation, FinishReason reason);
  void Collect();
  void Keep(Generation& generation);
  void TakePrefix(Generation& generation);
  /// After an error: nothing of what was running is left.
  void Drop();
};

int64_t Engine::Impl::Submit(GenerateRequest request) {
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t room = std::min(cache_tokens(), model->info().context) - prompt;
  if (prompt == 0) throw Error(ErrorCode::kInvalidArgument, "a prompt has at least one token");
  if (room < 0) {
    throw Error(ErrorCode::kLimit, "the prompt has " + std::to_string(prompt) +
                                       " tokens; the model's context and the cache have room for " +
                                       std::to_string(room + prompt));
  }
  for (int32_t token : request.prompt) {
    if (token >= 0 && token < model->info().vocabulary) continue;
    throw Error(ErrorCode::kInvalidArgument, "token " + std::to_string(token) +
                                                 " is not among the model's " +
                                                 std::to_string(model->info().vocabulary));
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
  KeptSequence keep;
  keep.tokens = g.request.prompt;
  keep.tokens.insert(keep.tokens.end(), g.result.tokens.begin(), g.result.tokens.end());
  keep.tokens.resize(static_cast<size_t>(g.sequence.length));
  keep.sequence = std::exchange(g.sequence, {});
  kept.push_back(std::move(keep));
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
    if (common <= most) continue;
    most = common;
    best = &keep;
  }
  const size_t blocks = most / static_cast<size_t>(KvCache::kBlockTokens);
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
    const int64_t needed = KvCache::BlocksFor(std::min(next.most_length(), cache_tokens()));
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
        std::span<const int32_t>(g.request.prompt)
            .subspan(static_cast<size_t>(g.prompt_done), static_cast<size_t>(count)),
        last ? StepItem::kLast : StepItem::kNone};
    const std::span<const float> logits = runner.Step({&item, 1});
    g.prompt_done += count;
    if (last) Accept(g, logits);
    g.result.timings.prompt_seconds += SecondsSince(start);
    return true;
  }
  return false;
}

void Engine::Impl::StepAnswers() {
  std::vector<Generation*> ready;
  for (const auto& generation : running) {
    if (!generation->finished && generation->prompt_left() == 0) ready.push_back(generation.get());
  }
  const size_t most = static_cast<size_t>(DecoderRunner::MostDecodeRows());
  for (size_t begin = 0; begin < ready.size(); begin += most) {
    const size_t end = std::min(begin + most, ready.size());
    std::vector<StepItem> items;
    for (size_t i = begin; i < end; ++i) {
      const std::vector<int32_t>& tokens = ready[i]->result.tokens;
      items.push_back({&ready[i]->sequence, {&tokens.back(), 1}, StepItem::kLast});
    }
    const std::span<const float> logits = runner.Step(items);
    const size_t vocabulary = static_cast<size_t>(runner.vocabulary());
    for (size_t i = begin; i < end; ++i) {
      Accept(*ready[i], logits.subspan((i - begin) * vocabulary, vocabulary));
    }
  }
}

/// Picks the next token and tells whoever waits for it.
void Engine::Impl::Accept(Generation& g, std::span<const float> logits) {
  const SampledToken sampled = g.sampler.Sample(logits);
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
  for (auto& generation : running) {
    if (!generation->finished) continue;
    if (options.reuse_prefixes && generation->sequence.length > 0) Keep(*generation);
    runner.Release(generation->sequence);
    done.emplace(generation->id, std::move(generation->result));
    generation.reset();
  }
  std::erase(running, nullptr);
}

void Engine::Impl::Drop() {
  for (auto& generation : running) runner.Release(generation->sequence);
  for (KeptSequence& keep : kept) runner.Release(keep.sequence);
  running.clear();
  kept.clear();
}

bool Engine::Impl::Step() {
  Admit();
  try {
    const bool read = prompt_turn && StepPrompt();
    if (!read) {
      StepAnswers();
      if (!prompt_turn) prompt_turn = true;
    } else {
      prompt_turn = false;
    }
  } catch (...) {
    Drop();
    throw;
  }
  Collect();
  return !running.empty() || !waiting.empty();
}

Engine::Engine(std::shared_ptr<const LanguageModel> model, const EngineOptions& options) {
  Guarded([&] {
    if (!model) throw Error(ErrorCode::kInvalidArgument, "an Engine needs a model");
    if (options.cache_tokens < 0 || options.prompt_chunk < 1) {
      throw Error(ErrorCode::kInvalidArgument,
                  "cache_tokens is at least 0 and prompt_chunk at least 1");
    }
    const int64_t tokens = options.cache_tokens > 0
                               ? options.cache_tokens
                               : std::min(model->info().context, kDefaultCacheTokens);
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
  GenerateResult result = std::move(found->second);
  impl_->done.erase(found);
  return result;
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
  while (true) {
    Step();
    if (std::optional<GenerateResult> result = Take(id)) return std::move(*result);
  }
}

const LanguageModel& Engine::model() const { return *impl_->model; }
int64_t Engine::cache_tokens() const { return impl_->cache_tokens(); }
int Engine::threads() const { return impl_->runner.threads(); }

}  // namespace oort
