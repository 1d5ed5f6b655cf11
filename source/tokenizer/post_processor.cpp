// SPDX-License-Identifier: MIT
#include "tokenizer/post_processor.h"

#include <algorithm>
#include <utility>

#include "oort/error.h"

namespace oort::tokenizer {
namespace {

class Template final : public PostProcessor {
 public:
  Template(std::vector<TemplatePart> single, std::vector<TemplatePart> pair)
      : single_(std::move(single)), pair_(std::move(pair)) {}

  void Apply(Sequences& sequences, bool add_special) const override {
    if (sequences.empty() || sequences.size() > 2) {
      throw Error(ErrorCode::kUnsupported, "a template comes after post-processors that made " +
                                               std::to_string(sequences.size()) +
                                               " sequences, expected 1 or 2");
    }
    Sequences out;
    for (const TemplatePart& part : sequences.size() == 1 ? single_ : pair_) {
      if (part.sequence >= 0) {
        if (static_cast<size_t>(part.sequence) >= sequences.size()) {
          throw Error(ErrorCode::kInvalidModel, "the template of a single text names a second one");
        }
        out.push_back({sequences[static_cast<size_t>(part.sequence)].ids, part.type});
      } else if (add_special) {
        out.push_back({part.ids, part.type});
      }
    }
    sequences = std::move(out);
  }

  size_t added() const override {
    size_t count = 0;
    for (const TemplatePart& part : single_) count += part.ids.size();
    return count;
  }
  bool takes_pairs() const override { return !pair_.empty(); }

 private:
  std::vector<TemplatePart> single_, pair_;
};

/// BERT's [CLS] text [SEP] and RoBERTa's <s> text </s>.
class Around final : public PostProcessor {
 public:
  Around(int32_t first, int32_t last, bool twice_between)
      : first_(first), last_(last), twice_between_(twice_between) {}

  void Apply(Sequences& sequences, bool add_special) const override {
    if (!add_special) return;
    for (size_t i = 0; i < sequences.size(); ++i) {
      auto& ids = sequences[i].ids;
      if (twice_between_) sequences[i].type = 0;
      if (i == 0) ids.insert(ids.begin(), first_);
      if (i > 0 && twice_between_) ids.insert(ids.begin(), last_);
      ids.push_back(last_);
    }
  }
  size_t added() const override { return 2; }

 private:
  int32_t first_, last_;
  bool twice_between_;
};

class PostProcessorSequence final : public PostProcessor {
 public:
  explicit PostProcessorSequence(std::vector<PostProcessorPtr> steps) : steps_(std::move(steps)) {}
  void Apply(Sequences& sequences, bool add_special) const override {
    for (const PostProcessorPtr& step : steps_) step->Apply(sequences, add_special);
  }
  size_t added() const override {
    size_t count = 0;
    for (const PostProcessorPtr& step : steps_) count += step->added();
    return count;
  }
  bool takes_pairs() const override {
    return std::ranges::all_of(steps_, [](const auto& step) { return step->takes_pairs(); });
  }

 private:
  std::vector<PostProcessorPtr> steps_;
};

}  // namespace

PostProcessorPtr MakeTemplate(std::vector<TemplatePart> single, std::vector<TemplatePart> pair) {
  return std::make_unique<Template>(std::move(single), std::move(pair));
}
PostProcessorPtr MakeAround(int32_t first, int32_t last, bool twice_between) {
  return std::make_unique<Around>(first, last, twice_between);
}
PostProcessorPtr MakePostProcessorSequence(std::vector<PostProcessorPtr> steps) {
  return std::make_unique<PostProcessorSequence>(std::move(steps));
}

}  // namespace oort::tokenizer
