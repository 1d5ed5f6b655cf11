// SPDX-License-Identifier: MIT
#include "openai/json_writer.h"
#include "openai/response.h"
#include "serve/responses.h"

namespace oort::serve {
namespace {

using openai::Json;
using openai::JsonWriter;

/// One of "output": reasoning, a message, or a call of a tool.
struct Item {
  enum class Kind : unsigned char { kReasoning, kMessage, kCall } kind;
  std::string id, text;  ///< of a call, its arguments
  std::string call_id = {}, name = {};
};

void WritePart(JsonWriter& out, const Item& item) {
  const bool reasoning = item.kind == Item::Kind::kReasoning;
  out.Open('{').Key("type").String(reasoning ? "reasoning_text" : "output_text");
  out.Key("text").String(item.text);
  if (!reasoning) out.Key("annotations").Open('[').Close(']').Key("logprobs").Open('[').Close(']');
  out.Close('}');
}

void WriteItem(JsonWriter& out, const Item& item, std::string_view status) {
  out.Open('{').Key("id").String(item.id);
  if (item.kind == Item::Kind::kCall) {
    out.Key("type").String("function_call").Key("status").String(status);
    out.Key("call_id").String(item.call_id).Key("name").String(item.name);
    out.Key("arguments").String(item.text).Close('}');
    return;
  }
  const bool message = item.kind == Item::Kind::kMessage;
  out.Key("type").String(message ? "message" : "reasoning").Key("status").String(status);
  if (message) {
    out.Key("role").String("assistant");
  } else {
    out.Key("summary").Open('[').Close(']');
  }
  out.Key("content").Open('[');
  if (status != "in_progress") WritePart(out, item);
  out.Close(']').Close('}');
}

class Responses : public AnswerFormat {
 public:
  Responses(const openai::GenerateCall& call, const openai::ServedModel& served, Json told)
      : call_(call),
        served_(served),
        told_(std::move(told)),
        id_(openai::RandomId("resp_")),
        created_(openai::NewResponseHead(openai::Endpoint::kChat).created),
        reader_(call) {}

  std::string Whole(std::span<const GenerateResult> results) override {
    Part(reader_.Push(openai::TextOf(call_, results[0])));
    Finish();
    return Response(results);
  }
  std::string ErrorBody(const openai::ApiError& error) const override {
    return openai::ErrorBody(error);
  }
  std::string_view stream_type() const override { return "text/event-stream; charset=utf-8"; }
  std::string First(int64_t) override {
    const std::string response = Response({});
    const auto write = [&](JsonWriter& out) { out.Key("response").Raw(response); };
    std::string events = Event("response.created", write);
    events += Event("response.in_progress", write);
    return events;
  }
  std::string Piece(int64_t, const GeneratedPiece& piece) override {
    return Part(reader_.Push(piece.text));
  }
  std::string Last(int64_t, const GeneratedAnswer&) override { return Finish(); }
  std::string End(std::span<const GenerateResult> results) override {
    const bool whole = results[0].finish == FinishReason::kStop;
    const std::string response = Response(results);
    return Event(whole ? "response.completed" : "response.incomplete",
                 [&](JsonWriter& out) { out.Key("response").Raw(response); });
  }
  std::string Failure(const openai::ApiError& error) override {
    return Event("error", [&](JsonWriter& out) {
      out.Key("code").StringOrNull(error.code).Key("message").String(error.message);
      out.Key("param").StringOrNull(error.param);
    });
  }

 private:
  template <typename Write>
  std::string Event(std::string_view name, const Write& write) {
    JsonWriter out;
    out.Open('{').Key("type").String(name).Key("sequence_number").Integer(sequence_++);
    write(out);
    out.Close('}');
    return "event: " + std::string(name) + "\ndata: " + out.Take() + "\n\n";
  }
  int64_t index() const { return static_cast<int64_t>(items_.size()) - 1; }
  /// An event about the last item.
  template <typename Write>
  std::string ItemEvent(std::string_view name, const Write& write) {
    return Event(name, [&](JsonWriter& out) {
      out.Key("output_index").Integer(index());
      write(out);
    });
  }
  /// One about the text of the last item, which is its first part.
  template <typename Write>
  std::string PartEvent(const std::string& name, const Write& write) {
    return ItemEvent(name, [&](JsonWriter& out) {
      out.Key("item_id").String(items_.back().id);
      if (items_.back().kind != Item::Kind::kCall) out.Key("content_index").Integer(0);
      write(out);
    });
  }
  /// How events about the text of an item begin.
  static std::string TextName(const Item& item) {
    switch (item.kind) {
      case Item::Kind::kReasoning: return "response.reasoning_text";
      case Item::Kind::kMessage: return "response.output_text";
      case Item::Kind::kCall: break;
    }
    return "response.function_call_arguments";
  }

  std::string Begin(Item item) {
    std::string events = EndItem();
    items_.push_back(std::move(item));
    open_ = true;
    events += ItemEvent("response.output_item.added", [&](JsonWriter& out) {
      out.Key("item");
      WriteItem(out, items_.back(), "in_progress");
    });
    if (items_.back().kind == Item::Kind::kMessage) {
      events += PartEvent("response.content_part.added", [&](JsonWriter& out) {
        out.Key("part");
        WritePart(out, items_.back());
      });
    }
    return events;
  }
  std::string EndItem() {
    if (!open_) return {};
    open_ = false;
    const Item& item = items_.back();
    std::string events = PartEvent(TextName(item) + ".done", [&](JsonWriter& out) {
      const bool call = item.kind == Item::Kind::kCall;
      out.Key(call ? "arguments" : "text").String(item.text);
      if (call) out.Key("name").String(item.name);
      if (item.kind == Item::Kind::kMessage) out.Key("logprobs").Open('[').Close(']');
    });
    if (item.kind == Item::Kind::kMessage) {
      events += PartEvent("response.content_part.done", [&](JsonWriter& out) {
        out.Key("part");
        WritePart(out, item);
      });
    }
    events += ItemEvent("response.output_item.done", [&](JsonWriter& out) {
      out.Key("item");
      WriteItem(out, item, "completed");
    });
    return events;
  }
  std::string Add(std::string_view text) {
    if (text.empty()) return {};
    items_.back().text += text;
    return PartEvent(TextName(items_.back()) + ".delta", [&](JsonWriter& out) {
      out.Key("delta").String(text);
      if (items_.back().kind == Item::Kind::kMessage) {
        out.Key("logprobs").Open('[').Close(']');
      }
    });
  }
  std::string Part(const AnswerDelta& delta) {
    std::string events;
    const auto add = [&](Item::Kind kind, const char* prefix, const std::string& text) {
      if (text.empty()) return;
      if (!open_ || items_.back().kind != kind) {
        events += Begin({kind, openai::RandomId(prefix), {}});
      }
      events += Add(text);
    };
    add(Item::Kind::kReasoning, "rs_", delta.reasoning);
    add(Item::Kind::kMessage, "msg_", delta.content);
    for (const ToolCallDelta& part : delta.calls) {
      if (!part.name.empty()) {
        events += Begin({Item::Kind::kCall, openai::RandomId("fc_"), {}, part.id, part.name});
      }
      events += Add(part.arguments);
    }
    return events;
  }
  std::string Finish() {
    std::string events = Part(reader_.Finish());
    // An answer without a word is a message, too.
    if (items_.empty()) events += Begin({Item::Kind::kMessage, openai::RandomId("msg_"), {}});
    events += EndItem();
    return events;
  }

  /// As it is now; without results, before it has begun.
  std::string Response(std::span<const GenerateResult> results) const {
    JsonWriter out;
    const bool done = !results.empty();
    const bool whole = done && results[0].finish == FinishReason::kStop;
    out.Open('{').Key("id").String(id_).Key("object").String("response");
    out.Key("created_at").Integer(created_);
    out.Key("status").String(!done ? "in_progress" : whole ? "completed" : "incomplete");
    out.Key("error").Null().Key("incomplete_details");
    if (done && !whole) {
      out.Open('{').Key("reason").String("max_output_tokens");
      openai::WriteEndedBy(out, results[0]);
      out.Close('}');
    } else {
      out.Null();
    }
    out.Key("model").String(served_.name).Key("output").Open('[');
    for (size_t i = 0; done && i < items_.size(); ++i) {
      const bool cut = !whole && i + 1 == items_.size();
      WriteItem(out, items_[i], cut ? "incomplete" : "completed");
    }
    out.Close(']');
    const auto told = [&](const char* key, const char* otherwise) {
      out.Key(key).Raw(told_.contains(key) ? told_[key].dump() : otherwise);
    };
    told("instructions", "null");
    told("max_output_tokens", "null");
    told("parallel_tool_calls", "true");
    told("temperature", "null");
    told("text", R"({"format":{"type":"text"}})");
    told("tool_choice", "\"auto\"");
    told("tools", "[]");
    told("top_p", "null");
    out.Key("previous_response_id").Null().Key("store").Bool(false);
    out.Key("truncation").String("disabled").Key("metadata").Open('{').Close('}').Key("usage");
    if (done) {
      WriteUsage(out, openai::UsageOf(call_, served_, results));
    } else {
      out.Null();
    }
    out.Close('}');
    return out.Take();
  }
  static void WriteUsage(JsonWriter& out, const openai::Usage& usage) {
    out.Open('{').Key("input_tokens").Integer(usage.prompt);
    out.Key("input_tokens_details").Open('{').Key("cached_tokens").Integer(usage.cached).Close('}');
    out.Key("output_tokens").Integer(usage.completion);
    out.Key("output_tokens_details")
        .Open('{')
        .Key("reasoning_tokens")
        .Integer(usage.reasoning)
        .Close('}');
    out.Key("total_tokens").Integer(usage.prompt + usage.completion).Close('}');
  }

  const openai::GenerateCall& call_;
  const openai::ServedModel& served_;
  const Json told_;
  const std::string id_;
  const int64_t created_;
  openai::MessageReader reader_;
  std::vector<Item> items_;
  bool open_ = false;  ///< the last item goes on
  int64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<AnswerFormat> ResponsesFormat(const openai::GenerateCall& call,
                                              const openai::ServedModel& served, Json told) {
  return std::make_unique<Responses>(call, served, std::move(told));
}

}  // namespace oort::serve
