// SPDX-License-Identifier: MIT
#include "llm/model_drafter.h"

#include <algorithm>
#include <string>

#include "core/problems.h"
#include "llm/speculation/sampled_guess.h"
#include "llm/state_models.h"
#include "llm/text_reader.h"
#include "oort/error.h"

namespace oort {
namespace {

constexpr int64_t kMostPadding = 128;   // ids without a token at the end of a vocabulary
constexpr int64_t kPartOfPrompt = 512;  // tokens of a step that catches up

[[noreturn]] void FailVocabulary(const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument,
              "the draft model cannot guess for this one: " + why +
                  "; take a smaller model of the same family, or draft by n-grams");
}

}  // namespace

void CheckSameVocabulary(const LanguageModel& model, const LanguageModel& draft) {
  if (model.info().encodes_prompts || draft.info().encodes_prompts) {
    throw NotOfEncoderDecoders("drafting by another model");
  }
  if (draft.info().state_bytes > 0) throw NotOfStates(draft.info(), "drafting for another model");
  const int64_t size = model.info().vocabulary, other = draft.info().vocabulary;
  if (std::abs(size - other) > kMostPadding) {
    FailVocabulary("it has " + std::to_string(other) + " tokens, and the model " +
                   std::to_string(size));
  }
  // Models with random weights, which only measure speed, have none.
  if (!model.has_tokenizer() || !draft.has_tokenizer()) return;
  const int64_t named =
      static_cast<int64_t>(std::min(model.tokenizer().size(), draft.tokenizer().size()));
  for (int32_t token = 0; token < std::min({size, other, named}); ++token) {
    const std::string_view ours = model.tokenizer().Piece(token);
    const std::string_view theirs = draft.tokenizer().Piece(token);
    if (ours == theirs) continue;
    FailVocabulary("its token " + std::to_string(token) + " is " + Quote(theirs) +
                   ", and the model's " + Quote(ours));
  }
}

ModelDrafter::ModelDrafter(std::shared_ptr<const LanguageModel> model, KvType kv,
                           int64_t cache_tokens, int threads)
    : runner_(std::move(model), kv, cache_tokens, threads) {}

std::array<double, kSurenessClasses> ModelDrafter::UsualOdds() const { return kOddsOfSampled; }

int64_t ModelDrafter::Unread(int64_t id, int64_t tokens) const {
  const auto found = held_.find(id);
  const int64_t read = found == held_.end() ? 0 : std::ssize(found->second.tokens);
  return std::max<int64_t>(tokens - read, 0);
}

/// Whether the smaller model has all that the answer is made of.
bool ModelDrafter::CanDraft(const DraftAsk& ask) const {
  const LanguageModelInfo& info = runner_.model().info();
  const int64_t length = static_cast<int64_t>(ask.tokens.size()) + ask.most;
  const auto is_known = [&](int32_t token) { return token < info.vocabulary; };
  const auto is_bias_known = [&](const auto& bias) { return is_known(bias.first); };
  return ask.most > 0 && length <= info.context &&
         std::ranges::all_of(ask.sampler->options().logit_bias, is_bias_known) &&
         is_known(*std::ranges::max_element(ask.tokens)) &&
         *std::ranges::min_element(ask.tokens) >= 0;  // else it has not seen a picture
}

/// Blocks, if need be those of answers that asked longest ago: these are read again.
bool ModelDrafter::MakeRoom(Held& held, int64_t tokens) {
  if (!held.cached.blocks.has_pool()) held.cached.blocks = SequenceBlocks(runner_.pool());
  while (!held.cached.blocks.Grow(tokens)) {
    Held* oldest = nullptr;
    for (auto& [id, other] : held_) {
      if (other.used == calls_ || other.cached.blocks.size() == 0) continue;
      if (oldest == nullptr || other.used < oldest->used) oldest = &other;
    }
    if (oldest == nullptr) return false;
    oldest->cached = {};
    oldest->tokens.clear();
  }
  return true;
}

void ModelDrafter::Push(Held& held, std::span<const int32_t> tokens) {
  held.tokens.insert(held.tokens.end(), tokens.begin(), tokens.end());
}

bool ModelDrafter::CatchUp(const DraftAsk& ask, Held& held) {
  const std::span<const int32_t> known = ask.tokens.first(ask.tokens.size() - 1);
  // What was guessed and turned out wrong goes.
  const size_t common =
      static_cast<size_t>(std::ranges::mismatch(held.tokens, known).in1 - held.tokens.begin());
  held.tokens.resize(common);
  held.cached.length = static_cast<int64_t>(common);
  if (!MakeRoom(held, static_cast<int64_t>(ask.tokens.size()) + ask.most)) return false;
  // One token is read together with the last one.
  for (size_t at = common; at + 1 < known.size();) {
    const std::span<const int32_t> part =
        known.subspan(at, std::min(known.size() - at, static_cast<size_t>(kPartOfPrompt)));
    const StepItem item{&held.cached, part, StepItem::kNone, static_cast<int64_t>(known.size())};
    runner_.Step({&item, 1});
    Push(held, part);
    at += part.size();
  }
  return true;
}

void ModelDrafter::Guess(std::vector<Round>& rounds) {
  std::vector<StepItem> items;
  for (Round& round : rounds) {
    Held& held = *round.held;
    const size_t cached = static_cast<size_t>(held.cached.length);
    // What the answer has, or else the last guess.
    const size_t before = held.tokens.size();
    if (before < round.ask->tokens.size()) Push(held, round.ask->tokens.subspan(before));
    if (!round.ask->guesses.empty()) held.tokens.push_back(round.ask->guesses.back().token);
    items.push_back({&held.cached, std::span<const int32_t>(held.tokens).subspan(cached)});
  }
  const std::span<const float> logits = runner_.Step(items);
  const size_t vocabulary = static_cast<size_t>(runner_.vocabulary());
  for (size_t i = 0; i < rounds.size(); ++i) {
    Round& round = rounds[i];
    const std::span<const float> row = logits.subspan(i * vocabulary, vocabulary);
    const oort::Guess guess = SampledGuess(round.sampler, row);
    round.ask->guesses.push_back(guess);
    round.chance *= round.ask->odds[guess.sureness];
  }
  std::erase_if(rounds, [](const Round& round) {
    return round.chance < round.ask->least_chance ||
           static_cast<int64_t>(round.ask->guesses.size()) >= round.ask->most;
  });
}

void ModelDrafter::Draft(std::span<DraftAsk> asks) {
  ++calls_;
  for (DraftAsk& ask : asks) {
    ask.guesses.clear();
    if (const auto found = held_.find(ask.id); found != held_.end()) found->second.used = calls_;
  }
  try {
    std::vector<Round> rounds;
    for (DraftAsk& ask : asks) {
      if (!CanDraft(ask)) continue;
      Held& held = held_[ask.id];
      held.used = calls_;
      if (CatchUp(ask, held)) rounds.push_back({&ask, &held, ask.sampler->Clone(), 1});
    }
    while (!rounds.empty()) Guess(rounds);
  } catch (const std::exception&) {
    // Nothing is wrong with the answers: they go on without guesses.
    for (DraftAsk& ask : asks) {
      ask.guesses.clear();
      Forget(ask.id);
    }
  }
}

}  // namespace oort
