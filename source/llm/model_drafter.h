// SPDX-License-Identifier: MIT
// Guesses of a smaller model.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "llm/decoder_runner.h"
#include "llm/speculation/drafter.h"

namespace oort {

/// Throws kInvalidArgument, with the first token that differs, unless both models mean the same by
/// the ids of their tokens. Up to 128 ids more at the end of one of them are padding.
void CheckSameVocabulary(const LanguageModel& model, const LanguageModel& draft);

/// A guess is what the request's own sampler would pick next of the smaller model's logits, with
/// the same random number: where both models see it alike, both pick the same token.
class ModelDrafter final : public Drafter {
 public:
  /// Its own cache has room for so many tokens.
  ModelDrafter(std::shared_ptr<const LanguageModel> model, KvType kv, int64_t cache_tokens,
               int threads);

  void Draft(std::span<DraftAsk> asks) override;
  void Forget(int64_t id) noexcept override { held_.erase(id); }
  std::array<double, kSurenessClasses> UsualOdds() const override;
  bool is_free() const override { return false; }
  size_t guess_bytes() const override { return runner_.model().info().step_bytes; }
  int64_t Unread(int64_t id, int64_t tokens) const override;

  const BlockPool& pool() const { return runner_.pool(); }

 private:
  /// What the cache holds of an answer, guesses included.
  struct Held {
    CachedSequence cached;
    std::vector<int32_t> tokens;
    uint64_t used = 0;  ///< when, counted in calls
  };
  /// An answer while its guesses are made.
  struct Round {
    DraftAsk* ask = nullptr;
    Held* held = nullptr;
    Sampler sampler;
    double chance = 1;
  };

  bool CanDraft(const DraftAsk& ask) const;
  /// Brings all but the last token of the answer into the cache; false where there is no room.
  bool CatchUp(const DraftAsk& ask, Held& held);
  bool MakeRoom(Held& held, int64_t tokens);
  void Push(Held& held, std::span<const int32_t> tokens);
  /// One more guess for each; those that have enough leave.
  void Guess(std::vector<Round>& rounds);

  DecoderRunner runner_;
  std::map<int64_t, Held> held_;  // by the answer's id; goes before the pool does
  uint64_t calls_ = 0;
};

}  // namespace oort
