// SPDX-License-Identifier: MIT
// Answers in the channels of harmony, the format of gpt-oss.
#pragma once

#include <string>
#include <string_view>

#include "oort/tool_calls.h"

namespace oort::grammar {

/// How many bytes at the end of a text may be the begin of a tag.
size_t BegunTag(std::string_view text, std::string_view tag);

/// Reads messages: a header up to <|message|>, then a body up to a tag that ends it. What an answer
/// says before a first header is content.
class HarmonyReader {
 public:
  explicit HarmonyReader(bool finds_calls) : finds_calls_(finds_calls) {}

  /// Takes away from `buffer` what it could read; all of it where it is the `last`.
  void Read(std::string& buffer, bool last, AnswerDelta& delta);
  int calls() const { return calls_; }

 private:
  enum class Mode : unsigned char { kBegin, kHeader, kBody, kBetween };
  enum class Kind : unsigned char { kContent, kReasoning, kCall };

  bool ReadMode(std::string& buffer, bool last, AnswerDelta& delta);
  bool ReadBegin(std::string& buffer, bool last);
  bool ReadHeader(std::string& buffer, bool last, AnswerDelta& delta);
  bool ReadBody(std::string& buffer, bool last, AnswerDelta& delta);
  bool ReadBetween(std::string& buffer, AnswerDelta& delta);
  void BeginMessage(std::string_view header, AnswerDelta& delta);
  void Say(std::string_view text, AnswerDelta& delta);
  void EndMessage(AnswerDelta& delta);

  const bool finds_calls_;
  Mode mode_ = Mode::kBegin;
  Kind kind_ = Kind::kContent;
  bool said_ = false;                         ///< the message has a text
  bool content_ = false, reasoning_ = false;  ///< there was some in messages before
  int calls_ = 0;
};

}  // namespace oort::grammar
