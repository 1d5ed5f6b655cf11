// SPDX-License-Identifier: MIT
// What tokenizers, chat templates and readers of files share: UTF-8, characters, JSON.
#include <gtest/gtest.h>

#include "kit/errors.h"
#include "oort/chat_template.h"
#include "oort/tokenizer.h"
#include "text/base64.h"
#include "text/json.h"
#include "text/python.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace oort {
namespace {

using testing::ExpectThrows;

constexpr std::string_view kLastCharacter = "\xF4\x8F\xBF\xBF";  // U+10FFFF

/// Bytes that are not UTF-8, and how many U+FFFD stand for them.
struct IllFormed {
  std::string_view bytes;
  int replacements;
};
constexpr IllFormed kIllFormed[] = {
    {"\x80", 1},                  // goes on with nothing
    {"\xE2\x82", 1},              // ends too early: one part
    {"\xFF\xFE", 2},              // in no character
    {"\xC0\x80", 2},              // overlong
    {"\xE0\x9F\xBF", 3},          // overlong
    {"\xED\xA0\x80", 3},          // a surrogate
    {"\xF4\x90\x80\x80", 4},      // above U+10FFFF
    {"\xF0\x9F\x9A", 1},          // a picture without its last byte
    {"\xF0\x9F\x9A\xE2\x82", 2},  // two of them
};

TEST(TextUtf8, EveryCharacterComesBack) {
  for (uint32_t c = 0; c < text::kCodePoints; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::string bytes = text::ToUtf8(c);
    size_t at = 0;
    ASSERT_EQ(text::NextCodePoint(bytes, at), c);
    ASSERT_EQ(at, bytes.size());
    ASSERT_EQ(text::LengthFromLead(static_cast<unsigned char>(bytes[0])), bytes.size());
    ASSERT_EQ(text::PreviousStart(bytes, bytes.size()), 0u);
    ASSERT_TRUE(text::IsValidUtf8(bytes));
    ASSERT_EQ(text::CountCodePoints(bytes), 1);
  }
}

TEST(TextUtf8, OffsetsOfCharacters) {
  const std::string word = "aé€😀";
  EXPECT_EQ(text::OffsetOfCodePoint(word, 0), 0u);
  EXPECT_EQ(text::OffsetOfCodePoint(word, 2), 3u);
  EXPECT_EQ(text::OffsetOfCodePoint(word, 3), 6u);
  EXPECT_EQ(text::OffsetOfCodePoint(word, 9), word.size());
}

TEST(TextUtf8, IllFormedPartsBecomeOneReplacementEach) {
  for (const IllFormed& one : kIllFormed) {
    SCOPED_TRACE(::testing::PrintToString(one.bytes));
    EXPECT_FALSE(text::IsValidUtf8(one.bytes));
    std::string expected = "a";
    for (int i = 0; i < one.replacements; ++i) expected += text::kReplacementText;
    EXPECT_EQ(text::MakeValidUtf8("a" + std::string(one.bytes) + "b"), expected + "b");
  }
  EXPECT_EQ(text::MakeValidUtf8(kLastCharacter), kLastCharacter);
}

TEST(TextUtf8, CharactersThatComeInPartsWaitForTheirLastByte) {
  text::Utf8Joiner joiner;
  std::string out;
  for (const char byte : std::string_view("€")) joiner.Push({&byte, 1}, out);
  EXPECT_EQ(out, "€");
  joiner.Push("\xE2\x82", out);
  EXPECT_EQ(out, "€");
  joiner.Flush(out);
  EXPECT_EQ(out, "€\uFFFD");
}

TEST(TextUtf8, ChatTemplatesRefuseWhatTokenizersReplace) {
  for (const IllFormed& one : kIllFormed) {
    SCOPED_TRACE(::testing::PrintToString(one.bytes));
    const std::string bytes(one.bytes);
    ExpectThrows([&] { ChatTemplate::Parse("{{ '" + bytes + "' }}"); }, ErrorCode::kInvalidModel,
                 "UTF-8");
    const ChatMessage message{"user", bytes};
    ExpectThrows([&] { ToJson({&message, 1}); }, ErrorCode::kInvalidArgument, "UTF-8");
    ChatInputs inputs;
    inputs.messages = R"([{"role": "user", "content": ")" + bytes + R"("}])";
    ExpectThrows([&] { ChatTemplate::Parse("{{ messages }}").Render(inputs); },
                 ErrorCode::kInvalidArgument, "UTF-8");
  }
}

TEST(TextUnicode, NormalFormsOfUnicode9) {
  using text::NormalForm;
  EXPECT_EQ(text::ToNormalForm("e\u0301", NormalForm::kNfc), "é");
  EXPECT_EQ(text::ToNormalForm("é", NormalForm::kNfd), "e\u0301");
  EXPECT_EQ(text::ToNormalForm("ﬁ①Å", NormalForm::kNfkc), "fi1Å");
  EXPECT_EQ(text::ToNormalForm("\u1100\u1161\u11A8", NormalForm::kNfc), "각");
  EXPECT_EQ(text::ToNormalForm("각", NormalForm::kNfd), "\u1100\u1161\u11A8");
  EXPECT_EQ(text::ToNormalForm("a\u0301\u0323", NormalForm::kNfd), "a\u0323\u0301");
  // U+1DF6 (Unicode 10) is a mark that stays where it is.
  EXPECT_EQ(text::ToNormalForm("a\u1DF6\u0316", NormalForm::kNfd), "a\u1DF6\u0316");
}

TEST(TextPython, KindsOfCharacters) {
  EXPECT_TRUE(python::IsAlpha(0x4E00) && python::IsNumeric(0x4E00) &&
              !python::IsDigit(0x4E00));                                                      // 一
  EXPECT_TRUE(python::IsDigit(0xB2) && !python::IsDecimal(0xB2));                             // ²
  EXPECT_TRUE(python::IsNumeric(0xBD) && !python::IsDigit(0xBD));                             // ½
  EXPECT_TRUE(python::IsTitle(0x1C5) && !python::IsUpper(0x1C5) && !python::IsLower(0x1C5));  // ǅ
  EXPECT_TRUE(python::IsLower(0xAA) && python::IsUpper(0x24B6));  // ª, Ⓐ: no letters of that case
  EXPECT_TRUE(python::IsPrintable(' ') && !python::IsPrintable(0xA0) && !python::IsPrintable(0xAD));
  EXPECT_TRUE(python::IsSpace(0x1F) && python::IsSpace(0x3000) && !python::IsSpace(0x200B));
}

TEST(TextPython, KnowsUnicode14AlthoughTheTablesAreNewer) {
  // Of Unicode 15 and 16: a letter of Kawi, a capital letter of Garay.
  for (const char32_t c : {0x11F04u, 0x10D50u}) {
    EXPECT_FALSE(python::IsAlpha(c) || python::IsUpper(c) || python::IsPrintable(c));
    EXPECT_EQ(python::Lower(text::ToUtf8(c)), text::ToUtf8(c));
  }
  EXPECT_FALSE(python::IsLower(0x10FC));  // lower case since Unicode 15.1
}

TEST(TextPython, Case) {
  EXPECT_EQ(python::Upper("straße ŉ ΐ k"), "STRASSE ʼN \u0399\u0308\u0301 K");
  EXPECT_EQ(python::Lower("İ Å K"), "i̇ å k");
  EXPECT_EQ(python::Lower("ΟΔΥΣΣΕΥΣ ΑΣ. Σ"), "οδυσσευς ας. σ");
  EXPECT_EQ(python::Title("ǆ ﬁn they're"), "ǅ Fin They'Re");
  EXPECT_EQ(python::Capitalize("ßA"), "Ssa");
  EXPECT_EQ(python::SwapCase("aB ß"), "Ab SS");
}

TEST(TextPython, StripAndRepr) {
  EXPECT_EQ(python::Strip("\u3000 a b\u2003"), "a b");
  EXPECT_EQ(python::StripSet("éaé-", "-é", false, true), "éa");
  EXPECT_EQ(python::ReprText("it's\n\u00AD\u200B\U000E0001é"),
            "\"it's\\n\\xad\\u200b\\U000e0001é\"");
  EXPECT_EQ(python::ReprFloat(1e16), "1e+16");
  EXPECT_EQ(python::ReprFloat(0.0001), "0.0001");
}

TEST(TextJson, SaysWhatIsExpectedAndWhatCame) {
  const json::Json parsed =
      json::Parse(R"({"a": 1.5, "b": "x", "c": null, "d": [1], "e": {}})", "it");
  const json::Object object(parsed, "it");
  const auto expect = [&](const std::function<void()>& body, const char* message) {
    ExpectThrows(body, ErrorCode::kInvalidModel, message);
  };
  expect([&] { object.RequireInteger("a"); }, "it: 'a' should be an integer, got 1.5");
  expect([&] { object.RequireBool("b"); }, "it: 'b' should be true or false, got string");
  expect([&] { object.RequireText("c"); }, "it: 'c' is missing");
  expect([&] { object.RequireText("d"); }, "it: 'd' should be a string, got array");
  expect([&] { object.RequireList("e"); }, "it: 'e' should be a list, got object");
  expect([&] { object.RequireMember("b"); }, "it: 'b' should be a JSON object, got string");
  expect([&] { object.RequireInteger("x", 3); }, "it: 'x' is missing");
  expect([&] { json::IntegerOf(parsed["d"][0], "it", 0); }, "a whole number from 0 to 0, got 1");
  expect([&] { json::IntegerOf(json::Json(-1), "it", 9); }, "from 0 to 9, got -1");
  expect([&] { json::Parse("[1", "it"); }, "it: no valid JSON");
  expect([&] { json::Parse(R"({"a": 1, "a": 2})", "it"); }, "'a' stands there twice");
  expect([&] { json::Parse(std::string(100, '['), "it"); }, "nested too deeply");
  EXPECT_EQ(object.Bool("c"), std::nullopt);
  EXPECT_EQ(object.RequireList("d").size(), 1u);
}

TEST(TextBase64, DecodesAndRefuses) {
  EXPECT_EQ(text::DecodeBase64("4oKs", "it"), "€");
  EXPECT_EQ(text::DecodeBase64("YQ==", "it"), "a");
  ExpectThrows([] { text::DecodeBase64("a-b", "it"); }, ErrorCode::kInvalidModel,
               "it is not base64");
}

}  // namespace
}  // namespace oort
