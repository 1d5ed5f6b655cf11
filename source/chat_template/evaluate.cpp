// SPDX-License-Identifier: MIT
#include <algorithm>

#include "chat_template/interpreter.h"
#include "chat_template/operators.h"
#include "text/python.h"

namespace oort::jinja {
Value Interpreter::Lookup(const std::string& name) {
  for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get()) {
    if (const Value* found = scope->Find(name)) return *found;
  }
  const Value global = FindGlobal(*this, name);
  if (!global.Is(Kind::kUndefined)) return global;
  return Value::Undefined(&budget_, "'" + name + "' is undefined");
}

std::string Interpreter::ToText(const Value& value) {
  if (!value.Is(Kind::kString)) budget_.Work(value.weight());
  return Str(value);
}

void Interpreter::Append(MarkedText& out, const Value& value) {
  if (value.Is(Kind::kString)) {
    out.Append(value.str(), value.ranges());
  } else {
    out.Append(ToText(value), value.user());
  }
}

Value Interpreter::Evaluate(const Expr& node) {
  const Depth depth(*this);
  Step();
  line_ = node.line;
  switch (node.kind) {
    case ExprKind::kConst: return node.value;
    case ExprKind::kName: return Lookup(node.name);
    case ExprKind::kNamespaceRef: break;
    case ExprKind::kTuple:
    case ExprKind::kList: {
      std::vector<Value> items;
      items.reserve(node.parts.size());
      for (const ExprPtr& part : node.parts) items.push_back(Evaluate(*part));
      return Value::List(&budget_, std::move(items),
                         node.kind == ExprKind::kList ? Kind::kList : Kind::kTuple);
    }
    case ExprKind::kDict: return EvaluateDict(node);
    case ExprKind::kCondition:
      if (Truth(Evaluate(*node.parts[0]))) return Evaluate(*node.parts[1]);
      if (node.parts.size() > 2) return Evaluate(*node.parts[2]);
      return Value::Undefined(
          &budget_, "the inline if-expression evaluated to false and no else section was defined");
    case ExprKind::kOr: {
      Value left = Evaluate(*node.parts[0]);
      return Truth(left) ? left : Evaluate(*node.parts[1]);
    }
    case ExprKind::kAnd: {
      Value left = Evaluate(*node.parts[0]);
      return Truth(left) ? Evaluate(*node.parts[1]) : left;
    }
    case ExprKind::kNot: return Value::Bool(!Truth(Evaluate(*node.parts[0])));
    case ExprKind::kCompare: return Value::Bool(EvaluateCompare(node));
    case ExprKind::kBinary: {
      const Value left = Evaluate(*node.parts[0]);
      return Binary(node.name, left, Evaluate(*node.parts[1]));
    }
    case ExprKind::kUnary: return Negate(Evaluate(*node.parts[0]), node.name == "-");
    case ExprKind::kConcat: return EvaluateConcat(node);
    case ExprKind::kAttribute: return GetAttribute(Evaluate(*node.parts[0]), node.name);
    case ExprKind::kItem: {
      const Value object = Evaluate(*node.parts[0]);
      return GetItem(object, Evaluate(*node.parts[1]));
    }
    case ExprKind::kSlice: return EvaluateSlice(node);
    case ExprKind::kCall: return EvaluateCall(node);
    case ExprKind::kFilter: return FilterValue(node, nullptr);
    case ExprKind::kTest: {
      Arguments arguments;
      Value subject = Evaluate(*node.parts[0]);
      arguments = EvaluateArguments(node, 1);
      arguments.positional.insert(arguments.positional.begin(), std::move(subject));
      return Value::Bool(ApplyTest(node.name, arguments));
    }
  }
  Fail("a namespace attribute stands where a value is needed");
}

Value Interpreter::EvaluateDict(const Expr& node) {
  auto dict = std::make_shared<Dict>(&budget_);
  for (size_t i = 0; i + 1 < node.parts.size(); i += 2) {
    Value key = Evaluate(*node.parts[i]);
    dict->Set(std::move(key), Evaluate(*node.parts[i + 1]));
  }
  return Value::Of(std::shared_ptr<const Dict>(std::move(dict)));
}

Value Interpreter::EvaluateConcat(const Expr& node) {
  MarkedText text;
  for (const ExprPtr& part : node.parts) {
    Append(text, Evaluate(*part));
    budget_.Work(text.text.size());
  }
  return MakeString(std::move(text));
}

bool Interpreter::EvaluateCompare(const Expr& node) {
  Value left = Evaluate(*node.parts[0]);
  for (size_t i = 0; i < node.operators.size(); ++i) {
    Value right = Evaluate(*node.parts[i + 1]);
    if (!CompareBy(budget_, node.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::EvaluateSlice(const Expr& node) {
  const Value object = Evaluate(*node.parts[0]);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    bounds[i] = node.parts[i + 1] ? Evaluate(*node.parts[i + 1]) : Value::None();
  }
  return Slice(budget_, object, bounds[0], bounds[1], bounds[2]);
}

Arguments Interpreter::EvaluateArguments(const Expr& node, size_t first) {
  Arguments arguments;
  for (size_t i = first; i < node.parts.size(); ++i) {
    arguments.positional.push_back(Evaluate(*node.parts[i]));
  }
  for (const auto& [name, value] : node.named) arguments.named.emplace_back(name, Evaluate(*value));
  if (node.star) {
    for (Value& value : Items(Evaluate(*node.star)))
      arguments.positional.push_back(std::move(value));
  }
  if (node.double_star) {
    const Value more = Evaluate(*node.double_star);
    if (!more.Is(Kind::kDict)) Fail("argument after ** must be a mapping");
    for (const auto& [key, value] : more.dict().items) {
      if (!key.Is(Kind::kString)) Fail("keywords must be strings");
      arguments.named.emplace_back(key.str(), value);
    }
  }
  for (size_t i = 0; i < arguments.named.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (arguments.named[i].first == arguments.named[k].first) {
        Fail("got multiple values for keyword argument '" + arguments.named[i].first + "'");
      }
    }
    Step();
  }
  return arguments;
}

Value Interpreter::EvaluateCall(const Expr& node) {
  const Value callee = Evaluate(*node.parts[0]);
  Arguments arguments = EvaluateArguments(node, 1);
  line_ = node.line;
  return Call(callee, arguments);
}

/// `input` stands for the value that a filter block has captured, at the innermost filter.
Value Interpreter::FilterValue(const Expr& filter, const Value* input) {
  Value subject;
  if (!filter.parts[0]) {
    subject = *input;
  } else if (input && filter.parts[0]->kind == ExprKind::kFilter) {
    subject = FilterValue(*filter.parts[0], input);
  } else {
    subject = Evaluate(*filter.parts[0]);
  }
  Arguments arguments = EvaluateArguments(filter, 1);
  arguments.positional.insert(arguments.positional.begin(), std::move(subject));
  line_ = filter.line;
  return ApplyFilter(filter.name, arguments);
}

Value Interpreter::GetAttribute(const Value& object, const std::string& name) {
  if (object.Is(Kind::kUndefined)) Fail(object.Why());
  Value found;
  if (FindMethod(*this, object, name, &found)) return found;
  switch (object.kind()) {
    case Kind::kDict:
      if (const Value* value = object.dict().Find(name)) return *value;
      break;
    case Kind::kNamespace:
      if (const Value* value = object.space()->Find(name)) return *value;
      break;
    case Kind::kLoop: return LoopAttribute(object, name);
    default: break;
  }
  return Value::Undefined(&budget_, "'" + std::string(TypeName(object)) +
                                        " object' has no attribute " + python::ReprText(name));
}

Value Interpreter::GetItem(const Value& object, const Value& key) {
  switch (object.kind()) {
    case Kind::kUndefined: Fail(object.Why());
    case Kind::kDict: {
      if (key.Is(Kind::kString)) {
        if (const Value* value = object.dict().Find(std::string_view(key.str()))) return *value;
      } else if (!key.Is(Kind::kList) && !key.Is(Kind::kDict) && !key.Is(Kind::kView)) {
        if (const Value* value = object.dict().Find(key)) return *value;
      }
      break;
    }
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange: {
      if (!key.IsInteger()) break;
      const int64_t size = Length(object);
      const int64_t index = key.AsInt() < 0 ? key.AsInt() + size : key.AsInt();
      if (index < 0 || index >= size) break;
      return ItemAt(budget_, object, index);
    }
    default: break;
  }
  if (key.Is(Kind::kString)) {
    Value found;
    if (FindMethod(*this, object, key.str(), &found)) return found;
    if (object.Is(Kind::kNamespace)) {
      if (const Value* value = object.space()->Find(key.str())) return *value;
    }
    if (object.Is(Kind::kLoop)) return LoopAttribute(object, key.str());
  }
  budget_.Work(key.weight());
  return Value::Undefined(&budget_, "'" + std::string(TypeName(object)) +
                                        " object' has no element " +
                                        (key.weight() < 200 ? Repr(key) : "of this name"));
}

}  // namespace oort::jinja
