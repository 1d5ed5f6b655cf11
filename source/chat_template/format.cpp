// SPDX-License-Identifier: MIT
// Python's two ways to put values into text: '%s' % value and '{}'.format(value).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "chat_template/interpreter.h"
#include "chat_template/operators.h"
#include "text/python.h"
#include "text/utf8.h"

namespace oort::jinja {
namespace {

constexpr int64_t kMaxField = 1 << 20;

/// [[fill]align][sign][#][0][width][,][.precision][type]
struct FormatSpec {
  char32_t fill = ' ';
  char align = '\0';
  char sign = '-';
  bool comma = false;
  bool alternate = false;
  int64_t width = 0;
  int64_t precision = -1;
  char type = '\0';
};

int64_t ReadCount(std::string_view text, size_t* at) {
  int64_t count = 0;
  while (*at < text.size() && text[*at] >= '0' && text[*at] <= '9') {
    count = count * 10 + (text[(*at)++] - '0');
    if (count > kMaxField) FailLimit("a field of a format is too wide");
  }
  return count;
}

FormatSpec ParseSpec(std::string_view text) {
  FormatSpec spec;
  size_t at = 0;
  const auto is_align = [&](size_t i) {
    return i < text.size() && std::string_view("<>^=").find(text[i]) != text.npos;
  };
  size_t after_fill = 0;
  if (!text.empty()) {
    const char32_t fill = text::NextCodePoint(text, after_fill);
    if (is_align(after_fill)) {
      spec.fill = fill;
      at = after_fill;
    }
  }
  if (is_align(at)) spec.align = text[at++];
  if (at < text.size() && std::string_view("+- ").find(text[at]) != text.npos)
    spec.sign = text[at++];
  if (at < text.size() && text[at] == '#') spec.alternate = true, ++at;
  if (at < text.size() && text[at] == '0') {
    ++at;
    if (!spec.align) spec.align = '=', spec.fill = '0';
  }
  spec.width = ReadCount(text, &at);
  if (at < text.size() && text[at] == ',') spec.comma = true, ++at;
  if (at < text.size() && text[at] == '.') {
    ++at;
    spec.precision = ReadCount(text, &at);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) Fail("invalid format specifier");
  return spec;
}

std::string Fixed(double value, int64_t precision, char type) {
  char format[8] = {'%', '.', '*', type, '\0'};
  const int digits = static_cast<int>(std::min<int64_t>(precision, 400));
  char buffer[1024];
  const int size = std::snprintf(buffer, sizeof buffer, format, digits, value);
  std::string text(buffer,
                   static_cast<size_t>(std::clamp(size, 0, static_cast<int>(sizeof buffer) - 1)));
  std::replace(text.begin(), text.end(), ',', '.');  // whatever the locale's decimal mark
  return text;
}

std::string InBase(uint64_t value, int base, bool capital) {
  char buffer[72];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, base);
  std::string text(buffer, end.ptr);
  if (capital) {
    for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  }
  return text;
}

std::string GroupThousands(const std::string& digits) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string text;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text + digits.substr(whole);
}

std::string Pad(const FormatSpec& spec, const std::string& sign, const std::string& body,
                char align) {
  const int64_t room = spec.width - text::CountCodePoints(sign) - text::CountCodePoints(body);
  if (room <= 0) return sign + body;
  const int64_t left = align == '<' ? 0 : align == '^' ? room / 2 : room;
  std::string before, after;
  for (int64_t i = 0; i < room; ++i) text::AppendUtf8(i < left ? before : after, spec.fill);
  return align == '=' ? sign + before + body : before + sign + body + after;
}

std::string FormatNumber(const FormatSpec& spec, const Value& value) {
  const bool real_type =
      spec.type != '\0' && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  std::string body;
  bool negative = false;
  if (value.IsInteger() && !real_type) {
    if (spec.precision >= 0) Fail("precision not allowed in integer format specifier");
    negative = value.AsInt() < 0;
    const uint64_t size =
        negative ? 0 - static_cast<uint64_t>(value.AsInt()) : static_cast<uint64_t>(value.AsInt());
    switch (spec.type) {
      case '\0':
      case 'd':
      case 'n': body = std::to_string(size); break;
      case 'x':
      case 'X':
        body = (spec.alternate ? (spec.type == 'x' ? "0x" : "0X") : "") +
               InBase(size, 16, spec.type == 'X');
        break;
      case 'o': body = (spec.alternate ? "0o" : "") + InBase(size, 8, false); break;
      case 'b': body = (spec.alternate ? "0b" : "") + InBase(size, 2, false); break;
      default: Fail("unknown format code for an int");
    }
  } else {
    double real = value.AsDouble();
    if (spec.type != '\0' && !real_type) Fail("unknown format code for a float");
    negative = std::signbit(real) && !std::isnan(real);
    real = std::abs(real);
    if (spec.type == '%') {
      body = Fixed(real * 100, spec.precision < 0 ? 6 : spec.precision, 'f') + "%";
    } else if (spec.type == '\0' && spec.precision < 0) {
      body = python::ReprFloat(real);
    } else {
      body = Fixed(real, spec.precision < 0 ? 6 : spec.precision, spec.type ? spec.type : 'g');
    }
  }
  if (spec.comma) body = GroupThousands(body);
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  return Pad(spec, sign, body, spec.align ? spec.align : '>');
}

std::string FormatValue(Interpreter& self, const Value& value, std::string_view spec_text) {
  if (spec_text.empty()) return self.ToText(value);
  const FormatSpec spec = ParseSpec(spec_text);
  if (value.IsNumber() && !(value.Is(Kind::kBool) && spec.type == '\0'))
    return FormatNumber(spec, value);
  if (!value.Is(Kind::kString) && !value.Is(Kind::kBool)) {
    Fail("unsupported format string passed to " + std::string(TypeName(value)) + ".__format__");
  }
  if (spec.type != '\0' && spec.type != 's') Fail("unknown format code for a str");
  std::string text = self.ToText(value);
  if (spec.precision >= 0) text.resize(text::OffsetOfCodePoint(text, spec.precision));
  return Pad(spec, {}, text, spec.align && spec.align != '=' ? spec.align : '<');
}

/// The fields of a str.format call.
class Braces {
 public:
  Braces(Interpreter& self, Arguments& arguments) : self_(self), arguments_(arguments) {}

  std::string Format(std::string_view format, int depth) {
    std::string out;
    if (depth > 2) Fail("max string recursion exceeded");
    for (size_t i = 0; i < format.size(); ++i) {
      const char c = format[i];
      const bool doubled = i + 1 < format.size() && format[i + 1] == c;
      if ((c == '{' || c == '}') && doubled) {
        out += c;
        ++i;
      } else if (c == '}') {
        Fail("single '}' encountered in format string");
      } else if (c == '{') {
        i = Field(format, i + 1, depth, out);
      } else {
        out += c;
      }
      if (out.size() > kMaxWeight) FailLimit("a formatted text is too long");
    }
    return out;
  }

 private:
  /// Returns where the closing brace stands.
  size_t Field(std::string_view format, size_t begin, int depth, std::string& out) {
    size_t end = begin;
    for (int open = 1; open > 0; ++end) {
      if (end >= format.size()) Fail("expected '}' before end of string");
      open += format[end] == '{' ? 1 : format[end] == '}' ? -1 : 0;
    }
    const std::string_view field = format.substr(begin, end - 1 - begin);
    const size_t mark = std::min(field.find_first_of("!:"), field.size());
    Value value = Resolve(field.substr(0, mark));
    size_t at = mark;
    if (at < field.size() && field[at] == '!') {
      const char conversion = at + 1 < field.size() ? field[at + 1] : '\0';
      if (conversion != 'r' && conversion != 's') Fail("unknown conversion in a format string");
      self_.budget()->Work(value.weight());
      value = self_.MakeString(conversion == 'r' ? Repr(value) : Str(value));
      at += 2;
    }
    std::string spec;
    if (at < field.size()) {
      if (field[at] != ':') Fail("expected ':' after conversion specifier");
      spec = Format(field.substr(at + 1), depth + 1);
    }
    out += FormatValue(self_, value, spec);
    return end - 1;
  }

  Value Resolve(std::string_view name) {
    size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = First(std::string(name.substr(0, at)));
    while (at < name.size()) {
      const bool item = name[at] == '[';
      const size_t end =
          item ? name.find(']', at) : std::min(name.find_first_of(".[", at + 1), name.size());
      if (end == std::string_view::npos) Fail("missing ']' in format string");
      const std::string part(name.substr(at + 1, end - at - 1));
      if (!item) {
        value = self_.GetAttribute(value, part);
      } else if (const auto index = Number(part)) {
        value = self_.GetItem(value, Value::Int(*index));
      } else {
        value = self_.GetItem(value, self_.MakeString(part));
      }
      at = item ? end + 1 : end;
    }
    return value;
  }

  static std::optional<int64_t> Number(const std::string& text) {
    int64_t value = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || end.ec != std::errc() || end.ptr != text.data() + text.size() || value < 0)
      return {};
    return value;
  }

  Value First(const std::string& name) {
    const std::optional<int64_t> given = Number(name);
    if (name.empty() || given) {
      if ((given ? automatic_ : manual_))
        Fail("cannot switch between automatic and manual field numbering");
      (given ? manual_ : automatic_) = true;
      const size_t index = given ? static_cast<size_t>(*given) : next_++;
      if (index >= arguments_.positional.size())
        Fail("replacement index " + std::to_string(index) + " out of range");
      return arguments_.positional[index];
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    Fail("format string names '" + name + "', which is not given");
  }

  Interpreter& self_;
  Arguments& arguments_;
  size_t next_ = 0;
  bool automatic_ = false, manual_ = false;  ///< how fields are numbered
};

/// One %-conversion at format[at], behind the percent sign.
std::string PercentField(Budget& budget, std::string_view format, size_t* at, const auto& next) {
  FormatSpec spec;
  spec.align = '>';
  for (;
       *at < format.size() && std::string_view("-+ #0").find(format[*at]) != std::string_view::npos;
       ++*at) {
    const char flag = format[*at];
    if (flag == '-') spec.align = '<', spec.fill = ' ';
    if (flag == '+' || (flag == ' ' && spec.sign == '-')) spec.sign = flag;
    if (flag == '#') spec.alternate = true;
    if (flag == '0' && spec.align != '<') spec.align = '=', spec.fill = '0';
  }
  spec.width = ReadCount(format, at);
  if (*at < format.size() && format[*at] == '.') {
    ++*at;
    spec.precision = ReadCount(format, at);
  }
  if (*at >= format.size()) Fail("incomplete format");
  spec.type = format[(*at)++];
  if (spec.type == '%') return "%";
  const Value value = next();
  if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
    budget.Work(value.weight());
    std::string text = spec.type == 's' ? Str(value) : Repr(value);
    if (spec.precision >= 0) text.resize(text::OffsetOfCodePoint(text, spec.precision));
    spec.fill = ' ';
    return Pad(spec, {}, text, spec.align == '<' ? '<' : '>');
  }
  if (value.Is(Kind::kUndefined)) Fail(value.Why());
  if (spec.type == 'c') FailUnsupported("the format %c is not supported");
  if (!value.IsNumber())
    Fail(std::string("%") + spec.type + " format: a real number is required, not " +
         std::string(TypeName(value)));
  if (std::string_view("diuxXo").find(spec.type) == std::string_view::npos)
    return FormatNumber(spec, value);
  if (std::string_view("iu").find(spec.type) != std::string_view::npos) spec.type = 'd';
  spec.precision = -1;
  if (value.IsInteger()) return FormatNumber(spec, value);
  const double whole = std::trunc(value.AsDouble());
  if (!(std::abs(whole) < 9e18)) Fail("cannot convert a float to an integer");
  return FormatNumber(spec, Value::Int(static_cast<int64_t>(whole)));
}

}  // namespace

std::string FormatBraces(Interpreter& interpreter, const std::string& format,
                         Arguments& arguments) {
  interpreter.budget()->Work(format.size());
  return Braces(interpreter, arguments).Format(format, 0);
}

std::string FormatPercent(Budget& budget, const std::string& format, const Value& values) {
  budget.Work(format.size());
  std::vector<Value> items{values};
  if (values.Is(Kind::kTuple)) items = values.sequence().items;
  size_t used = 0;
  bool named = false;
  std::string out;
  for (size_t i = 0; i < format.size();) {
    if (format[i] != '%') {
      out += format[i++];
      continue;
    }
    ++i;
    const Value* by_name = nullptr;
    if (i < format.size() && format[i] == '(') {
      const size_t end = format.find(')', i);
      if (end == std::string::npos) Fail("incomplete format key");
      if (!values.Is(Kind::kDict)) Fail("format requires a mapping");
      by_name = values.dict().Find(std::string_view(format).substr(i + 1, end - i - 1));
      if (!by_name) Fail("a key of the format is missing");
      named = true;
      i = end + 1;
    }
    out += PercentField(budget, format, &i, [&]() -> Value {
      if (by_name) return *by_name;
      if (used >= items.size()) Fail("not enough arguments for format string");
      return items[used++];
    });
    if (out.size() > kMaxWeight) FailLimit("a formatted text is too long");
  }
  // Python lets what can be indexed by a key go unused.
  const bool mapping = values.Is(Kind::kDict) || values.Is(Kind::kList) ||
                       values.Is(Kind::kRange) || values.Is(Kind::kUndefined);
  if (!named && used < items.size() && !mapping) {
    Fail("not all arguments converted during string formatting");
  }
  return out;
}

}  // namespace oort::jinja
