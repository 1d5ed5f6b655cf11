// SPDX-License-Identifier: MIT
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "chat_template/ast.h"
#include "chat_template/lexer.h"

namespace oort::jinja {

/// The grammar, from tokens to the tree. Expressions are in parser_expressions.cpp.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Body ParseAll();

 private:
  struct Nested;

  const Token& Current() const { return tokens_[at_]; }
  const Token& Look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  const Token& Next();
  bool IsName(std::string_view name) const;
  bool IsOperator(std::string_view text) const;
  bool SkipName(std::string_view name);
  bool SkipOperator(std::string_view text);
  const Token& ExpectName();
  void ExpectName(std::string_view name);
  void ExpectOperator(std::string_view text);
  void Expect(TokenKind kind);
  [[noreturn]] void FailHere(const std::string& expected) const;

  Body ParseUntil(std::initializer_list<std::string_view> ends);
  Body ParseBody(std::initializer_list<std::string_view> ends);
  std::unique_ptr<Statement> ParseStatement();
  std::unique_ptr<Statement> ParseSet();
  std::unique_ptr<Statement> ParseFor();
  std::unique_ptr<Statement> ParseIf();
  std::unique_ptr<Statement> ParseMacro();
  std::unique_ptr<Statement> ParseCallBlock();
  std::unique_ptr<Statement> ParseFilterBlock();
  std::unique_ptr<Statement> ParseWith();
  std::unique_ptr<Statement> ParseBlock();
  std::unique_ptr<Statement> ParseGeneration();
  std::unique_ptr<Statement> ParsePrint();
  std::unique_ptr<Statement> ParseLoad();
  std::unique_ptr<Statement> Make(StatementKind kind) const;
  void ParseSignature(Statement& statement);

  ExprPtr ParseTarget(bool with_namespace, bool until_in);
  ExprPtr ParseTuple(bool with_condition, bool parentheses, std::string_view end = {});
  ExprPtr ParseExpression(bool with_condition = true);
  ExprPtr ParseCondition();
  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseUnary(bool with_filter = true);
  ExprPtr ParsePrimary(bool with_namespace = false);
  ExprPtr ParseName(bool with_namespace);
  ExprPtr ParseNumber();
  ExprPtr ParseList();
  ExprPtr ParseDict();
  ExprPtr ParsePostfix(ExprPtr node);
  ExprPtr ParseFilters(ExprPtr node);
  ExprPtr ParseSubscript(ExprPtr node);
  ExprPtr ParseFilter(ExprPtr node);
  ExprPtr ParseTest(ExprPtr node);
  ExprPtr ParseCall(ExprPtr node);
  void ParseArguments(Expr& call);
  std::string ParseDottedName();
  bool IsTupleEnd(std::string_view end) const;
  bool BeginsTestArgument() const;
  ExprPtr Make(ExprKind kind, int line, std::string name = {}) const;
  /// Puts `part` under `node`, whose tree must not get too high.
  void Attach(Expr& node, ExprPtr part) const;
  void Grow(Expr& node, const Expr& part) const;
  ExprPtr Binary(ExprKind kind, std::string op, int line, ExprPtr left, ExprPtr right) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace oort::jinja
