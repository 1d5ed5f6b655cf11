// SPDX-License-Identifier: MIT
// Small tokenizers beside what the tokenizers and sentencepiece libraries make of the same texts
// (make_tokenizer_cases.py), and the vocabularies of llama.cpp where they are at hand.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "kit/paths.h"
#include "oort/tokenizer.h"
#include "text/base64.h"
#include "text/regex.h"
#include "text/utf8.h"

namespace oort {
namespace {

namespace fs = std::filesystem;
using CaseJson = nlohmann::json;

std::string ReadText(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

CaseJson AllCases() { return CaseJson::parse(ReadText(TestData() / "llm/tokenizer_cases.json")); }

Tokenizer TokenizerOfCase(const CaseJson& golden) {
  if (golden.contains("json")) return Tokenizer::FromJson(golden["json"].dump());
  return Tokenizer::FromSentencePiece(
      text::DecodeBase64(golden["model"].get<std::string>(), "model"));
}

/// The text of a question; where it is not UTF-8, JSON cannot hold it.
std::string TextOf(const CaseJson& question) {
  if (question.contains("text")) return question["text"].get<std::string>();
  return text::DecodeBase64(question["bytes"].get<std::string>(), "bytes");
}

std::string Streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                     DecodeOptions options) {
  TokenStream stream(tokenizer, options);
  std::string all;
  for (const int32_t id : ids) {
    const std::string part = stream.Push(id);
    EXPECT_TRUE(text::IsValidUtf8(part));
    all += part;
  }
  return all + stream.Flush();
}

TEST(TokenizerCases, EncodeAndDecodeAsTheLibraries) {
  const CaseJson cases = AllCases();
  ASSERT_GE(cases.size(), 20U);
  for (const CaseJson& golden : cases) {
    if (golden.contains("regexes")) continue;
    SCOPED_TRACE(golden["name"].get<std::string>());
    const Tokenizer tokenizer = TokenizerOfCase(golden);
    for (const CaseJson& question : golden["encode"]) {
      const std::string text = TextOf(question);
      const EncodeOptions options{question["add"].get<bool>(), question["parse"].get<bool>()};
      const auto ids = question["ids"].get<std::vector<int32_t>>();
      EXPECT_EQ(tokenizer.Encode(text, options), ids) << question.dump();
      EXPECT_EQ(tokenizer.Encode(text, options), ids) << "the second time, " << question.dump();
    }
    for (const CaseJson& question : golden["decode"]) {
      const auto ids = question["ids"].get<std::vector<int32_t>>();
      const DecodeOptions options{question["skip"].get<bool>()};
      EXPECT_EQ(tokenizer.Decode(ids, options), question["text"].get<std::string>());
      EXPECT_EQ(Streamed(tokenizer, ids, options), question["text"].get<std::string>());
    }
  }
}

/// The parts that a pattern cuts a text into, as pre-tokenizers do.
std::vector<std::string> PartsOf(const std::string& text, const text::Regex& regex) {
  std::vector<std::string> parts;
  const auto add = [&](size_t begin, size_t end) {
    if (begin < end) parts.push_back(text.substr(begin, end - begin));
  };
  text::Regex::Scratch scratch;
  size_t done = 0;
  regex.ForEach(text, scratch, [&](text::Regex::Match match) {
    add(done, match.begin);
    add(match.begin, match.end);
    done = match.end;
  });
  add(done, text.size());
  return parts;
}

TEST(TokenizerCases, RegularExpressionsAsOniguruma) {
  const CaseJson golden = AllCases().back();
  const auto texts = golden.at("texts").get<std::vector<std::string>>();
  for (const CaseJson& question : golden.at("regexes")) {
    const auto pattern = question["pattern"].get<std::string>();
    const text::Regex regex(pattern);
    const auto pieces = question["pieces"].get<std::vector<std::vector<std::string>>>();
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(PartsOf(texts[i], regex), pieces[i]) << pattern << " on '" << texts[i] << "'";
    }
  }
}

fs::path SharedFolder() {
  if (const char* given = std::getenv("OORT_SHARED_DIR")) return given;
  return SourceTree() / ".." / "shared";
}

std::vector<std::string> SplitAt(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t at = 0;
  for (size_t next = 0; (next = text.find(separator, at)) != std::string::npos;) {
    parts.push_back(text.substr(at, next - at));
    at = next + separator.size();
  }
  return parts;
}

/// Files of llama.cpp: NAME.gguf with texts in NAME.gguf.inp and ids in NAME.gguf.out.
TEST(TokenizerCases, VectorsOfLlamaCpp) {
  const fs::path folder = SharedFolder() / "tokenizers";
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) GTEST_SKIP() << "no " << folder;
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path path = entry.path();
    const fs::path texts = path.string() + ".inp";
    if (path.extension() != ".gguf" || !fs::exists(texts)) continue;
    SCOPED_TRACE(path.filename().string());
    const Tokenizer tokenizer = Tokenizer::FromFile(path);
    std::istringstream answers(ReadText(path.string() + ".out"));
    for (const std::string& text : SplitAt(ReadText(texts), "\n__ggml_vocab_test__\n")) {
      std::string line;
      ASSERT_TRUE(std::getline(answers, line));
      std::istringstream numbers(line);
      const std::vector<int32_t> ids{std::istream_iterator<int32_t>(numbers), {}};
      EXPECT_EQ(tokenizer.Encode(text, {false, true}), ids) << "'" << text << "'";
      EXPECT_EQ(Streamed(tokenizer, ids, {}), tokenizer.Decode(ids));
    }
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace oort
