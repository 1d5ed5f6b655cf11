// SPDX-License-Identifier: MIT
// Guesses of heads that read what the model's own head reads.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "llm/speculation/drafter.h"
#include "oort/language_model.h"
#include "oort/session.h"

namespace oort {

/// Head i guesses token i + 1 behind the last one, all of them from the state that the last one was
/// picked of: none of them knows what the others guess. They keep nothing of a sequence.
class HeadsDrafter final : public Drafter {
 public:
  /// The model has draft_heads().
  HeadsDrafter(std::shared_ptr<const LanguageModel> model, int threads);

  void Draft(std::span<DraftAsk> asks) override;
  void Forget(int64_t /*id*/) noexcept override {}
  std::array<double, kSurenessClasses> UsualOdds() const override;
  bool is_free() const override { return false; }
  int64_t most() const override { return model_->info().draft_heads; }
  size_t guess_bytes() const override;
  bool reads_hidden() const override { return true; }

 private:
  /// Fills logits_ of so many heads, of the rows in hidden_.
  void Run(int64_t heads);
  void Pick(DraftAsk& ask, size_t row) const;

  std::shared_ptr<const LanguageModel> model_;
  Session session_;
  std::vector<float> hidden_;   // of those who ask
  std::vector<Tensor> logits_;  // of each head
};

}  // namespace oort
