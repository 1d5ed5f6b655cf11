// SPDX-License-Identifier: MIT
// What a GGUF says of tokenizers that came as tokenizer.json.
#include "tokenizer/gguf_spec.h"

#include <gtest/gtest.h>

#include "kit/errors.h"
#include "text/json.h"

namespace oort::tokenizer {
namespace {

using oort::testing::ExpectThrows;

json::Json ByteLevelStep() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", false}};
}

json::Json SplitAt(const std::string& pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

/// Letters and one merge; how text is cut is what differs.
TokenizerSource ByteLevelSource(const json::Json& cut, bool nfc, bool ignore_merges) {
  json::Json vocab;
  for (int i = 0; i < 26; ++i) vocab[std::string(1, static_cast<char>('a' + i))] = i;
  vocab["th"] = 26;
  json::Json file = {
      {"version", "1.0"},
      {"pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", json::Json::array({cut, ByteLevelStep()})}}},
      {"decoder", ByteLevelStep()},
      {"model",
       {{"type", "BPE"},
        {"vocab", vocab},
        {"merges", json::Json::array({"t h"})},
        {"ignore_merges", ignore_merges}}}};
  if (nfc) file["normalizer"] = {{"type", "NFC"}};
  TokenizerSource source;
  source.kind = TokenizerSource::Kind::kJson;
  source.bytes = file.dump();
  return source;
}

constexpr const char* kThreeDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kOneDigit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

TEST(GgufSpec, NamesThePreTokenizerByWhatItDoes) {
  const auto name = [](const json::Json& cut, bool nfc, bool ignore_merges) {
    return GgufSpecOf(ByteLevelSource(cut, nfc, ignore_merges), "llama", 32).pre;
  };
  EXPECT_EQ(name(SplitAt(kThreeDigits), false, true), "llama-bpe");
  EXPECT_EQ(name(SplitAt(kThreeDigits), false, false), "dbrx");
  EXPECT_EQ(name(SplitAt(kOneDigit), true, false), "qwen2");
  EXPECT_EQ(name(SplitAt(kOneDigit), false, false), "stablelm2");
  // SmolLM2 has the digits first, then a ByteLevel with GPT-2's pattern.
  TokenizerSource smollm =
      ByteLevelSource({{"type", "Digits"}, {"individual_digits", true}}, false, false);
  smollm.bytes.replace(smollm.bytes.rfind(R"("use_regex":false)"), 17, R"("use_regex":true)");
  EXPECT_EQ(GgufSpecOf(smollm, "llama", 32).pre, "smollm");
  ExpectThrows([&] { name(SplitAt(R"(\p{L}{2})"), false, false); }, ErrorCode::kUnsupported,
               "pre-tokenizer");
}

TEST(GgufSpec, FillsUpToTheEmbeddings) {
  const VocabularySpec spec =
      GgufSpecOf(ByteLevelSource(SplitAt(kOneDigit), true, false), "qwen2", 32);
  ASSERT_EQ(spec.tokens.size(), 32U);
  EXPECT_EQ(spec.tokens[26], "th");
  EXPECT_EQ(spec.tokens[31], "[PAD31]");
  EXPECT_EQ(spec.types[31], 5);
  EXPECT_EQ(spec.merges, std::vector<std::string>{"t h"});
  ExpectThrows([&] { GgufSpecOf(ByteLevelSource(SplitAt(kOneDigit), true, false), "qwen2", 20); },
               ErrorCode::kInvalidModel, "embedding");
}

/// As transformers makes them of sentencepiece models: earlier merges are better scores.
TEST(GgufSpec, MakesScoresOfMerges) {
  json::Json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  const char* const digits = "0123456789ABCDEF";
  for (int i = 0; i < 256; ++i) {
    vocab[std::string("<0x") + digits[i / 16] + digits[i % 16] + ">"] = 3 + i;
  }
  int next = 259;
  for (const char* piece :
       {"\xE2\x96\x81", "t", "h", "e", "he", "\xE2\x96\x81t", "\xE2\x96\x81the"}) {
    vocab[piece] = next++;
  }
  const std::string space = "\xE2\x96\x81";
  json::Json added = json::Json::array();
  for (const char* text : {"<unk>", "<s>", "</s>"}) {
    added.push_back({{"id", added.size()},
                     {"content", text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const json::Json prepend = {{"type", "Prepend"}, {"prepend", space}};
  const json::Json replace = {
      {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", space}};
  const json::Json file = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer",
       {{"type", "Sequence"}, {"normalizers", json::Json::array({prepend, replace})}}},
      {"decoder", {{"type", "ByteFallback"}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"byte_fallback", true},
        {"vocab", vocab},
        {"merges", json::Json::array({"h e", space + " t", space + "t he"})}}}};
  TokenizerSource source;
  source.kind = TokenizerSource::Kind::kJson;
  source.bytes = file.dump();
  source.config = R"({"bos_token":"<s>","eos_token":"</s>","unk_token":"<unk>"})";
  const VocabularySpec spec = GgufSpecOf(source, "llama", 272);
  EXPECT_EQ(spec.kind, "llama");
  EXPECT_EQ(spec.bos, 1);
  EXPECT_EQ(spec.unk, 0);
  EXPECT_EQ(spec.add_space_prefix, true);
  EXPECT_EQ(spec.types[3], 6);
  EXPECT_GT(spec.scores[263], spec.scores[264]);  // "he" merges before "▁t"
  EXPECT_EQ(Tokenizer::FromVocabulary(spec).Encode("the the"),
            Tokenizer::FromJson(source.bytes, source.config).Encode("the the"));
}

}  // namespace
}  // namespace oort::tokenizer
