// SPDX-License-Identifier: MIT
#include <algorithm>
#include <string>
#include <utility>

#include "core/guard.h"
#include "grammar/call_scanner.h"
#include "grammar/harmony.h"
#include "oort/tool_calls.h"

namespace oort {
namespace {

using grammar::BegunTag;

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kToolCall = "<tool_call>";
constexpr std::string_view kToolCallEnd = "</tool_call>";
constexpr std::string_view kToolCalls = "[TOOL_CALLS]";
constexpr std::string_view kPythonTag = "<|python_tag|>";

size_t SpaceAtFront(std::string_view text) {
  return std::min(text.find_first_not_of(" \n\r\t"), text.size());
}
size_t SpaceAtEnd(std::string_view text) {
  const size_t last = text.find_last_not_of(" \n\r\t");
  return last == std::string_view::npos ? text.size() : text.size() - 1 - last;
}

enum class Found : unsigned char { kNo, kYes, kMore };

/// Whether a text begins with a tag; kMore: as far as it goes.
Found Begins(std::string_view text, std::string_view tag) {
  if (text.starts_with(tag)) return Found::kYes;
  return tag.starts_with(text) ? Found::kMore : Found::kNo;
}

/// Whether a text begins as a call does: {"name" or, with `type`, {"type".
Found BeginsCall(std::string_view text) {
  if (text.empty()) return Found::kMore;
  if (text[0] != '{') return Found::kNo;
  const std::string_view rest = text.substr(1 + SpaceAtFront(text.substr(1)));
  Found found = Found::kNo;
  for (const std::string_view key : {"\"name\"", "\"type\"", "\"id\""}) {
    const Found one = Begins(rest, key);
    if (one == Found::kYes) return one;
    if (one == Found::kMore) found = one;
  }
  return found;
}

}  // namespace

struct AnswerParser::Impl {
  enum class Mode : unsigned char { kBegin, kReasoning, kContent, kCall, kBehindCall };

  explicit Impl(const AnswerParserOptions& given)
      : options(given),
        mode(given.begins_in_reasoning ? Mode::kReasoning : Mode::kBegin),
        may_reason(given.reasoning && !given.begins_in_reasoning),
        harmony(given.tools == ToolStyle::kHarmony) {}

  AnswerDelta Read(bool last) {
    AnswerDelta delta;
    if (options.harmony) {
      harmony.Read(buffer, last, delta);
      return delta;
    }
    // Each mode reads what it can; it stays where it needs more than there is.
    while (ReadMode(delta, last)) {
    }
    return delta;
  }

  bool ReadMode(AnswerDelta& delta, bool last) {
    switch (mode) {
      case Mode::kBegin: return ReadBegin(last);
      case Mode::kReasoning: return ReadReasoning(delta, last);
      case Mode::kContent: return ReadContent(delta, last);
      case Mode::kCall: return ReadCall(delta, last);
      case Mode::kBehindCall: return ReadBehindCall(last);
    }
    return false;
  }

  bool Enter(Mode next, size_t taken) {
    buffer.erase(0, taken);
    mode = next;
    return true;
  }

  /// Decides what the answer begins with: reasoning, a call, or content.
  bool ReadBegin(bool last) {
    const size_t space = SpaceAtFront(buffer);
    const std::string_view text = std::string_view(buffer).substr(space);
    bool undecided = false;
    const auto begins = [&](Found found) {
      undecided |= found == Found::kMore;
      return found == Found::kYes;
    };
    if (may_reason && begins(Begins(text, kThink))) {
      may_reason = false;
      return Enter(Mode::kReasoning, space + kThink.size());
    }
    if (options.tools == ToolStyle::kLlama3) {
      if (begins(Begins(text, kPythonTag))) return Enter(Mode::kCall, space + kPythonTag.size());
      if (begins(BeginsCall(text))) return Enter(Mode::kCall, space);
    }
    if (options.tools == ToolStyle::kMistral) {
      size_t mark = 0;
      if (begins(Begins(text, kToolCalls))) mark = kToolCalls.size();
      const std::string_view rest = text.substr(mark);
      if (rest.starts_with('[')) {
        const size_t open = 1 + SpaceAtFront(rest.substr(1));
        if (begins(BeginsCall(rest.substr(open)))) return Enter(Mode::kCall, space + mark + open);
      } else {
        undecided |= rest.empty();
      }
    }
    if ((undecided || buffer.empty()) && !last) return false;
    return Enter(Mode::kContent, trims ? space : 0);
  }

  bool ReadReasoning(AnswerDelta& delta, bool last) {
    const size_t end = buffer.find(kThinkEnd);
    std::string_view text = std::string_view(buffer).substr(0, end);
    const bool ended = end != std::string::npos;
    if (!ended && !last) text.remove_suffix(BegunTag(text, kThinkEnd));
    // Space around the reasoning is none of it.
    const size_t front = reasoned ? 0 : SpaceAtFront(text);
    const size_t back = text.size() == front ? 0 : SpaceAtEnd(text);
    const std::string_view seen = text.substr(front, text.size() - front - back);
    if (!seen.empty()) {
      delta.reasoning += seen;
      reasoned = true;
    }
    if (ended) {
      trims = true;
      return Enter(Mode::kBegin, end + kThinkEnd.size());
    }
    buffer.erase(0, front + seen.size());
    if (last) buffer.clear();
    return false;
  }

  bool ReadContent(AnswerDelta& delta, bool last) {
    if (trims) {
      buffer.erase(0, SpaceAtFront(buffer));
      trims = buffer.empty();
    }
    size_t take = buffer.size();
    bool call = false;
    if (options.tools == ToolStyle::kHermes) {
      const size_t at = buffer.find(kToolCall);
      call = at != std::string::npos;
      if (call) {
        take = at;
      } else if (!last) {
        take -= BegunTag(buffer, kToolCall);
      }
      // Space before a call is none of the content.
      if (call || !last) take -= SpaceAtEnd(std::string_view(buffer).substr(0, take));
    }
    delta.content.append(buffer, 0, take);
    if (!call) {
      buffer.erase(0, take);
      return false;
    }
    return Enter(Mode::kCall, buffer.find(kToolCall) + kToolCall.size());
  }

  bool ReadCall(AnswerDelta& delta, bool last) {
    const size_t taken = scanner.Read(buffer);
    raw.append(buffer, 0, taken);
    buffer.erase(0, taken);
    if (scanner.named() && (!begun || !scanner.arguments.empty())) {
      ToolCallDelta part;
      part.index = begun ? calls - 1 : calls++;
      if (!begun) {
        part.id = scanner.id;
        part.name = scanner.name;
      }
      begun = true;
      part.arguments = std::exchange(scanner.arguments, {});
      delta.calls.push_back(std::move(part));
    }
    if (scanner.complete()) {
      scanner = {};
      begun = false;
      raw.clear();
      return Enter(Mode::kBehindCall, 0);
    }
    if (!scanner.broken() && !last) return false;
    // No call after all: what was read is text, unless a part of it has been told as a call.
    if (!begun)
      delta.content += (options.tools == ToolStyle::kHermes ? std::string(kToolCall) : "") + raw;
    scanner = {};
    begun = false;
    raw.clear();
    return Enter(Mode::kContent, 0);
  }

  bool ReadBehindCall(bool last) {
    const size_t space = SpaceAtFront(buffer);
    const std::string_view text = std::string_view(buffer).substr(space);
    trims = true;
    if (text.empty()) {
      if (last) buffer.clear();
      return false;
    }
    if (options.tools == ToolStyle::kHermes) {
      const Found end = Begins(text, kToolCallEnd);
      if (end == Found::kMore) {
        if (last) buffer.clear();  // the answer was cut off within the tag
        return false;
      }
      const size_t tag = end == Found::kYes ? kToolCallEnd.size() : 0;
      return Enter(Mode::kContent, space + tag);
    }
    if (options.tools == ToolStyle::kMistral) {
      if (text[0] == ',') return Enter(Mode::kCall, space + 1);
      return Enter(Mode::kContent, space + (text[0] == ']' ? 1 : 0));
    }
    if (text[0] == ';') return Enter(Mode::kCall, space + 1);
    return Enter(text[0] == '{' ? Mode::kCall : Mode::kContent, space);
  }

  AnswerParserOptions options;
  Mode mode;
  bool may_reason;
  bool reasoned = false;  ///< reasoning has begun
  bool trims = false;     ///< space at the front of the content is left out
  bool begun = false;     ///< the call's name has been told
  int calls = 0;
  std::string buffer, raw;
  grammar::CallScanner scanner;
  grammar::HarmonyReader harmony;
};

AnswerParser::AnswerParser(const AnswerParserOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
AnswerParser::~AnswerParser() = default;
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;

AnswerDelta AnswerParser::Push(std::string_view text) {
  return Guarded([&] {
    impl_->buffer += text;
    return impl_->Read(false);
  });
}

AnswerDelta AnswerParser::Finish() {
  return Guarded([&] { return impl_->Read(true); });
}

int AnswerParser::calls() const {
  return impl_->options.harmony ? impl_->harmony.calls() : impl_->calls;
}

ToolStyle ToolStyleOf(std::string_view chat_template) {
  const auto has = [&](std::string_view text) {
    return chat_template.find(text) != std::string_view::npos;
  };
  if (IsHarmony(chat_template)) return ToolStyle::kHarmony;
  if (has("<function=")) return ToolStyle::kNone;  // calls in XML
  if (has(kToolCall)) return ToolStyle::kHermes;
  if (has(kToolCalls)) return has("[ARGS]") ? ToolStyle::kNone : ToolStyle::kMistral;
  const bool llama3 = has(kPythonTag) || (has("<|start_header_id|>") && has("ipython"));
  return llama3 ? ToolStyle::kLlama3 : ToolStyle::kNone;
}

std::string_view Name(ToolStyle style) {
  switch (style) {
    case ToolStyle::kNone: return "none";
    case ToolStyle::kHermes: return "hermes";
    case ToolStyle::kLlama3: return "llama3";
    case ToolStyle::kMistral: return "mistral";
    case ToolStyle::kHarmony: return "harmony";
  }
  return "none";
}

}  // namespace oort
