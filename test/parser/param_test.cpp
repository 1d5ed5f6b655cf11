// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "kit/errors.h"
#include "oort/pnnx.h"

namespace oort {
namespace {

Graph Parse(std::string text) { return ReadPnnxParam(*ByteSource::Owned(std::move(text))); }

/// The problems that reading `text` reports.
std::vector<Problem> ProblemsOf(const std::string& text) {
  try {
    Parse(text);
  } catch (const Error& error) {
    return error.problems();
  }
  return {};
}

void ExpectProblem(const std::string& text, std::string_view message) {
  testing::ExpectThrows([&] { Parse(text); }, ErrorCode::kInvalidModel, message);
}

/// A .param of one operator between an input and an output.
std::string With(const std::string& middle) {
  return "7767517\n3 2\npnnx.Input in 0 1 0\n" + middle + "\npnnx.Output out 1 0 1\n";
}

TEST(Param, ReadsEveryKindOfWord) {
  const Graph graph = Parse(
      "7767517\n"
      "4 3\n"
      "pnnx.Input               pnnx_input_0             0 1 0 #0=(1,?,8)f32\n"
      "pnnx.Attribute           w                        0 1 1 @data=(2,3)i64 @more.x=()c64\n"
      "F.foo                    f                        2 1 0 1 2 a=None b=(1,2) expr=add(@0,1)"
      " eq=x=y empty= $input=0 $weight=1 #0=(1,?,8)f32 #2=()bool\n"
      "pnnx.Output              pnnx_output_0            1 0 2\n");
  ASSERT_EQ(graph.operators.size(), 4u);
  ASSERT_EQ(graph.operands.size(), 3u);
  const Operator& attribute = graph.operators[1];
  EXPECT_EQ(attribute.attributes.at("data").ToString(), "(2,3)i64");
  EXPECT_FALSE(attribute.attributes.at("data").has_data());
  EXPECT_EQ(attribute.attributes.at("more.x").elements(), 1);
  const Operator& op = graph.operators[2];
  EXPECT_EQ(op.type, "F.foo");
  EXPECT_EQ(op.name, "f");
  EXPECT_EQ(op.line, 5);
  EXPECT_EQ(op.inputs, (std::vector<int>{0, 1}));
  EXPECT_EQ(op.outputs, std::vector<int>{2});
  EXPECT_EQ(op.input_names, (std::vector<std::string>{"input", "weight"}));
  EXPECT_EQ(op.params.size(), 5u);
  EXPECT_EQ(op.params.at("b").text(), "(1,2)");
  EXPECT_EQ(op.params.at("expr").text(), "add(@0,1)");
  EXPECT_EQ(op.params.at("eq").text(), "x=y");  // split at the first '='
  EXPECT_EQ(op.params.at("empty").text(), "");
  const Operand& input = graph.operands[0];
  EXPECT_EQ(input.name, "0");
  EXPECT_EQ(input.producer, 0);
  EXPECT_EQ(input.consumers, std::vector<int>{2});
  EXPECT_TRUE(input.has_shape);
  EXPECT_EQ(input.shape, (Shape{1, Shape::kUnknown, 8}));
  EXPECT_EQ(input.dtype, DType::kF32);
  EXPECT_FALSE(graph.operands[1].has_shape);
  EXPECT_TRUE(graph.operands[2].has_shape);
  EXPECT_EQ(graph.operands[2].shape.rank(), 0);
}

TEST(Param, PairsInputNamesFromLeftToRight) {
  const Graph graph = Parse(With("torch.ge ge 2 1 0 0 1 $input=0 $other=0"));
  EXPECT_EQ(graph.operators[1].input_names, (std::vector<std::string>{"input", "other"}));
  const Graph partial = Parse(
      With("F.x x 3 1 0 1x 0 1 $b=0\npnnx.Attribute a 0 1 1x @data=()f32").replace(8, 3, "4 3"));
  EXPECT_EQ(partial.operators[1].input_names, (std::vector<std::string>{"b", "", ""}));
  ExpectProblem(With("F.x x 1 1 0 1 $a=0 $b=0"), "'b' is for operand '0'");
  ExpectProblem(With("F.x x 1 1 0 1 $a=1"), "no input that lacks a name");
  ExpectProblem(With("F.x x 1 1 0 1 $a=7"), "operand '7'");
}

TEST(Param, TakesAWordWithoutEqualSignAsEmptyParameter) {
  const Graph graph = Parse(With("torch.einsum e 1 1 0 1 equation=ij, jk -> ik"));
  const auto& params = graph.operators[1].params;
  EXPECT_EQ(params.at("equation").text(), "ij,");
  EXPECT_EQ(params.at("->").text(), "");
  ExpectProblem(With("torch.einsum e 1 1 0 1 equation=ij, a b a"), "a value with blanks");
}

TEST(Param, ReadsWindowsLinesBlankLinesTabsAndMarks) {
  const std::string text = With("nn.ReLU r 1 1 0 1 a=1");
  std::string windows;
  for (const char c : text) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(Parse(windows).operators[1].params.at("a").text(), "1");
  EXPECT_EQ(Parse("\xef\xbb\xbf" + text).operators.size(), 3u);
  EXPECT_EQ(Parse(text + "\n \t\n").operators.size(), 3u);
  EXPECT_EQ(Parse(With("\t nn.ReLU\tr  1 1\t0 1 \ta=1 ")).operators[1].params.size(), 1u);
  EXPECT_EQ(Parse(text.substr(0, text.size() - 1)).operators.size(), 3u);  // no last newline
}

TEST(Param, ProducersMayStandBelow) {
  const Graph graph = Parse(
      "7767517\n3 2\npnnx.Output out 1 0 1\nnn.ReLU r 1 1 0 1 #0=(3)f32\npnnx.Input in 0 1 0\n");
  EXPECT_EQ(graph.TopologicalOrder(), (std::vector<int>{2, 1, 0}));
}

TEST(Param, KnowsAllDTypes) {
  for (const char* dtype : {"f32", "f64", "f16", "i32", "i64", "i16", "i8", "u8", "bool", "c64",
                            "c128", "c32", "bf16"}) {
    const Graph graph = Parse(With(std::string("F.x x 1 1 0 1 @w=(2)") + dtype));
    EXPECT_EQ(Name(graph.operators[1].attributes.at("w").dtype()), dtype);
  }
  const Graph old = Parse(With("F.x x 1 1 0 1 @w=(2)cp64 #0=(1)null"));
  EXPECT_EQ(old.operators[1].attributes.at("w").dtype(), DType::kC64);
  EXPECT_EQ(old.operands[0].dtype, DType::kNull);
  ExpectProblem(With("F.x x 1 1 0 1 @w=(2)q4"), "attribute 'w': the dtype 'q4' is unknown");
  ExpectProblem(With("F.x x 1 1 0 1 @w=(2)"), "the dtype '' is unknown");
  ExpectProblem(With("F.x x 1 1 0 1 @w=(2)null"), "cannot have dtype null");
  ExpectProblem(With("F.x x 1 1 0 1 #0=(2)f33"), "shape of operand '0': the dtype 'f33'");
}

TEST(Param, ReadsShapes) {
  const Graph graph = Parse(With("F.x x 1 1 0 1 @e=(2,0,4)f32 @r=(1,1,1,1,1,1,1,1)f32"));
  EXPECT_EQ(graph.operators[1].attributes.at("e").elements(), 0);
  EXPECT_EQ(graph.operators[1].attributes.at("r").rank(), 8);
  const auto bad = [](const std::string& value, std::string_view message) {
    ExpectProblem(With("F.x x 1 1 0 1 @w=" + value), message);
    ExpectProblem(With("F.x x 1 1 0 1 #0=" + value), message);
  };
  bad("(1,1,1,1,1,1,1,1,1)f32", "over the limit of 8");
  bad("(4294967296,4294967296)f32", "too many elements");
  bad("(0,4294967296,4294967296)f32", "too many elements");
  bad("(99999999999999999999)f32", "fits 64 bits");
  bad("(-1)f32", "at least 0");
  bad("(1,)f32", "at least 0");
  bad("(,1)f32", "at least 0");
  bad("(%batch,1)f32", "'%batch'");
  bad("(1,2f32", "expected (shape)dtype");
  bad("f32", "expected (shape)dtype");
  bad("", "expected (shape)dtype");
  ExpectProblem(With("F.x x 1 1 0 1 @w=(?)f32"), "known extents");
  ExpectProblem(With("F.x x 1 1 0 1 @w=(4611686018427387904)f64"), "overflow");
}

TEST(Param, HintsMustBelongAndAgree) {
  EXPECT_NO_THROW(Parse(With("F.x x 2 1 0 0 1 #0=(1)f32 #0=(1)f32")));
  ExpectProblem(With("F.x x 1 1 0 1 #0=(1)f32 #0=(2)f32"), "says '(2)f32', but (1)f32 stood");
  ExpectProblem(With("F.x x 1 1 0 1 #7=(1)f32"), "operand '7': this operator has no such");
}

TEST(Param, EveryLineMustBeWhole) {
  ExpectProblem(With("nn.ReLU"), "got 1 word");
  ExpectProblem(With("nn.ReLU r 1"), "got 3 word");
  ExpectProblem(With("nn.ReLU r x 1 0 1"), "got 'x' and '1'");
  ExpectProblem(With("nn.ReLU r -1 1 0 1"), "got '-1' and '1'");
  ExpectProblem(With("nn.ReLU r 1 2147483648000 0 1"), "only 2 words follow");
  ExpectProblem(With("nn.ReLU r 9223372036854775807 9223372036854775807 0 1"), "only 2 words");
  ExpectProblem(With("nn.ReLU r 2 1 0 1"), "says 2 inputs and 1 outputs");
  ExpectProblem(With("nn.ReLU r 1 1 0 inplace=True"), "name of an operand, got 'inplace=True'");
  ExpectProblem(With("nn.ReLU r 1 1 0 1 =5"), "expected key=value, got '=5'");
  ExpectProblem(With("nn.ReLU r 1 1 0 1 a=1 a=2"), "parameter 'a' stands there twice");
  ExpectProblem(With("nn.ReLU r 1 1 0 1 @a=()f32 @a=()f32"), "attribute 'a': stands there twice");
}

TEST(Param, CountsMustFit) {
  const std::string text = With("nn.ReLU r 1 1 0 1");
  const auto counts = [&](const std::string& line) {
    return "7767517\n" + line + text.substr(text.find("\npnnx.Input"));
  };
  ExpectProblem(counts("4 2"), "line 2 says 4 operators, but the file has 3: is it cut off?");
  ExpectProblem(counts("2 2"), "line 2 says 2 operators, but the file has 3");
  ExpectProblem(counts("3 1"), "line 2 says 1 operands, but the file has 2");
  // pnnx counts operands of what it folded; only a file that may be cut off is refused for it.
  EXPECT_NO_THROW(Parse(counts("3 4")));
  const std::string cut = counts("3 4");
  ExpectProblem(cut.substr(0, cut.size() - 1), "line 2 says 4 operands, but the file has 2");
  ExpectProblem(counts("9223372036854775807 9223372036854775807"), "9223372036854775807 oper");
  ExpectProblem(counts("-3 2"), "two integers of at least 0");
  ExpectProblem(counts("3"), "two integers");
  ExpectProblem(counts("3 2 1"), "two integers");
  ExpectProblem(counts("3 99999999999999999999"), "two integers");
  ExpectProblem("7767517\n", "two integers");
}

TEST(Param, NoticesACutInTheLastWord) {
  // "pnnx.Output out 1 0 10" cut by one byte would silently return another operand.
  const std::string text =
      "7767517\n3 2\npnnx.Input in 0 1 1\nnn.ReLU r 1 1 1 10\npnnx.Output out 1 0 10";
  EXPECT_NO_THROW(Parse(text));
  ExpectProblem(text.substr(0, text.size() - 1), "operand '10' is used nowhere: is the file cut");
}

TEST(Param, ReportsAllProblemsWithTheirLines) {
  const auto problems = ProblemsOf(
      "7767517\n5 1\n"
      "pnnx.Input in 0 1 0\n"
      "nn.ReLU a 1 1 0 1 @w=(1)f99 #0=(x)f32\n"
      "nn.ReLU b 1 1 0 1\n"
      "nn.ReLU b 1 1 5 2 k=1 k=2\n"
      "pnnx.Output out 1 0 2\n");
  ASSERT_EQ(problems.size(), 7u);
  EXPECT_EQ(problems[0].line, 4);
  EXPECT_EQ(problems[0].operator_name, "a");
  EXPECT_EQ(problems[0].operator_type, "nn.ReLU");
  EXPECT_NE(problems[0].message.find("operator 'a' (nn.ReLU, line 4)"), std::string::npos);
  EXPECT_EQ(problems[1].line, 4);  // the hint
  EXPECT_EQ(problems[2].line, 6);  // the parameter
  EXPECT_EQ(problems[3].line, 2);  // the count of operands
  EXPECT_EQ(problems[4].line, 5);  // operand 1 produced twice
  EXPECT_EQ(problems[5].line, 6);  // the name b
  EXPECT_EQ(problems[6].line, 6);  // operand 5 undeclared
}

TEST(Param, ListsAHundredProblems) {
  std::string text = "7767517\n302 0\npnnx.Input in 0 1 0\n";
  for (int i = 0; i < 300; ++i) text += "nn.ReLU r" + std::to_string(i) + " 1 0 0 @w=(1)f99\n";
  const auto problems = ProblemsOf(text + "pnnx.Output out 1 0 0\n");
  ASSERT_EQ(problems.size(), 101u);
  EXPECT_EQ(problems[100].message, "and 201 more");  // with the wrong count of operands
}

TEST(Param, DoesNotEchoLinesThatCouldNotBeRead) {
  // Operand 1 would be produced by the line that is broken: one problem, not two.
  EXPECT_EQ(ProblemsOf(With("nn.ReLU r x 1 0 1")).size(), 1u);
}

TEST(Param, RecognisesOtherFiles) {
  ExpectProblem("7767518\n0 0\n", "expected the magic number 7767517 of a .param, got '7767518'");
  ExpectProblem("hello", "got 'hello'");
  ExpectProblem(" \n", "got nothing");
  ExpectProblem("7767517\n2 2\nInput data 0 1 data 0=3\nConvolution c 1 1 data out 0=8\n",
                "this is ncnn's own .param (its first layer is of type 'Input')");
  ExpectProblem(std::string("7767517\n0 0\n\0", 13), "byte 12 is zero");
  EXPECT_NO_THROW(Parse("7767517\n0 0\n"));
  // A graph from ONNX may hold bare types beside pnnx's own.
  EXPECT_NO_THROW(Parse(With("Relu r 1 1 0 1")));
}

}  // namespace
}  // namespace oort
