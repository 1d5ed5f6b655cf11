// SPDX-License-Identifier: MIT
// Calls: macros, functions, and what the variable `loop` offers.
#include <algorithm>

#include "chat_template/interpreter.h"
#include "text/python.h"

namespace oort::jinja {
namespace {

constexpr int kMaxMacroDepth = 40;

/// Whether something undeclared of this name is read anywhere below, so that a macro takes it.
bool Mentions(const Expr* node, std::string_view name);

bool MentionsAny(const std::vector<ExprPtr>& nodes, std::string_view name) {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const auto& node) { return Mentions(node.get(), name); });
}

bool Mentions(const Expr* node, std::string_view name) {
  if (!node) return false;
  if (node->kind == ExprKind::kName && node->name == name) return true;
  return MentionsAny(node->parts, name) || Mentions(node->star.get(), name) ||
         Mentions(node->double_star.get(), name) ||
         std::any_of(node->named.begin(), node->named.end(),
                     [&](const auto& named) { return Mentions(named.second.get(), name); });
}

bool Mentions(const Body& body, std::string_view name) {
  return std::any_of(body.begin(), body.end(), [&](const auto& statement) {
    return MentionsAny(statement->values, name) || Mentions(statement->filter.get(), name) ||
           Mentions(statement->test.get(), name) || MentionsAny(statement->defaults, name) ||
           std::any_of(statement->bodies.begin(), statement->bodies.end(),
                       [&](const Body& inner) { return Mentions(inner, name); });
  });
}

bool Declares(const Statement& statement, std::string_view name) {
  return std::find(statement.parameters.begin(), statement.parameters.end(), name) !=
         statement.parameters.end();
}

}  // namespace

/// Part of checking: what the macros of a body take beside their parameters.
void FindSpecialParameters(Statement& statement) {
  const Body& body = statement.bodies[0];
  statement.uses_caller = !Declares(statement, "caller") && Mentions(body, "caller");
  statement.uses_kwargs = !Declares(statement, "kwargs") && Mentions(body, "kwargs");
  statement.uses_varargs = !Declares(statement, "varargs") && Mentions(body, "varargs");
}

Value Interpreter::MakeMacro(const Statement& statement) {
  auto macro = std::make_shared<Macro>(&budget_);
  macro->Take(sizeof(Macro));
  macro->name = statement.kind == StatementKind::kMacro ? statement.text : "";
  macro->statement = &statement;
  macro->scope = scope_;
  return Value::Of(std::shared_ptr<const Macro>(std::move(macro)));
}

bool HasUser(const Arguments& arguments) {
  return std::ranges::any_of(arguments.positional, &Value::user) ||
         std::ranges::any_of(arguments.named,
                             [](const auto& named) { return named.second.user(); });
}

Value Interpreter::Call(const Value& callee, Arguments& arguments) {
  Step();
  switch (callee.kind()) {
    case Kind::kUndefined: Fail(callee.Why());
    case Kind::kCallable: return callee.callable().call(*this, arguments);
    case Kind::kMacro: return CallMacro(*callee.macro(), arguments);
    case Kind::kLoop: {
      Parameters parameters("loop", arguments, {"iterable"}, 1);
      if (!callee.loop()->recurse) {
        Fail("the loop must have the 'recursive' marker to be called recursively");
      }
      if (callee.loop()->depth0 > kMaxMacroDepth) FailLimit("a loop calls itself too deeply");
      return callee.loop()->recurse(*this, parameters[0], callee.loop()->depth0 + 1);
    }
    default: Fail("'" + std::string(TypeName(callee)) + "' object is not callable");
  }
}

void Interpreter::BindParameters(const Macro& macro, Arguments& arguments, Scope& scope) {
  const Statement& statement = *macro.statement;
  const auto take = [&](std::string_view name, Value* value) {
    for (auto named = arguments.named.begin(); named != arguments.named.end(); ++named) {
      if (named->first != name) continue;
      *value = std::move(named->second);
      arguments.named.erase(named);
      return true;
    }
    return false;
  };
  const size_t count = statement.parameters.size();
  const size_t given = std::min(count, arguments.positional.size());
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = statement.parameters[i];
    Value value;
    if (i < given) {
      value = arguments.positional[i];
    } else if (!take(name, &value)) {
      const size_t optional = count - statement.defaults.size();
      value = i >= optional
                  ? Evaluate(*statement.defaults[i - optional])
                  : Value::Undefined(&budget_, "parameter '" + name + "' was not provided");
    }
    scope.Set(name, std::move(value));
  }
  if (statement.uses_caller) {
    Value caller;
    if (!take("caller", &caller) || caller.Is(Kind::kNone))
      caller = Value::Undefined(&budget_, "no caller defined");
    scope.Set("caller", std::move(caller));
  }
  if (statement.uses_kwargs) {
    auto dict = std::make_shared<Dict>(&budget_);
    for (auto& [name, value] : arguments.named) dict->Set(MakeString(name), std::move(value));
    scope.Set("kwargs", Value::Of(std::shared_ptr<const Dict>(std::move(dict))));
  } else if (!arguments.named.empty()) {
    Fail("macro '" + macro.name + "' takes no keyword argument '" + arguments.named[0].first + "'");
  }
  if (statement.uses_varargs) {
    scope.Set("varargs",
              Value::Tuple(&budget_, {arguments.positional.begin() + static_cast<ptrdiff_t>(given),
                                      arguments.positional.end()}));
  } else if (arguments.positional.size() > count) {
    Fail("macro '" + macro.name + "' takes not more than " + std::to_string(count) +
         " argument(s)");
  }
}

Value Interpreter::CallMacro(const Macro& macro, Arguments& arguments) {
  auto around = macro.scope.lock();
  if (!around) FailUnsupported("a macro is called after the block that defines it has ended");
  auto scope = NewScope(std::move(around), macro.statement->unset[0]);
  if (macro_depth_ >= kMaxMacroDepth) FailLimit("macros call each other too deeply");
  struct Restore {
    Interpreter& self;
    std::shared_ptr<Scope> scope;
    MarkedText* output;
    size_t left;
    ~Restore() {
      self.scope_ = std::move(scope);
      self.output_ = output;
      self.output_left_ = left;
      --self.macro_depth_;
    }
  } restore{*this, scope_, output_, output_left_};
  ++macro_depth_;
  MarkedText text;
  scope_ = scope;
  output_ = &text;
  BindParameters(macro, arguments, *scope);
  Execute(macro.statement->bodies[0]);
  return MakeString(std::move(text));
}

Value Interpreter::LoopAttribute(const Value& value, const std::string& name) {
  Loop& loop = *value.loop();
  const int64_t index0 = static_cast<int64_t>(loop.index0), size = static_cast<int64_t>(loop.size);
  if (name == "index") return Value::Int(index0 + 1);
  if (name == "index0") return Value::Int(index0);
  if (name == "revindex") return Value::Int(size - index0);
  if (name == "revindex0") return Value::Int(size - index0 - 1);
  if (name == "first") return Value::Bool(index0 == 0);
  if (name == "last") return Value::Bool(index0 + 1 >= size);
  if (name == "length") return Value::Int(size);
  if (name == "depth") return Value::Int(loop.depth0 + 1);
  if (name == "depth0") return Value::Int(loop.depth0);
  if (name == "previtem") {
    if (index0 == 0 || loop.index0 > loop.items.size())
      return Value::Undefined(&budget_, "there is no previous item");
    return loop.items[loop.index0 - 1];
  }
  if (name == "nextitem") {
    if (loop.index0 + 1 >= loop.items.size())
      return Value::Undefined(&budget_, "there is no next item");
    return loop.items[loop.index0 + 1];
  }
  if (name == "cycle") {
    return Value::MakeCallable(&budget_, name, [&loop](Interpreter&, Arguments& arguments) {
      if (arguments.positional.empty()) Fail("no items for cycling given");
      return arguments.positional[loop.index0 % arguments.positional.size()];
    });
  }
  if (name == "changed") {
    return Value::MakeCallable(&budget_, name, [&loop](Interpreter& self, Arguments& arguments) {
      bool same = loop.has_changed && loop.changed.size() == arguments.positional.size();
      for (size_t i = 0; same && i < loop.changed.size(); ++i) {
        self.Step(static_cast<int64_t>(loop.changed[i].weight() / 64));
        same = Equal(loop.changed[i], arguments.positional[i]);
      }
      if (same) return Value::Bool(false);
      loop.changed = arguments.positional;
      loop.has_changed = true;
      return Value::Bool(true);
    });
  }
  return Value::Undefined(&budget_,
                          "'LoopContext object' has no attribute " + python::ReprText(name));
}

Parameters::Parameters(std::string_view function, Arguments& arguments,
                       std::initializer_list<std::string_view> names, size_t required)
    : function_(function), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names.size()) {
    Fail(function_ + "() takes at most " + std::to_string(names.size()) + " arguments (" +
         std::to_string(arguments.positional.size()) + " given)");
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const size_t place =
        static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (place == names.size() || name.empty()) {
      Fail(function_ + "() got an unexpected keyword argument '" + name + "'");
    }
    if (values_[place]) Fail(function_ + "() got multiple values for argument '" + name + "'");
    values_[place] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!values_[i]) Fail(function_ + "() misses required argument " + std::to_string(i + 1));
  }
}

bool Parameters::Flag(size_t i, bool otherwise) const {
  return values_[i] ? Truth(*values_[i]) : otherwise;
}

int64_t Parameters::Integer(size_t i, int64_t otherwise) const {
  if (!values_[i]) return otherwise;
  if (!values_[i]->IsInteger()) {
    Fail(function_ + "(): '" + std::string(TypeName(*values_[i])) +
         "' object cannot be interpreted as an integer");
  }
  return values_[i]->AsInt();
}

std::string Parameters::String(size_t i, std::string_view otherwise) const {
  if (!values_[i] || values_[i]->Is(Kind::kNone)) return std::string(otherwise);
  if (!values_[i]->Is(Kind::kString)) {
    Fail(function_ + "() argument must be str, not " + std::string(TypeName(*values_[i])));
  }
  return values_[i]->str();
}

}  // namespace oort::jinja
