// SPDX-License-Identifier: MIT
#include <algorithm>

#include "chat_template/interpreter.h"

namespace oort::jinja {
namespace {

/// Puts another value in place for as long as a block of code runs.
template <typename T>
class Instead {
 public:
  Instead(T& place, T value) : place_(place), saved_(std::move(place)) {
    place_ = std::move(value);
  }
  Instead(const Instead&) = delete;
  Instead& operator=(const Instead&) = delete;
  ~Instead() { place_ = std::move(saved_); }

 private:
  T& place_;
  T saved_;
};

}  // namespace

const Value* Scope::Find(std::string_view name) const {
  for (const auto& [key, value] : variables) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Scope::Set(std::string_view name, Value value) {
  for (auto& [key, old] : variables) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

Interpreter::Interpreter(const Limits& limits, std::function<Clock()> clock)
    : budget_(limits.steps, limits.memory),
      output_left_(limits.output),
      clock_(std::move(clock)),
      globals_(std::make_shared<Scope>()) {}

Interpreter::~Interpreter() {
  // Values give their memory back to the budget, so they go first.
  scope_.reset();
  root_.reset();
  globals_.reset();
  loops_.clear();
  namespaces_.clear();
}

void Interpreter::SetVariable(std::string_view name, Value value) {
  globals_->Set(name, std::move(value));
}

Namespace* Interpreter::NewNamespace() {
  budget_.Take(sizeof(Namespace));
  return &namespaces_.emplace_back();
}

std::shared_ptr<Scope> Interpreter::NewScope(std::shared_ptr<Scope> parent,
                                             const std::vector<std::string>& unset) {
  auto scope = std::make_shared<Scope>();
  scope->parent = std::move(parent);
  for (const std::string& name : unset) {
    scope->Set(name, Value::Undefined(&budget_, "'" + name + "' is undefined"));
  }
  return scope;
}

MarkedText Interpreter::Render(const Template& parsed) {
  MarkedText output;
  output_ = &output;
  root_ = scope_ = NewScope(globals_, parsed.unset);
  Execute(parsed.body);
  return output;
}

void Interpreter::Print(std::string_view text) {
  if (text.size() > output_left_) FailLimit("the limit of output of a chat template is reached");
  output_left_ -= text.size();
  Step(static_cast<int64_t>(text.size() / 64));
  output_->Append(text, false);
}

void Interpreter::Print(const Value& value) {
  const size_t before = output_->text.size();
  Append(*output_, value);
  const size_t added = output_->text.size() - before;
  if (added > output_left_) FailLimit("the limit of output of a chat template is reached");
  output_left_ -= added;
  Step(static_cast<int64_t>(added / 64));
}

Interpreter::Flow Interpreter::Execute(const Body& body) {
  for (const auto& statement : body) {
    const Flow flow = Execute(*statement);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::Execute(const Statement& statement) {
  const Depth depth(*this);
  Step();
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::kText: Print(statement.text); break;
    case StatementKind::kPrint:
      for (const ExprPtr& value : statement.values) Print(Evaluate(*value));
      break;
    case StatementKind::kSet: ExecuteSet(statement); break;
    case StatementKind::kSetBlock: {
      Flow flow = Flow::kNormal;
      const Instead<std::shared_ptr<Scope>> inner(scope_, NewScope(scope_, statement.unset[0]));
      Value text = MakeString(Capture(statement.bodies[0], &flow));
      if (flow != Flow::kNormal) return flow;
      scope_ = scope_->parent;
      if (statement.filter) text = FilterValue(*statement.filter, &text);
      Assign(*statement.target, std::move(text));
      break;
    }
    case StatementKind::kIf: return ExecuteIf(statement);
    case StatementKind::kFor: return ExecuteFor(statement);
    case StatementKind::kMacro: scope_->Set(statement.text, MakeMacro(statement)); break;
    case StatementKind::kCallBlock: ExecuteCallBlock(statement); break;
    case StatementKind::kFilterBlock: {
      Flow flow = Flow::kNormal;
      const Instead<std::shared_ptr<Scope>> inner(scope_, NewScope(scope_, statement.unset[0]));
      const Value text = MakeString(Capture(statement.bodies[0], &flow));
      if (flow != Flow::kNormal) return flow;
      Print(FilterValue(*statement.filter, &text));
      break;
    }
    case StatementKind::kWith: return ExecuteWith(statement);
    case StatementKind::kBlock:
      return ExecuteInScope(statement, statement.recursive ? scope_ : root_);
    case StatementKind::kGeneration: return ExecuteInScope(statement, scope_);
    case StatementKind::kBreak: return Flow::kBreak;
    case StatementKind::kContinue: return Flow::kContinue;
    case StatementKind::kLoad:
      FailUnsupported("a chat template cannot load others with '" + statement.text + "'");
  }
  return Flow::kNormal;
}

MarkedText Interpreter::Capture(const Body& body, Flow* flow) {
  MarkedText text;
  const Instead<MarkedText*> buffer(output_, &text);
  const size_t left = output_left_;
  *flow = Execute(body);
  output_left_ = left;  // what was captured is not printed yet
  return text;
}

Interpreter::Flow Interpreter::ExecuteIf(const Statement& statement) {
  for (size_t i = 0; i < statement.values.size(); ++i) {
    if (Truth(Evaluate(*statement.values[i]))) return Execute(statement.bodies[i]);
  }
  if (statement.bodies.size() > statement.values.size()) return Execute(statement.bodies.back());
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::ExecuteInScope(const Statement& statement,
                                              std::shared_ptr<Scope> parent) {
  const Instead<std::shared_ptr<Scope>> inner(scope_,
                                              NewScope(std::move(parent), statement.unset[0]));
  return Execute(statement.bodies[0]);
}

Interpreter::Flow Interpreter::ExecuteWith(const Statement& statement) {
  std::vector<Value> values;
  for (const ExprPtr& value : statement.values) values.push_back(Evaluate(*value));
  const Instead<std::shared_ptr<Scope>> inner(scope_, NewScope(scope_, statement.unset[0]));
  for (size_t i = 0; i < values.size(); ++i) Assign(*statement.targets[i], std::move(values[i]));
  return Execute(statement.bodies[0]);
}

void Interpreter::ExecuteSet(const Statement& statement) {
  // The namespace is looked at first: an assignment to something else fails before its value.
  Value value = Evaluate(*statement.values[0]);
  Assign(*statement.target, std::move(value));
}

void Interpreter::Assign(const Expr& target, Value value) {
  Step();
  if (target.kind == ExprKind::kName) {
    scope_->Set(target.name, std::move(value));
    return;
  }
  if (target.kind == ExprKind::kNamespaceRef) {
    const Value space = Lookup(target.name);
    if (!space.Is(Kind::kNamespace)) Fail("cannot assign attribute on non-namespace object");
    if (target.attribute[0] == '_') Fail("a namespace cannot have attributes that begin with '_'");
    if (!space.space()->Find(target.attribute)) budget_.Take(64 + target.attribute.size());
    space.space()->Set(target.attribute, std::move(value));
    return;
  }
  if (!IsIterable(value))
    Fail("cannot unpack non-iterable " + std::string(TypeName(value)) + " object");
  std::vector<Value> items = Items(value);
  if (items.size() != target.parts.size()) {
    Fail((items.size() > target.parts.size() ? "too many" : "not enough") +
         std::string(" values to unpack (expected ") + std::to_string(target.parts.size()) +
         ", got " + std::to_string(items.size()) + ")");
  }
  for (size_t i = 0; i < items.size(); ++i) Assign(*target.parts[i], std::move(items[i]));
}

Interpreter::Flow Interpreter::ExecuteFor(const Statement& statement) {
  return RunLoop(statement, Evaluate(*statement.values[0]), 0);
}

/// The items for which `for … if` holds.
std::vector<Value> Interpreter::SelectItems(const Statement& statement, std::vector<Value> items) {
  if (!statement.test) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    const Instead<std::shared_ptr<Scope>> inner(scope_, NewScope(scope_, {}));
    Assign(*statement.target, item);
    if (Truth(Evaluate(*statement.test))) kept.push_back(std::move(item));
  }
  return kept;
}

Interpreter::Flow Interpreter::RunLoop(const Statement& statement, const Value& iterable,
                                       int64_t depth) {
  const std::shared_ptr<Scope> outer = scope_;
  std::vector<Value> items = SelectItems(statement, Items(iterable));
  if (items.empty()) {
    if (statement.bodies.size() < 2) return Flow::kNormal;
    const Instead<std::shared_ptr<Scope>> inner(scope_, NewScope(scope_, statement.unset[1]));
    return Execute(statement.bodies[1]);
  }
  budget_.Take(sizeof(Loop));
  Loop& loop = loops_.emplace_back();
  loop.size = items.size();
  loop.items = std::move(items);
  loop.depth0 = depth;
  if (statement.recursive) {
    loop.recurse = [&statement, weak = std::weak_ptr<Scope>(outer)](
                       Interpreter& self, const Value& more, int64_t level) {
      auto scope = weak.lock();
      if (!scope) Fail("a loop is called after it has ended");
      const Instead<std::shared_ptr<Scope>> around(self.scope_, scope);
      MarkedText text;
      const Instead<MarkedText*> buffer(self.output_, &text);
      const size_t left = self.output_left_;
      self.RunLoop(statement, more, level);
      self.output_left_ = left;
      return self.MakeString(std::move(text));
    };
  }
  for (loop.index0 = 0; loop.index0 < loop.size; ++loop.index0) {
    Step();
    const Instead<std::shared_ptr<Scope>> inner(scope_, NewScope(outer, statement.unset[0]));
    scope_->Set("loop", Value::Of(&loop));
    Assign(*statement.target, loop.items[loop.index0]);
    const Flow flow = Execute(statement.bodies[0]);
    if (flow == Flow::kBreak) break;
  }
  loop.items = {};
  return Flow::kNormal;
}

void Interpreter::ExecuteCallBlock(const Statement& statement) {
  const Expr& call = *statement.values[0];
  const Value callee = Evaluate(*call.parts[0]);
  Arguments arguments = EvaluateArguments(call, 1);
  arguments.named.emplace_back("caller", MakeMacro(statement));
  line_ = statement.line;
  Print(Call(callee, arguments));
}

}  // namespace oort::jinja
