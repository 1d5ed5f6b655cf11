// SPDX-License-Identifier: MIT
// Filters on single values: text, numbers, JSON.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "chat_template/filters.h"
#include "chat_template/json.h"
#include "chat_template/methods.h"
#include "chat_template/operators.h"
#include "text/python.h"
#include "text/utf8.h"

namespace oort::jinja {
namespace {

/// What soft_str gives: a string as it is, anything else printed.
Value Soft(Interpreter& self, const Value& value) {
  return value.Is(Kind::kString) ? value : self.MakeString(self.ToText(value), value.user(), false);
}

Value CallMethod(Interpreter& self, const std::string& name, const Value& value,
                 Arguments arguments = {}) {
  return CallStringMethod(self, name, Soft(self, value), arguments);
}

Value FilterUpper(Interpreter& self, Arguments& arguments) {
  return CallMethod(self, "upper", Parameters("upper", arguments, {"s"}, 1)[0]);
}
Value FilterLower(Interpreter& self, Arguments& arguments) {
  return CallMethod(self, "lower", Parameters("lower", arguments, {"s"}, 1)[0]);
}
Value FilterCapitalize(Interpreter& self, Arguments& arguments) {
  return CallMethod(self, "capitalize", Parameters("capitalize", arguments, {"s"}, 1)[0]);
}
Value FilterString(Interpreter& self, Arguments& arguments) {
  return Soft(self, Parameters("string", arguments, {"s"}, 1)[0]);
}
Value FilterTrim(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("trim", arguments, {"value", "chars"}, 1);
  Arguments chars;
  if (parameters.Get(1)) chars.positional.push_back(parameters[1]);
  return CallMethod(self, "strip", parameters[0], std::move(chars));
}
Value FilterCenter(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("center", arguments, {"value", "width"}, 1);
  Arguments width;
  width.positional.push_back(Value::Int(parameters.Integer(1, 80)));
  return CallMethod(self, "center", parameters[0], std::move(width));
}

/// Each word begins with a capital; words begin behind - ( { [ < and white space.
Value FilterTitle(Interpreter& self, Arguments& arguments) {
  const Value value = Soft(self, Parameters("title", arguments, {"s"}, 1)[0]);
  const std::string& text = value.str();
  self.Step(static_cast<int64_t>(text.size()) / 8);
  std::string out;
  size_t begin = 0;
  const auto flush = [&](size_t end) {
    if (end <= begin) return;
    size_t after = begin;
    text::NextCodePoint(text, after);
    out += python::Upper(std::string_view(text).substr(begin, after - begin)) +
           python::Lower(std::string_view(text).substr(after, end - after));
  };
  for (size_t offset = 0; offset < text.size();) {
    const size_t at = offset;
    const char32_t c = text::NextCodePoint(text, offset);
    if (!python::IsSpace(c) && c != '-' && c != '(' && c != '{' && c != '[' && c != '<') continue;
    flush(at);
    out.append(text, at, offset - at);
    begin = offset;
  }
  flush(text.size());
  return self.MakeString(std::move(out));
}

Value FilterReplace(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("replace", arguments, {"s", "old", "new", "count"}, 3);
  const bool all = !parameters.Get(3) || parameters[3].Is(Kind::kNone);
  return self.MakeString(ReplaceText(*self.budget(), Soft(self, parameters[0]),
                                     self.ToText(parameters[1]), Soft(self, parameters[2]),
                                     all ? -1 : parameters.Integer(3, -1)));
}

Value FilterIndent(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("indent", arguments, {"s", "width", "first", "blank"}, 1);
  if (!parameters[0].Is(Kind::kString))
    Fail("indent needs a string, not " + std::string(TypeName(parameters[0])));
  std::string indention;
  if (parameters.Get(1) && parameters[1].Is(Kind::kString)) {
    indention = parameters[1].str();
  } else {
    const int64_t width = parameters.Integer(1, 4);
    if (width > 100000) FailLimit("an indent is too wide");
    indention.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const std::string text = parameters[0].str() + "\n";
  const std::vector<std::string_view> lines = SplitLines(text, false);
  const bool blank = parameters.Flag(3, false);
  std::string out = parameters.Flag(2, false) ? indention : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (blank || !lines[i].empty())) out += indention;
    out += lines[i];
    if (out.size() > kMaxWeight) FailLimit("an indented text is too long");
  }
  return self.MakeString(std::move(out), parameters[0].safe());
}

Value FilterTruncate(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("truncate", arguments, {"s", "length", "killwords", "end", "leeway"},
                              1);
  const std::string end = parameters.String(3, "...");
  const int64_t length = parameters.Integer(1, 255);
  const int64_t leeway =
      parameters.Get(4) && !parameters[4].Is(Kind::kNone) ? parameters.Integer(4, 5) : 5;
  if (length < text::CountCodePoints(end) || leeway < 0)
    Fail("the length or leeway of truncate is too small");
  const int64_t size = Length(parameters[0]);
  if (size < 0) Fail("truncate needs a string, not " + std::string(TypeName(parameters[0])));
  if (size <= length || size - length <= leeway) return parameters[0];
  if (!parameters[0].Is(Kind::kString))
    Fail("truncate needs a string, not " + std::string(TypeName(parameters[0])));
  const std::string& text = parameters[0].str();
  std::string cut =
      text.substr(0, text::OffsetOfCodePoint(text, length - text::CountCodePoints(end)));
  if (!parameters.Flag(2, false)) {
    const size_t space = cut.rfind(' ');
    if (space != std::string::npos) cut.resize(space);
  }
  return self.MakeString(cut + end);
}

Value FilterSafe(Interpreter& self, Arguments& arguments) {
  MarkedText text;
  self.Append(text, Parameters("safe", arguments, {"value"}, 1)[0]);
  return self.MakeString(std::move(text), true);
}
Value FilterEscape(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("escape", arguments, {"value"}, 1);
  if (parameters[0].safe()) return parameters[0];
  return self.MakeString(Escape(self.ToText(parameters[0])), true);
}
Value FilterForceEscape(Interpreter& self, Arguments& arguments) {
  return self.MakeString(Escape(self.ToText(Parameters("forceescape", arguments, {"value"}, 1)[0])),
                         true);
}

std::optional<int64_t> ReadInteger(std::string_view text, int64_t base) {
  text = python::Strip(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.size() > 2 && text[0] == '0') {
    const char mark = static_cast<char>(text[1] | 0x20);
    if ((base == 16 && mark == 'x') || (base == 8 && mark == 'o') || (base == 2 && mark == 'b'))
      text.remove_prefix(2);
  }
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && text[i - 1] != '_';
    if (text[i] == '_' && between) continue;
    digits += text[i];
  }
  if (base < 2 || base > 36 || digits.empty() || digits[0] == '-' || digits[0] == '+') return {};
  const std::string signed_digits = (negative ? "-" : "") + digits;
  int64_t value = 0;
  const char* end = signed_digits.data() + signed_digits.size();
  const auto read = std::from_chars(signed_digits.data(), end, value, static_cast<int>(base));
  if (read.ec == std::errc::result_out_of_range)
    FailLimit("an integer leaves the range of 64 bits");
  if (read.ec != std::errc() || read.ptr != end) return {};
  return value;
}

std::optional<double> ReadReal(std::string_view text) {
  std::string plain = python::Lower(python::Strip(text));
  plain.erase(std::remove(plain.begin(), plain.end(), '_'), plain.end());
  const bool negative = plain.starts_with('-');
  if (negative || plain.starts_with('+')) plain.erase(0, 1);
  if (plain.empty() || plain[0] == '-' || plain[0] == '+') return {};
  double value = 0;
  if (plain == "inf" || plain == "infinity") {
    value = INFINITY;
  } else if (plain == "nan") {
    value = NAN;
  } else {
    const auto read = std::from_chars(plain.data(), plain.data() + plain.size(), value);
    if (read.ptr != plain.data() + plain.size() || read.ec == std::errc::invalid_argument)
      return {};
    if (read.ec == std::errc::result_out_of_range) {
      const size_t power = plain.find("e-");
      value = power == std::string::npos && plain[0] != '0' ? INFINITY : 0.0;
    }
  }
  return negative ? -value : value;
}

Value FilterInt(Interpreter&, Arguments& arguments) {
  const Parameters parameters("int", arguments, {"value", "default", "base"}, 1);
  const Value& value = parameters[0];
  const Value otherwise = parameters.Get(1) ? parameters[1] : Value::Int(0);
  std::optional<double> real;
  if (value.Is(Kind::kUndefined)) Fail(value.Why());
  if (value.IsInteger() || value.Is(Kind::kBigInt))
    return value.Is(Kind::kBigInt) ? value : Value::Int(value.AsInt());
  if (value.Is(Kind::kString)) {
    if (const auto integer = ReadInteger(value.str(), parameters.Integer(2, 10)))
      return Value::Int(*integer);
    real = ReadReal(value.str());
  } else if (value.Is(Kind::kFloat)) {
    real = value.AsDouble();
    if (std::isinf(*real)) Fail("cannot convert float infinity to integer");
  }
  if (!real || std::isnan(*real) || std::isinf(*real)) return otherwise;
  if (std::abs(*real) >= 9.2e18) FailLimit("an integer leaves the range of 64 bits");
  return Value::Int(static_cast<int64_t>(*real));
}

Value FilterFloat(Interpreter&, Arguments& arguments) {
  const Parameters parameters("float", arguments, {"value", "default"}, 1);
  const Value& value = parameters[0];
  if (value.Is(Kind::kUndefined)) Fail(value.Why());
  if (value.IsNumber()) return Value::Float(value.AsDouble());
  if (value.Is(Kind::kString)) {
    if (const auto real = ReadReal(value.str())) return Value::Float(*real);
  }
  return parameters.Get(1) ? parameters[1] : Value::Float(0.0);
}

Value FilterAbs(Interpreter& self, Arguments& arguments) {
  const Value value = Parameters("abs", arguments, {"x"}, 1)[0];
  if (!value.IsNumber()) Fail("bad operand type for abs(): '" + std::string(TypeName(value)) + "'");
  if (value.Is(Kind::kFloat)) return Value::Float(std::abs(value.AsDouble()));
  return value.AsInt() < 0 ? self.Binary("-", Value::Int(0), value) : Value::Int(value.AsInt());
}

/// Halves to even, of the exact decimal value, as Python's round.
double RoundTo(double value, int64_t precision) {
  if (!std::isfinite(value)) return value;
  if (precision > 300) return value;
  if (precision < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-std::max<int64_t>(precision, -308)));
    return std::nearbyint(value / scale) * scale;
  }
  char buffer[800];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed,
                                 static_cast<int>(precision));
  double rounded = value;
  std::from_chars(buffer, end.ptr, rounded);
  return rounded;
}

Value FilterRound(Interpreter&, Arguments& arguments) {
  const Parameters parameters("round", arguments, {"value", "precision", "method"}, 1);
  const std::string method = parameters.String(2, "common");
  const int64_t precision = parameters.Integer(1, 0);
  if (method != "common" && method != "ceil" && method != "floor")
    Fail("method must be common, ceil or floor");
  if (parameters[0].Is(Kind::kUndefined)) Fail(parameters[0].Why());
  if (!parameters[0].IsNumber())
    Fail("round needs a number, not " + std::string(TypeName(parameters[0])));
  if (method == "common") {
    if (parameters[0].IsInteger() && precision >= 0) return Value::Int(parameters[0].AsInt());
    const double rounded = RoundTo(parameters[0].AsDouble(), precision);
    if (parameters[0].IsInteger() && std::abs(rounded) < 9e15)
      return Value::Int(static_cast<int64_t>(rounded));
    return Value::Float(rounded);
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = parameters[0].AsDouble() * scale;
  return Value::Float((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value FilterFormat(Interpreter& self, Arguments& arguments) {
  if (arguments.positional.size() > 1 && !arguments.named.empty()) {
    Fail("can't handle positional and keyword arguments at the same time");
  }
  const Value text = Soft(self, arguments.positional[0]);
  Value values;
  if (!arguments.named.empty()) {
    auto dict = std::make_shared<Dict>(self.budget());
    for (const auto& [name, value] : arguments.named) dict->Set(self.MakeString(name), value);
    values = Value::Of(std::shared_ptr<const Dict>(std::move(dict)));
  } else {
    values =
        Value::Tuple(self.budget(), {arguments.positional.begin() + 1, arguments.positional.end()});
  }
  return self.Binary("%", text, values);
}

Value FilterDefault(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("default", arguments, {"value", "default_value", "boolean"}, 1);
  const Value& value = parameters[0];
  if (!value.Is(Kind::kUndefined) && (!parameters.Flag(2, false) || Truth(value))) return value;
  return parameters.Get(1) ? parameters[1] : self.MakeString(std::string());
}

Value FilterToJson(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("tojson", arguments,
                              {"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonStyle style;
  style.ensure_ascii = parameters.Flag(1, false);
  style.sort_keys = parameters.Flag(4, false);
  if (parameters.Get(2) && !parameters[2].Is(Kind::kNone)) {
    if (parameters[2].Is(Kind::kString)) {
      style.indent = parameters[2].str();
    } else {
      const int64_t width = parameters.Integer(2, 0);
      if (width > 1000) FailLimit("the indent of tojson is too wide");
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
    style.item_separator = ",";
  }
  if (parameters.Get(3) && !parameters[3].Is(Kind::kNone)) {
    const std::vector<Value> pair = self.Items(parameters[3]);
    if (pair.size() != 2 || !pair[0].Is(Kind::kString) || !pair[1].Is(Kind::kString)) {
      Fail("the separators of tojson are two strings");
    }
    style.item_separator = pair[0].str();
    style.key_separator = pair[1].str();
  }
  return self.MakeString(DumpJson(*self.budget(), parameters[0], style));
}

Value FilterWordCount(Interpreter& self, Arguments& arguments) {
  const Value value = Soft(self, Parameters("wordcount", arguments, {"s"}, 1)[0]);
  int64_t count = 0;
  bool inside = false;
  for (size_t offset = 0; offset < value.str().size();) {
    const char32_t c = text::NextCodePoint(value.str(), offset);
    const bool word = python::IsAlpha(c) || python::IsNumeric(c) || c == '_';
    count += word && !inside;
    inside = word;
  }
  return Value::Int(count);
}

struct NamedFilter {
  std::string_view name;
  Filter filter;
};

constexpr NamedFilter kTextFilters[] = {
    {"upper", FilterUpper},
    {"lower", FilterLower},
    {"capitalize", FilterCapitalize},
    {"title", FilterTitle},
    {"string", FilterString},
    {"trim", FilterTrim},
    {"center", FilterCenter},
    {"replace", FilterReplace},
    {"indent", FilterIndent},
    {"truncate", FilterTruncate},
    {"safe", FilterSafe},
    {"escape", FilterEscape},
    {"e", FilterEscape},
    {"forceescape", FilterForceEscape},
    {"int", FilterInt},
    {"float", FilterFloat},
    {"abs", FilterAbs},
    {"round", FilterRound},
    {"format", FilterFormat},
    {"default", FilterDefault},
    {"d", FilterDefault},
    {"tojson", FilterToJson},
    {"wordcount", FilterWordCount},
};

}  // namespace

Filter FindTextFilter(std::string_view name) {
  for (const NamedFilter& filter : kTextFilters) {
    if (filter.name == name) return filter.filter;
  }
  return nullptr;
}

}  // namespace oort::jinja
