// SPDX-License-Identifier: MIT
#include "chat_template/lexer.h"

#include <algorithm>
#include <cctype>

#include "oort/error.h"
#include "text/python.h"
#include "text/utf8.h"

namespace oort::jinja {
namespace {

/// Every line ends in one \n, and a newline at the very end does not count.
std::string NormalizeNewlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
      continue;
    }
    text += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool IsNameByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool IsAsciiDigit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) ReadData();
    Add(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(at_); }
  bool Starts(std::string_view text) const { return Rest().substr(0, text.size()) == text; }
  void Add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void Advance(size_t count) {
    line_ +=
        static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                    source_.begin() + static_cast<ptrdiff_t>(at_ + count), '\n'));
    line_starting_ = count > 0 && source_[at_ + count - 1] == '\n';
    at_ += count;
  }
  size_t SpaceBytes(size_t from) const {
    const std::string_view rest = std::string_view(source_).substr(from);
    return rest.size() - python::Strip(rest, true, false).size();
  }
  /// '-' or '+' behind the two characters that open a tag, or 0.
  char SignAt(size_t place) const {
    const char sign = place < source_.size() ? source_[place] : '\0';
    return sign == '-' || sign == '+' ? sign : '\0';
  }

  /// The text before a tag, without the white space that the tag takes away.
  void AddData(size_t end, char sign, bool print) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    const size_t whole = text.size();
    if (sign == '-') {
      text = python::Strip(text, false, true);
    } else if (sign != '+' && !print) {
      const size_t newline = text.rfind('\n');
      const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
      if ((begin > 0 || line_starting_) && python::Strip(text.substr(begin)).empty()) {
        text = text.substr(0, begin);
      }
    }
    if (!text.empty()) Add(TokenKind::kData, std::string(text));
    Advance(whole);
  }

  void ReadData() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        Add(TokenKind::kData, std::string(Rest()));
        Advance(source_.size() - at_);
        return;
      }
      const char next = source_[tag + 1];
      if (next == '%' || next == '{' || next == '#') break;
      ++tag;
    }
    const char kind = source_[tag + 1];
    const char sign = SignAt(tag + 2);
    AddData(tag, sign, kind == '{');
    const size_t opening = sign ? 3 : 2;
    if (kind == '#') {
      ReadComment(opening);
    } else if (kind == '{') {
      Add(TokenKind::kPrintBegin, {});
      Advance(opening);
      ReadTag(false);
    } else if (const size_t raw = RawBytes(opening)) {
      ReadRaw(raw);
    } else {
      Add(TokenKind::kBlockBegin, {});
      Advance(opening);
      ReadTag(true);
    }
  }

  /// How many bytes the tag "{% word %}" at `place` has, 0 if it is another; `ends` is 1 where a
  /// newline behind the tag belongs to it.
  size_t WordTag(size_t place, size_t opening, std::string_view word, bool ends) const {
    size_t at = place + opening;
    at += SpaceBytes(at);
    if (source_.compare(at, word.size(), word) != 0) return 0;
    at += word.size();
    at += SpaceBytes(at);
    const bool minus = source_.compare(at, 3, "-%}") == 0;
    const bool plus = ends && source_.compare(at, 3, "+%}") == 0;
    if (minus || plus) at += 1;
    if (source_.compare(at, 2, "%}") != 0) return 0;
    at += 2;
    if (minus) at += SpaceBytes(at);
    if (ends && !minus && !plus && at < source_.size() && source_[at] == '\n') ++at;
    return at - place;
  }
  size_t RawBytes(size_t opening) const { return WordTag(at_, opening, "raw", false); }

  void ReadRaw(size_t begin_bytes) {
    const int line = line_;
    Advance(begin_bytes);
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 1)) {
      const char sign = SignAt(tag + 2);
      const size_t bytes = WordTag(tag, sign ? 3 : 2, "endraw", true);
      if (bytes == 0) continue;
      AddData(tag, sign, false);
      Advance(bytes);
      return;
    }
    FailSyntax(line, "missing end of raw directive");
  }

  void ReadComment(size_t opening) {
    const int line = line_;
    Advance(opening);
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) FailSyntax(line, "missing end of comment tag");
    const char sign = end > at_ ? SignAt(end - 1) : '\0';
    size_t after = end + 2;
    if (sign == '-') {
      after += SpaceBytes(after);
    } else if (!sign && after < source_.size() && source_[after] == '\n') {
      ++after;
    }
    Advance(after - at_);
  }

  /// The inside of {% … %} or {{ … }} with its end.
  void ReadTag(bool block) {
    const std::string_view end = block ? "%}" : "}}";
    while (at_ < source_.size()) {
      if (open_.empty()) {
        const bool minus = Starts(block ? "-%}" : "-}}");
        const bool plus = block && Starts("+%}");
        if (minus || plus || Starts(end)) {
          size_t bytes = minus || plus ? 3 : 2;
          if (minus) bytes += SpaceBytes(at_ + bytes);
          if (block && !minus && !plus && at_ + bytes < source_.size() &&
              source_[at_ + bytes] == '\n') {
            ++bytes;
          }
          Add(block ? TokenKind::kBlockEnd : TokenKind::kPrintEnd, {});
          Advance(bytes);
          return;
        }
      }
      ReadToken();
    }
    open_.clear();
  }

  void ReadToken() {
    const char c = source_[at_];
    if (const size_t space = SpaceBytes(at_)) {
      Advance(space);
    } else if (IsAsciiDigit(c)) {
      ReadNumber();
    } else if (IsNameByte(c)) {
      size_t end = at_;
      while (end < source_.size() && IsNameByte(source_[end])) ++end;
      Add(TokenKind::kName, source_.substr(at_, end - at_));
      Advance(end - at_);
    } else if (c == '\'' || c == '"') {
      ReadString(c);
    } else {
      ReadOperator();
    }
  }

  /// Digits with single underscores between them.
  size_t DigitBytes(size_t from) const {
    size_t end = from;
    while (end < source_.size() && (IsAsciiDigit(source_[end]) ||
                                    (source_[end] == '_' && end > from &&
                                     end + 1 < source_.size() && IsAsciiDigit(source_[end + 1])))) {
      ++end;
    }
    return end - from;
  }

  void ReadNumber() {
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    size_t end = at_ + DigitBytes(at_);
    bool real = false;
    if (!after_dot) {
      if (end < source_.size() && source_[end] == '.' && DigitBytes(end + 1) > 0) {
        end += 1 + DigitBytes(end + 1);
        real = true;
      }
      if (end < source_.size() && (source_[end] | 0x20) == 'e') {
        size_t power = end + 1;
        if (power < source_.size() && (source_[power] == '+' || source_[power] == '-')) ++power;
        if (DigitBytes(power) > 0) {
          end = power + DigitBytes(power);
          real = true;
        }
      }
    }
    if (!real && source_[at_] == '0') end = at_ + ZeroBytes();
    std::string digits = source_.substr(at_, end - at_);
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    Add(real ? TokenKind::kFloat : TokenKind::kInteger, digits);
    Advance(end - at_);
  }

  /// An integer that begins with 0: 0x1f, 0b1, 0o7 or zeros.
  size_t ZeroBytes() const {
    const char mark = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : '\0';
    const std::string_view digits = mark == 'x'   ? "0123456789abcdefABCDEF"
                                    : mark == 'o' ? "01234567"
                                    : mark == 'b' ? "01"
                                                  : "0";
    size_t end = at_ + (digits.size() == 1 ? 1 : 2);
    const size_t begin = end;
    while (end < source_.size()) {
      const size_t digit = end + (source_[end] == '_' ? 1 : 0);
      if (digit >= source_.size() || digits.find(source_[digit]) == std::string_view::npos) break;
      end = digit + 1;
    }
    return end == begin && digits.size() != 1 ? 1 : end - at_;
  }

  void ReadString(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) FailSyntax(line_, std::string("unexpected char ") + quote);
    Add(TokenKind::kString, Unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    Advance(end + 1 - at_);
  }

  char32_t HexNumber(std::string_view digits, size_t count) const {
    char32_t value = 0;
    if (digits.size() < count) FailSyntax(line_, "truncated escape in a string");
    for (const char c : digits.substr(0, count)) {
      if (!std::isxdigit(static_cast<unsigned char>(c)))
        FailSyntax(line_, "truncated escape in a string");
      value = value * 16 + static_cast<char32_t>(IsAsciiDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
      FailSyntax(line_, "illegal Unicode character in a string");
    }
    return value;
  }

  std::string Unescape(std::string_view text) const {
    std::string plain;
    for (size_t i = 0; i < text.size();) {
      if (text[i] != '\\' || i + 1 >= text.size()) {
        plain += text[i++];
        continue;
      }
      i = UnescapeOne(text, i + 1, plain);
    }
    return plain;
  }

  /// The escape whose letter stands at `i`; returns where the text goes on.
  size_t UnescapeOne(std::string_view text, size_t i, std::string& plain) const {
    static constexpr std::string_view kLetters = "abfnrtv\\'\"";
    static constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
    const char c = text[i];
    if (const size_t place = kLetters.find(c); place != std::string_view::npos) {
      plain += kMeanings[place];
    } else if (c == '\n') {
      // A line that goes on.
    } else if (c >= '0' && c <= '7') {
      char32_t value = 0;
      size_t end = i;
      while (end < text.size() && end < i + 3 && text[end] >= '0' && text[end] <= '7') {
        value = value * 8 + static_cast<char32_t>(text[end++] - '0');
      }
      text::AppendUtf8(plain, value);
      return end;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      text::AppendUtf8(plain, HexNumber(text.substr(i + 1), digits));
      return i + 1 + digits;
    } else if (c == 'N') {
      FailSyntax(line_, "characters by name (\\N) are not supported");
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      return SpellOut(text, i, plain);
    } else {
      plain += '\\';
      plain += c;
    }
    return i + 1;
  }

  /// Python turns such a character into an escape first, whose backslash the one before it escapes.
  static size_t SpellOut(std::string_view text, size_t i, std::string& plain) {
    const char32_t character = text::NextCodePoint(text, i);
    const int digits = character < 0x100 ? 2 : character < 0x10000 ? 4 : 8;
    plain += '\\';
    plain += digits == 2 ? 'x' : digits == 4 ? 'u' : 'U';
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
      plain += "0123456789abcdef"[character >> shift & 15];
    }
    return i;
  }

  void ReadOperator() {
    static constexpr std::string_view kOperators[] = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (const std::string_view text : kOperators) {
      if (!Starts(text)) continue;
      Balance(text[0]);
      Add(TokenKind::kOperator, std::string(text));
      Advance(text.size());
      return;
    }
    size_t next = at_;
    text::NextCodePoint(source_, next);
    FailSyntax(line_, "unexpected char " + python::ReprText(source_.substr(at_, next - at_)));
  }

  void Balance(char c) {
    if (c == '(' || c == '[' || c == '{') {
      open_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open_.empty() || open_.back() != c)
        FailSyntax(line_, std::string("unexpected '") + c + "'");
      open_.pop_back();
    }
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::string open_;  ///< the brackets that must be closed before a tag can end
  std::vector<Token> tokens_;
};

}  // namespace

void FailSyntax(int line, const std::string& message) {
  throw Error(ErrorCode::kInvalidModel,
              "chat template, line " + std::to_string(line) + ": " + message);
}

std::vector<Token> Tokenize(std::string_view source) {
  if (!text::IsValidUtf8(source))
    throw Error(ErrorCode::kInvalidModel, "the chat template is not valid UTF-8");
  return Lexer(NormalizeNewlines(source)).Run();
}

}  // namespace oort::jinja
