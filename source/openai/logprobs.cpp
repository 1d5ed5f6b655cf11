// SPDX-License-Identifier: MIT
#include "openai/logprobs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "text/utf8.h"

namespace oort::openai {
namespace {

/// {token, logprob, bytes}: the token as text, and as its bytes, which may be half a character.
void WriteToken(JsonWriter& out, const Tokenizer& tokenizer, const TokenLogprob& entry) {
  const std::string bytes = tokenizer.BytesOf(entry.token);
  out.Key("token").String(bytes);
  out.Key("logprob").Number(entry.logprob);
  out.Key("bytes").Open('[');
  for (const char byte : bytes) out.Integer(static_cast<unsigned char>(byte));
  out.Close(']');
}

/// {"token": logprob}. Of two tokens with the same text the likelier stays, which comes first.
void WriteTopByText(JsonWriter& out, const Tokenizer& tokenizer,
                    std::span<const TokenLogprob> top) {
  std::vector<std::string> seen;
  out.Open('{');
  for (const TokenLogprob& entry : top) {
    std::string text = text::MakeValidUtf8(tokenizer.BytesOf(entry.token));
    if (std::ranges::find(seen, text) != seen.end()) continue;
    out.Key(text).Number(entry.logprob);
    seen.push_back(std::move(text));
  }
  out.Close('}');
}

}  // namespace

void WriteChatLogprobs(JsonWriter& out, const Tokenizer& tokenizer, const ScoredTokens& scored) {
  out.Open('{').Key("content").Open('[');
  for (size_t i = 0; i < scored.tokens.size(); ++i) {
    out.Open('{');
    WriteToken(out, tokenizer, {scored.tokens[i], scored.logprobs[i]});
    out.Key("top_logprobs").Open('[');
    for (const TokenLogprob& entry : scored.top[i]) {
      out.Open('{');
      WriteToken(out, tokenizer, entry);
      out.Close('}');
    }
    out.Close(']').Close('}');
  }
  out.Close(']').Key("refusal").Null().Close('}');
}

void WriteCompletionLogprobs(JsonWriter& out, const Tokenizer& tokenizer,
                             const ScoredTokens& scored, int64_t offset) {
  const auto list = [&](const char* name, auto&& write) {
    out.Key(name).Open('[');
    for (size_t i = 0; i < scored.tokens.size(); ++i) write(i);
    out.Close(']');
  };
  out.Open('{');
  list("tokens", [&](size_t i) { out.String(tokenizer.BytesOf(scored.tokens[i])); });
  list("token_logprobs", [&](size_t i) { out.Number(scored.logprobs[i]); });
  list("top_logprobs", [&](size_t i) { WriteTopByText(out, tokenizer, scored.top[i]); });
  TokenStream stream(tokenizer);
  list("text_offset", [&](size_t i) {
    out.Integer(offset);
    offset += text::CountCodePoints(stream.Push(scored.tokens[i]));
  });
  out.Close('}');
}

}  // namespace oort::openai
