// SPDX-License-Identifier: MIT
// What stands behind `is`.
#include <algorithm>

#include "chat_template/filters.h"
#include "chat_template/interpreter.h"
#include "chat_template/methods.h"
#include "chat_template/operators.h"

namespace oort::jinja {
namespace {

/// The subject of a test and what stands behind its name.
struct TestCall {
  Interpreter& self;
  const std::string& name;
  const Value& value;
  const Value* other;
};

bool TestOrder(const TestCall& call) {
  static constexpr std::pair<std::string_view, std::string_view> kOperators[] = {
      {"eq", "=="}, {"equalto", "=="}, {"ne", "!="},      {"gt", ">"}, {"greaterthan", ">"},
      {"ge", ">="}, {"lt", "<"},       {"lessthan", "<"}, {"le", "<="}};
  std::string_view op = call.name;
  for (const auto& [word, sign] : kOperators) {
    if (word == call.name) op = sign;
  }
  return CompareBy(*call.self.budget(), op, call.value, *call.other);
}

bool TestParity(const TestCall& call) {
  const Value divisor = call.other ? *call.other : Value::Int(2);
  const Value rest = call.self.Binary("%", call.value, divisor);
  return Equal(rest, Value::Int(call.name == "odd" ? 1 : 0));
}

bool TestSequence(const TestCall& call) {
  switch (call.value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kDict: return true;
    default: return false;
  }
}

bool TestCase(const TestCall& call) {
  Arguments none;
  const Value text = call.self.MakeString(call.self.ToText(call.value));
  return Truth(
      CallStringMethod(call.self, call.name == "lower" ? "islower" : "isupper", text, none));
}

bool TestSame(const TestCall& call) {
  const Value &a = call.value, &b = *call.other;
  if (a.kind() != b.kind()) return false;
  if (a.Is(Kind::kBool) || a.Is(Kind::kNone) || a.Is(Kind::kInt) || a.Is(Kind::kNamespace))
    return Equal(a, b);
  return a.object() && a.object() == b.object();
}

bool TestCallable(const TestCall& call) {
  return call.value.Is(Kind::kCallable) || call.value.Is(Kind::kMacro) ||
         call.value.Is(Kind::kLoop) || call.value.Is(Kind::kUndefined);
}

bool TestKnown(const TestCall& call) {
  if (!call.value.Is(Kind::kString)) {
    HashOf(call.value);  // throws for a list, which cannot be looked up
    return false;
  }
  return call.name == "filter" ? IsFilter(call.value.str()) : IsTest(call.value.str());
}

struct NamedTest {
  std::string_view name;
  int arguments;
  bool (*test)(const TestCall&);
};

constexpr NamedTest kTests[] = {
    {"odd", 0, TestParity},
    {"even", 0, TestParity},
    {"divisibleby", 1, TestParity},
    {"defined", 0, [](const TestCall& c) { return !c.value.Is(Kind::kUndefined); }},
    {"undefined", 0, [](const TestCall& c) { return c.value.Is(Kind::kUndefined); }},
    {"filter", 0, TestKnown},
    {"test", 0, TestKnown},
    {"none", 0, [](const TestCall& c) { return c.value.Is(Kind::kNone); }},
    {"boolean", 0, [](const TestCall& c) { return c.value.Is(Kind::kBool); }},
    {"false", 0, [](const TestCall& c) { return c.value.Is(Kind::kBool) && !c.value.AsBool(); }},
    {"true", 0, [](const TestCall& c) { return c.value.Is(Kind::kBool) && c.value.AsBool(); }},
    {"integer", 0,
     [](const TestCall& c) { return c.value.Is(Kind::kInt) || c.value.Is(Kind::kBigInt); }},
    {"float", 0, [](const TestCall& c) { return c.value.Is(Kind::kFloat); }},
    {"lower", 0, TestCase},
    {"upper", 0, TestCase},
    {"string", 0, [](const TestCall& c) { return c.value.Is(Kind::kString); }},
    {"mapping", 0, [](const TestCall& c) { return c.value.Is(Kind::kDict); }},
    {"number", 0,
     [](const TestCall& c) { return c.value.IsNumber() || c.value.Is(Kind::kBigInt); }},
    {"sequence", 0, TestSequence},
    {"iterable", 0, [](const TestCall& c) { return IsIterable(c.value); }},
    {"callable", 0, TestCallable},
    {"sameas", 1, TestSame},
    {"escaped", 0, [](const TestCall& c) { return c.value.safe(); }},
    {"in", 1, [](const TestCall& c) { return Contains(*c.self.budget(), *c.other, c.value); }},
    {"==", 1, TestOrder},
    {"eq", 1, TestOrder},
    {"equalto", 1, TestOrder},
    {"!=", 1, TestOrder},
    {"ne", 1, TestOrder},
    {">", 1, TestOrder},
    {"gt", 1, TestOrder},
    {"greaterthan", 1, TestOrder},
    {"ge", 1, TestOrder},
    {">=", 1, TestOrder},
    {"<", 1, TestOrder},
    {"lt", 1, TestOrder},
    {"lessthan", 1, TestOrder},
    {"<=", 1, TestOrder},
    {"le", 1, TestOrder},
};

const NamedTest* FindTest(std::string_view name) {
  for (const NamedTest& test : kTests) {
    if (test.name == name) return &test;
  }
  return nullptr;
}

}  // namespace

bool IsTest(std::string_view name) { return FindTest(name) != nullptr; }

bool Interpreter::ApplyTest(const std::string& name, Arguments& arguments) {
  const NamedTest* test = FindTest(name);
  if (!test) Fail("no test named '" + name + "' found");
  if (!arguments.named.empty() ||
      arguments.positional.size() != static_cast<size_t>(test->arguments) + 1) {
    Fail("the test '" + name + "' takes " + std::to_string(test->arguments) + " argument(s)");
  }
  const Value* other = test->arguments > 0 ? &arguments.positional[1] : nullptr;
  return test->test({*this, name, arguments.positional[0], other});
}

}  // namespace oort::jinja
