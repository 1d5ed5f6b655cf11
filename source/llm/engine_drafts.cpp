// SPDX-License-Identifier: MIT
// Guesses of what answers say next: how many a step checks, and what becomes of them.
#include "llm/engine_impl.h"
#include "llm/heads_drafter.h"
#include "llm/model_drafter.h"
#include "llm/speculation/ngram_drafter.h"

namespace oort {
namespace {

constexpr double kWeightForAnswer = 1.0 / 8, kWeightForAll = 1.0 / 32;
constexpr int64_t kMostGuesses = 11;  // for one answer, where nobody says how many
/// Where guesses of a model do not pay, a few are made at the beginning of an answer, and so many
/// tokens apart: the text may change.
constexpr int64_t kFirstTokens = 4, kTokensBetweenProbes = 64, kGuessesOfProbe = 3;
/// In so many tokens guesses have to pay for what a draft model reads before.
constexpr double kTokensToPayIn = 64;
/// Steps without guesses that guesses may lose at first, before anybody knows how they turn out.
constexpr double kStepsToLose = 2;

/// Chances that the guesses are right, each with all those before it.
std::vector<double> ChancesOf(std::span<const Guess> guesses, const GuessOdds& odds) {
  std::vector<double> chances;
  double chance = 1;
  for (const Guess& guess : guesses) chances.push_back(chance *= odds.Of(guess.sureness));
  return chances;
}

}  // namespace

std::unique_ptr<Drafter> MakeDrafter(const std::shared_ptr<const LanguageModel>& shared,
                                     const EngineOptions& options, int64_t cache_tokens) {
  const LanguageModel& model = *shared;
  const DraftOptions& draft = options.draft;
  if (draft.tokens < 0 || draft.tokens >= kMostCheckedRows) {
    throw Error(ErrorCode::kInvalidArgument,
                "a step checks from 1 to " + std::to_string(kMostCheckedRows - 1) +
                    " guesses for an answer, or 0 for as many as pay, not " +
                    std::to_string(draft.tokens));
  }
  if (draft.source == DraftOptions::kNone) return nullptr;
  // What a wrong guess did to a state cannot be taken back.
  if (model.info().state_bytes > 0) throw NotOfStates(model.info(), "guessing tokens ahead");
  if (draft.source == DraftOptions::kNgram) return std::make_unique<NgramDrafter>();
  if (draft.source == DraftOptions::kHeads) {
    if (model.draft_heads()) return std::make_unique<HeadsDrafter>(shared, options.threads);
    throw Error(ErrorCode::kInvalidArgument,
                "the model was loaded without heads that guess: "
                "LanguageModelOptions::draft_heads names their folder");
  }
  if (!draft.model) throw Error(ErrorCode::kInvalidArgument, "no draft model was given");
  CheckSameVocabulary(model, *draft.model);
  return std::make_unique<ModelDrafter>(draft.model, options.kv.value_or(draft.model->default_kv()),
                                        cache_tokens, options.threads);
}

/// Guesses that a step may check for it at most.
int64_t Engine::Impl::MostGuesses(const Generation& g) const {
  if (!drafter || g.finished || g.group->search || g.result.tokens.empty()) return 0;
  int64_t most = options.draft.tokens > 0 ? options.draft.tokens : kMostGuesses;
  if (g.request.draft_tokens >= 0) most = std::min(most, g.request.draft_tokens);
  // A step gives one token more than it has guesses.
  most = std::min(most, g.most_tokens - static_cast<int64_t>(g.result.tokens.size()) - 1);
  // Behind the short context all of the sequence is read again.
  const int64_t length = g.sequence->length(), boundary = model->facts().short_context;
  if (boundary > 0 && length <= boundary) most = std::min(most, boundary - length);
  return std::max<int64_t>(most, 0);
}

/// Leaves the first guesses, those that the answer's form allows.
void Engine::Impl::CutGuesses(const Generation& g, std::vector<Guess>& guesses) const {
  const auto constraint = g.constraint ? g.constraint->Clone() : nullptr;
  size_t kept = 0;
  for (; kept < guesses.size(); ++kept) {
    const int32_t token = guesses[kept].token;
    if (token < 0 || token >= runner.vocabulary()) break;
    if (!g.request.ignore_end && model->IsEnd(token)) {
      if (!constraint || constraint->done()) ++kept;  // nothing comes behind it
      break;
    }
    if (constraint && !constraint->Accept(token)) break;
  }
  guesses.resize(kept);
}

/// What a guess takes, as it was so far, or else as the weights tell that it and a step read.
double Engine::Impl::DraftSeconds() const {
  if (draft_seconds > 0 || drafter->is_free()) return draft_seconds;
  const auto number = [](size_t bytes) { return static_cast<double>(std::max<size_t>(bytes, 1)); };
  const double share = number(drafter->guess_bytes()) / number(model->info().step_bytes);
  return costs.Seconds(1) * std::min(share, 1.0);
}

/// What a draft model takes to read so many tokens.
double Engine::Impl::ReadSeconds(int64_t tokens) const {
  if (tokens <= 2) return 0;  // it reads as many with every guess
  const double usual = model->graph()->device().type == DeviceType::kCpu ? 0.35 : 0.05;
  return static_cast<double>(tokens) * (read_seconds > 0 ? read_seconds : usual * DraftSeconds());
}

int64_t Engine::Impl::UnreadTokens(std::span<Generation* const> asking) const {
  int64_t unread = 0;
  for (const Generation* g : asking) unread += drafter->Unread(g->id, g->sequence->length());
  return unread;
}

/// Whether guesses have not lost too much so far.
bool Engine::Impl::MayGuess() const {
  return options.draft.tokens > 0 || ledger.Allows(-kStepsToLose * costs.Seconds(1));
}

/// Guesses that drafting may make for each of these, by what drafting and steps have taken so far.
int64_t Engine::Impl::GuessesOfRound(std::span<Generation* const> asking) {
  if (options.draft.tokens > 0 || drafter->is_free()) return kMostCheckedRows;
  if (!costs.is_known()) return 0;
  double chance = 0;
  bool probes = false;
  for (Generation* g : asking) {
    chance += g->guess_chance.value_or(guess_chance) / static_cast<double>(asking.size());
    const bool is_time = ++g->tokens_since_guess >= kTokensBetweenProbes;
    probes = probes || is_time || std::ssize(g->result.tokens) <= kFirstTokens;
  }
  const int64_t answers = std::ssize(asking);
  const int64_t most = std::min({kMostGuesses, drafter->most(), step_rows() / answers - 1});
  const double reading = ReadSeconds(UnreadTokens(asking)), plain = costs.Seconds(answers);
  const RoundPlan plan = PlanRound(chance, answers, DraftSeconds(), most, costs);
  if (MayGuess() && reading <= plan.gain * plain * kTokensToPayIn) {
    round_seconds = -reading;  // it pays in steps to come
    if (plan.guesses > 0) return plan.guesses;
  }
  const int64_t few = std::min(kGuessesOfProbe, most);
  const double all = reading + static_cast<double>(few) * DraftSeconds() +
                     costs.Seconds(answers * (1 + few)) - plain;
  round_seconds = 0;
  return probes && few > 0 && ledger.Allows(all) ? few : 0;
}

/// Fills `guesses` of the answers that a step is about to have a token for.
void Engine::Impl::MakeGuesses(std::span<Generation* const> answers) {
  round_seconds = 0;
  std::vector<Generation*> asking;
  for (Generation* g : answers) {
    g->guesses.clear();
    if (MostGuesses(*g) > 0) asking.push_back(g);
  }
  if (asking.empty()) return;
  const int64_t most = GuessesOfRound(asking);
  if (most <= 0) return;
  std::vector<DraftAsk> asks;
  for (Generation* g : asking) {
    asks.push_back({.id = g->id,
                    .tokens = g->sequence->tokens,
                    .sampler = &g->sampler,
                    .hidden = g->hidden,
                    .most = std::min(most, MostGuesses(*g)),
                    .odds = g->odds->all(),
                    .least_chance = LeastChance()});
  }
  const int64_t unread = UnreadTokens(asking);
  const Clock::time_point start = Clock::now();
  drafter->Draft(asks);
  size_t rounds = 0;
  for (size_t i = 0; i < asks.size(); ++i) {
    rounds = std::max(rounds, asks[i].guesses.size());
    asking[i]->guesses = std::move(asks[i].guesses);
    asking[i]->tokens_since_guess = 0;
    CutGuesses(*asking[i], asking[i]->guesses);
  }
  if (drafter->is_free()) return;
  const double seconds = SecondsSince(start);
  round_seconds = std::max(round_seconds + seconds, 0.0);
  if (rounds > 0) ObserveDraft(seconds, static_cast<double>(rounds), unread);
}

/// A guess that costs a model more than it may gain is not made.
double Engine::Impl::LeastChance() const {
  if (options.draft.tokens > 0 || drafter->is_free() || !costs.is_known()) return 0;
  return std::min(DraftSeconds() / costs.Seconds(1), 0.9);
}

/// Learns from a round of so many guesses, for which the draft model had so many tokens to read.
void Engine::Impl::ObserveDraft(double seconds, double guesses, int64_t unread) {
  constexpr double kWeight = 0.2, kMostTimes = 2;  // the system may have taken the processor away
  const double usual = DraftSeconds(), reading = ReadSeconds(unread);
  if (reading > 0) {
    const double each = std::max(seconds - guesses * usual, 0.0) / static_cast<double>(unread);
    const double known = reading / static_cast<double>(unread);
    read_seconds =
        known + (read_seconds > 0 ? kWeight : 1.0) * (std::min(each, kMostTimes * known) - known);
    return;
  }
  draft_seconds = usual + (draft_seconds > 0 ? kWeight : 1.0) *
                              (std::min(seconds / guesses, kMostTimes * usual) - usual);
}

/// Behind a step of so many answers, with or without guesses: what these have lost or gained.
void Engine::Impl::ObserveGuesses(double seconds, int64_t answers, int64_t accepted) {
  const double each = costs.Seconds(answers) / static_cast<double>(answers);
  const bool plain = round_seconds == 0 && accepted < 0;
  const double tokens = static_cast<double>(answers + std::max<int64_t>(accepted, 0));
  ledger.Observe(seconds + round_seconds, plain ? seconds : each * tokens);
  round_seconds = 0;
}

/// How many of the guesses the step checks, of each.
std::vector<int64_t> Engine::Impl::PlanChecks(std::span<Generation* const> answers) const {
  std::vector<int64_t> planned(answers.size());
  const int64_t rows = std::min(step_rows(), kMostCheckedRows);
  int64_t left = rows - static_cast<int64_t>(answers.size());
  if (options.draft.tokens > 0) {
    for (size_t i = 0; i < answers.size() && left > 0; ++i) {
      planned[i] = std::min(left, static_cast<int64_t>(answers[i]->guesses.size()));
      left -= planned[i];
    }
    return planned;
  }
  if (left <= 0 || !costs.is_known() || !MayGuess()) return planned;
  std::vector<std::vector<double>> chances;
  for (const Generation* g : answers) {
    chances.push_back(g->guesses.empty() ? std::vector<double>() : ChancesOf(g->guesses, *g->odds));
  }
  return PlanGuesses(chances, rows, costs);
}

/// Guesses for the answers of a step of answers alone: `parts` grow by those that are checked.
void Engine::Impl::AddGuesses(std::vector<StepPart>& parts) {
  if (!drafter) return;
  std::vector<Generation*> answers;
  for (const StepPart& part : parts) {
    if (part.count != 1 || !part.last) return;
    answers.push_back(part.generation);
  }
  MakeGuesses(answers);
  const std::vector<int64_t> planned = PlanChecks(answers);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (planned[i] == 0) continue;
    Generation& g = *answers[i];
    const int64_t count = scheduler.MakeRoomForGuesses(*g.sequence, planned[i]);
    g.checked = {g.sequence->tokens.back()};
    for (int64_t j = 0; j < count; ++j) {
      g.checked.push_back(g.guesses[static_cast<size_t>(j)].token);
    }
    parts[i].guesses = count;
    parts[i].count = 1 + count;
  }
  // Rows of sequences that have one come first, as kernels of a GPU want it.
  std::stable_partition(parts.begin(), parts.end(),
                        [](const StepPart& part) { return part.guesses == 0; });
}

/// Whether the next step of this answer would check guesses, as far as can be told.
bool Engine::Impl::HasGuesses(Generation& g) {
  if (MostGuesses(g) == 0) return false;
  Generation* const one[] = {&g};
  if (!drafter->is_free()) return GuessesOfRound(one) > 0;
  MakeGuesses(one);
  return PlanChecks(one)[0] > 0;
}

/// Picks a token of each row, as so many steps would have done, until one is not what was guessed.
void Engine::Impl::AcceptGuesses(Generation& g, int64_t guesses, const StepRows& rows, size_t row) {
  int64_t accepted = 0;
  for (int64_t i = 0; i <= guesses && !g.finished; ++i) {
    const int64_t before = g.sequence->length();
    scheduler.Computed(*g.sequence, 1);
    Accept(g, rows, row + static_cast<size_t>(i));
    const bool has_token = g.sequence->length() > before;
    if (!has_token || i == guesses) break;
    if (g.sequence->tokens.back() != g.checked[static_cast<size_t>(i) + 1]) break;
    ++accepted;
  }
  scheduler.Rollback(*g.sequence);
  DraftCounts counted{.steps = 1, .drafted = guesses, .accepted = accepted};
  for (int64_t i = 0; i < accepted; ++i) counted.accepted_at[static_cast<size_t>(i)] = 1;
  g.result.draft += counted;
  counts.draft += counted;
}

/// What the answer's next token is picked of is what heads guess the ones behind it from.
void Engine::Impl::KeepHidden(Generation& g, const StepRows& rows, size_t row) const {
  if (!drafter || !drafter->reads_hidden()) return;
  const size_t width = static_cast<size_t>(model->info().hidden);
  const std::span<const float> own = rows.hidden.subspan(row * width, width);
  g.hidden.assign(own.begin(), own.end());
}

/// Which guesses were right, also of those that were not checked, as far as the answer has come.
void Engine::Impl::LearnFromGuesses(Generation& g, size_t first) {
  const std::span<const int32_t> picked = std::span(g.result.tokens).subspan(first);
  for (size_t i = 0; i < std::min(picked.size(), g.guesses.size()); ++i) {
    const Guess guess = g.guesses[i];
    const bool right = guess.token == picked[i];
    g.odds->Observe(guess.sureness, right, kWeightForAnswer);
    odds->Observe(guess.sureness, right, kWeightForAll);
    const double seen = right ? 1 : 0;
    g.guess_chance = g.guess_chance.value_or(guess_chance);
    *g.guess_chance += kWeightForAnswer * (seen - *g.guess_chance);
    guess_chance += kWeightForAll * (seen - guess_chance);
    if (!right) break;
  }
  g.guesses.clear();
}

}  // namespace oort
