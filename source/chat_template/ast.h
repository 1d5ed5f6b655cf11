// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat_template/value.h"

namespace oort::jinja {

enum class ExprKind : uint8_t {
  kConst,
  kName,
  kNamespaceRef,  ///< the target of {% set ns.x = … %}: name and attribute
  kTuple,
  kList,
  kDict,       ///< keys and values by turns
  kCondition,  ///< test, value, and what else where given
  kOr,
  kAnd,
  kNot,
  kCompare,  ///< the first operand and those of `operators`
  kBinary,
  kUnary,
  kConcat,
  kAttribute,
  kItem,
  kSlice,  ///< the value, then start, stop, step, each of which may be null
  kCall,
  kFilter,  ///< the value is null in a filter block
  kTest,
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind = ExprKind::kConst;
  int line = 0;
  int height = 1;    ///< of the tree below, which is limited
  std::string name;  ///< of a variable, attribute, filter or test; the operator
  std::string attribute;
  Value value;  ///< of a constant
  std::vector<ExprPtr> parts;
  std::vector<std::string> operators;
  // Of calls, filters and tests: parts[0] is what is called, the rest are positional arguments.
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, double_star;
};

enum class StatementKind : uint8_t {
  kText,
  kPrint,  ///< all of `values`
  kSet,
  kSetBlock,
  kIf,
  kFor,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kBlock,
  kGeneration,
  kBreak,
  kContinue,
  kLoad,  ///< include, import, extends: there is nothing to load from
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 0;
  std::string text;  ///< of text; the name of a macro
  ExprPtr target;    ///< of set and for
  std::vector<ExprPtr> targets;
  std::vector<ExprPtr> values;  ///< printed; assigned; tests of an if; what is walked; the call
  ExprPtr filter;               ///< of a set or filter block
  ExprPtr test;                 ///< for … if test
  bool recursive = false;       ///< for … recursive
  std::vector<Body> bodies;     ///< of an if: one for each test and one for else
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  ///< of the last parameters
  /// For each body: names that it assigns and that are undefined when it begins.
  std::vector<std::vector<std::string>> unset;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct Template {
  Body body;
  std::vector<std::string> unset;
};

}  // namespace oort::jinja
