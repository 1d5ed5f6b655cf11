// SPDX-License-Identifier: MIT
// The functions that a template finds without being given them.
#include <array>

#include "chat_template/clock.h"
#include "chat_template/interpreter.h"

namespace oort::jinja {
namespace {

constexpr int64_t kMaxRange = 100000;

Value GlobalRange(Interpreter& self, Arguments& arguments) {
  if (!arguments.named.empty()) Fail("range() takes no keyword arguments");
  const size_t count = arguments.positional.size();
  if (count < 1 || count > 3) Fail("range expected 1 to 3 arguments, got " + std::to_string(count));
  for (const Value& value : arguments.positional) {
    if (value.Is(Kind::kUndefined)) Fail(value.Why());
  }
  const Parameters parameters("range", arguments, {"start", "stop", "step"}, 1);
  const int64_t start = count == 1 ? 0 : parameters.Integer(0, 0);
  const int64_t stop = parameters.Integer(count == 1 ? 0 : 1, 0);
  const int64_t step = parameters.Integer(2, 1);
  if (step == 0) Fail("range() arg 3 must not be zero");
  Value range = Value::MakeRange(self.budget(), start, stop, step);
  if (range.range().size() > kMaxRange) {
    Fail("range too big; the sandbox blocks ranges larger than " + std::to_string(kMaxRange));
  }
  return range;
}

/// dict(mapping or pairs, name=value …).
std::shared_ptr<Dict> CollectPairs(Interpreter& self, Arguments& arguments) {
  auto dict = std::make_shared<Dict>(self.budget());
  if (arguments.positional.size() > 1) Fail("dict expected at most 1 argument");
  for (const Value& source : arguments.positional) {
    if (source.Is(Kind::kDict)) {
      self.Step(static_cast<int64_t>(source.dict().items.size()));
      for (const auto& [key, value] : source.dict().items) dict->Set(key, value);
      continue;
    }
    if (source.Is(Kind::kUndefined)) continue;
    for (const Value& item : self.Items(source)) {
      const std::vector<Value> pair = self.Items(item);
      if (pair.size() != 2) Fail("dictionary update sequence element must have length 2");
      dict->Set(pair[0], pair[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) dict->Set(self.MakeString(name), value);
  return dict;
}

Value GlobalDict(Interpreter& self, Arguments& arguments) {
  return Value::Of(std::shared_ptr<const Dict>(CollectPairs(self, arguments)));
}

Value GlobalNamespace(Interpreter& self, Arguments& arguments) {
  const auto dict = CollectPairs(self, arguments);
  Namespace* space = self.NewNamespace();
  for (const auto& [key, value] : dict->items) {
    if (!key.Is(Kind::kString)) continue;  // it could never be read
    if (!key.str().empty() && key.str()[0] == '_') {
      Fail("a namespace cannot have attributes that begin with '_'");
    }
    self.budget()->Take(64 + key.str().size());
    space->Set(key.str(), value);
  }
  return Value::Of(space);
}

Value GlobalRaise(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("raise_exception", arguments, {"message"}, 1);
  Fail(self.ToText(parameters[0]));
}

Value GlobalStrftime(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("strftime_now", arguments, {"format"}, 1);
  if (!parameters[0].Is(Kind::kString)) Fail("strftime() argument 1 must be str");
  return self.MakeString(FormatTime(parameters[0].str(), self.Now()), parameters[0].user(), false);
}

/// Empty the first time it is called, then what it was made with.
Value GlobalJoiner(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("joiner", arguments, {"sep"});
  const Value separator = parameters.Get(0) ? parameters[0] : self.MakeString(", ");
  auto used = std::make_shared<bool>(false);
  return Value::MakeCallable(self.budget(), "joiner",
                             [separator, used](Interpreter& interpreter, Arguments&) {
                               const bool first = !*used;
                               *used = true;
                               return first ? interpreter.MakeString(std::string()) : separator;
                             });
}

Value GlobalUnavailable(Interpreter&, Arguments&) {
  FailUnsupported("this function of jinja2 is not supported in chat templates");
}

using Function = Value (*)(Interpreter&, Arguments&);
struct NamedFunction {
  std::string_view name;
  Function function;
};

constexpr NamedFunction kGlobals[] = {
    {"range", GlobalRange},           {"dict", GlobalDict},
    {"namespace", GlobalNamespace},   {"raise_exception", GlobalRaise},
    {"strftime_now", GlobalStrftime}, {"joiner", GlobalJoiner},
    {"cycler", GlobalUnavailable},    {"lipsum", GlobalUnavailable},
};

}  // namespace

Value FindGlobal(Interpreter& interpreter, std::string_view name) {
  for (const NamedFunction& global : kGlobals) {
    if (global.name == name) {
      return Value::MakeCallable(interpreter.budget(), std::string(name), global.function);
    }
  }
  return {};
}

}  // namespace oort::jinja
