// SPDX-License-Identifier: MIT
// Rules and refusals of tokenizers, one by one; whole pipelines are in tokenizer_cases_test.cpp.
#include "oort/tokenizer.h"

#include <gtest/gtest.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <thread>

#include "oort/error.h"
#include "text/regex.h"
#include "tokenizer/tokenizer_of.h"

namespace oort {
namespace {

using Ids = std::vector<int32_t>;
using RawJson = nlohmann::json;

ErrorCode CodeOf(const std::function<void()>& body, std::string* message = nullptr) {
  try {
    body();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::kInternal;
}

/// A byte-level vocabulary of a few merges, as text of a tokenizer.json.
RawJson SmallJson() {
  RawJson vocab = {{"a", 0}, {"b", 1}, {"ab", 2}, {"Ġ", 3}, {"Ġab", 4}, {"<unk>", 5}, {"c", 6}};
  RawJson merges = RawJson::array({RawJson::array({"a", "b"}), RawJson::array({"Ġ", "ab"})});
  return {
      {"version", "1.0"},
      {"added_tokens", RawJson::array()},
      {"pre_tokenizer",
       {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
      {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
      {"model", {{"type", "BPE"}, {"unk_token", "<unk>"}, {"vocab", vocab}, {"merges", merges}}}};
}

RawJson AddedTokenJson(const RawJson& id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

TEST(Tokenizer, KnowsItsPieces) {
  RawJson json = SmallJson();
  json["added_tokens"].push_back(AddedTokenJson(7, "<s>", true));
  const Tokenizer tokenizer =
      Tokenizer::FromJson(json.dump(), R"({"bos_token": {"content": "<s>"}, "eos_token": "c"})");
  EXPECT_EQ(tokenizer.size(), 8U);
  EXPECT_EQ(tokenizer.IdOf("Ġab"), 4);
  EXPECT_EQ(tokenizer.IdOf("nope"), std::nullopt);
  EXPECT_EQ(tokenizer.Piece(7), "<s>");
  EXPECT_EQ(tokenizer.Piece(99), "");
  EXPECT_EQ(tokenizer.Piece(-1), "");
  EXPECT_TRUE(tokenizer.IsSpecial(7));
  EXPECT_FALSE(tokenizer.IsSpecial(4));
  EXPECT_EQ(tokenizer.bos(), 7);
  EXPECT_EQ(tokenizer.eos(), 6);
  EXPECT_EQ(tokenizer.Encode("ab ab<s>"), (Ids{2, 4, 7}));
  EXPECT_EQ(tokenizer.Encode("ab<s>", {true, false}), (Ids{2, 5, 5, 5}));
  EXPECT_EQ(tokenizer.Decode(Ids{2, 4, 7, 1000, -5}), "ab ab");
  EXPECT_EQ(tokenizer.Decode(Ids{2, 4, 7}, {false}), "ab ab<s>");
}

TEST(Tokenizer, BadUtf8IsReadAsReplacementCharacters) {
  const Tokenizer tokenizer = Tokenizer::FromJson(SmallJson().dump());
  EXPECT_EQ(tokenizer.Encode("ab\xFF\xE2\x82"), tokenizer.Encode("ab\xEF\xBF\xBD\xEF\xBF\xBD"));
}

TEST(Tokenizer, StreamHoldsBackUnfinishedCharacters) {
  VocabularySpec spec;
  spec.kind = "llama";
  spec.tokens = {"<unk>", "<s>", "</s>", "▁a"};
  spec.types = {2, 3, 3, 1};
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", byte);
    spec.tokens.emplace_back(text);
    spec.types.push_back(6);
  }
  spec.tokens.emplace_back("▁");
  spec.types.push_back(1);
  spec.scores.assign(spec.tokens.size(), -1.0F);
  const Tokenizer tokenizer = Tokenizer::FromVocabulary(spec);
  const Ids ids = tokenizer.Encode("a é€");
  ASSERT_EQ(ids.front(), 1);
  TokenStream stream(tokenizer);
  std::vector<std::string> parts;
  for (const int32_t id : ids) parts.push_back(stream.Push(id));
  // A run of byte pieces is one text or none, so it comes when the run is over.
  EXPECT_EQ(parts[1], "a");
  std::string all;
  for (const std::string& part : parts) all += part;
  EXPECT_EQ(all + stream.Flush(), "a é€");
  const int32_t e2 = 4 + 0xE2;
  EXPECT_EQ(tokenizer.Decode(Ids{e2, e2}), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(stream.Push(e2), "");
  EXPECT_EQ(stream.Flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(Tokenizer, ThreadsShareOne) {
  const Tokenizer tokenizer = Tokenizer::FromJson(SmallJson().dump());
  const std::string text = "ab ab cab aab abc";
  const Ids expected = tokenizer.Encode(text);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i)
        wrong[static_cast<size_t>(t)] += tokenizer.Encode(text) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

/// Each entry breaks the small file in one place.
TEST(Tokenizer, RefusesBrokenJson) {
  const std::string whole = SmallJson().dump();
  Tokenizer::FromJson(whole);
  for (size_t length = 0; length < whole.size(); length += 7) {
    EXPECT_EQ(CodeOf([&] { Tokenizer::FromJson(whole.substr(0, length)); }),
              ErrorCode::kInvalidModel);
  }
  const std::pair<const char*, RawJson> zoo[] = {
      {"/version", "2.0"},
      {"/model/type", "Morse"},
      {"/model/vocab", RawJson::array()},
      {"/model/vocab/a", -1},
      {"/model/vocab/a", 4000000000U},
      {"/model/vocab/a", 1.5},
      {"/model/vocab/a", 1},  // as "b"
      {"/model/merges", RawJson::array({"a"})},
      {"/model/merges", RawJson::array({"a b c"})},
      {"/model/merges", RawJson::array({"a z"})},
      {"/model/merges", RawJson::array({"b a"})},
      {"/model/dropout", 0.1},
      {"/model/fuse_unk", 3},
      {"/pre_tokenizer/type", "Magic"},
      {"/pre_tokenizer/add_prefix_space", "yes"},
      {"/decoder/type", "Magic"},
      {"/normalizer", {{"type", "Magic"}}},
      {"/normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "a("}}}, {"content", ""}}},
      {"/normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "(a)\\1"}}}, {"content", ""}}},
      {"/normalizer",
       {{"type", "Replace"}, {"pattern", {{"Regex", "\\p{Nope}"}}}, {"content", ""}}},
      {"/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "!"}}},
      {"/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "/////w=="}}},
      {"/post_processor", {{"type", "Magic"}}},
      {"/post_processor", {{"type", "BertProcessing"}, {"cls", {"x"}}, {"sep", {"y", 1}}}},
      {"/post_processor",
       {{"type", "TemplateProcessing"},
        {"special_tokens", RawJson::array()},
        {"single", RawJson::array()},
        {"pair", RawJson::array()}}},
      {"/added_tokens", RawJson::array({RawJson{{"content", "x"}}})},
      {"/added_tokens", RawJson::array({AddedTokenJson(-1, "x", false)})},
      {"/added_tokens", RawJson::array({AddedTokenJson(int64_t{1} << 33, "x", false)})},
      {"/added_tokens", RawJson::array({AddedTokenJson("7", "x", false)})},
      {"/added_tokens", RawJson::array({AddedTokenJson(nullptr, "x", false)})},
      {"/footnotes", true},
      {"/truncation", {{"max_length", -1}, {"strategy", "OnlyFirst"}}},
      {"/truncation", {{"max_length", 1}}},
      {"/truncation", {{"max_length", 1}, {"strategy", "Shortest"}}},
      {"/padding", {{"strategy", "Wide"}}},
      {"/pre_tokenizer", {{"type", "FixedLength"}, {"length", 0}}},
      {"/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "__"}}},
  };
  for (const auto& [where, what] : zoo) {
    RawJson json = SmallJson();
    json[RawJson::json_pointer(where)] = what;
    std::string message;
    const ErrorCode code = CodeOf([&] { Tokenizer::FromJson(json.dump()); }, &message);
    EXPECT_TRUE(code == ErrorCode::kInvalidModel || code == ErrorCode::kUnsupported)
        << where << " " << what << ": " << message;
  }
  EXPECT_EQ(CodeOf([] { Tokenizer::FromJson(std::string(100000, '[')); }),
            ErrorCode::kInvalidModel);
}

TEST(Tokenizer, NamesTheComponentThatItDoesNotKnow) {
  RawJson json = SmallJson();
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Rune"}}}}};
  std::string message;
  EXPECT_EQ(CodeOf([&] { Tokenizer::FromJson(json.dump()); }, &message), ErrorCode::kUnsupported);
  EXPECT_NE(message.find("Rune"), std::string::npos) << message;
}

/// The ids of "abc": a, b and c between two special tokens.
Ids Truncated(const std::string& strategy, int max_length, bool add_special = true) {
  RawJson json = SmallJson();
  json["model"]["merges"] = RawJson::array();
  json["truncation"] = {{"max_length", max_length}, {"strategy", strategy}, {"stride", 0}};
  json["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"<s>", 8}}, {"sep", {"</s>", 9}}};
  return Tokenizer::FromJson(json.dump()).Encode("abc", {add_special, true});
}

TEST(Tokenizer, TruncatesTheTextBetweenSpecialTokens) {
  const Ids whole = {8, 0, 1, 6, 9};
  EXPECT_EQ(Truncated("LongestFirst", 5), whole);
  EXPECT_EQ(Truncated("LongestFirst", 4), (Ids{8, 0, 1, 9}));
  EXPECT_EQ(Truncated("OnlyFirst", 2), (Ids{8, 9}));
  EXPECT_EQ(Truncated("OnlyFirst", 1), whole);  // less than the special tokens alone
  EXPECT_EQ(Truncated("OnlyFirst", 1, false), (Ids{0}));
  EXPECT_EQ(Truncated("OnlyFirst", 0, false), (Ids{}));
}

TEST(Tokenizer, RefusesToCutWhereOnlySecondTextsAreCut) {
  EXPECT_EQ(Truncated("OnlySecond", 5), (Ids{8, 0, 1, 6, 9}));
  EXPECT_EQ(CodeOf([] { Truncated("OnlySecond", 4); }), ErrorCode::kLimit);
  EXPECT_EQ(Truncated("OnlySecond", 2), (Ids{8, 9}));  // no room at all is not an error there
}

TEST(Tokenizer, PatternsGiveUpInsteadOfHanging) {
  const text::Regex regex("(?:a|a|aa)+$b");
  text::Regex::Scratch scratch;
  const std::string text(60, 'a');
  EXPECT_EQ(CodeOf([&] { regex.ForEach(text, scratch, [](text::Regex::Match) {}); }),
            ErrorCode::kLimit);
  EXPECT_EQ(CodeOf([] { text::Regex("((a{1000}){1000}){1000}"); }), ErrorCode::kLimit);
  EXPECT_EQ(CodeOf([] { text::Regex(std::string(5000, '(')); }), ErrorCode::kInvalidModel);
}

TEST(Tokenizer, LongInputsTakeTheirTimeAndNoMore) {
  const Tokenizer tokenizer = Tokenizer::FromJson(SmallJson().dump());
  EXPECT_EQ(tokenizer.Encode(std::string(200000, 'a')).size(), 200000U);
  std::string pairs;
  for (int i = 0; i < 100000; ++i) pairs += "ab";
  EXPECT_EQ(tokenizer.Encode(pairs).size(), 100000U);
  EXPECT_EQ(tokenizer.Encode(std::string(200000, ' ')).size(), 200000U);
}

TEST(Tokenizer, TokensThatTakeSpacesAlongLookAtEachSpaceOnce) {
  constexpr size_t kLines = 500000;
  const auto count = [](bool lstrip, bool rstrip) {
    RawJson json = SmallJson();
    json["added_tokens"].push_back(AddedTokenJson(7, "\n", false));
    json["added_tokens"][0]["lstrip"] = lstrip;
    json["added_tokens"][0]["rstrip"] = rstrip;
    return Tokenizer::FromJson(json.dump()).Encode(std::string(kLines, '\n')).size();
  };
  EXPECT_EQ(count(true, false), kLines);
  EXPECT_EQ(count(false, true), kLines);
  EXPECT_EQ(count(true, true), 1U);
}

VocabularySpec SmallGpt2(const std::string& pre) {
  VocabularySpec spec;
  spec.kind = "gpt2";
  spec.pre = pre;
  spec.tokens = {"a", "b", "ab", "<|end|>", "Ġ", "1", "11"};
  spec.types = {1, 1, 1, 3, 1, 1, 1};
  spec.merges = {"a b", "1 1", "x y"};  // the last one is of no use, and no harm
  spec.eos = 3;
  return spec;
}

TEST(TokenizerVocabulary, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(Tokenizer::FromVocabulary(SmallGpt2("gpt-2")).Encode("abab<|end|>11"),
            (Ids{2, 2, 3, 6}));
  EXPECT_EQ(Tokenizer::FromVocabulary(SmallGpt2("smollm")).Encode("ab11"), (Ids{2, 5, 5}));
  const auto refused = [](auto change) {
    VocabularySpec spec = SmallGpt2("gpt-2");
    change(spec);
    return CodeOf([&] { Tokenizer::FromVocabulary(spec); });
  };
  using Spec = VocabularySpec;
  EXPECT_EQ(refused([](Spec& s) { s.pre = "quipu"; }), ErrorCode::kUnsupported);
  EXPECT_EQ(refused([](Spec& s) { s.kind = "rwkv"; }), ErrorCode::kUnsupported);
  EXPECT_EQ(refused([](Spec& s) { s.tokens.clear(); }), ErrorCode::kInvalidModel);
  EXPECT_EQ(refused([](Spec& s) { s.types.pop_back(); }), ErrorCode::kInvalidModel);
  EXPECT_EQ(refused([](Spec& s) { s.types[0] = 9; }), ErrorCode::kInvalidModel);
  EXPECT_EQ(refused([](Spec& s) { s.merges = {"ab"}; }), ErrorCode::kInvalidModel);
  EXPECT_EQ(refused([](Spec& s) { s.merges.clear(); }), ErrorCode::kInvalidModel);
  EXPECT_EQ(refused([](Spec& s) { s.tokens[0] = "\xFF"; }), ErrorCode::kInvalidModel);
  EXPECT_EQ(refused([](Spec& s) { s.kind = "llama"; }), ErrorCode::kInvalidModel);  // no scores
}

TEST(TokenizerVocabulary, AddsWhatTheKindAdds) {
  VocabularySpec spec = SmallGpt2("llama-bpe");
  spec.bos = 3;
  EXPECT_EQ(Tokenizer::FromVocabulary(spec).Encode("ab"), (Ids{3, 2}));
  spec.add_bos = false;
  spec.add_eos = true;
  EXPECT_EQ(Tokenizer::FromVocabulary(spec).Encode("ab"), (Ids{2, 3}));
  EXPECT_EQ(Tokenizer::FromVocabulary(spec).Encode("ab", {false, true}), (Ids{2}));
}

TEST(TokenizerVocabulary, SpecialTokensTakeTheSpaceBehindThemWhereTheFamilySaysSo) {
  VocabularySpec spec = SmallGpt2("gpt-2");
  EXPECT_EQ(Tokenizer::FromVocabulary(spec).Encode("a<|end|> b"), (Ids{0, 3, 4, 1}));
  spec.architecture = "phi3";
  EXPECT_EQ(Tokenizer::FromVocabulary(spec).Encode("a<|end|> b"), (Ids{0, 3, 1}));
  spec.tokens[3] = "<|endoftext|>";
  EXPECT_EQ(Tokenizer::FromVocabulary(spec).Encode("a<|endoftext|> b"), (Ids{0, 3, 4, 1}));
}

TEST(TokenizerVocabulary, CutsAndMergesAsTheKindDoes) {
  const auto encode = [](const char* pre, const char* text) {
    VocabularySpec spec = SmallGpt2(pre);
    spec.tokens.push_back("ba");  // which no merge leads to
    spec.types.push_back(1);
    return Tokenizer::FromVocabulary(spec).Encode(text);
  };
  for (const char* pre : {"hy_v4", "glm5"}) EXPECT_EQ(encode(pre, "11"), Ids{6}) << pre;
  for (const char* pre : {"spark2_5", "ufakzeka"}) EXPECT_EQ(encode(pre, "11"), (Ids{5, 5})) << pre;
  for (const char* pre : {"glm4", "glm5"}) EXPECT_EQ(encode(pre, "ba"), Ids{7}) << pre;
  EXPECT_EQ(encode("chatglm-bpe", "ba"), (Ids{1, 0}));
}

std::string Little32(uint32_t value) {
  std::string out;
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

std::string Llama2cFile() {
  std::string out = Little32(27);
  const auto add = [&](float score, const std::string& piece) {
    out += Little32(std::bit_cast<uint32_t>(score)) + Little32(static_cast<uint32_t>(piece.size()));
    out += piece;
  };
  add(0, "<unk>");
  add(0, "\n<s>\n");
  add(0, "\n</s>\n");
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", byte);
    add(0, text);
  }
  add(-5, " ");
  add(-6, "a");
  add(-7, "b");
  add(-1, " a");
  add(-2, "ab");
  add(-3, " ab");
  return out;
}

TEST(TokenizerLlama2c, MergesByScore) {
  const std::string file = Llama2cFile();
  const Tokenizer tokenizer = Tokenizer::FromLlama2c(file, 265);
  EXPECT_EQ(tokenizer.Encode("ab"), (Ids{1, 264}));
  EXPECT_EQ(tokenizer.Encode("aab"), (Ids{1, 262, 263}));  // " a" goes before "ab"
  EXPECT_EQ(tokenizer.Encode("bab"), (Ids{1, 259, 261, 263}));
  EXPECT_EQ(tokenizer.Encode(""), (Ids{1}));
  EXPECT_EQ(tokenizer.Encode("é"), (Ids{1, 259, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(tokenizer.Decode(Ids{1, 262, 261, 259, 3 + 0xC3, 3 + 0xA9}), "ab é");
  EXPECT_EQ(CodeOf([&] { Tokenizer::FromLlama2c(file, 266); }), ErrorCode::kInvalidModel);
  EXPECT_EQ(CodeOf([&] { Tokenizer::FromLlama2c(file.substr(0, 3), 265); }),
            ErrorCode::kInvalidModel);
  EXPECT_EQ(
      CodeOf([&] { Tokenizer::FromLlama2c(Little32(1) + Little32(0) + Little32(UINT32_MAX), 1); }),
      ErrorCode::kInvalidModel);
}

TEST(TokenizerSentencePiece, RefusesBrokenFiles) {
  EXPECT_EQ(CodeOf([] { Tokenizer::FromSentencePiece(""); }), ErrorCode::kInvalidModel);
  EXPECT_EQ(CodeOf([] { Tokenizer::FromSentencePiece("\x0A\x7F"); }), ErrorCode::kInvalidModel);
  EXPECT_EQ(CodeOf([] { Tokenizer::FromSentencePiece("\x0A\x03\x0A\x01z"); }),
            ErrorCode::kInvalidModel);  // no unknown piece
  const std::string endless(11, '\xFF');
  EXPECT_EQ(CodeOf([&] { Tokenizer::FromSentencePiece(endless); }), ErrorCode::kInvalidModel);
}

TEST(TokenizerOfCheckpoint, SaysWhenThereIsNone) {
  EXPECT_EQ(CodeOf([] { tokenizer::TokenizerOf(TokenizerSource()); }), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace oort
