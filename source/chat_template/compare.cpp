// SPDX-License-Identifier: MIT
// Equality, order and the printed form of values, as Python has them.
#include <cmath>
#include <cstring>

#include "chat_template/interpreter.h"
#include "chat_template/value.h"
#include "text/python.h"

namespace oort::jinja {
namespace {

bool EqualItems(const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Equal(a[i], b[i])) return false;
  }
  return true;
}

/// An i64 against an f64 without rounding the one to the other.
int CompareMixed(int64_t integer, double real) {
  if (real >= 9223372036854775808.0) return -1;
  if (real < -9223372036854775808.0) return 1;
  const double whole = std::floor(real);
  const int64_t floor = static_cast<int64_t>(whole);
  if (integer != floor) return integer < floor ? -1 : 1;
  return real > whole ? -1 : 0;
}

int CompareNumbers(const Value& a, const Value& b) {
  const auto order = [](auto x, auto y) { return x < y ? -1 : y < x ? 1 : 0; };
  if (a.IsInteger() && b.IsInteger()) return order(a.AsInt(), b.AsInt());
  if (a.IsInteger()) return CompareMixed(a.AsInt(), b.AsDouble());
  if (b.IsInteger()) return -CompareMixed(b.AsInt(), a.AsDouble());
  return order(a.AsDouble(), b.AsDouble());
}

bool IsNan(const Value& value) { return value.Is(Kind::kFloat) && std::isnan(value.AsDouble()); }

std::string JoinReprs(const std::vector<Value>& items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) text += (i > 0 ? ", " : "") + Repr(items[i]);
  return text;
}

std::string ReprPairs(const std::vector<std::pair<Value, Value>>& items) {
  std::string text = "{";
  for (const auto& [key, value] : items) {
    text += (text.size() > 1 ? ", " : "") + Repr(key) + ": " + Repr(value);
  }
  return text + "}";
}

std::string ReprRange(const Range& range) {
  std::string text = "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop);
  if (range.step != 1) text += ", " + std::to_string(range.step);
  return text + ")";
}

}  // namespace

bool Equal(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) return !IsNan(a) && !IsNan(b) && CompareNumbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return true;
    case Kind::kBigInt:
    case Kind::kString: return a.str() == b.str();
    case Kind::kList:
    case Kind::kTuple: return EqualItems(a.sequence().items, b.sequence().items);
    case Kind::kRange:
      return a.range().size() == b.range().size() &&
             (a.range().size() == 0 ||
              (a.range().start == b.range().start &&
               (a.range().size() == 1 || a.range().step == b.range().step)));
    case Kind::kDict:
      if (a.dict().items.size() != b.dict().items.size()) return false;
      for (const auto& [key, value] : a.dict().items) {
        const Value* other = b.dict().Find(key);
        if (!other || !Equal(value, *other)) return false;
      }
      return true;
    case Kind::kNamespace: return a.space() == b.space();
    case Kind::kLoop: return a.loop() == b.loop();
    default: return a.object() == b.object();
  }
}

int Compare(const Value& a, const Value& b, std::string_view op) {
  for (const Value* side : {&a, &b}) {
    if (side->Is(Kind::kUndefined)) Fail(side->Why());
  }
  if (a.IsNumber() && b.IsNumber()) return CompareNumbers(a, b);
  if (a.Is(Kind::kString) && b.Is(Kind::kString)) {
    const int order = a.str().compare(b.str());  // UTF-8 sorts like the characters
    return order < 0 ? -1 : order > 0;
  }
  if (a.kind() == b.kind() && (a.Is(Kind::kList) || a.Is(Kind::kTuple))) {
    const auto &left = a.sequence().items, &right = b.sequence().items;
    for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
      if (!Equal(left[i], right[i])) return Compare(left[i], right[i], op);
    }
    return left.size() < right.size() ? -1 : left.size() > right.size();
  }
  Fail("'" + std::string(op) + "' not supported between instances of '" + std::string(TypeName(a)) +
       "' and '" + std::string(TypeName(b)) + "'");
}

std::string Str(const Value& value) {
  if (value.Is(Kind::kString)) return value.str();
  if (value.Is(Kind::kUndefined)) return {};
  return Repr(value);
}

std::string Repr(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "None";
    case Kind::kBool: return value.AsBool() ? "True" : "False";
    case Kind::kInt: return std::to_string(value.AsInt());
    case Kind::kBigInt: return value.str();
    case Kind::kFloat: return python::ReprFloat(value.AsDouble());
    case Kind::kString:
      return value.safe() ? "Markup(" + python::ReprText(value.str()) + ")"
                          : python::ReprText(value.str());
    case Kind::kList: return "[" + JoinReprs(value.sequence().items) + "]";
    case Kind::kTuple:
      return "(" + JoinReprs(value.sequence().items) +
             (value.sequence().items.size() == 1 ? ",)" : ")");
    case Kind::kView:
      return value.sequence().name + "([" + JoinReprs(value.sequence().items) + "])";
    case Kind::kIterator: return "<generator object>";
    case Kind::kRange: return ReprRange(value.range());
    case Kind::kDict: return ReprPairs(value.dict().items);
    case Kind::kNamespace: return "<TemplateNamespace>";  // its own contents could hold itself
    case Kind::kLoop:
      return "<LoopContext " + std::to_string(value.loop()->index0 + 1) + "/" +
             std::to_string(value.loop()->size) + ">";
    case Kind::kMacro:
      return value.macro()->name.empty() ? "<Macro anonymous>"
                                         : "<Macro " + python::ReprText(value.macro()->name) + ">";
    case Kind::kCallable: return "<function " + value.callable().name + ">";
  }
  return {};
}

}  // namespace oort::jinja
