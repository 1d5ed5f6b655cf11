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
  WriteEchoLogprobs(out, tokenizer, {}, scored, offset);
}

void WriteEchoLogprobs(JsonWriter& out, const Tokenizer& tokenizer, const ScoredTokens& echoed,
                       const ScoredTokens& scored, int64_t offset) {
  const size_t before = echoed.tokens.size();
  const auto known = [&](size_t i) { return i > 0 && i <= echoed.logprobs.size(); };
  // `echo` writes the token of the prompt at i, `answer` that of the answer.
  const auto list = [&](const char* name, auto&& echo, auto&& answer) {
    out.Key(name).Open('[');
    for (size_t i = 0; i < before; ++i) echo(i);
    for (size_t i = 0; i < scored.tokens.size(); ++i) answer(i);
    out.Close(']');
  };
  out.Open('{');
  list(
      "tokens", [&](size_t i) { out.String(tokenizer.BytesOf(echoed.tokens[i])); },
      [&](size_t i) { out.String(tokenizer.BytesOf(scored.tokens[i])); });
  list(
      "token_logprobs",
      [&](size_t i) { known(i) ? out.Number(echoed.logprobs[i - 1]) : out.Null(); },
      [&](size_t i) { out.Number(scored.logprobs[i]); });
  list(
      "top_logprobs",
      [&](size_t i) {
        if (known(i)) {
          WriteTopByText(out, tokenizer, echoed.top[i - 1]);
        } else {
          out.Null();
        }
      },
      [&](size_t i) { WriteTopByText(out, tokenizer, scored.top[i]); });
  TokenStream prompt(tokenizer), stream(tokenizer);
  int64_t at = 0;
  list(
      "text_offset",
      [&](size_t i) {
        out.Integer(at);
        at += text::CountCodePoints(prompt.Push(echoed.tokens[i]));
      },
      [&](size_t i) {
        out.Integer(offset);
        offset += text::CountCodePoints(stream.Push(scored.tokens[i]));
      });
  out.Close('}');
}

}  // namespace oort::openai
