// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "oort/graph.h"

namespace oort {
namespace {

Value Typed(const std::string& text) { return Parameter(text).value(); }

TEST(Parameter, None) { EXPECT_TRUE(Typed("None").IsNone()); }

TEST(Parameter, Bool) {
  EXPECT_TRUE(Typed("True").IsBool() && Typed("True").AsBool());
  EXPECT_TRUE(Typed("False").IsBool() && !Typed("False").AsBool());
  EXPECT_TRUE(Typed("1").AsBool());  // as old files have it
}

TEST(Parameter, Int) {
  EXPECT_TRUE(Typed("0").IsInt());
  EXPECT_EQ(Typed("-2147483648").AsInt(), -2147483648LL);
  EXPECT_EQ(Typed("9223372036854775807").AsInt(), INT64_MAX);
  EXPECT_TRUE(Typed("9223372036854775808").IsFloat());
}

TEST(Parameter, Float) {
  EXPECT_TRUE(Typed("1.0").IsFloat());
  EXPECT_DOUBLE_EQ(Typed("1.000000e-5").AsFloat(), 1e-5);
  EXPECT_DOUBLE_EQ(Typed("7.21687824e-2").AsFloat(), 7.21687824e-2);
  EXPECT_DOUBLE_EQ(Typed("1e5").AsFloat(), 1e5);
  EXPECT_EQ(Typed("inf").AsFloat(), INFINITY);
  EXPECT_EQ(Typed("-inf").AsFloat(), -INFINITY);
  EXPECT_TRUE(std::isnan(Typed("nan").AsFloat()));
  EXPECT_TRUE(std::isnan(Typed("nan.0").AsFloat()));
  EXPECT_DOUBLE_EQ(Typed("3").AsFloat(), 3);  // an int serves as a float
}

TEST(Parameter, Complex) {
  EXPECT_EQ(Typed("1.0e+00+-2.0e+00j").AsComplex(), std::complex<double>(1, -2));
  EXPECT_EQ(Typed("1.200000e+00-9.000000e-01j").AsComplex(), std::complex<double>(1.2, -0.9));
  const Value list = Typed("(0.0+4.0j,1.0e-01+0.0j)");
  EXPECT_EQ(list.AsList().at(1).AsComplex(), std::complex<double>(0.1, 0));
}

TEST(Parameter, Lists) {
  EXPECT_EQ(Typed("(7)").AsInts(), std::vector<int64_t>{7});
  EXPECT_EQ(Typed("(1,-2,3)").AsInts(), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(Typed("[4,5]").AsInts(), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(Typed("(2.0,0.5)").AsFloats(), (std::vector<double>{2.0, 0.5}));
  EXPECT_EQ(Typed("6").AsInts(), std::vector<int64_t>{6});  // a scalar serves as a list of one
  EXPECT_TRUE(Typed("()").IsList() && Typed("()").AsList().empty());
  EXPECT_TRUE(Typed("[]").IsList() && Typed("[]").AsList().empty());
  EXPECT_EQ(Typed("(same,zeros)").AsList().at(1).AsString(), "zeros");
  // pnnx would type the list by its last element; each element has its own kind here.
  const Value mixed = Typed("(@0,0,None,True)");
  EXPECT_EQ(mixed.AsList().at(0).AsString(), "@0");
  EXPECT_EQ(mixed.AsList().at(1).AsInt(), 0);
  EXPECT_TRUE(mixed.AsList().at(2).IsNone());
  EXPECT_TRUE(mixed.AsList().at(3).IsBool());
  const Value nested = Typed("[None,[1,0],[True,False]]");
  ASSERT_EQ(nested.AsList().size(), 3u);
  EXPECT_EQ(nested.AsList()[1].AsInts(), (std::vector<int64_t>{1, 0}));
}

TEST(Parameter, TheRestIsAString) {
  for (const char* text : {"",     "zeros", "torch.float", "ij,jk->ik", "add(@0,mul(@1,2))",
                           "(",    ")",     "(1",          "1)",        "(1]",
                           "(1,)", "(,1)",  "(1,,2)",      "((1)",      "(1))(",
                           "%5",   "e5",    ".",           "-",         "+",
                           "j",    "1.2.3", "0x10",        "infinity",  "nan(1)",
                           "ij",   "-e",    "1e",          "--1"}) {
    const Value value = Typed(text);
    ASSERT_TRUE(value.IsString()) << text << " is " << value.KindName();
    EXPECT_EQ(value.AsString(), text);
  }
}

TEST(Parameter, DeepNestingIsAStringAndCostsNothing) {
  const std::string deep = std::string(100000, '(') + "1" + std::string(100000, ')');
  EXPECT_TRUE(Typed(deep).IsString());
  EXPECT_TRUE(Typed(std::string(100000, '[')).IsString());
  EXPECT_TRUE(Typed("[[[[1]]]]").IsList());
}

TEST(Parameter, KeepsTheText) {
  EXPECT_EQ(Parameter("1.000000e-5").text(), "1.000000e-5");
  EXPECT_EQ(Parameter::FromValue(Value::Ints(std::vector<int64_t>{1, 2})).text(), "(1,2)");
  EXPECT_EQ(Parameter::FromValue(Value(0.5)).text(), "0.5");
  EXPECT_EQ(Parameter::FromValue(Value()).text(), "None");
}

}  // namespace
}  // namespace oort
