// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "aten_form.h"

namespace oort::testing {
namespace {

Tensor Row(std::initializer_list<float> values) {
  return Tensor::From<float>(values, {static_cast<int64_t>(values.size())});
}

TEST(AtenNumeric, IntegratesByTrapezoids) {
  const Tensor y = Tensor::From<float>({1, 2, 4, 0, 3, 5}, {2, 3});
  ExpectNear(RunAten("aten::trapezoid", {y}, {"0.5", "1"})[0], Row({2.25f, 2.75f}));
  ExpectNear(RunAten("aten::cumulative_trapezoid", {y}, {"1.0", "0"})[0],
             Tensor::From<float>({0.5f, 2.5f, 4.5f}, {1, 3}));
  const Tensor x = Row({0, 1, 4});
  ExpectNear(RunAten("aten::trapezoid", {y, x}, {"-1"})[0], Row({1.5f + 9, 1.5f + 12}));
  EXPECT_THROW(RunAten("aten::trapezoid", {y, Row({0, 1})}, {"-1"}), Error);
}

TEST(AtenNumeric, TakesCentralDifferences) {
  const Tensor x = Row({1, 4, 9, 16});
  ExpectNear(RunAten("aten::gradient", {x}, {"2.0", "[0]", "1"})[0], Row({1.5f, 2, 3, 3.5f}));
  EXPECT_THROW(RunAten("aten::gradient", {x}, {"1.0", "[0]", "2"}), Error);
  EXPECT_THROW(RunAten("aten::gradient", {Row({1})}, {"1.0", "[0]", "1"}), Error);
}

TEST(AtenNumeric, FindsCovariancesAndCorrelations) {
  const Tensor x = Tensor::From<float>({1, 2, 3, 2, 4, 9}, {2, 3});
  ExpectNear(RunAten("aten::cov", {x}, {"1", "None", "None"})[0],
             Tensor::From<float>({1, 3.5f, 3.5f, 13}, {2, 2}));
  const float r = 3.5f / std::sqrt(13.0f);
  ExpectNear(RunAten("aten::corrcoef", {x}, {})[0], Tensor::From<float>({1, r, r, 1}, {2, 2}));
  // A column that counts twice is the same as one that stands there twice.
  const Tensor twice = Tensor::From<float>({1, 2, 3, 3, 2, 4, 9, 9}, {2, 4});
  const Tensor counts = Tensor::From<int64_t>({1, 1, 2}, {3});
  OperatorCase("torch.cov")
      .Input(x, "input")
      .Input(counts, "fweights")
      .ExpectOutputs({RunAten("aten::cov", {twice}, {"1", "None", "None"})[0]});
}

TEST(AtenNumeric, MultipliesVectorsAndBytes) {
  using C = std::complex<float>;
  const Tensor a = Tensor::From<C>({{1, 2}, {0, 1}}, {2}),
               b = Tensor::From<C>({{3, 0}, {1, 1}}, {2});
  ExpectNear(RunAten("aten::vdot", {a, b}, {})[0], Tensor::Scalar(C(4, -7)));
  ExpectNear(RunAten("aten::linalg_vecdot", {a, b}, {"-1"})[0], Tensor::Scalar(C(4, -7)));
  ExpectNear(RunAten("aten::dist", {Row({3, 1}), Row({0, 5})}, {"2"})[0], Tensor::Scalar(5.0f));
  ExpectNear(RunAten("aten::_int_mm",
                     {Tensor::From<int8_t>({-128, 127}, {1, 2}),
                      Tensor::From<int8_t>({-128, 1, 127, 1}, {2, 2})},
                     {})[0],
             Tensor::From<int32_t>({128 * 128 + 127 * 127, -1}, {1, 2}));
}

TEST(AtenNumeric, RaisesToPowers) {
  const Tensor x = Row({2, 3});
  ExpectNear(RunAten("aten::vander", {x}, {"3", "False"})[0],
             Tensor::From<float>({4, 2, 1, 9, 3, 1}, {2, 3}));
  ExpectNear(RunAten("aten::linalg_vander", {x}, {"3"})[0],
             Tensor::From<float>({1, 2, 4, 1, 3, 9}, {2, 3}));
  EXPECT_THROW(RunAten("aten::vander", {x}, {"-1", "False"}), Error);
}

TEST(AtenNumeric, TakesFloatsApart) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<Tensor> parts = RunAten("aten::frexp", {Row({0, 1, -6, 0.375f, inf})}, {}, 2);
  ExpectNear(parts[0], Row({0, 0.5f, -0.75f, 0.75f, inf}));
  ExpectNear(parts[1], Tensor::From<int32_t>({0, 1, 3, -1, 0}, {5}));
}

TEST(AtenNumeric, QuantizesChannelsAndBack) {
  const Tensor x = Tensor::From<float>({0.26f, -9, 0.26f, 9}, {2, 2});
  ExpectNear(
      RunAten("aten::fake_quantize_per_channel_affine",
              {x, Row({0.5f, 0.1f}), Tensor::From<int32_t>({0, 10}, {2})}, {"0", "-4", "15"})[0],
      Tensor::From<float>({0.5f, -2, 0.3f, 0.5f}, {2, 2}));
}

}  // namespace
}  // namespace oort::testing
