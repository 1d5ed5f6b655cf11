// SPDX-License-Identifier: MIT
// Who guesses what answers say next.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "oort/sampler.h"

namespace oort {

/// Guesses in a step of all answers together, with the tokens before them: more rows than that are
/// never cheap.
inline constexpr int64_t kMostCheckedRows = 16;
/// Classes of guesses by how sure their drafter is of them, the last the surest.
inline constexpr size_t kSurenessClasses = 8;

struct Guess {
  int32_t token = 0;
  uint8_t sureness = 0;
};

/// An answer that asks what comes next.
struct DraftAsk {
  int64_t id = 0;                     ///< of the answer
  std::span<const int32_t> tokens{};  ///< of its prompt and of itself so far
  const Sampler* sampler = nullptr;   ///< that will pick the next ones
  /// What the model's head read when the last token was picked, where the drafter reads it.
  std::span<const float> hidden{};
  int64_t most = 0;  ///< guesses
  /// Chances of the classes that a guess is right, and how likely one must be to come into
  /// question at all, all those before it included: for who has work with each.
  std::array<double, kSurenessClasses> odds = {};
  double least_chance = 0;
  std::vector<Guess> guesses{};  ///< what it gets, perhaps none
};

/// Remembers what it needs of each answer until Forget. Thread contract: one thread at a time.
class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual void Draft(std::span<DraftAsk> asks) = 0;
  virtual void Forget(int64_t id) noexcept = 0;
  /// How often guesses of each class are right, before anything is known.
  virtual std::array<double, kSurenessClasses> UsualOdds() const = 0;
  /// Whether guesses cost nothing to speak of, so that they can be made only to see whether they
  /// would have been right.
  virtual bool is_free() const = 0;
  /// Guesses that it has for an answer at most.
  virtual int64_t most() const { return kMostCheckedRows - 1; }
  /// Of the weights that a guess reads.
  virtual size_t guess_bytes() const { return 0; }
  virtual bool reads_hidden() const { return false; }
  /// Tokens of an answer of so many that it has to read before it can guess.
  virtual int64_t Unread(int64_t /*id*/, int64_t /*tokens*/) const { return 0; }
};

}  // namespace oort
