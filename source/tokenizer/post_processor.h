// SPDX-License-Identifier: MIT
// The last step of encoding: special tokens around the text.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace oort::tokenizer {

/// Ids of the sequences that stand one after the other; one to begin with.
using Sequences = std::vector<std::vector<int32_t>>;

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual void Apply(Sequences& sequences, bool add_special) const = 0;
  /// How many tokens it adds to a single text.
  virtual size_t added() const = 0;
};
using PostProcessorPtr = std::unique_ptr<const PostProcessor>;

/// A part of a template: the given tokens, or one of the two texts.
struct TemplatePart {
  std::vector<int32_t> ids;
  int sequence = -1;  ///< 0: the text, 1: the second text of a pair
};

PostProcessorPtr MakeTemplate(std::vector<TemplatePart> single, std::vector<TemplatePart> pair);
/// `first` text `last`; further sequences get `last` after them, and before them where it stands
/// `twice_between` two texts.
PostProcessorPtr MakeAround(int32_t first, int32_t last, bool twice_between);
PostProcessorPtr MakePostProcessorSequence(std::vector<PostProcessorPtr> steps);

}  // namespace oort::tokenizer
