// SPDX-License-Identifier: MIT
// What is behind an Engine: engine.cpp has its steps, engine_answers.cpp what answers make of them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/guard.h"
#include "llm/decoder_runner.h"
#include "llm/generation.h"
#include "llm/memory_needs.h"
#include "llm/speculation/guess_planner.h"
#include "llm/state_models.h"
#include "llm/step_budget.h"
#include "llm/swap_space.h"
#include "oort/engine.h"

namespace oort {

/// What a step gives for each of its rows: logits, or the tokens that sampling makes of them.
struct StepRows {
  std::span<const float> logits{};
  std::span<const int32_t> tokens{};
  /// Where tokens has some: the rows that logits has, whose tokens do not count.
  std::vector<int32_t> with_logits{};
  /// Of rows whose tokens were drawn, in order.
  std::span<const cuda::DrawReport> reports{};
  /// Of all rows what draft heads read; empty where the model has none.
  std::span<const float> hidden{};

  /// Which row of logits that of the step is; none where it has a token.
  std::optional<size_t> LogitsRow(size_t row) const {
    if (tokens.empty()) return row;
    const auto found = std::ranges::lower_bound(with_logits, static_cast<int32_t>(row));
    if (found == with_logits.end() || *found != static_cast<int32_t>(row)) return {};
    return static_cast<size_t>(found - with_logits.begin());
  }
  /// What was told of a row; null where nothing was.
  const cuda::DrawReport* ReportOf(size_t row) const {
    const auto found =
        std::ranges::lower_bound(reports, static_cast<int32_t>(row), {}, &cuda::DrawReport::row);
    const bool is_there = found != reports.end() && found->row == static_cast<int32_t>(row);
    return is_there ? &*found : nullptr;
  }
};

/// The next tokens of one request in a step.
struct StepPart {
  Generation* generation = nullptr;  ///< null: a row that stands for nobody any more
  int64_t count = 1;
  bool last = true;  ///< ends with the last token that is known, whose logits pick the next one
  /// Of these, guesses of what comes behind the last token that is known.
  int64_t guesses = 0;

  /// Whose logits pick tokens.
  int64_t rows() const { return last ? 1 + guesses : 0; }
};

/// What the runner is to compute of it.
StepItem ItemOf(const StepPart& part);

/// A step that the runner has under way.
struct Flight {
  std::vector<StepPart> parts;
  bool drawn = false;  ///< it is known how its tokens are picked
};

/// Of a row more in a step, in steps of one row: a GPU waits for the weights, a CPU mostly for
/// products. Where a try costs much, as with a draft model, a CPU that pays the whole row is
/// expected.
inline double UsualCostOfRow(const LanguageModel& model, const DraftOptions& draft) {
  if (model.graph()->device().type != DeviceType::kCpu) return 0.05;
  return draft.source == DraftOptions::kModel ? 0.7 : 0.4;
}

/// Who guesses for an engine with these options; null: nobody. Throws kInvalidArgument for options
/// that make no sense, and for a draft model of another vocabulary.
std::unique_ptr<Drafter> MakeDrafter(const std::shared_ptr<const LanguageModel>& model,
                                     const EngineOptions& options, int64_t cache_tokens);

/// Whether every step ends with a check of who has which blocks, which tests switch on: its time
/// grows with the cache.
inline std::atomic<bool> checks_steps = false;

/// Throws for a token that a constraint allowed and did not accept.
[[noreturn]] void FailRefused(int32_t token);

/// Reading a sequence again costs a GPU more than copying it, and the CPU's memory is the cache's.
inline size_t SwapBytes(const LanguageModel& model, const KvCache& cache,
                        const EngineOptions& options) {
  constexpr size_t kOfGpu = size_t{4} << 30;
  if (model.ranks() > 1) return 0;             // each rank has a part of a block
  if (model.info().state_bytes > 0) return 0;  // blocks are not all that a sequence has
  return options.swap_bytes.value_or(cache.device().type == DeviceType::kCpu ? 0 : kOfGpu);
}

/// Of prompts beside answers. Kernels of the CPU are about as fast with few rows as with many.
inline StepLimits LimitsOfSteps(const LanguageModel& model, const EngineOptions& options) {
  const bool on_cpu = model.graph()->device().type == DeviceType::kCpu;
  return {.most = MixesSteps(model, options) ? options.step_tokens : options.prompt_chunk,
          .least = on_cpu ? 32 : 64,
          .seconds = options.step_seconds.value_or(on_cpu ? 0.04 : 0.1),
          .has_both = MixesSteps(model, options),
          .spares = on_cpu && !options.step_seconds};
}

/// On the CPU, kernels for prompts take over at so many tokens at the latest.
inline constexpr int64_t kFewTokensOnCpu = 16;
/// A multiple of the rows of every tile that computes its last rows in another order.
inline constexpr int64_t kTileTokensOnCpu = 16;

struct Engine::Impl {
  std::shared_ptr<const LanguageModel> model;
  EngineOptions options;
  int64_t cache_tokens;
  DecoderRunner runner;
  SwapSpace saver;
  Scheduler scheduler;
  std::map<int64_t, std::unique_ptr<Generation>> active;  ///< answers, waiting or running
  std::map<int64_t, FinishedGeneration> done;
  StepBudget budget;
  std::deque<Flight> flights;
  int64_t next_id = 0;
  // What spares a step the walk over all that wait:
  bool some_ended = false;   ///< an answer is finished, or its request failed
  bool some_search = false;  ///< a request has beams
  Clock::time_point earliest = Clock::time_point::max();  ///< no deadline is before it
  EngineStats counts;                                     ///< what only grows
  int64_t read_tokens = 0;                                ///< of prompts, those read again included
  std::unique_ptr<Drafter> drafter;
  std::optional<GuessOdds> odds;  ///< of guesses for all answers
  double guess_chance = 0.7;      ///< likewise, whatever they looked like
  double draft_seconds = 0;       ///< of a guess, where that takes time
  double read_seconds = 0;        ///< of a token that a draft model reads; 0: not known yet
  double round_seconds = 0;       ///< of drafting for the step to come
  GuessLedger ledger;
  StepCosts costs{UsualCostOfRow(*model, options.draft)};

  Impl(std::shared_ptr<const LanguageModel> shared, const EngineOptions& given, int64_t tokens)
      : model(std::move(shared)),
        options(WithRoomForStates(*model, given)),
        cache_tokens(tokens),
        runner(model, options.kv.value_or(model->default_kv()), tokens, options.threads,
               fast_batches()),
        saver(runner.cache(), SwapBytes(*model, runner.cache(), options)),
        scheduler(runner.pool(),
                  {.step_tokens = LimitsOfSteps(*model, options).most,
                   .prompt_tokens = options.prompt_chunk,
                   .few_tokens = mixes_steps() ? 0 : kFewTokensOnCpu,
                   .tile_tokens = mixes_steps() ? 1 : kTileTokensOnCpu,
                   .most_running = options.most_running,
                   .mixed_steps = mixes_steps(),
                   .reserve = options.reserve_cache.value_or(options.deterministic),
                   .share_prefixes = options.reuse_prefixes.value_or(!options.deterministic)},
                  saver),
        budget(LimitsOfSteps(*model, options)),
        drafter(MakeDrafter(model, options, tokens)) {
    if (drafter) odds.emplace(drafter->UsualOdds());
  }
  ~Impl() { DropFlights(); }  // while the sequences are there

  /// Answers that one step computes.
  int64_t step_rows() const {
    return options.deterministic ? model->facts().decode_rows : model->facts().step_rows;
  }
  bool mixes_steps() const { return MixesSteps(*model, options); }
  /// Whether rows may depend on how many there are. In the exact mode no kernel of the CPU makes
  /// use of it.
  bool fast_batches() const {
    const bool on_cpu = model->facts().attention_device.type == DeviceType::kCpu;
    return mixes_steps() || (on_cpu && !options.deterministic);
  }

  int64_t Submit(GenerateRequest request);
  bool Step();
  EngineStats stats() const;
  void EndOverdue();
  bool IsLong(int64_t length) const {
    const int64_t most = model->facts().short_context;
    return most > 0 && length > most;
  }
  bool ReadsAgain(Generation& generation);
  bool ReadsText(Generation& generation);
  void StepShares(std::span<const StepShare> shares);
  void StepTogether(std::span<const StepPart> parts);
  void MendState(Generation& generation);
  void StepEachAlone(std::span<const StepPart> parts);
  void StepReporting(Generation& generation, int64_t count);
  void ReportPrompt(Generation& generation, std::span<const float> logits);
  void StepFlight();
  void AcceptRows(std::span<const StepPart> parts, const StepRows& rows);
  void Computed(Generation& generation, int64_t count);
  template <typename Body>
  void Attempt(Generation& generation, const Body& body);
  void Fail(Generation& generation);
  StepRows Run(std::span<const StepItem> items, std::span<Generation* const> rows);
  bool RunsAhead(std::span<const StepPart> parts) const;
  std::optional<std::vector<StepPart>> NextFlight();
  void BeginFlight(std::vector<StepPart> parts, bool continues);
  void DrawFlight();
  void DrawFlightLate();
  std::optional<cuda::TokenDraw> DrawOf(Generation& generation, size_t row, int64_t ahead);
  void DropFlights() noexcept;
  int64_t MostGuesses(const Generation& generation) const;
  void CutGuesses(const Generation& generation, std::vector<Guess>& guesses) const;
  int64_t GuessesOfRound(std::span<Generation* const> asking);
  void MakeGuesses(std::span<Generation* const> answers);
  double LeastChance() const;
  double DraftSeconds() const;
  double ReadSeconds(int64_t tokens) const;
  int64_t UnreadTokens(std::span<Generation* const> asking) const;
  bool MayGuess() const;
  void ObserveDraft(double seconds, double guesses, int64_t unread);
  void ObserveGuesses(double seconds, int64_t answers, int64_t accepted);
  std::vector<int64_t> PlanChecks(std::span<Generation* const> answers) const;
  void AddGuesses(std::vector<StepPart>& parts);
  bool HasGuesses(Generation& generation);
  void AcceptGuesses(Generation& generation, int64_t guesses, const StepRows& rows, size_t row);
  void LearnFromGuesses(Generation& generation, size_t first);
  bool FindAllowed(Generation& generation);
  bool MakeMask(Generation& generation);
  std::unique_ptr<Sequence> MakeSequence(const Generation& generation,
                                         const Sequence* parent = nullptr) const;
  Generation& AddGeneration(std::unique_ptr<Generation> generation);
  SampledToken Pick(Generation& generation, const StepRows& rows, size_t row, bool again);
  void Accept(Generation& generation, const StepRows& rows, size_t row);
  void AcceptToken(Generation& generation, const SampledToken& sampled);
  void ForkAnswers(Generation& first, const StepRows& rows, size_t row);
  void KeepHidden(Generation& generation, const StepRows& rows, size_t row) const;
  void ScoreBeam(Generation& beam, std::span<const float> logits);
  void AdvanceBeams();
  void Advance(AnswerGroup& group);
  Generation& ForkBeam(Generation& parent, std::vector<std::pair<int32_t, int32_t>>& copies);
  void Extend(Generation& beam, const BeamStep& step, std::span<const TokenLogprob> top_tokens);
  void Emit(Generation& generation, const SampledToken& sampled, const std::string& text);
  void Finish(Generation& generation, FinishReason reason);
  void Discard(Generation& generation);
  void Collect();
  void Forget(int64_t id);
};

/// What goes wrong for one request ends that one.
template <typename Body>
void Engine::Impl::Attempt(Generation& g, const Body& body) {
  try {
    Guarded(body);
  } catch (...) {
    Fail(g);
  }
}

}  // namespace oort
