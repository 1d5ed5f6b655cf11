// SPDX-License-Identifier: MIT
#include "grammar/harmony.h"

#include <algorithm>
#include <array>

namespace oort {
namespace grammar {
namespace {

constexpr std::string_view kStart = "<|start|>", kChannel = "<|channel|>", kMessage = "<|message|>";
/// What a body ends at: its own end, and where a model forgets that, the next message.
constexpr std::array<std::string_view, 5> kEnds = {"<|end|>", "<|call|>", "<|return|>", kStart,
                                                   kChannel};
/// Headers are short: what is longer is none.
constexpr size_t kLongestHeader = 1024;

constexpr std::string_view kSpace = " \n\r\t";

/// The word behind `mark`, up to a space or the next tag; empty where there is none.
std::string_view WordBehind(std::string_view header, std::string_view mark) {
  const size_t at = header.find(mark);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = header.substr(at + mark.size());
  return rest.substr(0, rest.find_first_of(" \n\r\t<"));
}

}  // namespace

size_t BegunTag(std::string_view text, std::string_view tag) {
  size_t most = std::min(text.size(), tag.size() - 1);
  while (most > 0 && !tag.starts_with(text.substr(text.size() - most))) --most;
  return most;
}

void HarmonyReader::Read(std::string& buffer, bool last, AnswerDelta& delta) {
  while (ReadMode(buffer, last, delta)) {
  }
  if (!last) return;
  if (mode_ == Mode::kBody) EndMessage(delta);
  buffer.clear();
}

bool HarmonyReader::ReadMode(std::string& buffer, bool last, AnswerDelta& delta) {
  switch (mode_) {
    case Mode::kBegin: return ReadBegin(buffer, last);
    case Mode::kHeader: return ReadHeader(buffer, last, delta);
    case Mode::kBody: return ReadBody(buffer, last, delta);
    case Mode::kBetween: return ReadBetween(buffer, delta);
  }
  return false;
}

/// The prompt ends with "<|start|>assistant", which a header goes on with, or within a message.
bool HarmonyReader::ReadBegin(std::string& buffer, bool last) {
  const size_t space = std::min(buffer.find_first_not_of(kSpace), buffer.size());
  const std::string_view text = std::string_view(buffer).substr(space);
  bool undecided = text.empty();
  for (const std::string_view tag : {kChannel, kStart, std::string_view("to=")}) {
    if (text.starts_with(tag)) {
      mode_ = Mode::kHeader;
      return true;
    }
    undecided |= tag.starts_with(text);
  }
  if (undecided && !last) return false;
  mode_ = Mode::kBody;
  return true;
}

bool HarmonyReader::ReadHeader(std::string& buffer, bool last, AnswerDelta& delta) {
  const size_t end = buffer.find(kMessage);
  if (end == std::string::npos) {
    // One that the answer is too short for says nothing.
    if (last || buffer.size() < kLongestHeader) return false;
    BeginMessage({}, delta);
    // Without its first byte the tag is none, and what is behind it is read on.
    Say(std::string_view(buffer).substr(0, 1), delta);
    buffer.erase(0, 1);
    return true;
  }
  BeginMessage(std::string_view(buffer).substr(0, end), delta);
  buffer.erase(0, end + kMessage.size());
  return true;
}

void HarmonyReader::BeginMessage(std::string_view header, AnswerDelta& delta) {
  mode_ = Mode::kBody;
  said_ = false;
  // A recipient stands before the channel or behind it.
  std::string_view recipient = WordBehind(header, "to=");
  if (finds_calls_ && !recipient.empty()) {
    constexpr std::string_view kFunctions = "functions.";
    if (recipient.starts_with(kFunctions)) recipient.remove_prefix(kFunctions.size());
    if (!recipient.empty()) {
      kind_ = Kind::kCall;
      ToolCallDelta call;
      call.index = calls_++;
      call.name = recipient;
      delta.calls.push_back(std::move(call));
      return;
    }
  }
  kind_ = WordBehind(header, kChannel) == "analysis" ? Kind::kReasoning : Kind::kContent;
}

void HarmonyReader::Say(std::string_view text, AnswerDelta& delta) {
  if (text.empty()) return;
  if (kind_ == Kind::kCall) {
    ToolCallDelta part;
    part.index = calls_ - 1;
    part.arguments = text;
    delta.calls.push_back(std::move(part));
  } else {
    const bool reasons = kind_ == Kind::kReasoning;
    std::string& to = reasons ? delta.reasoning : delta.content;
    bool& any = reasons ? reasoning_ : content_;
    // Messages of one kind are told as one text.
    if (!said_ && any) to += '\n';
    to += text;
    any = true;
  }
  said_ = true;
}

/// A call without arguments has none, which JSON says so.
void HarmonyReader::EndMessage(AnswerDelta& delta) {
  if (kind_ == Kind::kCall && !said_) Say("{}", delta);
}

bool HarmonyReader::ReadBody(std::string& buffer, bool last, AnswerDelta& delta) {
  size_t end = std::string::npos;
  std::string_view tag;
  size_t begun = 0;
  for (const std::string_view one : kEnds) {
    begun = std::max(begun, BegunTag(buffer, one));
    const size_t at = buffer.find(one);
    if (at >= end) continue;
    end = at;
    tag = one;
  }
  if (end == std::string::npos) {
    const size_t take = buffer.size() - (last ? 0 : begun);
    Say(std::string_view(buffer).substr(0, take), delta);
    buffer.erase(0, take);
    return false;
  }
  Say(std::string_view(buffer).substr(0, end), delta);
  EndMessage(delta);
  const bool next = tag == kStart || tag == kChannel;
  buffer.erase(0, end + (next ? 0 : tag.size()));
  mode_ = next ? Mode::kHeader : Mode::kBetween;
  return true;
}

/// Nothing stands between two messages; what does is content.
bool HarmonyReader::ReadBetween(std::string& buffer, AnswerDelta& delta) {
  const size_t space = std::min(buffer.find_first_not_of(kSpace), buffer.size());
  const std::string_view text = std::string_view(buffer).substr(space);
  if (text.empty()) return false;
  bool undecided = false;
  for (const std::string_view tag : {kStart, kChannel}) {
    if (text.starts_with(tag)) {
      buffer.erase(0, space);
      mode_ = Mode::kHeader;
      return true;
    }
    undecided |= tag.starts_with(text);
  }
  if (undecided) return false;  // a tag that the answer is too short for
  BeginMessage({}, delta);
  return true;
}

}  // namespace grammar

bool IsHarmony(std::string_view chat_template) {
  return chat_template.find("<|channel|>") != std::string_view::npos &&
         chat_template.find("<|message|>") != std::string_view::npos;
}

}  // namespace oort
