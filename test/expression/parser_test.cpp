// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "parser/expression/program.h"
#include "parser/expression/tokenizer.h"

namespace oort::expression {
namespace {

std::string Rpn(std::string_view text) { return Parse(text).ToString(); }

std::string ParseErrorOf(std::string_view text) {
  try {
    Parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
    return error.what();
  }
  return "no error";
}

TEST(ExpressionTokenizer, KindsAndColumns) {
  const std::vector<Token> tokens = Tokenize("add(@12, [-1.5e-3,True])");
  const std::vector<Token::Kind> kinds = {
      Token::kWord,    Token::kOpen,  Token::kOperand, Token::kComma,     Token::kListOpen,
      Token::kLiteral, Token::kComma, Token::kLiteral, Token::kListClose, Token::kClose};
  const std::vector<int> columns = {1, 4, 5, 8, 10, 11, 18, 19, 23, 24};
  ASSERT_EQ(tokens.size(), kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    EXPECT_EQ(tokens[i].kind, kinds[i]) << i;
    EXPECT_EQ(tokens[i].column, columns[i]) << i;
  }
  EXPECT_EQ(tokens[2].operand, 12);
  EXPECT_EQ(tokens[5].literal.AsFloat(), -1.5e-3);
  EXPECT_TRUE(tokens[7].literal.IsBool());
}

TEST(ExpressionTokenizer, Literals) {
  const auto literal = [](std::string_view text) { return Tokenize(text).at(0).literal; };
  EXPECT_EQ(literal("-7").AsInt(), -7);
  EXPECT_TRUE(literal("3").IsInt());
  EXPECT_TRUE(literal("3.0").IsFloat());
  EXPECT_TRUE(literal("1e5").IsFloat());
  EXPECT_EQ(literal("1.000000e6").AsFloat(), 1e6);
  EXPECT_EQ(literal("inf").AsFloat(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(literal("-inf").AsFloat(), -std::numeric_limits<double>::infinity());
  EXPECT_NE(literal("nan.0").AsFloat(), literal("nan.0").AsFloat());
  EXPECT_EQ(literal("1.200000e+00-9.000000e-01j").AsComplex(), std::complex<double>(1.2, -0.9));
  EXPECT_EQ(literal("0.000000e+00+4.000000e+00j").AsComplex(), std::complex<double>(0, 4));
  EXPECT_EQ(literal("1.0e+00+-2.0e+00j").AsComplex(), std::complex<double>(1, -2));
  EXPECT_TRUE(literal("None").IsNone());
  EXPECT_FALSE(literal("False").AsBool());
  EXPECT_EQ(Tokenize("channels_last").at(0).kind, Token::kWord);
  EXPECT_EQ(Tokenize("->").at(0).kind, Token::kWord);
}

TEST(ExpressionParser, ReversePolish) {
  EXPECT_EQ(Rpn("@0"), "@0");
  EXPECT_EQ(Rpn("3"), "3");
  EXPECT_EQ(Rpn("sub(mul(@0,2),1)"), "@0 2 mul 1 sub");
  EXPECT_EQ(Rpn("sub(add(@0,@1),mul(sub(1,@2),1.000000e6))"), "@0 @1 add 1 @2 sub 1e+06 mul sub");
  EXPECT_EQ(Rpn("[1,6,size(@0,2),size(@0,3)]"), "1 6 @0 2 size/2 @0 3 size/2 list/4");
  EXPECT_EQ(Rpn("[0,remainder(size(@0,3),3),0,0]"), "0 @0 3 size/2 3 remainder 0 0 list/4");
  EXPECT_EQ(Rpn("size(@0)"), "@0 size/1");
  EXPECT_EQ(Rpn("[size(@0),2]"), "@0 size/1 2 list/2");
  EXPECT_EQ(Rpn("size(size(@0),0)"), "@0 size/1 0 size/2");
  EXPECT_EQ(Rpn("size(add(@0,@1),neg(1))"), "@0 @1 add 1 neg size/2");
  EXPECT_EQ(Rpn("[None,@0]"), "None @0 list/2");
  EXPECT_EQ(Rpn("[]"), "list/0");
  EXPECT_EQ(Rpn("[[1,2],[],[3]]"), "1 2 list/2 list/0 3 list/1 list/3");
  EXPECT_EQ(Rpn("and(and(True,@0),@1)"), "True @0 and @1 and");
  EXPECT_EQ(Rpn("max(@0,min(@1,@2))"), "@0 @1 @2 minimum maximum");
  EXPECT_EQ(Rpn("int(floor(div(size(@0,1),2)))"), "@0 1 size/2 2 div floor int");
  EXPECT_EQ(Rpn("torch.float(@0)"), "@0 to_f32");
  EXPECT_EQ(Rpn("torch.long(gt(@0,0))"), "@0 0 gt to_i64");
  EXPECT_EQ(Rpn("where(@0,1.5,@1)"), "@0 1.5 @1 where");
  EXPECT_EQ(Rpn(" add( @0 , ( @1 ) ) "), "@0 @1 add");
}

TEST(ExpressionParser, DamagedTextOfPnnx20261020) {
  EXPECT_EQ(Rpn("log1p,@0"), "@0 log1p");
  EXPECT_EQ(Rpn("expm1,sub(@0,0.5)"), "@0 0.5 sub expm1");
  EXPECT_EQ(Rpn("add(log1p,@0),mul(expm1,@0),2"), "@0 log1p @0 expm1 2 mul add");
  EXPECT_EQ(Rpn("size,@0,1"), "@0 1 size/2");
  EXPECT_EQ(Rpn("size(log1p,@0)"), "@0 log1p size/1");
}

TEST(ExpressionParser, Strings) {
  const auto string = [](std::string_view text) {
    const Program program = Parse(text);
    EXPECT_EQ(program.steps.size(), 1u);
    return program.literals.at(0).AsString();
  };
  EXPECT_EQ(string("ij"), "ij");
  EXPECT_EQ(string("floor"), "floor");
  EXPECT_EQ(string("torch.float"), "torch.float");
  EXPECT_EQ(string("ij,jk->ik"), "ij,jk->ik");
  EXPECT_EQ(Rpn("[reflect,1]"), "reflect 1 list/2");
}

TEST(ExpressionParser, CountsOperands) {
  EXPECT_EQ(Parse("add(@0,@7)").operands, 8);
  EXPECT_EQ(Parse("3").operands, 0);
}

TEST(ExpressionParser, ErrorsPointAtTheColumn) {
  EXPECT_EQ(ParseErrorOf(""), "column 1: the expression is empty");
  EXPECT_EQ(ParseErrorOf("add(@0,flor(@1))"),
            "column 8: unknown function 'flor'; did you mean 'floor'?");
  EXPECT_EQ(ParseErrorOf("add(@0,zzzzzz(@1))"), "column 8: unknown function 'zzzzzz'");
  EXPECT_EQ(ParseErrorOf("add(@0,@1,@2)"),
            "column 11: unexpected '@2' after the end of the expression");
  EXPECT_EQ(ParseErrorOf("@0 @1"), "column 4: unexpected '@1' after the end of the expression");
  EXPECT_EQ(ParseErrorOf("add(@0)"), "column 8: 'add' of column 1 takes 2 arguments, got 1");
  EXPECT_EQ(ParseErrorOf("[neg]"), "column 5: 'neg' of column 2 takes 1 argument, got 0");
  EXPECT_EQ(ParseErrorOf("add(@0,@1"), "column 4: '(' is never closed");
  EXPECT_EQ(ParseErrorOf("add(@0,@1))"), "column 11: ')' without a '('");
  EXPECT_EQ(ParseErrorOf("[@0,@1"), "column 1: '[' is never closed");
  EXPECT_EQ(ParseErrorOf("@0]"), "column 3: ']' without a '['");
  EXPECT_EQ(ParseErrorOf("[(@0]"), "column 2: '(' is not closed before the ']' of column 5");
  EXPECT_EQ(ParseErrorOf("([@0)]"), "column 5: ')' without a '('");
  EXPECT_EQ(ParseErrorOf("add(@x,1)"), "column 5: expected an operand such as @0, got '@x'");
  EXPECT_EQ(ParseErrorOf("neg(@99999999999)"),
            "column 5: expected an operand such as @0, got '@99999999999'");
  EXPECT_EQ(ParseErrorOf("add(@2147483647,1)"),
            "column 5: expected an operand such as @0, got '@2147483647'");
  EXPECT_EQ(ParseErrorOf("neg(1.2.3)"), "column 5: '1.2.3' is not a number");
  EXPECT_EQ(ParseErrorOf("()"), "column 3: the expression has no value");
  EXPECT_EQ(ParseErrorOf("fo\x01(@0)"), "column 1: unknown function 'fo?'");
}

TEST(ExpressionParser, HostileTextIsAnError) {
  const auto repeat = [](std::string_view text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  const int million = 1'000'000;
  EXPECT_NE(ParseErrorOf(repeat("(", million)), "no error");
  EXPECT_NE(
      ParseErrorOf(repeat("(", 20'000) + "@0" + repeat(")", 20'000)).find("column 4097: nested"),
      std::string::npos);
  EXPECT_NE(ParseErrorOf(repeat("[", 33)).find("column 33: lists nested"), std::string::npos);
  EXPECT_NE(ParseErrorOf(repeat("neg(", 20'000)).find("nested deeper than 4096"),
            std::string::npos);
  EXPECT_NE(ParseErrorOf("[" + repeat("1,", 100'000) + "1]").find("tokens"), std::string::npos);
  EXPECT_NE(ParseErrorOf(repeat("x", 2 * million)).find("over the limit"), std::string::npos);
  // A long chain is legal.
  EXPECT_EQ(Parse(repeat("neg(", 4000) + "@0" + repeat(")", 4000)).steps.size(), 4001u);
}

}  // namespace
}  // namespace oort::expression
