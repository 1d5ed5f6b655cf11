// SPDX-License-Identifier: MIT
#include "openai/answer_message.h"
#include "openai/json_writer.h"
#include "serve/anthropic.h"

namespace oort::serve {
namespace {

using openai::JsonWriter;

std::string_view AnthropicType(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 408:
    case 504: return "timeout_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

std::string NamedEvent(std::string_view name, JsonWriter data) {
  return "event: " + std::string(name) + "\ndata: " + data.Take() + "\n\n";
}

/// One message of blocks: thinking, text, and uses of tools.
class Anthropic : public AnswerFormat {
 public:
  Anthropic(const openai::GenerateCall& call, const openai::ServedModel& served)
      : call_(call), served_(served), id_(openai::RandomId("msg_")), reader_(call) {}

  std::string Whole(std::span<const GenerateResult> results) override {
    const openai::AnswerMessage message = openai::ReadMessage(call_, results[0]);
    JsonWriter out;
    BeginMessage(out);
    out.Key("content").Open('[');
    if (!message.reasoning.empty()) {
      out.Open('{').Key("type").String("thinking").Key("thinking").String(message.reasoning);
      out.Key("signature").String("").Close('}');
    }
    if (!message.content.empty() || (message.calls.empty() && message.reasoning.empty())) {
      out.Open('{').Key("type").String("text").Key("text").String(message.content).Close('}');
    }
    for (const openai::ToolCall& call : message.calls) {
      WriteToolUse(out, call.id, call.name, call.arguments);
    }
    out.Close(']');
    WriteStop(out, &results[0], static_cast<int>(message.calls.size()));
    out.Key("usage");
    WriteUsage(out, &results[0]);
    out.Close('}');
    return out.Take();
  }
  std::string ErrorBody(const openai::ApiError& error) const override {
    return AnthropicError(error);
  }
  std::string_view stream_type() const override { return "text/event-stream; charset=utf-8"; }
  std::string First(int64_t) override {
    JsonWriter start;
    start.Open('{').Key("type").String("message_start").Key("message");
    BeginMessage(start);
    start.Key("content").Open('[').Close(']');
    WriteStop(start, nullptr, 0);
    start.Key("usage");
    WriteUsage(start, nullptr);
    start.Close('}').Close('}');
    return NamedEvent("message_start", std::move(start));
  }
  std::string Piece(int64_t, const GeneratedPiece& piece) override {
    return Part(reader_.Push(piece.text));
  }
  std::string Last(int64_t, const GeneratedAnswer& answer) override {
    std::string events = Part(reader_.Finish());
    if (block_ == Block::kNone && index_ < 0) events += Open(Block::kText, nullptr);
    events += CloseBlock();
    JsonWriter delta, end;
    delta.Open('{').Key("type").String("message_delta").Key("delta").Open('{');
    WriteStop(delta, &answer, reader_.calls());
    delta.Close('}').Key("usage");
    WriteUsage(delta, &answer);
    delta.Close('}');
    end.Open('{').Key("type").String("message_stop").Close('}');
    return events + NamedEvent("message_delta", std::move(delta)) +
           NamedEvent("message_stop", std::move(end));
  }
  std::string End(std::span<const GenerateResult>) override { return {}; }
  std::string Failure(const openai::ApiError& error) override {
    return "event: error\ndata: " + AnthropicError(error) + "\n\n";
  }

 private:
  enum class Block : unsigned char { kNone, kThinking, kText, kToolUse };

  static void WriteToolUse(JsonWriter& out, std::string_view id, std::string_view name,
                           std::string_view arguments) {
    out.Open('{').Key("type").String("tool_use").Key("id").String(id).Key("name").String(name);
    // An input is an object; of arguments that were cut off there is none.
    const bool whole = openai::Json::accept(arguments);
    out.Key("input").Raw(whole ? arguments : "{}").Close('}');
  }

  std::string Part(const AnswerDelta& delta) {
    std::string events;
    const auto add = [&](Block block, const char* type, const char* key, std::string_view text) {
      if (text.empty()) return;
      if (block_ != block) events += Open(block, nullptr);
      events += Delta(type, key, text);
    };
    add(Block::kThinking, "thinking_delta", "thinking", delta.reasoning);
    add(Block::kText, "text_delta", "text", delta.content);
    for (const ToolCallDelta& part : delta.calls) {
      if (!part.name.empty()) events += Open(Block::kToolUse, &part);
      add(Block::kToolUse, "input_json_delta", "partial_json", part.arguments);
    }
    return events;
  }

  /// Begins a block, and ends the one before; `call`: the tool that is used.
  std::string Open(Block block, const ToolCallDelta* call) {
    std::string events = CloseBlock();
    block_ = block;
    JsonWriter out;
    out.Open('{').Key("type").String("content_block_start").Key("index").Integer(++index_);
    out.Key("content_block");
    if (call != nullptr) {
      WriteToolUse(out, call->id, call->name, "{}");
    } else if (block == Block::kThinking) {
      out.Open('{').Key("type").String("thinking").Key("thinking").String("");
      out.Key("signature").String("").Close('}');
    } else {
      out.Open('{').Key("type").String("text").Key("text").String("").Close('}');
    }
    out.Close('}');
    return events + NamedEvent("content_block_start", std::move(out));
  }
  std::string CloseBlock() {
    if (block_ == Block::kNone) return {};
    block_ = Block::kNone;
    JsonWriter out;
    out.Open('{').Key("type").String("content_block_stop").Key("index").Integer(index_).Close('}');
    return NamedEvent("content_block_stop", std::move(out));
  }
  std::string Delta(const char* type, const char* key, std::string_view text) const {
    JsonWriter out;
    out.Open('{').Key("type").String("content_block_delta").Key("index").Integer(index_);
    out.Key("delta").Open('{').Key("type").String(type).Key(key).String(text);
    out.Close('}').Close('}');
    return NamedEvent("content_block_delta", std::move(out));
  }

  void BeginMessage(JsonWriter& out) const {
    out.Open('{').Key("id").String(id_).Key("type").String("message");
    out.Key("role").String("assistant").Key("model").String(served_.name);
  }
  static void WriteStop(JsonWriter& out, const GeneratedAnswer* answer, int calls) {
    out.Key("stop_reason");
    if (answer == nullptr) {
      out.Null();
    } else if (!answer->stop.empty()) {
      out.String("stop_sequence");
    } else if (answer->finish != FinishReason::kStop) {
      out.String("max_tokens");
    } else {
      out.String(calls > 0 ? "tool_use" : "end_turn");
    }
    out.Key("stop_sequence").StringOrNull(answer == nullptr ? "" : answer->stop);
    if (answer != nullptr) openai::WriteEndedBy(out, *answer);
  }
  void WriteUsage(JsonWriter& out, const GeneratedAnswer* answer) const {
    const int64_t tokens = answer == nullptr ? 0 : static_cast<int64_t>(answer->tokens.size());
    out.Open('{').Key("input_tokens").Integer(call_.prompts[0].tokens);
    out.Key("output_tokens").Integer(tokens).Close('}');
  }

  const openai::GenerateCall& call_;
  const openai::ServedModel& served_;
  const std::string id_;
  openai::MessageReader reader_;
  Block block_ = Block::kNone;
  int64_t index_ = -1;  ///< of the block that was begun last
};

}  // namespace

std::string AnthropicError(const openai::ApiError& error) {
  JsonWriter out;
  out.Open('{').Key("type").String("error").Key("error").Open('{');
  out.Key("type").String(AnthropicType(error.status)).Key("message").String(error.message);
  out.Close('}').Close('}');
  return out.Take();
}

std::unique_ptr<AnswerFormat> AnthropicFormat(const openai::GenerateCall& call,
                                              const openai::ServedModel& served) {
  return std::make_unique<Anthropic>(call, served);
}

}  // namespace oort::serve
