// SPDX-License-Identifier: MIT
// Numbers from tensors and lists, and comparisons of whole tensors. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/aten/aten_values.h"

namespace oort::testing {
namespace {

double NumberOf(const char* type, const std::vector<Tensor>& tensors,
                const std::vector<std::string>& constants = {}) {
  Session session = AtenSession(type, tensors.size(), constants);
  return session.Run({tensors.begin(), tensors.end()})[0].AsFloat();
}

TEST(Scalars, BoolIsWhetherTheOnlyElementIsNotZero) {
  EXPECT_EQ(NumberOf("aten::Bool", {F({0.5}, {1})}), 1);
  EXPECT_EQ(NumberOf("aten::Bool", {F({0}, {})}), 0);
  EXPECT_EQ(NumberOf("aten::Bool", {F({NAN}, {})}), 1);
  EXPECT_EQ(NumberOf("aten::Bool", {I({-3}, {1, 1})}), 1);
  EXPECT_THROW(NumberOf("aten::Bool", {F({1, 2}, {2})}), Error);
}

TEST(Scalars, LenIsTheFirstExtent) {
  EXPECT_EQ(NumberOf("aten::len", {Tensor(DType::kF32, {3, 2})}), 3);
  EXPECT_EQ(NumberOf("aten::len", {Tensor(DType::kF32, {0, 2})}), 0);
  EXPECT_EQ(NumberOf("aten::len", {}, {"[4,5]"}), 2);
  EXPECT_THROW(NumberOf("aten::len", {F({1}, {})}), Error);
}

TEST(Scalars, ItemsCountFromBothEnds) {
  EXPECT_EQ(NumberOf("aten::__getitem__", {}, {"[4,5,6]", "1"}), 5);
  EXPECT_EQ(NumberOf("aten::__getitem__", {}, {"[4,5,6]", "-1"}), 6);
  EXPECT_THROW(NumberOf("aten::__getitem__", {}, {"[4,5,6]", "3"}), Error);
  EXPECT_THROW(NumberOf("aten::__getitem__", {}, {"[4,5,6]", "-4"}), Error);
}

TEST(Scalars, EqualComparesShapesAndElements) {
  const Tensor x = F({1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(NumberOf("aten::equal", {x, x.Clone()}), 1);
  EXPECT_EQ(NumberOf("aten::equal", {x, F({1, 2, 3, 5}, {2, 2})}), 0);
  EXPECT_EQ(NumberOf("aten::equal", {x, F({1, 2, 3, 4}, {4})}), 0);
  EXPECT_EQ(NumberOf("aten::equal", {F({NAN}, {1}), F({NAN}, {1})}), 0);
  EXPECT_EQ(NumberOf("aten::equal", {F({}, {0}), F({}, {0})}), 1);
}

TEST(Scalars, AllcloseAllowsForATolerance) {
  const Tensor x = F({1, -100, 0}, {3});
  const auto close = [&](const Tensor& y, const char* rtol, const char* atol, const char* nan) {
    return NumberOf("aten::allclose", {x, y}, {rtol, atol, nan});
  };
  EXPECT_EQ(close(F({1.05, -100, 0}, {3}), "0.1", "0.0", "False"), 1);
  EXPECT_EQ(close(F({1.05, -100, 0}, {3}), "0.01", "0.01", "False"), 0);
  EXPECT_EQ(close(F({1, -100, 1e-9}, {3}), "1e-05", "1e-08", "False"), 1);
  EXPECT_EQ(close(F({1, -100, 1e-7}, {3}), "1e-05", "1e-08", "False"), 0);
  const Tensor odd = F({INFINITY, NAN}, {2});
  EXPECT_EQ(NumberOf("aten::allclose", {odd, odd}, {"1e-05", "1e-08", "False"}), 0);
  EXPECT_EQ(NumberOf("aten::allclose", {odd, odd}, {"1e-05", "1e-08", "True"}), 1);
}

TEST(Scalars, NextafterIsTheNeighbour) {
  Check("aten::nextafter", {F({1, 1, 0, 2, NAN}, {5}), F({2, 0, -1, 2, 1}, {5})},
        {F({1.00000012f, 0.99999994f, -1.4e-45f, 2, NAN}, {5})});
  OperatorCase("torch.nextafter")
      .Input(D({1, 0}, {2}))
      .Input(D({INFINITY, 1}, {2}))
      .ExpectOutputs({D({std::nextafter(1.0, 2.0), 4.9406564584124654e-324}, {2})}, {0, 0});
}

TEST(Scalars, BilinearIsAProductForEachWeight) {
  const Tensor a = F({1, 2, 3, 4}, {2, 2}), b = F({1, 0, -1, 1, 2, 1}, {2, 3});
  const Tensor weight = RangeTensor(DType::kF32, {2, 2, 3});
  Check("aten::bilinear", {a, b, weight, Value()}, {F({-6, -6, 76, 244}, {2, 2})});
  Check("aten::bilinear", {a, b, weight, F({0.5, -1}, {2})}, {F({-5.5, -7, 76.5, 243}, {2, 2})});
  OperatorCase("F.bilinear")
      .Input(a)
      .Input(F({1, 2, 3}, {1, 3}))
      .Input(weight)
      .ExpectError(ErrorCode::kInvalidArgument, "as many rows");
}

}  // namespace
}  // namespace oort::testing
