// SPDX-License-Identifier: MIT
// The dtype of every function of every pair of dtypes, against the table that torch wrote.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "kit/paths.h"
#include "layers/expression/engine.h"

namespace oort::expression {
namespace {

constexpr std::string_view kLetters = "bucsilhyfdCD";
constexpr DType kDTypes[] = {DType::kBool, DType::kU8,  DType::kI8,  DType::kI16,
                             DType::kI32,  DType::kI64, DType::kF16, DType::kBF16,
                             DType::kF32,  DType::kF64, DType::kC64, DType::kC128};

char Letter(DType dtype) {
  for (size_t i = 0; i < kLetters.size(); ++i) {
    if (kDTypes[i] == dtype) return kLetters[i];
  }
  return '?';
}

/// The letter of the result, or '-' if the expression is refused.
char ResultLetter(const std::string& text, std::span<const Value* const> operands) {
  try {
    return Letter(Engine(Parse(text), Isa::kScalar).Infer(operands).AsTensor().dtype());
  } catch (const Error&) {
    return '-';
  }
}

bool IsTensorOf(const Value& value, DTypeSet dtypes) {
  return value.IsTensor() && dtypes.Contains(value.AsTensor().dtype());
}

/// Where Oort computes what torch refuses: a bool minus something, halves with complex numbers.
bool MayDiffer(const std::string& name, char torch, std::span<const Value* const> operands) {
  bool half = false, complex = false, boolean = false;
  for (const Value* operand : operands) {
    half |= IsTensorOf(*operand, DType::kF16 | DType::kBF16);
    complex |= IsTensorOf(*operand, kComplexes) || operand->IsComplex();
    boolean |= IsTensorOf(*operand, DType::kBool) || operand->IsBool();
  }
  if (half && complex) return torch == '-' || torch == 'x';
  const bool widened = name == "sub" || name == "softsign" || name == "tanhshrink";
  return torch == '-' && boolean && widened;
}

std::string DescribeAll(std::span<const Value* const> operands) {
  std::string text;
  for (const Value* operand : operands) text += " " + operand->KindName();
  return text;
}

std::vector<Value> Kinds() {
  std::vector<Value> kinds;
  for (DType dtype : kDTypes) kinds.emplace_back(Tensor::Meta(dtype, {2}));
  for (DType dtype : kDTypes) kinds.emplace_back(Tensor::Meta(dtype, {}));
  kinds.emplace_back(true);
  kinds.emplace_back(1);
  kinds.emplace_back(1.5);
  kinds.emplace_back(std::complex<double>(1.5, 1));
  return kinds;
}

TEST(ExpressionPromotion, GivesTheDTypesOfTorch) {
  std::ifstream file(TestData() / "expression/promotion_table.txt");
  const std::vector<Value> kinds = Kinds();
  int unary = 0, binary = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, name, row;
    words >> kind >> name >> row;
    if (kind == "unary") {
      ASSERT_EQ(row.size(), kLetters.size());
      for (size_t i = 0; i < row.size(); ++i) {
        const Value* operand = &kinds[i];
        if (MayDiffer(name, row[i], {&operand, 1})) continue;
        EXPECT_EQ(ResultLetter(name + "(@0)", {&operand, 1}), row[i])
            << name << DescribeAll({&operand, 1});
        ++unary;
      }
    } else if (kind == "binary") {
      for (const Value& a : kinds) {
        ASSERT_TRUE(std::getline(file, row));
        ASSERT_EQ(row.size(), kinds.size());
        for (size_t i = 0; i < row.size(); ++i) {
          if (row[i] == '.') continue;
          const Value* operands[] = {&a, &kinds[i]};
          if (MayDiffer(name, row[i], operands)) continue;
          EXPECT_EQ(ResultLetter(name + "(@0,@1)", operands), row[i])
              << name << DescribeAll(operands);
          ++binary;
        }
      }
    }
  }
  EXPECT_GT(unary, 500);
  EXPECT_GT(binary, 9000);
}

TEST(ExpressionPromotion, FollowsTorchAtEveryStep) {
  const auto dtype = [](const std::string& text, std::vector<Value> values) {
    std::vector<const Value*> operands;
    for (const Value& value : values) operands.push_back(&value);
    return Letter(Engine(Parse(text), Isa::kScalar).Infer(operands).AsTensor().dtype());
  };
  const Value i64 = Tensor::Meta(DType::kI64, {2}), f16 = Tensor::Meta(DType::kF16, {2});
  const Value f64_scalar = Tensor::Meta(DType::kF64, {}), u8 = Tensor::Meta(DType::kU8, {2});
  EXPECT_EQ(dtype("add(div(@0,2),@0)", {i64}), 'f');
  EXPECT_EQ(dtype("floor_divide(@0,2)", {i64}), 'l');
  EXPECT_EQ(dtype("mul(@0,@1)", {f16, f64_scalar}), 'h');
  EXPECT_EQ(dtype("mul(@0,exp(@1))", {f16, i64}), 'f');
  EXPECT_EQ(dtype("torch.long(gt(@0,0.5))", {u8}), 'l');
  EXPECT_EQ(dtype("where(gt(@0,1),@0,2.5)", {u8}), 'f');
  EXPECT_EQ(dtype("where(gt(@0,1),@0,@1)", {u8, i64}), 'l');
  EXPECT_EQ(dtype("clamp(@0,None,1.5)", {i64}), 'f');
  EXPECT_EQ(dtype("hardtanh(@0,-1.5,1.5)", {i64}), 'l');
  EXPECT_EQ(dtype("masked_fill(@0,gt(@0,1),2.5)", {i64}), 'l');
  EXPECT_EQ(dtype("abs(complex(@0,@0))", {Tensor::Meta(DType::kF64, {2})}), 'd');
}

}  // namespace
}  // namespace oort::expression
