// SPDX-License-Identifier: MIT
// Attributes of values. What Python's type has is found before the keys of a dictionary; what would
// change a value is forbidden, as in jinja2's immutable sandbox.
#include <algorithm>

#include "chat_template/interpreter.h"
#include "chat_template/methods.h"
#include "chat_template/operators.h"
#include "text/python.h"

namespace oort::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

bool OneOf(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value DictView(Interpreter& self, const Dict& dict, std::string_view name) {
  std::vector<Value> items;
  self.Step(static_cast<int64_t>(dict.items.size()));
  for (const auto& [key, value] : dict.items) {
    items.push_back(name == "keys"     ? key
                    : name == "values" ? value
                                       : Value::Tuple(self.budget(), {key, value}));
  }
  return Value::List(self.budget(), std::move(items), Kind::kView, "dict_" + std::string(name));
}

Value CallDict(Interpreter& self, const std::string& name, const Value& object,
               Arguments& arguments) {
  const Dict& dict = object.dict();
  if (name == "get") {
    if (!arguments.named.empty()) Fail("dict.get() takes no keyword arguments");
    const Parameters parameters("get", arguments, {"key", "default"}, 1);
    if (const Value* found = dict.Find(parameters[0])) return *found;
    return parameters.Get(1) ? parameters[1] : Value::None();
  }
  [[maybe_unused]] const Parameters none("dict." + name, arguments, {});
  if (name == "copy") return object;
  return DictView(self, dict, name);
}

Value CallSequence(Interpreter& self, const std::string& name, const Value& object,
                   Arguments& arguments) {
  const auto& items = object.sequence().items;
  if (name == "copy") {
    [[maybe_unused]] const Parameters none("copy", arguments, {});
    return object;
  }
  const Parameters parameters(name, arguments, {"value", "start", "stop"}, 1);
  int64_t count = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    self.Step(1 + static_cast<int64_t>(items[i].weight() / 64));
    if (!Equal(items[i], parameters[0])) continue;
    if (name == "index") return Value::Int(static_cast<int64_t>(i));
    ++count;
  }
  if (name == "index") Fail("the value is not in the list");
  return Value::Int(count);
}

Value Forbidden(Interpreter& self, const Value& object, const std::string& name) {
  return Value::Undefined(self.budget(), "access to attribute " + python::ReprText(name) + " of '" +
                                             std::string(TypeName(object)) + "' object is unsafe");
}

using MethodFunction = Value (*)(Interpreter&, const std::string&, const Value&, Arguments&);

Value Bind(Interpreter& self, const Value& object, const std::string& name,
           MethodFunction function) {
  return Value::MakeCallable(
      self.budget(), name,
      [object, name, function](Interpreter& interpreter, Arguments& arguments) {
        return function(interpreter, name, object, arguments);
      });
}

Value CallUnsupported(Interpreter&, const std::string& name, const Value& object, Arguments&) {
  FailUnsupported("the method " + std::string(TypeName(object)) + "." + name +
                  "() is not supported in chat templates");
}

bool FindNumberAttribute(Interpreter& self, const Value& object, const std::string& name,
                         Value* found) {
  const bool real = object.Is(Kind::kFloat);
  if (OneOf(name, {"real", "imag"})) {
    const Value plain = object.Is(Kind::kBool) ? Value::Int(object.AsInt()) : object;
    *found = name == "imag" ? (real ? Value::Float(0) : Value::Int(0)) : plain;
    return true;
  }
  if (real && name == "is_integer") {
    *found = Bind(
        self, object, name, [](Interpreter&, const std::string&, const Value& number, Arguments&) {
          const double value = number.AsDouble();
          return Value::Bool(
              value - value == 0 &&
              value == static_cast<double>(static_cast<int64_t>(std::clamp(value, -9e18, 9e18))));
        });
    return true;
  }
  if (OneOf(name,
            {"as_integer_ratio", "conjugate", real ? "hex" : "bit_length",
             real ? "fromhex" : "to_bytes", real ? "hex" : "bit_count", real ? "hex" : "from_bytes",
             real ? "hex" : "numerator", real ? "hex" : "denominator"})) {
    *found = Bind(self, object, name, CallUnsupported);
    return true;
  }
  return false;
}

bool FindMacroAttribute(Interpreter& self, const Value& object, const std::string& name,
                        Value* found) {
  const Macro& macro = *object.macro();
  if (name == "name") {
    *found = macro.name.empty() ? Value::None() : self.MakeString(macro.name);
  } else if (name == "arguments") {
    std::vector<Value> names;
    for (const std::string& parameter : macro.statement->parameters)
      names.push_back(self.MakeString(parameter));
    *found = Value::Tuple(self.budget(), std::move(names));
  } else if (name == "catch_kwargs") {
    *found = Value::Bool(macro.statement->uses_kwargs);
  } else if (name == "catch_varargs") {
    *found = Value::Bool(macro.statement->uses_varargs);
  } else if (name == "caller") {
    *found = Value::Bool(macro.statement->uses_caller);
  } else {
    return false;
  }
  return true;
}

bool FindSequenceAttribute(Interpreter& self, const Value& object, const std::string& name,
                           Value* found) {
  if (OneOf(name, {"index", "count"}) || (object.Is(Kind::kList) && name == "copy")) {
    *found = Bind(self, object, name, CallSequence);
    return true;
  }
  if (object.Is(Kind::kList) &&
      OneOf(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"})) {
    *found = Forbidden(self, object, name);
    return true;
  }
  return false;
}

bool FindDictAttribute(Interpreter& self, const Value& object, const std::string& name,
                       Value* found) {
  if (OneOf(name, {"get", "items", "keys", "values", "copy"})) {
    *found = Bind(self, object, name, CallDict);
  } else if (OneOf(name, {"clear", "pop", "popitem", "setdefault", "update"})) {
    *found = Forbidden(self, object, name);
  } else if (name == "fromkeys") {
    *found = Bind(self, object, name, CallUnsupported);
  } else {
    return false;
  }
  return true;
}

/// Names that every Python object has.
bool IsObjectAttribute(std::string_view name) {
  return OneOf(name, {"__class__",
                      "__doc__",
                      "__init__",
                      "__str__",
                      "__repr__",
                      "__eq__",
                      "__ne__",
                      "__hash__",
                      "__dir__",
                      "__new__",
                      "__reduce__",
                      "__reduce_ex__",
                      "__sizeof__",
                      "__subclasshook__",
                      "__init_subclass__",
                      "__setattr__",
                      "__delattr__",
                      "__getattribute__",
                      "__format__",
                      "__lt__",
                      "__le__",
                      "__gt__",
                      "__ge__"});
}

}  // namespace

bool FindMethod(Interpreter& self, const Value& object, const std::string& name, Value* found) {
  if (IsObjectAttribute(name)) {
    *found = Forbidden(self, object, name);
    return true;
  }
  switch (object.kind()) {
    case Kind::kString:
      if (IsStringMethod(name)) {
        *found = Bind(self, object, name, CallStringMethod);
        return true;
      }
      return false;
    case Kind::kDict: return FindDictAttribute(self, object, name, found);
    case Kind::kList:
    case Kind::kTuple: return FindSequenceAttribute(self, object, name, found);
    case Kind::kRange:
      if (!OneOf(name, {"start", "stop", "step"})) return false;
      *found = Value::Int(name == "start"  ? object.range().start
                          : name == "stop" ? object.range().stop
                                           : object.range().step);
      return true;
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kBigInt:
    case Kind::kFloat: return FindNumberAttribute(self, object, name, found);
    case Kind::kMacro: return FindMacroAttribute(self, object, name, found);
    default: return false;
  }
}

}  // namespace oort::jinja
