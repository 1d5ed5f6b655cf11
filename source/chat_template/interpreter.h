// SPDX-License-Identifier: MIT
// Runs a parsed template. What it can reach is what it is given: there are no files, no modules, no
// environment; the clock is a value.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat_template/ast.h"
#include "chat_template/budget.h"
#include "chat_template/value.h"

namespace oort::jinja {

struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> variables;
  const Value* Find(std::string_view name) const;
  void Set(std::string_view name, Value value);
};

/// A macro, or the body of a call block. It does not keep its scope alive, which holds it.
struct Macro : Object {
  using Object::Object;
  std::string name;
  const Statement* statement = nullptr;
  std::weak_ptr<Scope> scope;
};

/// Civil time for strftime_now.
struct Clock {
  int year, month, day, hour, minute, second, microsecond;
};

struct Limits {
  int64_t steps;
  size_t memory;
  size_t output;
};

class Interpreter {
 public:
  Interpreter(const Limits& limits, std::function<Clock()> clock);
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  ~Interpreter();

  void SetVariable(std::string_view name, Value value);
  MarkedText Render(const Template& parsed);
  int line() const { return line_; }

  Budget* budget() { return &budget_; }
  void Step(int64_t count = 1) { budget_.Step(count); }
  Value MakeString(std::string text, bool safe = false) {
    budget_.Step(static_cast<int64_t>(text.size() / 64));
    return Value::String(&budget_, std::move(text), safe);
  }
  Value MakeString(MarkedText text, bool safe = false) {
    budget_.Step(static_cast<int64_t>(text.text.size() / 64));
    return Value::String(&budget_, std::move(text), safe);
  }
  /// A string made of others in a way that loses which bytes came from a request: all of it did
  /// where any of these had some.
  Value MakeString(std::string text, bool user, bool safe) {
    MarkedText marked;
    marked.Append(text, user);
    return MakeString(std::move(marked), safe);
  }
  /// What str() gives, behind what is there.
  void Append(MarkedText& out, const Value& value);
  /// str() and repr(), charged for.
  std::string ToText(const Value& value);
  Value MakeList(std::vector<Value> items) { return Value::List(&budget_, std::move(items)); }
  std::vector<Value> Items(const Value& value) { return Iterate(budget_, value); }
  Namespace* NewNamespace();
  Clock Now() const { return clock_(); }

  Value GetAttribute(const Value& object, const std::string& name);
  Value GetItem(const Value& object, const Value& key);
  Value Call(const Value& callee, Arguments& arguments);
  Value ApplyFilter(const std::string& name, Arguments& arguments);
  bool ApplyTest(const std::string& name, Arguments& arguments);
  Value Binary(std::string_view op, const Value& left, const Value& right);

 private:
  /// One level of recursion of what is run, of which there may be so many.
  struct Depth {
    static constexpr int kMost = 600;
    explicit Depth(Interpreter& owner) : interpreter(owner) {
      if (interpreter.depth_ >= kMost) FailLimit("the template calls too deeply");
      ++interpreter.depth_;
    }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    ~Depth() { --interpreter.depth_; }
    Interpreter& interpreter;
  };
  enum class Flow { kNormal, kBreak, kContinue };

  // Expressions: evaluate.cpp
  Value Evaluate(const Expr& node);
  Value EvaluateDict(const Expr& node);
  Value EvaluateSlice(const Expr& node);
  bool EvaluateCompare(const Expr& node);
  Value EvaluateCall(const Expr& node);
  Value EvaluateConcat(const Expr& node);
  Value Lookup(const std::string& name);
  Arguments EvaluateArguments(const Expr& node, size_t first);
  Value FilterValue(const Expr& filter, const Value* input);

  // Statements: execute.cpp
  Flow Execute(const Body& body);
  Flow Execute(const Statement& statement);
  Flow ExecuteIf(const Statement& statement);
  Flow ExecuteFor(const Statement& statement);
  Flow RunLoop(const Statement& statement, const Value& iterable, int64_t depth);
  std::vector<Value> SelectItems(const Statement& statement, std::vector<Value> items);
  void ExecuteSet(const Statement& statement);
  Flow ExecuteWith(const Statement& statement);
  Flow ExecuteInScope(const Statement& statement, std::shared_ptr<Scope> parent);
  void ExecuteCallBlock(const Statement& statement);
  /// A scope for a block of its own.
  std::shared_ptr<Scope> NewScope(std::shared_ptr<Scope> parent,
                                  const std::vector<std::string>& unset);
  void Assign(const Expr& target, Value value);
  void Print(std::string_view text);
  void Print(const Value& value);
  /// What the body prints, instead of printing it.
  MarkedText Capture(const Body& body, Flow* flow);

  // Calls: call.cpp
  Value MakeMacro(const Statement& statement);
  Value CallMacro(const Macro& macro, Arguments& arguments);
  void BindParameters(const Macro& macro, Arguments& arguments, Scope& scope);
  Value LoopAttribute(const Value& value, const std::string& name);

  Budget budget_;
  size_t output_left_;
  std::function<Clock()> clock_;
  std::shared_ptr<Scope> globals_;
  std::shared_ptr<Scope> scope_;
  std::shared_ptr<Scope> root_;
  MarkedText* output_ = nullptr;
  std::deque<Namespace> namespaces_;
  std::deque<Loop> loops_;
  int line_ = 0;
  int depth_ = 0;
  int macro_depth_ = 0;
};

/// Whether any text of the arguments came from a request.
bool HasUser(const Arguments& arguments);

/// Sets what a macro or call block takes beside its parameters: caller, varargs, kwargs.
void FindSpecialParameters(Statement& statement);

/// A global function such as range; undefined where there is none of this name.
Value FindGlobal(Interpreter& interpreter, std::string_view name);
/// A method or another attribute that Python's type has: null where it has none, undefined where it
/// is forbidden.
bool FindMethod(Interpreter& interpreter, const Value& object, const std::string& name,
                Value* found);
bool IsFilter(std::string_view name);
bool IsTest(std::string_view name);

/// Arguments by position or by name, like a Python signature.
class Parameters {
 public:
  /// `required` of the names must be given.
  Parameters(std::string_view function, Arguments& arguments,
             std::initializer_list<std::string_view> names, size_t required = 0);
  /// Null where argument i was not given.
  const Value* Get(size_t i) const { return values_[i]; }
  const Value& operator[](size_t i) const { return *values_[i]; }
  bool Flag(size_t i, bool otherwise) const;
  int64_t Integer(size_t i, int64_t otherwise) const;
  /// Of a string; `otherwise` where it is not given or none.
  std::string String(size_t i, std::string_view otherwise) const;

 private:
  std::string function_;
  std::vector<const Value*> values_;
};

}  // namespace oort::jinja
