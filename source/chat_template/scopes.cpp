// SPDX-License-Identifier: MIT
// Which names of a block of its own are undefined when it begins. jinja2 compiles templates to
// Python, where a name that a block assigns is a local variable: blocks inside that read it before
// then find it undefined, also where a variable of that name was given from outside.
#include <map>
#include <set>

#include "chat_template/parser.h"

namespace oort::jinja {
namespace {

/// What a name is when its frame begins.
enum class Begin { kGiven, kUndefined, kParameter };

class Frame {
 public:
  explicit Frame(const Frame* parent) : parent_(parent) {}

  bool Knows(const std::string& name) const {
    return names_.contains(name) || (parent_ && parent_->Knows(name));
  }
  void Load(const std::string& name) {
    if (!Knows(name)) names_[name] = Begin::kGiven;
  }
  void Store(const std::string& name) {
    stored_.insert(name);
    if (names_.contains(name)) return;
    names_[name] = parent_ && parent_->Knows(name) ? Begin::kGiven : Begin::kUndefined;
  }
  void Declare(const std::string& name) {
    stored_.insert(name);
    names_[name] = Begin::kParameter;
  }
  /// The branches of an if: what only they assign is what it was before.
  void Join(const std::vector<Frame>& branches) {
    std::set<std::string> fresh;
    for (const Frame& branch : branches) fresh.insert(branch.stored_.begin(), branch.stored_.end());
    for (const std::string& name : stored_) fresh.erase(name);
    for (const Frame& branch : branches) {
      for (const auto& [name, begin] : branch.names_) names_[name] = begin;
      stored_.insert(branch.stored_.begin(), branch.stored_.end());
    }
    for (const std::string& name : fresh) names_[name] = Begin::kGiven;
  }
  std::vector<std::string> Unset() const {
    std::vector<std::string> unset;
    for (const auto& [name, begin] : names_) {
      if (begin == Begin::kUndefined) unset.push_back(name);
    }
    return unset;
  }

 private:
  const Frame* parent_;
  std::map<std::string, Begin> names_;
  std::set<std::string> stored_;
};

void LoadNames(const Expr* node, Frame& frame);

void LoadNames(const std::vector<ExprPtr>& nodes, Frame& frame) {
  for (const ExprPtr& node : nodes) LoadNames(node.get(), frame);
}

void LoadNames(const Expr* node, Frame& frame) {
  if (!node) return;
  if (node->kind == ExprKind::kName) frame.Load(node->name);
  LoadNames(node->parts, frame);
  for (const auto& [name, value] : node->named) LoadNames(value.get(), frame);
  LoadNames(node->star.get(), frame);
  LoadNames(node->double_star.get(), frame);
}

void StoreNames(const Expr& target, Frame& frame, bool parameter) {
  if (target.kind == ExprKind::kNamespaceRef) {
    frame.Load(target.name);
  } else if (target.kind == ExprKind::kName) {
    parameter ? frame.Declare(target.name) : frame.Store(target.name);
  }
  for (const ExprPtr& part : target.parts) StoreNames(*part, frame, parameter);
}

void VisitBody(const Body& body, Frame& frame);

void VisitIf(const Statement& statement, Frame& frame) {
  LoadNames(statement.values[0].get(), frame);
  std::vector<Frame> branches;
  branches.emplace_back(frame);
  VisitBody(statement.bodies[0], branches.back());
  for (size_t i = 1; i < statement.bodies.size(); ++i) {
    branches.emplace_back(frame);
    if (i < statement.values.size()) LoadNames(statement.values[i].get(), branches.back());
    VisitBody(statement.bodies[i], branches.back());
  }
  frame.Join(branches);
}

/// What a statement does in the frame around it; blocks of their own come later.
void Visit(const Statement& statement, Frame& frame) {
  switch (statement.kind) {
    case StatementKind::kIf: VisitIf(statement, frame); break;
    case StatementKind::kSet:
      LoadNames(statement.values, frame);
      StoreNames(*statement.target, frame, false);
      break;
    case StatementKind::kSetBlock: StoreNames(*statement.target, frame, false); break;
    case StatementKind::kMacro: frame.Store(statement.text); break;
    case StatementKind::kBlock: break;
    default: LoadNames(statement.values, frame); LoadNames(statement.filter.get(), frame);
  }
}

void VisitBody(const Body& body, Frame& frame) {
  for (const auto& statement : body) Visit(*statement, frame);
}

void MarkBody(const Body& body, const Frame& frame);

/// A block of its own.
std::vector<std::string> MarkInner(const Body& body, Frame& inner) {
  VisitBody(body, inner);
  MarkBody(body, inner);
  return inner.Unset();
}

void Mark(Statement& statement, const Frame& frame) {
  if (statement.kind == StatementKind::kIf) {
    for (const Body& body : statement.bodies) MarkBody(body, frame);
    return;
  }
  statement.unset.clear();
  for (size_t i = 0; i < statement.bodies.size(); ++i) {
    Frame inner(&frame);
    if (statement.kind == StatementKind::kFor && i == 0) {
      inner.Declare("loop");
      StoreNames(*statement.target, inner, true);
    }
    for (const std::string& name : statement.parameters) inner.Declare(name);
    for (const ExprPtr& target : statement.targets) StoreNames(*target, inner, true);
    for (const char* name : {"caller", "kwargs", "varargs"}) {
      if (statement.kind == StatementKind::kMacro || statement.kind == StatementKind::kCallBlock)
        inner.Declare(name);
    }
    LoadNames(statement.defaults, inner);
    statement.unset.push_back(MarkInner(statement.bodies[i], inner));
  }
}

void MarkBody(const Body& body, const Frame& frame) {
  for (const auto& statement : body) Mark(*statement, frame);
}

}  // namespace

std::vector<std::string> MarkUnset(const Body& body) {
  Frame frame(nullptr);
  return MarkInner(body, frame);
}

}  // namespace oort::jinja
