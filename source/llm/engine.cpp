// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "core/problems.h"
#include "llm/check_request.h"
#include "llm/engine_impl.h"
#include "llm/memory_needs.h"
#include "llm/text_reader.h"
#include "llm/vision_tower.h"

namespace oort {
namespace {

constexpr int64_t kMostCacheTokens = int64_t{1} << 40;
constexpr int64_t kReportRows = 64;  // of a prompt, whose logits are in memory at a time
/// Where prefixes of this request are shared: not with callers of another salt, nor with sequences
/// whose keys were made with another adapter or turned by other angles.
uint64_t NameSpace(const GenerateRequest& request, bool is_long) {
  const std::string name = request.adapter + '\0' + request.cache_salt;
  return 2 * std::hash<std::string>()(name) + (is_long ? 1 : 0);
}

PicturePlaces PlacesOf(const LanguageModel& model, const GenerateRequest& request) {
  const PictureFormat* const format = model.picture_format();
  if (format == nullptr) throw NoPictures(model);
  return {request.pictures, request.prompt, format->token, model.info().hidden};
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

std::unique_ptr<Sequence> Engine::Impl::MakeSequence(const Generation& g,
                                                     const Sequence* parent) const {
  auto sequence = std::make_unique<Sequence>();
  const std::span<const int32_t> beginning = g.group->beginning();
  const int64_t prompt = std::ssize(beginning);
  sequence->id = g.id;
  sequence->priority = g.request.priority;
  sequence->caller = g.request.caller;
  sequence->name_space = parent ? parent->name_space : NameSpace(g.request, IsLong(prompt));
  sequence->cached.adapter = model->FindAdapter(g.request.adapter);
  const auto& pictures = g.group->pictures;
  sequence->cached.pictures = pictures ? &*pictures : nullptr;
  sequence->tokens = parent     ? parent->tokens
                     : pictures ? pictures->Marked(g.request.prompt)
                                : std::vector<int32_t>(beginning.begin(), beginning.end());
  sequence->cached.text = g.group->encoded.get();
  sequence->most_length = prompt + std::max<int64_t>(g.most_tokens, 1) - 1;
  // Whoever wants to know of the prompt's tokens has to read all of them.
  // The tokens of an encoder-decoder are not all that its answer depends on.
  // A state stands for all tokens so far, and not for the first of them.
  sequence->shares_prefix =
      g.request.prompt_logprobs < 0 && !g.group->start_token && model->info().state_bytes == 0;
  if (g.group->search) sequence->group = g.group->id + 1;
  return sequence;
}

Generation& Engine::Impl::AddGeneration(std::unique_ptr<Generation> generation) {
  if (model->has_tokenizer()) {
    const DecodeOptions decode{.skip_special = !generation->request.special_text};
    generation->text.emplace(model->tokenizer(), decode);
  }
  generation->odds = odds;
  const int64_t id = generation->id;
  Generation& added = *active.try_emplace(id, std::move(generation)).first->second;
  earliest = std::min(earliest, added.request.deadline.value_or(Clock::time_point::max()));
  some_search = some_search || added.group->search;
  next_id = id + 1;
  return added;
}

int64_t Engine::Impl::Submit(GenerateRequest request) {
  CheckRequest(request, model->info().vocabulary);
  if (!request.adapter.empty() && model->FindAdapter(request.adapter) < 0) {
    throw Error(ErrorCode::kInvalidArgument, "the model has no adapter " + Quote(request.adapter));
  }
  if (model->info().encodes_prompts) {
    if (request.prompt_logprobs >= 0) throw NotOfEncoderDecoders("what a prompt's tokens had");
    model->CheckPrompt(request.prompt);
  }
  const bool encodes = model->info().encodes_prompts;
  const int64_t prompt = encodes ? 1 : std::ssize(request.prompt);
  const int64_t room = std::min(cache_tokens, model->info().context) - prompt;
  if (room < 0) {
    throw Error(ErrorCode::kLimit, "the prompt has " + std::to_string(prompt) +
                                       " tokens; the model's context and the cache have room for " +
                                       std::to_string(room + prompt));
  }
  // The last token of an answer is never read again: it needs no room.
  int64_t most = room + 1;
  const int64_t wanted = request.max_tokens;
  const int64_t width = request.beams.width;
  if (width > 0) {
    // Beams that have nothing in common but the prompt must fit together.
    const int64_t each = runner.pool().blocks() / width * KvCache::kBlockTokens;
    most = std::min(most, each - prompt + 1);
    if (width > options.most_running || most < std::max<int64_t>(wanted, 1)) {
      throw Error(ErrorCode::kLimit, "the engine has no room for " + std::to_string(width) +
                                         " beams of " +
                                         std::to_string(prompt + std::max<int64_t>(wanted, 1)) +
                                         " tokens: a larger cache makes room");
    }
  }
  const auto group = std::make_shared<AnswerGroup>(next_id, std::move(request));
  group->start_token = model->facts().start_token;
  group->first_token = model->facts().first_token;
  if (!group->request.pictures.empty()) group->pictures = PlacesOf(*model, group->request);
  group->most_tokens = wanted < 0 ? most : std::min(wanted, most);
  if (width > 0) {
    const std::span<const int32_t> ends = model->end_tokens();
    group->search.emplace(group->request.beams, group->most_tokens,
                          group->request.ignore_end
                              ? std::vector<int32_t>()
                              : std::vector<int32_t>(ends.begin(), ends.end()),
                          group->request.sampling.top_logprobs);
  }
  Generation& added = AddGeneration(std::make_unique<Generation>(next_id, group, 0));
  try {
    std::unique_ptr<Sequence> sequence = MakeSequence(added);
    sequence->forks = group->made() - 1;
    added.sequence = &scheduler.Add(std::move(sequence));
    if (width > 0) group->beams = {&added};
  } catch (...) {
    if (added.sequence != nullptr) scheduler.Remove(*added.sequence);
    active.erase(group->id);
    throw;
  }
  const bool reads = group->request.prompt_logprobs >= 0 && prompt > 1;
  if (added.most_tokens == 0 && !reads) Finish(added, FinishReason::kLength);
  return group->id;
}

/// Log-probabilities of tokens of the prompt, from the logits of those before them.
void Engine::Impl::ReportPrompt(Generation& g, std::span<const float> logits) {
  GenerateResult& result = g.group->result;
  const std::vector<int32_t>& prompt = g.request.prompt;
  const size_t vocabulary = static_cast<size_t>(runner.vocabulary());
  size_t place = static_cast<size_t>(g.sequence->computed) + 1;  // that the first row predicts
  for (; !logits.empty(); logits = logits.subspan(vocabulary), ++place) {
    // What was read before, by a sequence that had to be read again, is known.
    if (place >= prompt.size() || place != result.prompt_logprobs.size() + 1) continue;
    SampledToken known =
        LogprobOf(logits.first(vocabulary), prompt[place], g.request.prompt_logprobs);
    result.prompt_logprobs.push_back(known.logprob);
    result.prompt_top.push_back(std::move(known.top));
    const bool all = place + 1 == prompt.size();
    if (all && g.request.on_prompt) g.request.on_prompt(result.prompt_logprobs, result.prompt_top);
  }
}

/// A part of a prompt whose log-probabilities are wanted, alone: few rows, since the logits of all
/// of them come to the host.
void Engine::Impl::StepReporting(Generation& g, int64_t count) {
  const Clock::time_point start = Clock::now();
  count = std::min(count, kReportRows);
  const bool last = count == g.sequence->pending();
  StepItem item = ItemOf({&g, count, last});
  item.logits = StepItem::kAll;
  Attempt(g, [&] {
    StepRows rows;
    rows.logits = runner.Step({&item, 1});
    rows.hidden = runner.hidden();
    ReportPrompt(g, rows.logits);
    Computed(g, count);
    if (last) Accept(g, rows, static_cast<size_t>(count - 1));
  });
  g.result.timings.prompt_seconds += SecondsSince(start);
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

/// The prompt of an encoder-decoder is read before the first step of its answers. False where that
/// went wrong.
bool Engine::Impl::ReadsText(Generation& g) {
  if (!g.group->encoded) {
    const Clock::time_point start = Clock::now();
    Attempt(g, [&] { g.group->encoded = model->EncodePrompt(g.request.prompt); });
    g.result.timings.prompt_seconds += SecondsSince(start);
  }
  g.sequence->cached.text = g.group->encoded.get();
  return g.group->encoded != nullptr;
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
    g.Start(Clock::now());
    if (g.group->start_token && !ReadsText(g)) continue;
    if (!is_answer && g.request.prompt_logprobs >= 0 && g.result.tokens.empty()) {
      StepReporting(g, share.count);
      continue;
    }
    if (is_answer && answers == most) {
      AddGuesses(parts);
      StepTogether(std::exchange(parts, {}));
      answers = 0;
    }
    answers += is_answer ? 1 : 0;
    parts.push_back({&g, share.count, share.count == share.sequence->pending()});
  }
  if (!parts.empty()) {
    AddGuesses(parts);
    StepTogether(parts);
  }
  budget.EndTurn();
}

/// Parts of prompts and answers in one step.
void Engine::Impl::StepTogether(std::span<const StepPart> parts) {
  if (RunsAhead(parts)) {
    try {
      BeginFlight({parts.begin(), parts.end()}, false);
    } catch (...) {
      DropFlights();
      return StepEachAlone(parts);
    }
    return StepFlight();
  }
  const Clock::time_point start = Clock::now();
  std::vector<StepItem> items;
  std::vector<Generation*> wanted, readers;
  for (const StepPart& part : parts) {
    items.push_back(ItemOf(part));
    wanted.insert(wanted.end(), static_cast<size_t>(part.rows()), part.generation);
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
  int64_t tokens = 0, guesses = 0;
  for (const StepPart& part : parts) {
    tokens += part.count;
    guesses += part.guesses;
  }
  const bool answers_only = readers.empty() && tokens == static_cast<int64_t>(wanted.size());
  if (answers_only && !mixes_steps()) {
    budget.ObserveAnswers(taken + round_seconds);
  } else {
    budget.ObservePrompts(tokens, taken);
  }
  const int64_t accepted = counts.draft.accepted;
  AcceptRows(parts, rows);
  if (!answers_only) return;
  const bool checks = drafter && guesses > 0;
  if (drafter) {
    ObserveGuesses(taken, std::ssize(parts), checks ? counts.draft.accepted - accepted : -1);
  }
  costs.Observe(tokens, taken);
}

/// A step that threw may have left some layers of a sequence further than others, where nothing can
/// be taken back: what was known before is read again.
void Engine::Impl::MendState(Generation& g) {
  Sequence& sequence = *g.sequence;
  if (!sequence.cached.state || !sequence.cached.state->torn) return;
  sequence.cached.length = 0;
  sequence.cached.blocks.Clear();  // other answers may read what is in them
  const std::span<const int32_t> tokens = sequence.tokens;
  for (int64_t at = 0; at < sequence.computed; at = sequence.cached.length) {
    const int64_t count = std::min(options.prompt_chunk, sequence.computed - at);
    const StepItem item{&sequence.cached,
                        tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(count)),
                        StepItem::kNone, sequence.length()};
    runner.Step({&item, 1});
  }
}

/// Within a handler of what a step threw. Whose fault it was shows when each steps alone, which
/// gives the others what they would have had.
void Engine::Impl::StepEachAlone(std::span<const StepPart> parts) {
  if (parts.size() == 1) return Fail(*parts[0].generation);
  for (size_t i = 0; i < parts.size(); ++i) {
    Generation& g = *parts[i].generation;
    Attempt(g, [&] { MendState(g); });
    if (!g.finished) StepTogether(parts.subspan(i, 1));
  }
}

/// The cache has the next tokens of a sequence: a part of a prompt, or an answer's last token.
void Engine::Impl::Computed(Generation& g, int64_t count) {
  scheduler.Computed(*g.sequence, count);
  if (count > 1 || g.result.tokens.empty()) read_tokens += count;
}

/// Tells each request what the step gave for it.
void Engine::Impl::AcceptRows(std::span<const StepPart> parts, const StepRows& rows) {
  size_t row = 0;
  for (const StepPart& part : parts) {
    Generation* const g = part.generation;
    const size_t at = row;
    row += static_cast<size_t>(part.rows());
    if (g == nullptr || g->finished) continue;  // by a callback of this step, or before it ended
    Attempt(*g, [&] {
      const size_t answered = g->result.tokens.size();
      if (part.guesses > 0) {
        AcceptGuesses(*g, part.guesses, rows, at);
      } else {
        Computed(*g, part.count);
        if (part.last) Accept(*g, rows, at);
      }
      if (!g->guesses.empty()) LearnFromGuesses(*g, answered);
    });
  }
}

EngineStats Engine::Impl::stats() const {
  EngineStats stats = counts;
  const BlockPool& pool = runner.pool();
  stats.waiting = scheduler.waiting();
  stats.waiting_tokens = scheduler.waiting_tokens();
  stats.swapped = saver.sequences();
  stats.running = scheduler.running();
  stats.blocks = pool.blocks();
  stats.used_blocks = pool.used_blocks();
  stats.used_tokens = scheduler.used_tokens();
  stats.cached_blocks = pool.cached_blocks();
  stats.preemptions = scheduler.preemptions();
  return stats;
}

bool Engine::Impl::Step() {
  ++counts.steps;
  const int64_t before = read_tokens + counts.generated_tokens;
  EndOverdue();
  Collect();  // what was cancelled since the last step
  if (!flights.empty()) {
    StepFlight();  // what is under way comes first; nothing was decided since it began
  } else {
    scheduler.set_step_tokens(budget.Tokens(!options.deterministic && scheduler.answering() > 0));
    StepShares(scheduler.Next());
  }
  AdvanceBeams();
  Collect();
  const int64_t tokens = read_tokens + counts.generated_tokens - before;
  if (tokens > 0) counts.step_sizes.Add(tokens);
  if (checks_steps) scheduler.Check();
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
    const double seconds = options.step_seconds.value_or(0);
    if (!std::isfinite(seconds) || seconds < 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "step_seconds is a number of seconds, 0 for no limit, or unset");
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
  for (const auto& [id, generation] : impl_->active) {
    const bool is_of_it = generation->group->id == request && !generation->finished;
    if (!is_of_it) continue;
    // Without memory for the end of its text it ends all the same.
    impl_->Attempt(*generation,
                   [&, g = generation.get()] { impl_->Finish(*g, FinishReason::kCancelled); });
  }
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
