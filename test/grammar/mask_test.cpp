// SPDX-License-Identifier: MIT
// Masks over a vocabulary against every single token, and whole answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "oort/error.h"
#include "oort/grammar.h"
#include "tokenizer/byte_level.h"

namespace oort {
namespace {

using Json = nlohmann::json;

/// A byte-level vocabulary: all bytes, pieces that JSON is made of, and random ones. Its last two
/// tokens are special.
Tokenizer ByteLevelTokenizer() {
  Json vocab = Json::object();
  std::vector<std::string> pieces;
  const auto add = [&](const std::string& bytes) {
    const std::string piece = tokenizer::ToByteLevel(bytes);
    if (vocab.contains(piece)) return;
    vocab[piece] = vocab.size();
    pieces.push_back(bytes);
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (const char* text :
       {"{\"",  "\":",   "\": \"", "\",", "\", \"", "\"}",  "}}",   "]}",       "null",
        "true", "false", "name",   "ab",  "\n  ",   "  ",   " \"",  "\xE2\x82", "\xAC\"",
        "00",   "123",   "1.5",    "-1",  "\\u",    "\\\"", "\"}]}"}) {
    add(text);
  }
  std::mt19937 random(7);
  while (pieces.size() < 1500) {
    std::string piece = pieces[random() % pieces.size()] + pieces[random() % pieces.size()];
    if (piece.size() < 24) add(piece);
  }
  const auto special = [&](const char* text) {
    return Json{{"id", 0},         {"content", text},     {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  const Json json = {
      {"version", "1.0"},
      {"added_tokens", {special("<end>"), special("{\"special\":1}")}},
      {"pre_tokenizer",
       {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
      {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
  return Tokenizer::FromJson(json.dump());
}

/// One of sentencepiece's kind: spaces are ▁, bytes are <0x0A>, and the first space is not seen.
Tokenizer SpmTokenizer() {
  VocabularySpec spec;
  spec.kind = "llama";
  spec.tokens = {"<unk>", "<s>", "</s>"};
  spec.types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    spec.tokens.push_back(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
    spec.types.push_back(6);
  }
  for (const char* piece : {"▁", "▁{", "▁yes", "yes", "no", "▁no", "{\"", "a", "b", "\":", "▁1",
                            "1", "}", "ye", "s", "▁▁yes", "€"}) {
    spec.tokens.emplace_back(piece);
    spec.types.push_back(1);
  }
  spec.scores.assign(spec.tokens.size(), 0);
  spec.bos = 1;
  spec.eos = 2;
  spec.unk = 0;
  return Tokenizer::FromVocabulary(spec);
}

std::vector<GrammarSpec> Specs() {
  return {
      GrammarSpec::JsonObject(),
      GrammarSpec::JsonSchema(R"({"type": "object", "properties": {
        "name": {"type": "string"}, "n": {"type": "integer", "minimum": -12, "maximum": 300},
        "list": {"type": "array", "items": {"$ref": "#"}, "maxItems": 3},
        "tag": {"enum": ["x", "xy", null]}, "short": {"type": "string", "maxLength": 5}},
        "required": ["name", "list"], "additionalProperties": {"type": "number"}})"),
      GrammarSpec::Gbnf(
          "root ::= s\ns ::= \"a\" s s | \"b\" | [^ab]{2,5} \",\" | \"\\\"\" . t\nt ::= \"}\"*"),
      GrammarSpec::Regex("(ab|a|\u20ac|\\d{1,3}){2,9}"),
      GrammarSpec::Choice({"yes", "yes yes", "no", "name\u20ac"}),
  };
}

std::vector<int32_t> Allowed(TokenConstraint& constraint, size_t vocabulary) {
  std::vector<uint32_t> bits((vocabulary + 31) / 32);
  constraint.Mask(bits);
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < 32 * bits.size(); ++i) {
    if (bits[i / 32] >> (i % 32) & 1) tokens.push_back(static_cast<int32_t>(i));
  }
  return tokens;
}

void ExpectMasksOfAllTokens(const Tokenizer& tokenizer) {
  const size_t vocabulary = tokenizer.size() + 40;  // models have some more than their tokenizers
  const GrammarCompiler compiler(tokenizer, vocabulary, {.prepare_ms = 0});
  for (const GrammarSpec& spec : Specs()) {
    std::mt19937 random(3);
    size_t tokens = 0;
    for (int answer = 0; answer < 3; ++answer) {
      std::unique_ptr<TokenConstraint> constraint = compiler.Compile(spec);
      for (int step = 0; step < 15; ++step) {
        const std::vector<int32_t> allowed = Allowed(*constraint, vocabulary);
        std::vector<int32_t> accepted;
        auto probe = constraint->Clone();
        for (int32_t token = 0; token < static_cast<int32_t>(vocabulary); ++token) {
          if (!probe->Accept(token)) continue;  // which changes nothing
          accepted.push_back(token);
          probe = constraint->Clone();
        }
        ASSERT_EQ(allowed, accepted) << spec.text << " step " << step;
        if (allowed.empty()) {
          EXPECT_TRUE(constraint->done()) << spec.text;
          break;
        }
        ++tokens;
        ASSERT_TRUE(constraint->Accept(allowed[random() % allowed.size()]));
      }
    }
    EXPECT_GT(tokens, 4U);
  }
}

TEST(GrammarMask, HasExactlyTheTokensThatAreAccepted) {
  ExpectMasksOfAllTokens(ByteLevelTokenizer());
  ExpectMasksOfAllTokens(SpmTokenizer());
}

TEST(GrammarMask, LeavesSpecialTokensOut) {
  const Tokenizer tokenizer = ByteLevelTokenizer();
  const GrammarCompiler compiler(tokenizer, tokenizer.size());
  auto constraint = compiler.Compile(GrammarSpec::JsonObject());
  const int32_t special = *tokenizer.IdOf("{\"special\":1}");
  const std::vector<int32_t> allowed = Allowed(*constraint, tokenizer.size());
  EXPECT_EQ(std::ranges::count(allowed, special), 0);
  EXPECT_FALSE(constraint->Accept(special));
  EXPECT_FALSE(constraint->Accept(-1));
  EXPECT_FALSE(constraint->Accept(1 << 20));
}

TEST(GrammarMask, CountsTheFirstTokenAsItIsSeen) {
  const Tokenizer tokenizer = SpmTokenizer();
  ASSERT_TRUE(tokenizer.drops_first_space());
  const GrammarCompiler compiler(tokenizer, tokenizer.size());
  auto constraint = compiler.Compile(GrammarSpec::Choice({"yes", "no yes"}));
  const auto id = [&](const char* piece) { return *tokenizer.IdOf(piece); };
  const std::vector<int32_t> first = Allowed(*constraint, tokenizer.size());
  for (const char* piece : {"yes", "▁yes", "no", "▁no", "ye"}) {
    EXPECT_EQ(std::ranges::count(first, id(piece)), 1) << piece;
  }
  for (const char* piece : {"▁", "▁▁yes", "a"}) {
    EXPECT_EQ(std::ranges::count(first, id(piece)), 0) << piece;
  }
  ASSERT_TRUE(constraint->Accept(id("▁no")));
  EXPECT_FALSE(constraint->Accept(id("yes")));
  ASSERT_TRUE(constraint->Accept(id("▁yes")));
  EXPECT_TRUE(constraint->done());
  EXPECT_EQ(tokenizer.Decode(std::vector<int32_t>{id("▁no"), id("▁yes")}), "no yes");
}

TEST(GrammarMask, BytesOfTokensAreWhatDecodingGives) {
  for (const Tokenizer& tokenizer : {ByteLevelTokenizer(), SpmTokenizer()}) {
    const std::vector<std::string> bytes = tokenizer.TokenBytes();
    std::mt19937 random(5);
    for (int i = 0; i < 200; ++i) {
      std::vector<int32_t> ids = {*tokenizer.IdOf("a")};
      std::string text = "a";
      for (int k = 0; k < 6; ++k) {
        ids.push_back(static_cast<int32_t>(random() % tokenizer.size()));
        text += bytes[static_cast<size_t>(ids.back())];
      }
      const std::string decoded = tokenizer.Decode(ids);
      // What is no UTF-8 is decoded otherwise, which answers under a grammar never are.
      if (decoded.find("\xEF\xBF\xBD") == std::string::npos) {
        EXPECT_EQ(decoded, text);
      }
    }
  }
}

TEST(GrammarMask, PrefixComesFirst) {
  const Tokenizer tokenizer = ByteLevelTokenizer();
  const GrammarCompiler compiler(tokenizer, tokenizer.size());
  const int32_t mark = *tokenizer.IdOf("{\"special\":1}");
  auto constraint = compiler.Compile(GrammarSpec::Regex("a?"), std::vector<int32_t>{mark});
  EXPECT_EQ(Allowed(*constraint, tokenizer.size()), std::vector<int32_t>{mark});
  EXPECT_FALSE(constraint->done());
  EXPECT_FALSE(constraint->Accept(*tokenizer.IdOf("a")));
  ASSERT_TRUE(constraint->Accept(mark));
  EXPECT_TRUE(constraint->done());
  ASSERT_TRUE(constraint->Accept(*tokenizer.IdOf("a")));
  EXPECT_TRUE(Allowed(*constraint, tokenizer.size()).empty());
}

/// Answers of random tokens are JSON that says what the schema says: nothing else can come out.
TEST(GrammarMask, RandomAnswersParse) {
  const Tokenizer tokenizer = ByteLevelTokenizer();
  const GrammarCompiler compiler(tokenizer, tokenizer.size());
  const GrammarSpec spec = GrammarSpec::JsonSchema(R"({"type": "object", "properties": {
    "id": {"type": "integer", "minimum": 0, "maximum": 99999},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 8},
    "maxItems": 4}, "ok": {"type": "boolean"}}, "required": ["id", "tags", "ok"],
    "additionalProperties": false})");
  int complete = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    auto constraint = compiler.Compile(spec);
    std::vector<int32_t> answer;
    while (answer.size() < 300) {
      const std::vector<int32_t> allowed = Allowed(*constraint, tokenizer.size());
      if (allowed.empty()) break;
      answer.push_back(allowed[random() % allowed.size()]);
      ASSERT_TRUE(constraint->Accept(answer.back()));
    }
    if (!constraint->done()) continue;
    ++complete;
    const Json value = Json::parse(tokenizer.Decode(answer));
    EXPECT_TRUE(value.at("id").is_number_integer());
    EXPECT_TRUE(value.at("ok").is_boolean());
    EXPECT_LE(value.at("tags").size(), 4U);
    EXPECT_EQ(value.size(), 3U);
  }
  EXPECT_GT(complete, 60);
}

TEST(GrammarMask, LongAnswersKeepTheirMemorySmall) {
  const Tokenizer tokenizer = ByteLevelTokenizer();
  const GrammarCompiler compiler(tokenizer, tokenizer.size());
  // Each place of the answer is another state: without bounds all of them would be kept.
  auto constraint = compiler.Compile(GrammarSpec::Regex("([ab]{900}[0-9]){900}"));
  const int32_t a = *tokenizer.IdOf("a");
  const int32_t digit = *tokenizer.IdOf("1");
  for (int i = 0; i < 30 * 901; ++i) ASSERT_TRUE(constraint->Accept(i % 901 == 900 ? digit : a));
  EXPECT_FALSE(constraint->Accept(digit));
}

TEST(GrammarCompiler, IsSharedByThreads) {
  const Tokenizer tokenizer = ByteLevelTokenizer();
  const GrammarCompiler compiler(tokenizer, tokenizer.size(), {.cache_bytes = 1 << 20});
  std::vector<std::thread> threads;
  std::vector<size_t> counts(4);
  for (size_t t = 0; t < counts.size(); ++t) {
    threads.emplace_back([&, t] {
      for (const GrammarSpec& spec : Specs()) {
        auto constraint = compiler.Compile(spec);
        std::mt19937 random(1);
        for (int i = 0; i < 20; ++i) {
          const std::vector<int32_t> allowed = Allowed(*constraint, tokenizer.size());
          counts[t] += allowed.size();
          if (allowed.empty()) break;
          constraint->Accept(allowed[random() % allowed.size()]);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const size_t count : counts) EXPECT_EQ(count, counts[0]);
  EXPECT_GT(counts[0], 0U);
}

}  // namespace
}  // namespace oort
