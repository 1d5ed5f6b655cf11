// SPDX-License-Identifier: MIT
// The last step of encoding: special tokens around the text.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace oort::tokenizer {

struct Sequence {
  std::vector<int32_t> ids;
  int32_t type = 0;  ///< of all its tokens (token_type_ids)
};
/// Sequences that stand one after the other; one to begin with, or the two of a pair.
using Sequences = std::vector<Sequence>;

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual void Apply(Sequences& sequences, bool add_special) const = 0;
  /// How many tokens it adds to a single text.
  virtual size_t added() const = 0;
  /// Whether it knows what stands around two texts.
  virtual bool takes_pairs() const { return true; }
};
using PostProcessorPtr = std::unique_ptr<const PostProcessor>;

/// A part of a template: the given tokens, or one of the two texts.
struct TemplatePart {
  std::vector<int32_t> ids;
  int sequence = -1;  ///< 0: the text, 1: the second text of a pair
  int32_t type = 0;   ///< of its tokens
};

PostProcessorPtr MakeTemplate(std::vector<TemplatePart> single, std::vector<TemplatePart> pair);
/// `first` text `last`; further sequences get `last` after them, and before them where it stands
/// `twice_between` two texts.
PostProcessorPtr MakeAround(int32_t first, int32_t last, bool twice_between);
PostProcessorPtr MakePostProcessorSequence(std::vector<PostProcessorPtr> steps);

}  // namespace oort::tokenizer
