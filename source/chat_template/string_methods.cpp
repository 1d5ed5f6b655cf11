// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "chat_template/interpreter.h"
#include "chat_template/methods.h"
#include "chat_template/operators.h"
#include "text/python.h"
#include "text/utf8.h"

namespace oort::jinja {
namespace {

/// A method at work: its string, its arguments and how to make strings of the same kind.
struct StringCall {
  Interpreter& self;
  const std::string& name;
  const Value& object;
  Arguments& arguments;
  const std::string& text() const { return object.str(); }
  /// Of the whole string, changed.
  Value Make(std::string result) const {
    return self.MakeString(std::move(result), object.user(), object.safe());
  }
  /// A part of the string: it points into it, or is empty.
  Value Part(std::string_view part) const {
    if (part.empty()) return self.MakeString(std::string(), object.safe());
    const auto begin = static_cast<size_t>(part.data() - text().data());
    self.Step(static_cast<int64_t>(part.size() / 64));
    return object.Part(self.budget(), begin, begin + part.size());
  }
  Value MakeAll(const std::vector<std::string_view>& parts, Kind kind = Kind::kList) const {
    std::vector<Value> values;
    for (const std::string_view part : parts) values.push_back(Part(part));
    self.Step(static_cast<int64_t>(values.size()));
    return Value::List(self.budget(), std::move(values), kind);
  }
};

[[noreturn]] void FailType(const StringCall& call, const Value& value) {
  Fail(call.name + "() argument must be str, not " + std::string(TypeName(value)));
}

const std::string& NeedString(const StringCall& call, const Value& value) {
  if (!value.Is(Kind::kString)) FailType(call, value);
  return value.str();
}

Value CallStrip(const StringCall& call) {
  const Parameters parameters(call.name, call.arguments, {"chars"});
  const bool left = call.name != "rstrip", right = call.name != "lstrip";
  if (!parameters.Get(0) || parameters[0].Is(Kind::kNone)) {
    return call.Part(python::Strip(call.text(), left, right));
  }
  const std::string& set = NeedString(call, parameters[0]);
  call.self.Step(static_cast<int64_t>(set.size() * (call.text().size() / 64 + 1)));
  return call.Part(python::StripSet(call.text(), set, left, right));
}

/// The first or last word of text that begins or ends with one.
std::string_view EdgeWord(std::string_view text, bool last) {
  if (!last) {
    for (size_t offset = 0; offset < text.size();) {
      const size_t begin = offset;
      if (python::IsSpace(text::NextCodePoint(text, offset))) return text.substr(0, begin);
    }
    return text;
  }
  size_t cut = text.size();
  while (cut > 0) {
    const size_t begin = text::PreviousStart(text, cut);
    size_t next = begin;
    if (python::IsSpace(text::NextCodePoint(text, next))) break;
    cut = begin;
  }
  return text.substr(cut);
}

std::vector<std::string_view> SplitWords(std::string_view text, int64_t most, bool from_right) {
  std::vector<std::string_view> pieces;
  std::string_view rest = python::Strip(text, !from_right, from_right);
  while (!rest.empty()) {
    const std::string_view word = most-- == 0 ? rest : EdgeWord(rest, from_right);
    pieces.emplace_back(word);
    rest = from_right ? rest.substr(0, rest.size() - word.size()) : rest.substr(word.size());
    rest = python::Strip(rest, !from_right, from_right);
  }
  return pieces;
}

std::vector<std::string_view> SplitAt(std::string_view rest, const std::string& separator,
                                      int64_t most, bool from_right) {
  std::vector<std::string_view> pieces;
  for (; most > 0; --most) {
    const size_t place = from_right ? rest.rfind(separator) : rest.find(separator);
    if (place == std::string_view::npos) break;
    const std::string_view left = rest.substr(0, place),
                           right = rest.substr(place + separator.size());
    pieces.emplace_back(from_right ? right : left);
    rest = from_right ? left : right;
  }
  pieces.emplace_back(rest);
  return pieces;
}

Value CallSplit(const StringCall& call) {
  const Parameters parameters(call.name, call.arguments, {"sep", "maxsplit"});
  const bool from_right = call.name == "rsplit",
             words = !parameters.Get(0) || parameters[0].Is(Kind::kNone);
  const int64_t given = parameters.Integer(1, -1), most = given < 0 ? INT64_MAX : given;
  call.self.budget()->Work(call.text().size());
  if (!words && NeedString(call, parameters[0]).empty()) Fail("empty separator");
  std::vector<std::string_view> pieces =
      words ? SplitWords(call.text(), most, from_right)
            : SplitAt(call.text(), parameters[0].str(), most, from_right);
  if (from_right) std::reverse(pieces.begin(), pieces.end());
  return call.MakeAll(pieces);
}

Value CallPartition(const StringCall& call) {
  const Parameters parameters(call.name, call.arguments, {"sep"}, 1);
  const std::string& separator = NeedString(call, parameters[0]);
  const std::string_view text = call.text();
  if (separator.empty()) Fail("empty separator");
  const bool right = call.name == "rpartition";
  const size_t place = right ? text.rfind(separator) : text.find(separator);
  std::vector<std::string_view> pieces = {"", "", ""};
  pieces[right ? 2 : 0] = text;
  if (place != std::string::npos) {
    pieces = {text.substr(0, place), text.substr(place, separator.size()),
              text.substr(place + separator.size())};
  }
  return call.MakeAll(pieces, Kind::kTuple);
}

/// The part of the text that start and stop (arguments 1 and 2) leave.
std::string_view Window(const StringCall& call, const Parameters& parameters, size_t* offset) {
  const auto bound = [&](size_t i) { return parameters.Get(i) ? parameters[i] : Value::None(); };
  const int64_t size = Length(call.object);
  int64_t begin = bound(1).Is(Kind::kNone) ? 0 : parameters.Integer(1, 0);
  int64_t end = bound(2).Is(Kind::kNone) ? size : parameters.Integer(2, 0);
  if (begin < 0) begin = std::max<int64_t>(begin + size, 0);
  if (end < 0) end = std::max<int64_t>(end + size, 0);
  end = std::min(end, size);
  *offset = std::string::npos;
  if (begin > end) return {};
  *offset = text::OffsetOfCodePoint(call.text(), begin);
  return std::string_view(call.text())
      .substr(*offset, text::OffsetOfCodePoint(call.text(), end) - *offset);
}

Value CallEnds(const StringCall& call) {
  const Parameters parameters(call.name, call.arguments, {"prefix", "start", "end"}, 1);
  size_t offset = 0;
  const std::string_view text = Window(call, parameters, &offset);
  const auto fits = [&](const std::string& affix) {
    if (offset == std::string::npos || affix.size() > text.size()) return false;
    return call.name == "startswith" ? text.substr(0, affix.size()) == affix
                                     : text.substr(text.size() - affix.size()) == affix;
  };
  if (!parameters[0].Is(Kind::kTuple)) return Value::Bool(fits(NeedString(call, parameters[0])));
  for (const Value& affix : parameters[0].sequence().items) {
    if (fits(NeedString(call, affix))) return Value::Bool(true);
  }
  return Value::Bool(false);
}

Value CallFind(const StringCall& call) {
  const Parameters parameters(call.name, call.arguments, {"sub", "start", "end"}, 1);
  const std::string& part = NeedString(call, parameters[0]);
  size_t offset = 0;
  const std::string_view text = Window(call, parameters, &offset);
  call.self.Step(static_cast<int64_t>(text.size() / 64));
  if (call.name == "count") {
    if (offset == std::string::npos) return Value::Int(0);
    if (part.empty()) return Value::Int(text::CountCodePoints(text) + 1);
    int64_t count = 0;
    for (size_t at = text.find(part); at != std::string_view::npos;
         at = text.find(part, at + part.size()))
      ++count;
    return Value::Int(count);
  }
  const bool right = call.name[0] == 'r';
  const size_t place = offset == std::string::npos ? offset
                       : right                     ? text.rfind(part)
                                                   : text.find(part);
  if (place != std::string_view::npos) {
    return Value::Int(
        text::CountCodePoints(std::string_view(call.text()).substr(0, offset + place)));
  }
  if (call.name == "index" || call.name == "rindex") Fail("substring not found");
  return Value::Int(-1);
}

Value CallReplace(const StringCall& call) {
  const Parameters parameters(call.name, call.arguments, {"old", "new", "count"}, 2);
  const std::string& from = NeedString(call, parameters[0]);
  Value to = parameters[1];
  if (call.object.safe() && !to.safe()) {
    to = call.self.MakeString(Escape(NeedString(call, to)), to.user(), false);
  }
  NeedString(call, to);
  return call.self.MakeString(
      ReplaceText(*call.self.budget(), call.object, from, to, parameters.Integer(2, -1)),
      call.object.safe());
}

Value CallJoin(const StringCall& call) {
  const Parameters parameters(call.name, call.arguments, {"iterable"}, 1);
  MarkedText joined;
  bool first = true;
  for (const Value& item : call.self.Items(parameters[0])) {
    if (!item.Is(Kind::kString))
      Fail("sequence item: expected str instance, " + std::string(TypeName(item)) + " found");
    if (!first) joined.Append(call.text(), call.object.ranges());
    first = false;
    if (call.object.safe() && !item.safe()) {
      joined.Append(Escape(item.str()), item.user());
    } else {
      joined.Append(item.str(), item.ranges());
    }
    const size_t size = joined.text.size();
    call.self.budget()->Work(size > 4096 ? item.str().size() + call.text().size() : 64);
    if (size > kMaxWeight) FailLimit("a joined text is too long");
  }
  return call.self.MakeString(std::move(joined), call.object.safe());
}

Value CallPad(const StringCall& call) {
  const Parameters parameters(call.name, call.arguments, {"width", "fillchar"}, 1);
  const std::string fill = parameters.String(1, " ");
  if (text::CountCodePoints(fill) != 1)
    Fail("the fill character must be exactly one character long");
  const int64_t length = Length(call.object), width = parameters.Integer(0, 0);
  if (width <= length) return call.object;
  if (width > static_cast<int64_t>(kMaxWeight / 4)) FailLimit("a padded text is too long");
  const int64_t room = width - length;
  call.self.budget()->Work(static_cast<size_t>(width) * fill.size());
  // Python's center puts the odd one to the left where the width is odd.
  int64_t left = call.name == "rjust"   ? room
                 : call.name == "ljust" ? 0
                                        : room / 2 + (room & width & 1);
  std::string padded;
  for (int64_t i = 0; i < left; ++i) padded += fill;
  padded += call.text();
  for (int64_t i = left; i < room; ++i) padded += fill;
  return call.Make(std::move(padded));
}

Value CallZfill(const StringCall& call) {
  const Parameters parameters(call.name, call.arguments, {"width"}, 1);
  const int64_t length = Length(call.object), width = parameters.Integer(0, 0);
  if (width <= length) return call.object;
  if (width > static_cast<int64_t>(kMaxWeight / 4)) FailLimit("a padded text is too long");
  const bool sign = call.text().starts_with('-') || call.text().starts_with('+');
  return call.Make(call.text().substr(0, sign) +
                   std::string(static_cast<size_t>(width - length), '0') +
                   call.text().substr(sign));
}

Value CallRemove(const StringCall& call) {
  const Parameters parameters(call.name, call.arguments, {"affix"}, 1);
  const std::string& affix = NeedString(call, parameters[0]);
  const std::string_view text = call.text();
  if (call.name == "removeprefix" && text.starts_with(affix)) {
    return call.Part(text.substr(affix.size()));
  }
  if (call.name == "removesuffix" && text.ends_with(affix)) {
    return call.Part(text.substr(0, text.size() - affix.size()));
  }
  return call.object;
}

Value CallCase(const StringCall& call) {
  [[maybe_unused]] const Parameters none(call.name, call.arguments, {});
  call.self.Step(static_cast<int64_t>(call.text().size()) / 8);
  if (call.name == "lower") return call.Make(python::Lower(call.text()));
  if (call.name == "upper") return call.Make(python::Upper(call.text()));
  if (call.name == "title") return call.Make(python::Title(call.text()));
  if (call.name == "swapcase") return call.Make(python::SwapCase(call.text()));
  return call.Make(python::Capitalize(call.text()));
}

Value CallSplitLines(const StringCall& call) {
  const Parameters parameters(call.name, call.arguments, {"keepends"});
  return call.MakeAll(SplitLines(call.text(), parameters.Flag(0, false)));
}

/// Whether all characters are of a kind; false for an empty string.
template <typename Test>
bool All(const std::string& text, const Test& test) {
  for (size_t offset = 0; offset < text.size();) {
    if (!test(text::NextCodePoint(text, offset))) return false;
  }
  return !text.empty();
}

bool HasCase(const std::string& text, bool upper) {
  bool cased = false;
  for (size_t offset = 0; offset < text.size();) {
    const char32_t c = text::NextCodePoint(text, offset);
    if (python::IsTitle(c) || (upper ? python::IsLower(c) : python::IsUpper(c))) return false;
    cased |= upper ? python::IsUpper(c) : python::IsLower(c);
  }
  return cased;
}

bool HasTitleCase(const std::string& text) {
  bool cased = false, inside = false;
  for (size_t offset = 0; offset < text.size();) {
    const char32_t c = text::NextCodePoint(text, offset);
    const bool capital = python::IsUpper(c) || python::IsTitle(c), small = python::IsLower(c);
    if ((capital && inside) || (small && !inside)) return false;
    inside = capital || small;
    cased |= inside;
  }
  return cased;
}

Value CallIs(const StringCall& call) {
  [[maybe_unused]] const Parameters none(call.name, call.arguments, {});
  const std::string &text = call.text(), &name = call.name;
  call.self.Step(static_cast<int64_t>(text.size()) / 8);
  const auto is_word = [](char32_t c) { return python::IsAlpha(c) || c == '_'; };
  if (name == "isalpha") return Value::Bool(All(text, python::IsAlpha));
  if (name == "isdecimal") return Value::Bool(All(text, python::IsDecimal));
  if (name == "isdigit") return Value::Bool(All(text, python::IsDigit));
  if (name == "isnumeric") return Value::Bool(All(text, python::IsNumeric));
  if (name == "isspace") return Value::Bool(All(text, python::IsSpace));
  if (name == "isalnum")
    return Value::Bool(All(text, [](char32_t c) {
      return python::IsAlpha(c) || python::IsNumeric(c) || python::IsDigit(c);
    }));
  if (name == "isascii")
    return Value::Bool(text.empty() || All(text, [](char32_t c) { return c < 0x80; }));
  if (name == "isprintable") return Value::Bool(text.empty() || All(text, python::IsPrintable));
  if (name == "islower") return Value::Bool(HasCase(text, false));
  if (name == "isupper") return Value::Bool(HasCase(text, true));
  if (name == "istitle") return Value::Bool(HasTitleCase(text));
  size_t offset = 0;
  return Value::Bool(!text.empty() && is_word(text::NextCodePoint(text, offset)) &&
                     All(text, [&](char32_t c) { return is_word(c) || python::IsDecimal(c); }));
}

Value CallFormat(const StringCall& call) {
  if (call.name == "format_map")
    FailUnsupported("str.format_map is not supported in chat templates");
  const bool user = call.object.user() || HasUser(call.arguments);
  return call.self.MakeString(FormatBraces(call.self, call.text(), call.arguments), user,
                              call.object.safe());
}

Value CallExpandTabs(const StringCall& call) {
  const Parameters parameters(call.name, call.arguments, {"tabsize"});
  const int64_t width = parameters.Integer(0, 8);
  if (width > 1000) FailUnsupported("str.expandtabs with more than 1000 columns is not supported");
  std::string out;
  int64_t column = 0;
  for (const char c : call.text()) {
    if (c == '\t') {
      const int64_t blanks = width > 0 ? width - column % width : 0;
      out.append(static_cast<size_t>(blanks), ' ');
      column += blanks;
    } else {
      out += c;
      if (!text::IsContinuation(c)) ++column;
      if (c == '\n' || c == '\r') column = 0;
    }
    if (out.size() > kMaxWeight) FailLimit("a text is too long");
  }
  return call.Make(std::move(out));
}

Value CallOther(const StringCall& call) {
  FailUnsupported("the method str." + call.name + "() is not supported in chat templates");
}

struct StringMethod {
  std::string_view name;
  Value (*call)(const StringCall&);
};

constexpr StringMethod kStringMethods[] = {
    {"capitalize", CallCase},
    {"casefold", CallOther},
    {"center", CallPad},
    {"count", CallFind},
    {"encode", CallOther},
    {"endswith", CallEnds},
    {"expandtabs", CallExpandTabs},
    {"find", CallFind},
    {"format", CallFormat},
    {"format_map", CallFormat},
    {"index", CallFind},
    {"isalnum", CallIs},
    {"isalpha", CallIs},
    {"isascii", CallIs},
    {"isdecimal", CallIs},
    {"isdigit", CallIs},
    {"isidentifier", CallIs},
    {"islower", CallIs},
    {"isnumeric", CallIs},
    {"isprintable", CallIs},
    {"isspace", CallIs},
    {"istitle", CallIs},
    {"isupper", CallIs},
    {"join", CallJoin},
    {"ljust", CallPad},
    {"lower", CallCase},
    {"lstrip", CallStrip},
    {"maketrans", CallOther},
    {"partition", CallPartition},
    {"removeprefix", CallRemove},
    {"removesuffix", CallRemove},
    {"replace", CallReplace},
    {"rfind", CallFind},
    {"rindex", CallFind},
    {"rjust", CallPad},
    {"rpartition", CallPartition},
    {"rsplit", CallSplit},
    {"rstrip", CallStrip},
    {"split", CallSplit},
    {"splitlines", CallSplitLines},
    {"startswith", CallEnds},
    {"strip", CallStrip},
    {"swapcase", CallCase},
    {"title", CallCase},
    {"translate", CallOther},
    {"upper", CallCase},
    {"zfill", CallZfill},
};

}  // namespace

bool IsStringMethod(std::string_view name) {
  return std::any_of(std::begin(kStringMethods), std::end(kStringMethods),
                     [&](const StringMethod& method) { return method.name == name; });
}

Value CallStringMethod(Interpreter& self, const std::string& name, const Value& text,
                       Arguments& arguments) {
  for (const StringMethod& method : kStringMethods) {
    if (method.name == name) return method.call({self, name, text, arguments});
  }
  return {};
}

MarkedText ReplaceText(Budget& budget, const Value& text, const std::string& from, const Value& to,
                       int64_t count) {
  uint64_t left = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  const std::string_view whole = text.str();
  MarkedText out;
  size_t at = 0;
  const auto copy = [&](size_t end) {
    out.Append(whole.substr(at, end - at), RangesIn(text.ranges(), {at, end}));
    at = end;
  };
  const auto put = [&] {
    out.Append(to.str(), to.ranges());
    if (out.text.size() > kMaxWeight) FailLimit("a replaced text is too long");
    budget.Step();
    --left;
  };
  while (left > 0) {
    if (from.empty()) {
      put();
      if (at >= whole.size()) return out;
      size_t next = at;
      text::NextCodePoint(whole, next);
      copy(next);
      continue;
    }
    const size_t place = whole.find(from, at);
    if (place == std::string_view::npos) break;
    copy(place);
    put();
    at = place + from.size();
  }
  if (!from.empty()) budget.Work(whole.size());
  copy(whole.size());
  return out;
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t offset = 0; offset < text.size();) {
    const size_t end = offset;
    const char32_t c = text::NextCodePoint(text, offset);
    const bool ends =
        (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!ends) continue;
    if (c == '\r' && offset < text.size() && text[offset] == '\n') ++offset;
    lines.emplace_back(text.substr(begin, (keep_ends ? offset : end) - begin));
    begin = offset;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

}  // namespace oort::jinja
