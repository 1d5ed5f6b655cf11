// SPDX-License-Identifier: MIT
// What the compiler of jinja2 refuses before anything runs.
#include <algorithm>

#include "chat_template/interpreter.h"
#include "chat_template/lexer.h"
#include "chat_template/parser.h"

namespace oort::jinja {
namespace {

/// Where a statement stands. Inside an if (`soft`), an unknown filter is an error only when it
/// runs.
struct Place {
  bool soft = false;
  bool in_loop = false;
};

class Checker {
 public:
  void Check(const Body& body, Place place) {
    for (const auto& statement : body) Check(*statement, place);
  }

 private:
  void Check(const std::vector<ExprPtr>& nodes, bool soft) {
    for (const ExprPtr& node : nodes) Check(node.get(), soft);
  }

  void Check(const Expr* node, bool soft) {
    if (!node) return;
    if (node->kind == ExprKind::kCondition) soft = true;
    if (!soft && node->kind == ExprKind::kFilter && !IsFilter(node->name)) {
      FailSyntax(node->line, "no filter named '" + node->name + "'");
    }
    if (!soft && node->kind == ExprKind::kTest && !IsTest(node->name)) {
      FailSyntax(node->line, "no test named '" + node->name + "'");
    }
    Check(node->parts, soft);
    for (const auto& [name, value] : node->named) Check(value.get(), soft);
    Check(node->star.get(), soft);
    Check(node->double_star.get(), soft);
  }

  static bool AssignsLoop(const Expr& target) {
    if (target.kind == ExprKind::kName) return target.name == "loop";
    return std::any_of(target.parts.begin(), target.parts.end(),
                       [](const ExprPtr& part) { return AssignsLoop(*part); });
  }

  /// Nothing in a for may assign to `loop`, however deep.
  static void CheckLoopVariable(const Statement& statement) {
    if (statement.target && AssignsLoop(*statement.target)) {
      FailSyntax(statement.line, "can't assign to special loop variable in for-loop");
    }
    for (const Body& body : statement.bodies) {
      for (const auto& inner : body) CheckLoopVariable(*inner);
    }
  }

  void Check(Statement& statement, Place place) {
    switch (statement.kind) {
      case StatementKind::kBreak:
      case StatementKind::kContinue:
        if (!place.in_loop) FailSyntax(statement.line, "'break' or 'continue' outside loop");
        return;
      case StatementKind::kIf: place.soft = true; break;
      case StatementKind::kFor: {
        CheckLoopVariable(statement);
        Check(statement.values, place.soft);
        Check(statement.test.get(), false);
        Check(statement.bodies[0], {false, true});
        if (statement.bodies.size() > 1) Check(statement.bodies[1], {false, place.in_loop});
        return;
      }
      case StatementKind::kMacro:
      case StatementKind::kCallBlock: FindSpecialParameters(statement); [[fallthrough]];
      case StatementKind::kGeneration:
      case StatementKind::kBlock:
        Check(statement.values, place.soft);
        Check(statement.defaults, false);
        Check(statement.bodies[0], {false, false});
        return;
      case StatementKind::kSetBlock:
      case StatementKind::kFilterBlock:
      case StatementKind::kWith:
        Check(statement.values, place.soft);
        Check(statement.filter.get(), false);
        Check(statement.bodies[0], {false, place.in_loop});
        return;
      default: break;
    }
    Check(statement.values, place.soft);
    for (const Body& body : statement.bodies) Check(body, place);
  }
};

}  // namespace

void CheckTemplate(const Body& body) { Checker().Check(body, {}); }

}  // namespace oort::jinja
