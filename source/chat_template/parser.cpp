// SPDX-License-Identifier: MIT
#include "chat_template/parser.h"

#include <algorithm>

#include "chat_template/parser_state.h"

namespace oort::jinja {
namespace {

constexpr int kMaxDepth = 120;

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData: return "text";
    case TokenKind::kBlockBegin: return "begin of statement block";
    case TokenKind::kBlockEnd: return "end of statement block";
    case TokenKind::kPrintBegin: return "begin of print statement";
    case TokenKind::kPrintEnd: return "end of print statement";
    case TokenKind::kString: return "string";
    case TokenKind::kEnd: return "end of template";
    default: return "'" + token.text + "'";
  }
}

}  // namespace

/// One level of recursion.
struct Parser::Nested {
  explicit Nested(Parser& owner) : parser(owner) {
    if (++parser.depth_ > kMaxDepth)
      FailSyntax(parser.Current().line, "the template is nested too deeply");
  }
  ~Nested() { --parser.depth_; }
  Parser& parser;
};

Template ParseTemplate(std::string_view source) {
  Template parsed;
  parsed.body = Parser(Tokenize(source)).ParseAll();
  CheckTemplate(parsed.body);
  parsed.unset = MarkUnset(parsed.body);
  return parsed;
}

Body Parser::ParseAll() { return ParseUntil({}); }

const Token& Parser::Next() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::IsName(std::string_view name) const {
  return Current().kind == TokenKind::kName && Current().text == name;
}
bool Parser::IsOperator(std::string_view text) const {
  return Current().kind == TokenKind::kOperator && Current().text == text;
}
bool Parser::SkipName(std::string_view name) {
  if (!IsName(name)) return false;
  Next();
  return true;
}
bool Parser::SkipOperator(std::string_view text) {
  if (!IsOperator(text)) return false;
  Next();
  return true;
}
const Token& Parser::ExpectName() {
  if (Current().kind != TokenKind::kName) FailHere("a name");
  return Next();
}
void Parser::ExpectName(std::string_view name) {
  if (!SkipName(name)) FailHere("'" + std::string(name) + "'");
}
void Parser::ExpectOperator(std::string_view text) {
  if (!SkipOperator(text)) FailHere("'" + std::string(text) + "'");
}
void Parser::Expect(TokenKind kind) {
  if (Current().kind != kind) FailHere(Describe({kind, {}, 0}));
  Next();
}
void Parser::FailHere(const std::string& expected) const {
  FailSyntax(Current().line, "expected " + expected + ", got " + Describe(Current()));
}

std::unique_ptr<Statement> Parser::Make(StatementKind kind) const {
  auto statement = std::make_unique<Statement>();
  statement->kind = kind;
  statement->line = Current().line;
  return statement;
}

/// Statements up to a tag that begins with one of the words, which becomes the current token.
Body Parser::ParseUntil(std::initializer_list<std::string_view> ends) {
  const Nested nested(*this);
  Body body;
  while (Current().kind != TokenKind::kEnd) {
    if (Current().kind == TokenKind::kData) {
      auto text = Make(StatementKind::kText);
      text->text = Next().text;
      body.push_back(std::move(text));
    } else if (Current().kind == TokenKind::kPrintBegin) {
      Next();
      auto print = Make(StatementKind::kPrint);
      print->values.push_back(ParseTuple(true, false));
      Expect(TokenKind::kPrintEnd);
      body.push_back(std::move(print));
    } else {
      Expect(TokenKind::kBlockBegin);
      if (std::any_of(ends.begin(), ends.end(), [&](auto end) { return IsName(end); })) return body;
      body.push_back(ParseStatement());
      Expect(TokenKind::kBlockEnd);
    }
  }
  if (ends.size() > 0) FailHere("'" + std::string(*ends.begin()) + "'");
  return body;
}

/// The end of a tag, and what follows up to one of the words.
Body Parser::ParseBody(std::initializer_list<std::string_view> ends) {
  SkipOperator(":");
  Expect(TokenKind::kBlockEnd);
  return ParseUntil(ends);
}

std::unique_ptr<Statement> Parser::ParseStatement() {
  const Nested nested(*this);
  if (Current().kind != TokenKind::kName) FailHere("the name of a tag");
  const std::string name = Current().text;
  if (name == "set") return ParseSet();
  if (name == "for") return ParseFor();
  if (name == "if") return ParseIf();
  if (name == "macro") return ParseMacro();
  if (name == "call") return ParseCallBlock();
  if (name == "filter") return ParseFilterBlock();
  if (name == "with") return ParseWith();
  if (name == "block") return ParseBlock();
  if (name == "generation") return ParseGeneration();
  if (name == "print") return ParsePrint();
  if (name == "include" || name == "import" || name == "from" || name == "extends")
    return ParseLoad();
  if (name == "break" || name == "continue") {
    auto statement = Make(name == "break" ? StatementKind::kBreak : StatementKind::kContinue);
    Next();
    return statement;
  }
  if (name == "autoescape") FailSyntax(Current().line, "the tag 'autoescape' is not supported");
  FailSyntax(Current().line, "encountered unknown tag '" + name + "'");
}

std::unique_ptr<Statement> Parser::ParseSet() {
  auto statement = Make(StatementKind::kSet);
  Next();
  statement->target = ParseTarget(true, false);
  if (SkipOperator("=")) {
    statement->values.push_back(ParseTuple(true, false));
    return statement;
  }
  statement->kind = StatementKind::kSetBlock;
  if (IsOperator("|")) statement->filter = ParseFilter(nullptr);
  statement->bodies.push_back(ParseBody({"endset"}));
  Next();
  return statement;
}

std::unique_ptr<Statement> Parser::ParseFor() {
  auto statement = Make(StatementKind::kFor);
  Next();
  statement->target = ParseTarget(false, true);
  ExpectName("in");
  statement->values.push_back(ParseTuple(false, false, "recursive"));
  if (SkipName("if")) statement->test = ParseExpression();
  statement->recursive = SkipName("recursive");
  statement->bodies.push_back(ParseBody({"endfor", "else"}));
  if (Next().text == "else") {
    statement->bodies.push_back(ParseBody({"endfor"}));
    Next();
  }
  return statement;
}

std::unique_ptr<Statement> Parser::ParseIf() {
  auto statement = Make(StatementKind::kIf);
  Next();
  while (true) {
    statement->values.push_back(ParseTuple(false, false));
    statement->bodies.push_back(ParseBody({"elif", "else", "endif"}));
    const std::string_view word = Next().text;
    if (word == "elif") continue;
    if (word == "else") {
      statement->bodies.push_back(ParseBody({"endif"}));
      Next();
    }
    return statement;
  }
}

void Parser::ParseSignature(Statement& statement) {
  ExpectOperator("(");
  while (!IsOperator(")")) {
    if (!statement.parameters.empty()) ExpectOperator(",");
    statement.parameters.push_back(ExpectName().text);
    if (SkipOperator("=")) {
      statement.defaults.push_back(ParseExpression());
    } else if (!statement.defaults.empty()) {
      FailSyntax(Current().line, "non-default argument follows default argument");
    }
  }
  ExpectOperator(")");
}

std::unique_ptr<Statement> Parser::ParseMacro() {
  auto statement = Make(StatementKind::kMacro);
  Next();
  statement->text = ExpectName().text;
  ParseSignature(*statement);
  statement->bodies.push_back(ParseBody({"endmacro"}));
  Next();
  return statement;
}

std::unique_ptr<Statement> Parser::ParseCallBlock() {
  auto statement = Make(StatementKind::kCallBlock);
  Next();
  if (IsOperator("(")) ParseSignature(*statement);
  statement->values.push_back(ParseExpression());
  if (statement->values[0]->kind != ExprKind::kCall) FailSyntax(statement->line, "expected call");
  statement->bodies.push_back(ParseBody({"endcall"}));
  Next();
  return statement;
}

std::unique_ptr<Statement> Parser::ParseFilterBlock() {
  auto statement = Make(StatementKind::kFilterBlock);
  Next();
  // The first filter stands without a bar before it.
  auto first = Make(ExprKind::kFilter, Current().line, ParseDottedName());
  first->parts.push_back(nullptr);
  if (IsOperator("(")) ParseArguments(*first);
  statement->filter = IsOperator("|") ? ParseFilter(std::move(first)) : std::move(first);
  statement->bodies.push_back(ParseBody({"endfilter"}));
  Next();
  return statement;
}

std::unique_ptr<Statement> Parser::ParseWith() {
  auto statement = Make(StatementKind::kWith);
  Next();
  while (Current().kind != TokenKind::kBlockEnd) {
    if (!statement->targets.empty()) ExpectOperator(",");
    statement->targets.push_back(ParseTarget(false, false));
    ExpectOperator("=");
    statement->values.push_back(ParseExpression());
  }
  statement->bodies.push_back(ParseBody({"endwith"}));
  Next();
  return statement;
}

std::unique_ptr<Statement> Parser::ParseBlock() {
  auto statement = Make(StatementKind::kBlock);
  Next();
  statement->text = ExpectName().text;
  if (SkipName("scoped")) statement->recursive = true;  // it sees the variables around it
  if (IsName("required")) FailSyntax(Current().line, "a required block has nothing to fill it");
  statement->bodies.push_back(ParseBody({"endblock"}));
  Next();
  SkipName(statement->text);
  return statement;
}

std::unique_ptr<Statement> Parser::ParseGeneration() {
  auto statement = Make(StatementKind::kGeneration);
  Next();
  statement->bodies.push_back(ParseBody({"endgeneration"}));
  Next();
  return statement;
}

std::unique_ptr<Statement> Parser::ParsePrint() {
  auto statement = Make(StatementKind::kPrint);
  Next();
  while (Current().kind != TokenKind::kBlockEnd) {
    if (!statement->values.empty()) ExpectOperator(",");
    statement->values.push_back(ParseExpression());
  }
  return statement;
}

std::unique_ptr<Statement> Parser::ParseLoad() {
  auto statement = Make(StatementKind::kLoad);
  statement->text = Next().text;
  statement->values.push_back(ParseExpression());
  while (Current().kind == TokenKind::kName || IsOperator(",")) Next();
  return statement;
}

}  // namespace oort::jinja
