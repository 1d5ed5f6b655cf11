// SPDX-License-Identifier: MIT
#include "llm/heads_drafter.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "cuda/memory.h"
#include "llm/speculation/sampled_guess.h"

namespace oort {

HeadsDrafter::HeadsDrafter(std::shared_ptr<const LanguageModel> model, int threads)
    : model_(std::move(model)),
      session_(model_->draft_heads(), {.threads = threads}),
      logits_(static_cast<size_t>(model_->info().draft_heads)) {}

std::array<double, kSurenessClasses> HeadsDrafter::UsualOdds() const { return kOddsOfSampled; }

size_t HeadsDrafter::guess_bytes() const {
  return model_->info().draft_head_bytes / logits_.size();
}

void HeadsDrafter::Run(int64_t heads) {
  const LanguageModelInfo& info = model_->info();
  const int64_t rows = std::ssize(hidden_) / info.hidden;
  const Shape shape{rows, info.vocabulary};
  const bool on_host = session_.graph().device().type == DeviceType::kCpu;
  for (Tensor& logits : logits_) {
    if (logits.defined() && logits.shape() == shape) continue;
    const size_t bytes = Tensor::Meta(DType::kF32, shape).bytes();
    logits =
        Tensor(DType::kF32, shape, on_host ? AllocateHost(bytes) : cuda::AllocatePinned(bytes));
  }
  RunOptions options;
  options.unread_outputs = ~uint64_t{0} << heads;
  const Tensor input = Tensor::Borrow(hidden_.data(), Shape{rows, info.hidden});
  session_.ForwardInto({&input, 1}, logits_, options);
}

/// As so many steps would pick them if these gave what the heads say.
void HeadsDrafter::Pick(DraftAsk& ask, size_t row) const {
  const size_t vocabulary = static_cast<size_t>(model_->info().vocabulary);
  Sampler sampler = ask.sampler->Clone();
  const auto count = static_cast<size_t>(std::min(ask.most, most()));
  for (size_t i = 0; i < count; ++i) {
    const std::span<const float> logits = logits_[i].span<float>();
    ask.guesses.push_back(SampledGuess(sampler, logits.subspan(row * vocabulary, vocabulary)));
  }
}

void HeadsDrafter::Draft(std::span<DraftAsk> asks) {
  std::vector<DraftAsk*> rows;
  hidden_.clear();
  int64_t heads = 0;
  for (DraftAsk& ask : asks) {
    ask.guesses.clear();
    // A step of more answers checks no guesses.
    if (ask.most < 1 || ask.hidden.empty() || std::ssize(rows) == kMostCheckedRows) continue;
    rows.push_back(&ask);
    hidden_.insert(hidden_.end(), ask.hidden.begin(), ask.hidden.end());
    heads = std::max(heads, std::min(ask.most, most()));
  }
  if (rows.empty()) return;
  try {
    Run(heads);
    for (size_t i = 0; i < rows.size(); ++i) Pick(*rows[i], i);
  } catch (const std::exception&) {
    // Nothing is wrong with the answers: they go on without guesses.
    for (DraftAsk* ask : rows) ask->guesses.clear();
  }
}

}  // namespace oort
