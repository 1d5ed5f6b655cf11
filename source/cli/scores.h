// SPDX-License-Identifier: MIT
// How well a language model foretells a text, and how far it is from another one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "oort/engine.h"

namespace oort::cli {

/// A mean with its standard error.
class Mean {
 public:
  void Add(double value);
  int64_t count() const { return count_; }
  double mean() const { return mean_; }
  double error() const;

 private:
  int64_t count_ = 0;
  double mean_ = 0, squares_ = 0;
};

/// What a model says beside what the reference says of the same places.
struct Agreement {
  Mean divergence;  ///< of the model from the reference, in nats
  int64_t agree = 0;

  void Add(std::span<const float> reference, std::span<const float> logits);
  /// Of the places where both find the same token likeliest.
  double Percent() const;
};

struct Scores {
  Mean loss;            ///< minus the log-probability of what came
  Mean reference_loss;  ///< the same of the reference
  Agreement comparison;
  bool compared = false;
};

struct ScoredModel {
  std::shared_ptr<const LanguageModel> model;
  EngineOptions options;
};

/// Windows of so many tokens, each predicted by those before it there. Without a reference, whose
/// model is null then, nothing is compared; throws kInvalidArgument where it has another
/// vocabulary.
Scores ScoreText(const ScoredModel& judged, const ScoredModel& reference,
                 std::span<const int32_t> tokens, int64_t window);

}  // namespace oort::cli
