// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oort/text_range.h"

namespace oort {

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant"
  std::string content;
};

/// These messages as ChatInputs::messages wants them.
std::string ToJson(std::span<const ChatMessage> messages);

/// What strftime_now writes out.
struct ChatTime {
  int year = 1970, month = 1, day = 1;
  int hour = 0, minute = 0, second = 0;
};

/// What a template is given, as JSON: content in parts, tool calls and whatever else a model knows
/// pass through as they are.
struct ChatInputs {
  std::string messages;  ///< an array of objects
  std::string tools;     ///< an array; empty for none
  std::string documents;
  std::string special_tokens;         ///< an object: bos_token, eos_token … as text
  std::string variables;              ///< an object of further variables: enable_thinking …
  bool add_generation_prompt = true;  ///< end with what begins an answer
  /// End with the last message's content, so that the answer goes on with it; nothing begins an
  /// answer then.
  bool continue_final_message = false;
  std::optional<ChatTime> now;  ///< the local time unless given
};

/// A template comes with a model from anywhere: beyond these it is stopped.
struct ChatLimits {
  int64_t steps = 20'000'000;
  size_t output_bytes = size_t{64} << 20;
  size_t memory_bytes = size_t{512} << 20;
};

/// A conversation as text, and which bytes of it the inputs brought rather than the template: in
/// these a special token is nothing but its characters.
struct RenderedChat {
  std::string text;
  std::vector<TextRange> user;  ///< in order
};

/// A conversation as the text a model was trained on, by the Jinja template that came with it. The
/// result is that of transformers' apply_chat_template, to be tokenized without adding special
/// tokens. Templates reach nothing but their inputs.
/// Thread contract: immutable, so one can be rendered by many threads at once.
class ChatTemplate {
 public:
  /// Throws kInvalidModel with the line where the template is wrong.
  static ChatTemplate Parse(std::string_view source);

  /// Throws what the template raises (raise_exception) and what goes wrong in it with the line:
  /// kInvalidArgument, kUnsupported, or kLimit. There is no fallback.
  std::string Render(const ChatInputs& inputs, const ChatLimits& limits = {}) const;
  /// The same, with what came from messages, tools, documents and variables marked.
  RenderedChat RenderMarked(const ChatInputs& inputs, const ChatLimits& limits = {}) const;

 private:
  struct Content;
  explicit ChatTemplate(std::shared_ptr<const Content> content);
  std::shared_ptr<const Content> content_;
};

}  // namespace oort
