// SPDX-License-Identifier: MIT
#include "openai/response.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

#include "openai/logprobs.h"
#include "text/utf8.h"

namespace oort::openai {
namespace {

/// OpenAI's word where it has one.
std::string_view FinishName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kDeadline: return "deadline";
  }
  return "stop";
}

/// Tokens of the answer that are part of its text: without the one that ended it.
size_t VisibleTokens(const GenerateCall& call, const LanguageModel& model,
                     const GenerateResult& result) {
  const bool ended =
      !call.ignore_end && !result.tokens.empty() && model.IsEnd(result.tokens.back());
  return result.tokens.size() - (ended ? 1 : 0);
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
  out.Close('}');
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

/// Why it ended; `stop_reason` is the text that did, as in vLLM.
void WriteEnd(JsonWriter& out, const GenerateResult& result) {
  out.Key("finish_reason").String(FinishName(result.finish));
  out.Key("stop_reason").StringOrNull(result.stop);
}

void WriteChoice(JsonWriter& out, const GenerateCall& call, const ServedModel& served,
                 const PromptFacts& prompt, const GenerateResult& result, int64_t index) {
  const bool chat = call.endpoint == Endpoint::kChat;
  out.Open('{').Key("index").Integer(index);
  if (chat) {
    out.Key("message").Open('{').Key("role").String("assistant");
    out.Key("content").String(result.text).Key("refusal").Null().Close('}');
  } else {
    out.Key("text").String(call.echo ? prompt.text + result.text : result.text);
  }
  out.Key("logprobs");
  const size_t visible = VisibleTokens(call, *served.model, result);
  if (!call.logprobs) {
    out.Null();
  } else {
    const ScoredTokens scored{std::span(result.tokens).first(visible), result.logprobs, result.top};
    const Tokenizer& tokenizer = served.model->tokenizer();
    if (chat) {
      WriteChatLogprobs(out, tokenizer, scored);
    } else {
      WriteCompletionLogprobs(out, tokenizer, scored, 0);
    }
  }
  WriteEnd(out, result);
  if (call.return_token_ids) {
    out.Key("prompt_token_ids");
    WriteIds(out, prompt.ids);
    out.Key("token_ids");
    WriteIds(out, result.tokens);
  }
  out.Close('}');
}

/// Of the candidates of one prompt the n likeliest, by the mean of their log-probabilities.
std::vector<size_t> PickBest(std::span<const GenerateResult> candidates, size_t n) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (n == candidates.size()) return order;
  const auto mean = [&](size_t i) {
    const std::vector<float>& scores = candidates[i].logprobs;
    const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
    return scores.empty() ? -INFINITY : sum / static_cast<double>(scores.size());
  };
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return mean(a) > mean(b); });
  order.resize(n);
  return order;
}

}  // namespace

ResponseHead NewResponseHead(Endpoint endpoint) {
  static constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuv";
  std::random_device random;
  std::string id = endpoint == Endpoint::kChat ? "chatcmpl-" : "cmpl-";
  for (int i = 0; i < 24; ++i) id += kDigits[random() % kDigits.size()];
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {id, std::chrono::duration_cast<std::chrono::seconds>(now).count()};
}

Usage UsageOf(const GenerateCall& call, std::span<const GenerateResult> results) {
  Usage usage;
  for (const PromptFacts& prompt : call.prompts) usage.prompt += prompt.tokens;
  for (const GenerateResult& result : results) {
    usage.completion += static_cast<int64_t>(result.tokens.size());
  }
  // What the first candidate of a prompt found in the cache: the others find what it read.
  for (size_t i = 0; i < results.size(); i += static_cast<size_t>(call.candidates)) {
    usage.cached += results[i].reused_tokens;
  }
  return usage;
}

std::string ResponseBody(const GenerateCall& call, const ServedModel& served,
                         const ResponseHead& head, std::span<const GenerateResult> results) {
  JsonWriter out;
  WriteHead(out, head, call.endpoint == Endpoint::kChat ? "chat.completion" : "text_completion",
            served);
  out.Key("choices").Open('[');
  const auto candidates = static_cast<size_t>(call.candidates);
  int64_t index = 0;
  for (size_t p = 0; p < call.prompts.size(); ++p) {
    const auto of_prompt = results.subspan(p * candidates, candidates);
    for (const size_t i : PickBest(of_prompt, static_cast<size_t>(call.n))) {
      WriteChoice(out, call, served, call.prompts[p], of_prompt[i], index++);
    }
  }
  out.Close(']').Key("usage");
  WriteUsage(out, UsageOf(call, results));
  out.Close('}');
  return out.Take();
}

ChunkWriter::ChunkWriter(const GenerateCall& call, const ServedModel& served, ResponseHead head)
    : call_(call),
      served_(served),
      head_(std::move(head)),
      choices_(call.prompts.size() * static_cast<size_t>(call.n)) {
  for (const PromptFacts& prompt : call.prompts) running_.prompt += prompt.tokens;
}

JsonWriter ChunkWriter::Begin() const {
  JsonWriter out;
  const bool chat = call_.endpoint == Endpoint::kChat;
  WriteHead(out, head_, chat ? "chat.completion.chunk" : "text_completion", served_);
  return out;
}

void ChunkWriter::WriteHeld(JsonWriter& out, Choice& choice, std::string_view text) const {
  out.Key("logprobs");
  if (!call_.logprobs || choice.held.empty()) {
    out.Null();
  } else {
    const ScoredTokens scored{choice.held, choice.logprobs, choice.top};
    const Tokenizer& tokenizer = served_.model->tokenizer();
    if (call_.endpoint == Endpoint::kChat) {
      WriteChatLogprobs(out, tokenizer, scored);
    } else {
      WriteCompletionLogprobs(out, tokenizer, scored, choice.offset);
    }
  }
  if (call_.return_token_ids) {
    out.Key("token_ids");
    WriteIds(out, choice.held);
  }
  choice.offset += text::CountCodePoints(text);
  choice.held.clear();
  choice.logprobs.clear();
  choice.top.clear();
}

std::string ChunkWriter::Chunk(int64_t choice, std::string_view text, const GenerateResult* end) {
  JsonWriter out = Begin();
  out.Key("choices").Open('[').Open('{').Key("index").Integer(choice);
  if (call_.endpoint == Endpoint::kCompletions) {
    out.Key("text").String(text);
  } else {
    out.Key("delta").Open('{');
    if (!text.empty()) out.Key("content").String(text);
    out.Close('}');
  }
  WriteHeld(out, choices_[static_cast<size_t>(choice)], text);
  if (end != nullptr) {
    WriteEnd(out, *end);
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

std::string ChunkWriter::First(int64_t choice) {
  if (call_.endpoint == Endpoint::kCompletions) {
    const PromptFacts& prompt = call_.prompts[static_cast<size_t>(choice / call_.n)];
    return call_.echo ? Chunk(choice, prompt.text, nullptr) : std::string();
  }
  JsonWriter out = Begin();
  out.Key("choices").Open('[').Open('{').Key("index").Integer(choice);
  out.Key("delta").Open('{').Key("role").String("assistant").Key("content").String("").Close('}');
  out.Key("logprobs").Null().Key("finish_reason").Null().Close('}').Close(']');
  if (call_.include_usage) out.Key("usage").Null();
  out.Close('}');
  return out.Take();
}

std::string ChunkWriter::Piece(int64_t choice, const GeneratedPiece& piece) {
  Choice& state = choices_[static_cast<size_t>(choice)];
  if (piece.token >= 0) {
    ++running_.completion;
    const bool ends = !call_.ignore_end && served_.model->IsEnd(piece.token);
    if (!ends && (call_.logprobs || call_.return_token_ids)) {
      state.held.push_back(piece.token);
      state.logprobs.push_back(piece.logprob);
      state.top.emplace_back(piece.top.begin(), piece.top.end());
    }
  }
  return piece.text.empty() ? std::string() : Chunk(choice, piece.text, nullptr);
}

std::string ChunkWriter::Last(int64_t choice, const GenerateResult& result) {
  return Chunk(choice, {}, &result);
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
