// SPDX-License-Identifier: MIT
#include "chat_template/operators.h"

#include <algorithm>
#include <cmath>

#include "chat_template/interpreter.h"
#include "core/checked.h"
#include "text/utf8.h"

namespace oort::jinja {
namespace {

[[noreturn]] void FailOperands(std::string_view op, const Value& left, const Value& right) {
  Fail("unsupported operand type(s) for " + std::string(op) + ": '" + std::string(TypeName(left)) +
       "' and '" + std::string(TypeName(right)) + "'");
}

[[noreturn]] void FailBig() { FailLimit("an integer leaves the range of 64 bits"); }

Value PowerOf(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) Fail("0.0 cannot be raised to a negative power");
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1) return Value::Int(exponent == 0 ? 1 : base);
  if (base == -1) return Value::Int(exponent % 2 == 0 ? 1 : -1);
  int64_t power = 1;
  for (; exponent > 0; --exponent) {
    if (MultiplyOverflows(power, base, &power)) FailBig();
  }
  return Value::Int(power);
}

Value IntegerResult(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+") {
    if (__builtin_add_overflow(a, b, &result)) FailBig();
  } else if (op == "-") {
    if (__builtin_sub_overflow(a, b, &result)) FailBig();
  } else if (op == "*") {
    if (__builtin_mul_overflow(a, b, &result)) FailBig();
  } else if (op == "**") {
    return PowerOf(a, b);
  } else {
    if (b == 0) Fail(op == "/" ? "division by zero" : "integer division or modulo by zero");
    if (op == "/") return Value::Float(static_cast<double>(a) / static_cast<double>(b));
    if (b == -1) {
      if (op == "//" && __builtin_sub_overflow(int64_t{0}, a, &result)) FailBig();
      return Value::Int(result);
    }
    const int64_t remainder = a % b;
    const bool down = remainder != 0 && (remainder < 0) != (b < 0);
    result = op == "//" ? a / b - down : remainder + (down ? b : 0);
  }
  return Value::Int(result);
}

Value RealResult(std::string_view op, double a, double b) {
  if (op == "+") return Value::Float(a + b);
  if (op == "-") return Value::Float(a - b);
  if (op == "*") return Value::Float(a * b);
  if (op == "**") {
    if (a == 0 && b < 0) Fail("0.0 cannot be raised to a negative power");
    if (a < 0 && std::isfinite(b) && b != std::floor(b))
      FailUnsupported("complex numbers are not supported");
    const double power = std::pow(a, b);
    if (std::isinf(power) && std::isfinite(a) && std::isfinite(b))
      Fail("numerical result out of range");
    return Value::Float(power);
  }
  if (b == 0) Fail(op == "/" ? "float division by zero" : "float floor division or modulo by zero");
  if (op == "/") return Value::Float(a / b);
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  if (remainder == 0) remainder = std::copysign(0.0, b);
  if (op == "%") return Value::Float(remainder);
  double quotient = (a - remainder) / b;
  const double whole = std::floor(quotient);
  quotient = quotient == 0 ? std::copysign(0.0, a / b) : quotient - whole > 0.5 ? whole + 1 : whole;
  return Value::Float(quotient);
}

Value AddStrings(Budget& budget, const Value& left, const Value& right) {
  const bool safe = left.safe() || right.safe();
  budget.Work(left.str().size() + right.str().size());
  MarkedText text;
  for (const Value* side : {&left, &right}) {
    if (safe && !side->safe()) {
      text.Append(Escape(side->str()), side->user());
    } else {
      text.Append(side->str(), side->ranges());
    }
  }
  return Value::String(&budget, std::move(text), safe);
}

Value AddSequences(Budget& budget, const Value& left, const Value& right) {
  std::vector<Value> items = left.sequence().items;
  const auto& more = right.sequence().items;
  budget.Step(static_cast<int64_t>(items.size() + more.size()));
  items.insert(items.end(), more.begin(), more.end());
  return Value::List(&budget, std::move(items), left.kind());
}

/// The string over and over, up to `size` bytes.
MarkedText RepeatText(const Value& value, uint64_t size) {
  MarkedText text;
  text.text.reserve(size);
  if (size > 0) text.Append(value.str(), value.ranges());
  // By what is there already: a line of a character is made in few steps.
  while (text.text.size() < size) {
    const size_t more = std::min<size_t>(text.text.size(), size - text.text.size());
    const Ranges ranges = RangesIn(text.user, {0, more});
    text.Append(std::string_view(text.text).substr(0, more), ranges);
  }
  return text;
}

Value Repeat(Budget& budget, const Value& value, int64_t count) {
  const uint64_t times = count > 0 ? static_cast<uint64_t>(count) : 0;
  uint64_t total = 0;
  const bool string = value.Is(Kind::kString);
  const uint64_t unit = string ? value.str().size() : value.sequence().items.size() * sizeof(Value);
  if (MultiplyOverflows(unit, times, &total) || total > kMaxWeight) {
    FailLimit("a repeated value is too large");
  }
  budget.Work(total);
  if (string) {
    return Value::String(&budget, RepeatText(value, total), value.safe());
  }
  std::vector<Value> items;
  for (uint64_t i = 0; i < times && unit > 0; ++i) {
    items.insert(items.end(), value.sequence().items.begin(), value.sequence().items.end());
  }
  return Value::List(&budget, std::move(items), value.kind());
}

bool Repeatable(const Value& value) {
  return value.Is(Kind::kString) || value.Is(Kind::kList) || value.Is(Kind::kTuple);
}

struct Bounds {
  int64_t start, stop, step;
};

int64_t SliceBound(const Value& bound, int64_t otherwise, int64_t size, int64_t low, int64_t high) {
  if (bound.Is(Kind::kNone)) return otherwise;
  if (bound.Is(Kind::kUndefined)) Fail("slice indices must be integers or None");
  if (!bound.IsInteger())
    Fail("slice indices must be integers or None or have an __index__ method");
  const int64_t index = bound.AsInt();
  return std::clamp(index < 0 ? index + size : index, low, high);
}

Bounds ResolveBounds(const Value& start, const Value& stop, const Value& step, int64_t size) {
  Bounds bounds{0, 0, 1};
  if (!step.Is(Kind::kNone)) {
    if (!step.IsInteger())
      Fail("slice indices must be integers or None or have an __index__ method");
    bounds.step = std::max<int64_t>(step.AsInt(), -INT64_MAX);
    if (bounds.step == 0) Fail("slice step cannot be zero");
  }
  const bool forward = bounds.step > 0;
  const int64_t low = forward ? 0 : -1, high = forward ? size : size - 1;
  bounds.start = SliceBound(start, forward ? low : high, size, low, high);
  bounds.stop = SliceBound(stop, forward ? high : low, size, low, high);
  return bounds;
}

}  // namespace

Value Negate(const Value& value, bool minus) {
  if (value.Is(Kind::kUndefined)) Fail(value.Why());
  if (value.IsInteger())
    return minus ? IntegerResult("-", 0, value.AsInt()) : Value::Int(value.AsInt());
  if (value.Is(Kind::kFloat)) return Value::Float(minus ? -value.AsDouble() : value.AsDouble());
  Fail("bad operand type for unary " + std::string(minus ? "-" : "+") + ": '" +
       std::string(TypeName(value)) + "'");
}

Value Interpreter::Binary(std::string_view op, const Value& left, const Value& right) {
  if (left.Is(Kind::kString) && op == "%") {
    return MakeString(FormatPercent(budget_, left.str(), right), left.user() || right.user(),
                      left.safe());
  }
  for (const Value* side : {&left, &right}) {
    if (side->Is(Kind::kUndefined)) Fail(side->Why());
  }
  if (left.IsInteger() && right.IsInteger()) return IntegerResult(op, left.AsInt(), right.AsInt());
  if (left.IsNumber() && right.IsNumber()) return RealResult(op, left.AsDouble(), right.AsDouble());
  if (left.Is(Kind::kBigInt) || right.Is(Kind::kBigInt)) FailBig();
  if (op == "+") {
    if (left.Is(Kind::kString) && right.Is(Kind::kString)) return AddStrings(budget_, left, right);
    if (left.kind() == right.kind() && (left.Is(Kind::kList) || left.Is(Kind::kTuple))) {
      return AddSequences(budget_, left, right);
    }
    if (left.Is(Kind::kString)) {
      Fail("can only concatenate str (not \"" + std::string(TypeName(right)) + "\") to str");
    }
  }
  if (op == "*") {
    if (Repeatable(left) && right.IsInteger()) return Repeat(budget_, left, right.AsInt());
    if (Repeatable(right) && left.IsInteger()) return Repeat(budget_, right, left.AsInt());
  }
  FailOperands(op, left, right);
}

bool CompareBy(Budget& budget, std::string_view op, const Value& left, const Value& right) {
  budget.Step(static_cast<int64_t>(std::min(left.weight(), right.weight()) / 64));
  if (op == "==") return Equal(left, right);
  if (op == "!=") return !Equal(left, right);
  if (op == "in") return Contains(budget, right, left);
  if (op == "not in") return !Contains(budget, right, left);
  const bool nan = (left.Is(Kind::kFloat) && std::isnan(left.AsDouble())) ||
                   (right.Is(Kind::kFloat) && std::isnan(right.AsDouble()));
  const int order = Compare(left, right, op);
  if (nan && left.IsNumber() && right.IsNumber()) return false;
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  if (op == ">") return order > 0;
  return order >= 0;
}

Value ItemAt(Budget& budget, const Value& object, int64_t index) {
  if (object.Is(Kind::kRange)) {
    return Value::Int(object.range().start + index * object.range().step);
  }
  if (!object.Is(Kind::kString)) return object.sequence().items[static_cast<size_t>(index)];
  const std::string& text = object.str();
  if (static_cast<const Text&>(*object.object()).ascii) {
    return object.Part(&budget, static_cast<size_t>(index), static_cast<size_t>(index) + 1);
  }
  budget.Step(index / 64);
  const size_t begin = text::OffsetOfCodePoint(text, index);
  size_t end = begin;
  text::NextCodePoint(text, end);
  return object.Part(&budget, begin, end);
}

Value Slice(Budget& budget, const Value& object, const Value& start, const Value& stop,
            const Value& step) {
  if (object.Is(Kind::kUndefined)) Fail(object.Why());
  if (!Repeatable(object) && !object.Is(Kind::kRange)) {
    Fail("'" + std::string(TypeName(object)) + "' object cannot be sliced");
  }
  const Bounds bounds = ResolveBounds(start, stop, step, Length(object));
  std::vector<Value> items;
  if (object.Is(Kind::kString)) {
    const std::string& text = object.str();
    budget.Work(text.size());
    if (bounds.step == 1) {
      const size_t begin = text::OffsetOfCodePoint(text, bounds.start);
      const size_t end = bounds.stop > bounds.start
                             ? begin + text::OffsetOfCodePoint(std::string_view(text).substr(begin),
                                                               bounds.stop - bounds.start)
                             : begin;
      return object.Part(&budget, begin, end);
    }
    std::vector<size_t> offsets;
    for (size_t offset = 0; offset < text.size();) {
      offsets.push_back(offset);
      text::NextCodePoint(text, offset);
    }
    offsets.push_back(text.size());
    budget.Step(static_cast<int64_t>(offsets.size()));
    MarkedText picked;
    for (int64_t i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop;) {
      const size_t at = static_cast<size_t>(i);
      picked.Append(std::string_view(text).substr(offsets[at], offsets[at + 1] - offsets[at]),
                    object.user());
      if (__builtin_add_overflow(i, bounds.step, &i)) break;
    }
    return Value::String(&budget, std::move(picked), object.safe());
  }
  for (int64_t i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop;) {
    budget.Step();
    items.push_back(ItemAt(budget, object, i));
    if (__builtin_add_overflow(i, bounds.step, &i)) break;
  }
  return Value::List(&budget, std::move(items),
                     object.Is(Kind::kTuple) ? Kind::kTuple : Kind::kList);
}

std::string Escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&#34;"; break;
      case '\'': escaped += "&#39;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

}  // namespace oort::jinja
