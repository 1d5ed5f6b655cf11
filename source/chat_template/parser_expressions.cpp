// SPDX-License-Identifier: MIT
#include <algorithm>
#include <charconv>

#include "chat_template/parser_state.h"

namespace oort::jinja {
namespace {

constexpr int kMaxHeight = 400;
constexpr int kMaxExpressionDepth = 120;

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

ExprPtr Parser::Make(ExprKind kind, int line, std::string name) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  node->name = std::move(name);
  return node;
}

void Parser::Grow(Expr& node, const Expr& part) const {
  node.height = std::max(node.height, part.height + 1);
  if (node.height > kMaxHeight) FailSyntax(node.line, "an expression is nested too deeply");
}

void Parser::Attach(Expr& node, ExprPtr part) const {
  Grow(node, *part);
  node.parts.push_back(std::move(part));
}

ExprPtr Parser::Binary(ExprKind kind, std::string op, int line, ExprPtr left, ExprPtr right) const {
  ExprPtr node = Make(kind, line, std::move(op));
  Attach(*node, std::move(left));
  Attach(*node, std::move(right));
  return node;
}

bool Parser::IsTupleEnd(std::string_view end) const {
  return Current().kind == TokenKind::kPrintEnd || Current().kind == TokenKind::kBlockEnd ||
         IsOperator(")") || (!end.empty() && IsName(end));
}

/// A name, several of them, or a reference into a namespace.
ExprPtr Parser::ParseTarget(bool with_namespace, bool until_in) {
  const int line = Current().line;
  ExprPtr tuple = Make(ExprKind::kTuple, line);
  bool is_tuple = false;
  while (true) {
    if (!tuple->parts.empty()) ExpectOperator(",");
    if (IsTupleEnd(until_in ? "in" : "")) break;
    if (IsOperator("(")) {
      Next();
      Attach(*tuple, ParseTarget(with_namespace, until_in));
      ExpectOperator(")");
    } else {
      if (Current().kind != TokenKind::kName) FailHere("a name to assign to");
      Attach(*tuple, ParsePrimary(with_namespace));
    }
    const ExprKind kind = tuple->parts.back()->kind;
    if (kind == ExprKind::kConst) FailSyntax(line, "can't assign to a constant");
    if (tuple->height > 20) FailSyntax(line, "the targets are nested too deeply");
    if (!IsOperator(",")) break;
    is_tuple = true;
  }
  if (tuple->parts.empty()) FailHere("a name to assign to");
  return is_tuple ? std::move(tuple) : std::move(tuple->parts[0]);
}

ExprPtr Parser::ParseTuple(bool with_condition, bool parentheses, std::string_view end) {
  ExprPtr tuple = Make(ExprKind::kTuple, Current().line);
  bool is_tuple = false;
  while (true) {
    if (!tuple->parts.empty()) ExpectOperator(",");
    if (IsTupleEnd(end)) break;
    Attach(*tuple, ParseExpression(with_condition));
    if (!IsOperator(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return tuple;
  if (!tuple->parts.empty()) return std::move(tuple->parts[0]);
  if (!parentheses) FailHere("an expression");
  return tuple;
}

ExprPtr Parser::ParseExpression(bool with_condition) {
  if (++depth_ > kMaxExpressionDepth)
    FailSyntax(Current().line, "an expression is nested too deeply");
  ExprPtr node = with_condition ? ParseCondition() : ParseOr();
  --depth_;
  return node;
}

ExprPtr Parser::ParseCondition() {
  int line = Current().line;
  ExprPtr node = ParseOr();
  while (SkipName("if")) {
    ExprPtr condition = Make(ExprKind::kCondition, line);
    Attach(*condition, ParseOr());
    Attach(*condition, std::move(node));
    if (SkipName("else")) Attach(*condition, ParseExpression());
    node = std::move(condition);
    line = Current().line;
  }
  return node;
}

ExprPtr Parser::ParseOr() {
  const int line = Current().line;
  ExprPtr node = ParseAnd();
  while (SkipName("or")) node = Binary(ExprKind::kOr, "or", line, std::move(node), ParseAnd());
  return node;
}

ExprPtr Parser::ParseAnd() {
  const int line = Current().line;
  ExprPtr node = ParseNot();
  while (SkipName("and")) node = Binary(ExprKind::kAnd, "and", line, std::move(node), ParseNot());
  return node;
}

ExprPtr Parser::ParseNot() {
  std::vector<int> lines;
  while (IsName("not")) lines.push_back(Next().line);
  ExprPtr node = ParseCompare();
  for (; !lines.empty(); lines.pop_back()) {
    ExprPtr negated = Make(ExprKind::kNot, lines.back());
    Attach(*negated, std::move(node));
    node = std::move(negated);
  }
  return node;
}

ExprPtr Parser::ParseCompare() {
  const int line = Current().line;
  ExprPtr first = ParseSum();
  ExprPtr compare;
  while (true) {
    std::string op;
    if (Current().kind == TokenKind::kOperator &&
        IsOneOf(Current().text, {"==", "!=", "<", "<=", ">", ">="})) {
      op = Next().text;
    } else if (SkipName("in")) {
      op = "in";
    } else if (IsName("not") && Look().kind == TokenKind::kName && Look().text == "in") {
      Next();
      Next();
      op = "not in";
    } else {
      return compare ? std::move(compare) : std::move(first);
    }
    if (!compare) {
      compare = Make(ExprKind::kCompare, line);
      Attach(*compare, std::move(first));
    }
    compare->operators.push_back(op);
    Attach(*compare, ParseSum());
  }
}

ExprPtr Parser::ParseSum() {
  const int line = Current().line;
  ExprPtr node = ParseConcat();
  while (IsOperator("+") || IsOperator("-")) {
    std::string op = Next().text;
    node = Binary(ExprKind::kBinary, std::move(op), line, std::move(node), ParseConcat());
  }
  return node;
}

ExprPtr Parser::ParseConcat() {
  const int line = Current().line;
  ExprPtr node = ParseProduct();
  if (!IsOperator("~")) return node;
  ExprPtr concat = Make(ExprKind::kConcat, line);
  Attach(*concat, std::move(node));
  while (SkipOperator("~")) Attach(*concat, ParseProduct());
  return concat;
}

ExprPtr Parser::ParseProduct() {
  const int line = Current().line;
  ExprPtr node = ParsePower();
  while (IsOperator("*") || IsOperator("/") || IsOperator("//") || IsOperator("%")) {
    std::string op = Next().text;
    node = Binary(ExprKind::kBinary, std::move(op), line, std::move(node), ParsePower());
  }
  return node;
}

ExprPtr Parser::ParsePower() {
  const int line = Current().line;
  ExprPtr node = ParseUnary();
  while (SkipOperator("**")) {
    node = Binary(ExprKind::kBinary, "**", line, std::move(node), ParseUnary());
  }
  return node;
}

ExprPtr Parser::ParseUnary(bool with_filter) {
  ExprPtr node;
  if (IsOperator("-") || IsOperator("+")) {
    const Token sign = Next();
    if (++depth_ > kMaxExpressionDepth) FailSyntax(sign.line, "an expression is nested too deeply");
    node = Make(ExprKind::kUnary, sign.line, sign.text);
    Attach(*node, ParseUnary(false));
    --depth_;
  } else {
    node = ParsePrimary();
  }
  node = ParsePostfix(std::move(node));
  return with_filter ? ParseFilters(std::move(node)) : std::move(node);
}

ExprPtr Parser::ParsePrimary(bool with_namespace) {
  const int line = Current().line;
  switch (Current().kind) {
    case TokenKind::kName: return ParseName(with_namespace);
    case TokenKind::kInteger:
    case TokenKind::kFloat: return ParseNumber();
    case TokenKind::kString: {
      std::string text;
      while (Current().kind == TokenKind::kString) text += Next().text;
      ExprPtr node = Make(ExprKind::kConst, line);
      node->value = Value::String(nullptr, std::move(text));
      return node;
    }
    default: break;
  }
  if (SkipOperator("(")) {
    if (++depth_ > kMaxExpressionDepth) FailSyntax(line, "an expression is nested too deeply");
    ExprPtr node = ParseTuple(true, true);
    --depth_;
    ExpectOperator(")");
    return node;
  }
  if (IsOperator("[")) return ParseList();
  if (IsOperator("{")) return ParseDict();
  FailHere("an expression");
}

ExprPtr Parser::ParseName(bool with_namespace) {
  const Token token = Next();
  ExprPtr node = Make(ExprKind::kConst, token.line);
  if (IsOneOf(token.text, {"true", "True", "false", "False"})) {
    node->value = Value::Bool(token.text[0] == 't' || token.text[0] == 'T');
  } else if (IsOneOf(token.text, {"none", "None"})) {
    node->value = Value::None();
  } else if (with_namespace && SkipOperator(".")) {
    node->kind = ExprKind::kNamespaceRef;
    node->name = token.text;
    node->attribute = ExpectName().text;
  } else {
    node->kind = ExprKind::kName;
    node->name = token.text;
  }
  return node;
}

ExprPtr Parser::ParseNumber() {
  const Token token = Next();
  ExprPtr node = Make(ExprKind::kConst, token.line);
  const char* begin = token.text.data();
  const char* end = begin + token.text.size();
  if (token.kind == TokenKind::kFloat) {
    double real = 0;
    if (std::from_chars(begin, end, real).ec != std::errc()) {
      FailSyntax(token.line, "the number " + token.text + " is out of range");
    }
    node->value = Value::Float(real);
    return node;
  }
  const char mark = token.text.size() > 2 ? static_cast<char>(token.text[1] | 0x20) : '\0';
  const int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
  int64_t integer = 0;
  if (std::from_chars(base == 10 ? begin : begin + 2, end, integer, base).ec != std::errc()) {
    FailSyntax(token.line, "the number " + token.text + " is out of range");
  }
  node->value = Value::Int(integer);
  return node;
}

ExprPtr Parser::ParseList() {
  ExprPtr list = Make(ExprKind::kList, Current().line);
  ExpectOperator("[");
  while (!IsOperator("]")) {
    if (!list->parts.empty()) ExpectOperator(",");
    if (IsOperator("]")) break;
    Attach(*list, ParseExpression());
  }
  ExpectOperator("]");
  return list;
}

ExprPtr Parser::ParseDict() {
  ExprPtr dict = Make(ExprKind::kDict, Current().line);
  ExpectOperator("{");
  while (!IsOperator("}")) {
    if (!dict->parts.empty()) ExpectOperator(",");
    if (IsOperator("}")) break;
    Attach(*dict, ParseExpression());
    ExpectOperator(":");
    Attach(*dict, ParseExpression());
  }
  ExpectOperator("}");
  return dict;
}

ExprPtr Parser::ParsePostfix(ExprPtr node) {
  while (true) {
    if (IsOperator(".") || IsOperator("[")) {
      node = ParseSubscript(std::move(node));
    } else if (IsOperator("(")) {
      node = ParseCall(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::ParseFilters(ExprPtr node) {
  while (true) {
    if (IsOperator("|")) {
      node = ParseFilter(std::move(node));
    } else if (IsName("is")) {
      node = ParseTest(std::move(node));
    } else if (IsOperator("(")) {
      node = ParseCall(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::ParseSubscript(ExprPtr node) {
  const int line = Current().line;
  if (SkipOperator(".")) {
    if (Current().kind == TokenKind::kInteger) {
      return Binary(ExprKind::kItem, {}, line, std::move(node), ParseNumber());
    }
    ExprPtr attribute = Make(ExprKind::kAttribute, line, ExpectName().text);
    Attach(*attribute, std::move(node));
    return attribute;
  }
  ExpectOperator("[");
  ExprPtr first;
  if (!IsOperator(":")) {
    first = ParseTuple(true, false, {});
    if (!IsOperator(":")) {
      ExpectOperator("]");
      return Binary(ExprKind::kItem, {}, line, std::move(node), std::move(first));
    }
  }
  ExprPtr slice = Make(ExprKind::kSlice, line);
  Attach(*slice, std::move(node));
  if (first) Grow(*slice, *first);
  slice->parts.push_back(std::move(first));
  for (int part = 0; part < 2; ++part) {
    ExprPtr bound;
    if (SkipOperator(":") && !IsOperator(":") && !IsOperator("]")) bound = ParseExpression();
    if (bound) Grow(*slice, *bound);
    slice->parts.push_back(std::move(bound));
  }
  ExpectOperator("]");
  return slice;
}

void Parser::ParseArguments(Expr& call) {
  const int line = Current().line;
  const auto ensure = [&](bool right) {
    if (!right) FailSyntax(line, "invalid syntax for function call expression");
  };
  ExpectOperator("(");
  bool comma = false;
  while (!IsOperator(")")) {
    if (comma) ExpectOperator(",");
    if (comma && IsOperator(")")) break;
    comma = true;
    if (SkipOperator("*")) {
      ensure(!call.star && !call.double_star);
      call.star = ParseExpression();
      Grow(call, *call.star);
    } else if (SkipOperator("**")) {
      ensure(!call.double_star);
      call.double_star = ParseExpression();
      Grow(call, *call.double_star);
    } else if (Current().kind == TokenKind::kName && Look().kind == TokenKind::kOperator &&
               Look().text == "=") {
      ensure(!call.double_star);
      std::string name = Next().text;
      Next();
      ExprPtr value = ParseExpression();
      Grow(call, *value);
      call.named.emplace_back(std::move(name), std::move(value));
    } else {
      ensure(!call.star && !call.double_star && call.named.empty());
      Attach(call, ParseExpression());
    }
  }
  ExpectOperator(")");
}

ExprPtr Parser::ParseCall(ExprPtr node) {
  ExprPtr call = Make(ExprKind::kCall, Current().line);
  Attach(*call, std::move(node));
  ParseArguments(*call);
  return call;
}

std::string Parser::ParseDottedName() {
  std::string name = ExpectName().text;
  while (SkipOperator(".")) name += "." + ExpectName().text;
  return name;
}

ExprPtr Parser::ParseFilter(ExprPtr node) {
  while (SkipOperator("|")) {
    const int line = Current().line;
    ExprPtr filter = Make(ExprKind::kFilter, line, ParseDottedName());
    if (node) Grow(*filter, *node);
    filter->parts.push_back(std::move(node));
    if (IsOperator("(")) ParseArguments(*filter);
    node = std::move(filter);
  }
  return node;
}

bool Parser::BeginsTestArgument() const {
  if (Current().kind == TokenKind::kName) return !IsOneOf(Current().text, {"else", "or", "and"});
  return Current().kind == TokenKind::kString || Current().kind == TokenKind::kInteger ||
         Current().kind == TokenKind::kFloat || IsOperator("[") || IsOperator("{");
}

ExprPtr Parser::ParseTest(ExprPtr node) {
  const int line = Next().line;
  const bool negated = SkipName("not");
  ExprPtr test = Make(ExprKind::kTest, line, ParseDottedName());
  Attach(*test, std::move(node));
  if (IsOperator("(")) {
    ParseArguments(*test);
  } else if (BeginsTestArgument()) {
    if (IsName("is")) FailSyntax(line, "you cannot chain multiple tests with is");
    Attach(*test, ParsePostfix(ParsePrimary()));
  }
  if (!negated) return test;
  ExprPtr inverse = Make(ExprKind::kNot, line);
  Attach(*inverse, std::move(test));
  return inverse;
}

}  // namespace oort::jinja
