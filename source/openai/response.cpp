// SPDX-License-Identifier: MIT
#include "openai/response.h"

#include <algorithm>
#include <chrono>

#include "openai/logprobs.h"
#include "text/utf8.h"

namespace oort::openai {
namespace {

/// Whether a token ends an answer rather than being part of its text.
bool EndsAnswer(const GenerateCall& call, const LanguageModel& model, int32_t token) {
  const std::vector<int32_t>& stops = call.requests[0].stop_tokens;
  return (!call.ignore_end && model.IsEnd(token)) || std::ranges::find(stops, token) != stops.end();
}

/// Tokens of the answer that are part of its text: without the one that ended it.
size_t VisibleTokens(const GenerateCall& call, const LanguageModel& model,
                     const GeneratedAnswer& answer) {
  const bool ended = !answer.tokens.empty() && EndsAnswer(call, model, answer.tokens.back());
  return answer.tokens.size() - (ended ? 1 : 0);
}

void WriteIds(JsonWriter& out, std::span<const int32_t> ids) {
  out.Open('[');
  for (const int32_t id : ids) out.Integer(id);
  out.Close(']');
}

void WriteUsage(JsonWriter& out, const Usage& usage) {
  out.Open('{');
  out.Key("prompt_tokens").Integer(usage.prompt);
  out.Key("completion_tokens").Integer(usage.completion);
  out.Key("total_tokens").Integer(usage.prompt + usage.completion);
  out.Key("prompt_tokens_details").Open('{').Key("cached_tokens").Integer(usage.cached).Close('}');
  out.Key("completion_tokens_details").Open('{');
  out.Key("reasoning_tokens").Integer(usage.reasoning).Close('}').Close('}');
}

void WriteHead(JsonWriter& out, const ResponseHead& head, std::string_view object,
               const ServedModel& served) {
  out.Open('{');
  out.Key("id").String(head.id);
  out.Key("object").String(object);
  out.Key("created").Integer(head.created);
  out.Key("model").String(served.name);
  out.Key("system_fingerprint").StringOrNull(served.fingerprint);
}

/// Why it ended; `stop_reason` is the text or the token that did, as in vLLM.
void WriteEnd(JsonWriter& out, const GenerateCall& call, const GeneratedAnswer& answer, int calls) {
  out.Key("finish_reason").String(FinishName(answer, calls));
  const std::vector<int32_t>& stops = call.requests[0].stop_tokens;
  const bool by_token = answer.stop.empty() && answer.finish == FinishReason::kStop &&
                        !answer.tokens.empty() &&
                        std::ranges::find(stops, answer.tokens.back()) != stops.end();
  out.Key("stop_reason");
  if (by_token) {
    out.Integer(answer.tokens.back());
  } else {
    out.StringOrNull(answer.stop);
  }
  WriteEndedBy(out, answer);
}

void WriteMessage(JsonWriter& out, const AnswerMessage& message) {
  out.Open('{').Key("role").String("assistant").Key("content");
  if (message.calls.empty()) {
    out.String(message.content);
  } else {
    out.StringOrNull(message.content);
  }
  out.Key("refusal").Null();
  if (!message.reasoning.empty()) out.Key("reasoning_content").String(message.reasoning);
  if (!message.calls.empty()) {
    out.Key("tool_calls").Open('[');
    for (const ToolCall& call : message.calls) {
      out.Open('{').Key("id").String(call.id).Key("type").String("function");
      out.Key("function").Open('{').Key("name").String(call.name);
      out.Key("arguments").String(call.arguments).Close('}').Close('}');
    }
    out.Close(']');
  }
  out.Close('}');
}

/// The log-probabilities of a choice: of the prompt's tokens, too, where that is echoed.
void WriteLogprobs(JsonWriter& out, const GenerateCall& call, const ServedModel& served,
                   const PromptFacts& prompt, const GenerateResult& result,
                   const GeneratedAnswer& answer) {
  const Tokenizer& tokenizer = served.model->tokenizer();
  const size_t visible = VisibleTokens(call, *served.model, answer);
  const ScoredTokens scored{std::span(answer.tokens).first(visible), answer.logprobs, answer.top};
  if (call.endpoint == Endpoint::kChat) {
    WriteChatLogprobs(out, tokenizer, scored);
  } else if (call.echo) {
    const ScoredTokens echoed{prompt.ids, result.prompt_logprobs, result.prompt_top};
    WriteEchoLogprobs(out, tokenizer, echoed, scored, text::CountCodePoints(prompt.text));
  } else {
    WriteCompletionLogprobs(out, tokenizer, scored, 0);
  }
}

void WriteChoice(JsonWriter& out, const GenerateCall& call, const ServedModel& served,
                 const PromptFacts& prompt, const GenerateResult& result, size_t i, size_t index) {
  const GeneratedAnswer& answer = AnswerOf(result, i);
  out.Open('{').Key("index").Integer(static_cast<int64_t>(index));
  int calls = 0;
  if (call.endpoint == Endpoint::kChat) {
    const AnswerMessage message = ReadMessage(call, answer);
    calls = static_cast<int>(message.calls.size());
    out.Key("message");
    WriteMessage(out, message);
  } else {
    out.Key("text").String((call.echo ? prompt.text : "") + TextOf(call, answer));
  }
  out.Key("logprobs");
  if (call.logprobs) {
    WriteLogprobs(out, call, served, prompt, result, answer);
  } else {
    out.Null();
  }
  WriteEnd(out, call, answer, calls);
  if (call.return_token_ids) {
    out.Key("prompt_token_ids");
    WriteIds(out, prompt.ids);
    out.Key("token_ids");
    WriteIds(out, answer.tokens);
  }
  out.Close('}');
}

/// Tokens up to the end of what an answer says in channels that are reasoning.
int64_t TokensOfAnalysis(const GenerateCall& call, const LanguageModel& model,
                         const GeneratedAnswer& answer) {
  TokenStream stream(model.tokenizer(), {.skip_special = false});
  AnswerParser parser(call.parts);
  int64_t tokens = 0;
  for (size_t i = 0; i < answer.tokens.size(); ++i) {
    if (!parser.Push(stream.Push(answer.tokens[i])).reasoning.empty()) {
      tokens = static_cast<int64_t>(i) + 1;
    }
  }
  return tokens;
}

/// Tokens up to the end of an answer's reasoning.
int64_t ReasoningTokens(const GenerateCall& call, const LanguageModel& model,
                        const GeneratedAnswer& answer) {
  if (ReadMessage(call, answer).reasoning.empty()) return 0;
  if (call.parts.harmony) return TokensOfAnalysis(call, model, answer);
  constexpr std::string_view kEnd = "</think>";
  TokenStream stream(model.tokenizer());
  std::string text;
  int64_t tokens = 0;
  for (const int32_t token : answer.tokens) {
    const size_t before = text.size() - std::min(text.size(), kEnd.size());
    text += stream.Push(token);
    ++tokens;
    if (text.find(kEnd, before) != std::string::npos) break;
  }
  return tokens;
}

/// A part of a chat's message; empty where it says nothing.
void WriteDelta(JsonWriter& out, const AnswerDelta& delta) {
  out.Open('{');
  if (!delta.content.empty()) out.Key("content").String(delta.content);
  if (!delta.reasoning.empty()) out.Key("reasoning_content").String(delta.reasoning);
  if (!delta.calls.empty()) {
    out.Key("tool_calls").Open('[');
    for (const ToolCallDelta& part : delta.calls) {
      out.Open('{').Key("index").Integer(part.index);
      const bool first = !part.name.empty();
      if (first) out.Key("id").String(part.id).Key("type").String("function");
      out.Key("function").Open('{');
      if (first) out.Key("name").String(part.name);
      out.Key("arguments").String(part.arguments).Close('}').Close('}');
    }
    out.Close(']');
  }
  out.Close('}');
}

bool SaysNothing(const AnswerDelta& delta) {
  return delta.content.empty() && delta.reasoning.empty() && delta.calls.empty();
}

}  // namespace

ResponseHead NewResponseHead(Endpoint endpoint) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {RandomId(endpoint == Endpoint::kChat ? "chatcmpl-" : "cmpl-"),
          std::chrono::duration_cast<std::chrono::seconds>(now).count()};
}

Usage UsageOf(const GenerateCall& call, const ServedModel& served,
              std::span<const GenerateResult> results) {
  Usage usage;
  for (const PromptFacts& prompt : call.prompts) usage.prompt += prompt.tokens;
  const auto add = [&](const GeneratedAnswer& answer) {
    usage.completion += static_cast<int64_t>(answer.tokens.size());
    if (call.parts.reasoning) usage.reasoning += ReasoningTokens(call, *served.model, answer);
  };
  for (const GenerateResult& result : results) {
    add(result);
    for (const GeneratedAnswer& other : result.others) add(other);
    usage.cached += result.reused_tokens;
  }
  return usage;
}

std::string ResponseBody(const GenerateCall& call, const ServedModel& served,
                         const ResponseHead& head, std::span<const GenerateResult> results) {
  JsonWriter out;
  WriteHead(out, head, call.endpoint == Endpoint::kChat ? "chat.completion" : "text_completion",
            served);
  out.Key("choices").Open('[');
  const auto n = static_cast<size_t>(call.n);
  for (size_t p = 0; p < call.prompts.size(); ++p) {
    for (size_t i = 0; i < n; ++i) {
      WriteChoice(out, call, served, call.prompts[p], results[p], i, p * n + i);
    }
  }
  out.Close(']').Key("usage");
  WriteUsage(out, UsageOf(call, served, results));
  out.Close('}');
  return out.Take();
}

ChunkWriter::ChunkWriter(const GenerateCall& call, const ServedModel& served, ResponseHead head)
    : call_(call), served_(served), head_(std::move(head)), prompts_(call.prompts.size()) {
  for (size_t i = 0; i < call.choices(); ++i) choices_.emplace_back(call);
  for (const PromptFacts& prompt : call.prompts) running_.prompt += prompt.tokens;
}

JsonWriter ChunkWriter::Begin() const {
  JsonWriter out;
  const bool chat = call_.endpoint == Endpoint::kChat;
  WriteHead(out, head_, chat ? "chat.completion.chunk" : "text_completion", served_);
  return out;
}

void ChunkWriter::Prompt(size_t prompt, std::vector<float> logprobs,
                         std::vector<std::vector<TokenLogprob>> top) {
  prompts_[prompt] = {std::move(logprobs), std::move(top)};
}

void ChunkWriter::WriteHeld(JsonWriter& out, Choice& choice, std::string_view text,
                            const ScoredTokens& echoed) const {
  out.Key("logprobs");
  if (!call_.logprobs || (choice.held.empty() && echoed.tokens.empty())) {
    out.Null();
  } else {
    const ScoredTokens scored{choice.held, choice.logprobs, choice.top};
    const Tokenizer& tokenizer = served_.model->tokenizer();
    if (call_.endpoint == Endpoint::kChat) {
      WriteChatLogprobs(out, tokenizer, scored);
    } else {
      WriteEchoLogprobs(out, tokenizer, echoed, scored, choice.offset);
    }
  }
  if (call_.return_token_ids) {
    out.Key("token_ids");
    WriteIds(out, choice.ids);
  }
  choice.ids.clear();
  choice.offset += text::CountCodePoints(text);
  choice.held.clear();
  choice.logprobs.clear();
  choice.top.clear();
}

std::string ChunkWriter::Chunk(int64_t choice, const AnswerDelta& delta, const GeneratedAnswer* end,
                               const ScoredTokens& echoed, bool begins) {
  JsonWriter out = Begin();
  Choice& state = choices_[static_cast<size_t>(choice)];
  out.Key("choices").Open('[').Open('{').Key("index").Integer(choice);
  if (call_.endpoint == Endpoint::kCompletions) {
    out.Key("text").String(delta.content);
  } else {
    out.Key("delta");
    WriteDelta(out, delta);
  }
  if (begins) WritePromptIds(out, choice);
  WriteHeld(out, state, delta.content, echoed);
  if (end != nullptr) {
    WriteEnd(out, call_, *end, state.message.calls());
  } else {
    out.Key("finish_reason").Null();
  }
  out.Close('}').Close(']');
  if (call_.continuous_usage) {
    out.Key("usage");
    WriteUsage(out, running_);
  } else if (call_.include_usage) {
    out.Key("usage").Null();
  }
  out.Close('}');
  return out.Take();
}

void ChunkWriter::WritePromptIds(JsonWriter& out, int64_t choice) const {
  if (!call_.return_token_ids) return;
  out.Key("prompt_token_ids");
  WriteIds(out, call_.prompts[static_cast<size_t>(choice / call_.n)].ids);
}

std::string ChunkWriter::First(int64_t choice) {
  if (call_.endpoint == Endpoint::kCompletions) {
    if (!call_.echo && !call_.return_token_ids) return {};
    const auto p = static_cast<size_t>(choice / call_.n);
    const PromptFacts& prompt = call_.prompts[p];
    ScoredTokens echoed;
    if (call_.echo && call_.logprobs) {
      echoed = {prompt.ids, prompts_[p].logprobs, prompts_[p].top};
    }
    return Chunk(choice, {prompt.text, {}, {}}, nullptr, echoed, true);
  }
  JsonWriter out = Begin();
  out.Key("choices").Open('[').Open('{').Key("index").Integer(choice);
  out.Key("delta").Open('{').Key("role").String("assistant").Key("content").String("").Close('}');
  WritePromptIds(out, choice);
  out.Key("logprobs").Null().Key("finish_reason").Null().Close('}').Close(']');
  if (call_.include_usage) out.Key("usage").Null();
  out.Close('}');
  return out.Take();
}

std::string ChunkWriter::Piece(int64_t choice, const GeneratedPiece& piece) {
  Choice& state = choices_[static_cast<size_t>(choice)];
  if (piece.token >= 0) {
    ++running_.completion;
    if (call_.return_token_ids) state.ids.push_back(piece.token);
    if (call_.logprobs && !EndsAnswer(call_, *served_.model, piece.token)) {
      state.held.push_back(piece.token);
      state.logprobs.push_back(piece.logprob);
      state.top.emplace_back(piece.top.begin(), piece.top.end());
    }
  }
  const AnswerDelta delta = Part(state, piece.text);
  return SaysNothing(delta) ? std::string() : Chunk(choice, delta, nullptr);
}

/// What a piece of text is: in a completion, itself.
AnswerDelta ChunkWriter::Part(Choice& state, std::string_view text) const {
  if (call_.endpoint == Endpoint::kChat) return state.message.Push(text);
  return {std::string(text), {}, {}};
}

std::vector<std::string> ChunkWriter::Last(int64_t choice, const GeneratedAnswer& answer) {
  Choice& state = choices_[static_cast<size_t>(choice)];
  std::vector<std::string> chunks;
  const auto add = [&](const AnswerDelta& delta) {
    if (!SaysNothing(delta)) chunks.push_back(Chunk(choice, delta, nullptr));
  };
  if (call_.include_stop) add(Part(state, answer.stop));
  if (call_.endpoint == Endpoint::kChat) add(state.message.Finish());
  chunks.push_back(Chunk(choice, {}, &answer));
  return chunks;
}

std::string ChunkWriter::UsageChunk(const Usage& usage) {
  if (!call_.include_usage) return {};
  JsonWriter out = Begin();
  out.Key("choices").Open('[').Close(']').Key("usage");
  WriteUsage(out, usage);
  out.Close('}');
  return out.Take();
}

}  // namespace oort::openai
