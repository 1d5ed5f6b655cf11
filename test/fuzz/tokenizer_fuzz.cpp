// SPDX-License-Identifier: MIT
// Any bytes as a tokenizer (tokenizer.json, sentencepiece model or tokenizer.bin, by the first
// byte) and as its text: an Error, or ids whose text is valid UTF-8 however it is decoded.
#include <cstdlib>
#include <string_view>

#include "harness.h"
#include "oort/error.h"
#include "oort/tokenizer.h"
#include "text/utf8.h"

namespace {

using oort::Tokenizer;

constexpr std::string_view kText = "Hello  world 123 naïve 你好 <s>ab</s>\n\t'll \xFF\xE2\x82";

void Try(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<int32_t> ids = tokenizer.Encode(text);
  oort::TokenStream stream(tokenizer, {false});
  std::string streamed;
  for (const int32_t id : ids) streamed += stream.Push(id);
  streamed += stream.Flush();
  const std::string whole = tokenizer.Decode(ids, {false});
  if (streamed != whole || !oort::text::IsValidUtf8(whole)) std::abort();
}

}  // namespace

oort::fuzz::Target oort::fuzz::MakeTarget() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const Tokenizer tokenizer = bytes.starts_with('{')    ? Tokenizer::FromJson(bytes)
                                : bytes.starts_with('\n') ? Tokenizer::FromSentencePiece(bytes)
                                                          : Tokenizer::FromLlama2c(bytes, 300);
    Try(tokenizer, kText);
    Try(tokenizer, bytes.substr(0, 2000));
    oort::fuzz::CountWhole();
  } catch (const oort::Error&) {
  }
  return 0;
}
