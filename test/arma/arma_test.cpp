// SPDX-License-Identifier: MIT
#include "oort/arma.h"

#include <gtest/gtest.h>

namespace oort {
namespace {

TEST(Arma, MatrixKeepsRowsAndColumns) {
  arma::fmat matrix(2, 3);
  for (arma::uword r = 0; r < 2; ++r) {
    for (arma::uword c = 0; c < 3; ++c) matrix(r, c) = static_cast<float>(10 * r + c);
  }
  const Tensor tensor = FromArma(matrix);
  EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
  const std::span<const float> values = tensor.span<float>();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()),
            (std::vector<float>{0, 1, 2, 10, 11, 12}));
  EXPECT_TRUE(arma::approx_equal(ToFmat(tensor), matrix, "absdiff", 0.0f));
}

TEST(Arma, CubeSlicesAreChannels) {
  arma::fcube cube(2, 3, 4);
  for (arma::uword r = 0; r < 2; ++r) {
    for (arma::uword c = 0; c < 3; ++c) {
      for (arma::uword s = 0; s < 4; ++s) cube(r, c, s) = static_cast<float>(100 * s + 10 * r + c);
    }
  }
  const Tensor tensor = FromArma(cube);
  EXPECT_EQ(tensor.shape(), (Shape{4, 2, 3}));
  for (int64_t s = 0; s < 4; ++s) {
    for (int64_t r = 0; r < 2; ++r) {
      for (int64_t c = 0; c < 3; ++c) {
        EXPECT_EQ(tensor.data<float>()[(s * 2 + r) * 3 + c],
                  static_cast<float>(100 * s + 10 * r + c));
      }
    }
  }
  EXPECT_TRUE(arma::approx_equal(ToFcube(tensor), cube, "absdiff", 0.0f));
}

TEST(Arma, VectorsAndEmptyMatrices) {
  const arma::fvec vector = {1, 2, 3};
  EXPECT_EQ(FromArma(vector).shape(), (Shape{3}));
  EXPECT_TRUE(arma::approx_equal(ToFvec(FromArma(vector)), vector, "absdiff", 0.0f));
  EXPECT_EQ(FromArma(arma::fmat(0, 3)).shape(), (Shape{0, 3}));
  EXPECT_EQ(ToFmat(Tensor(DType::kF32, {0, 3})).n_cols, 3u);
}

TEST(Arma, PicturesAreCubesOfChannels) {
  Image image{3, 2, 3, std::vector<float>(18)};
  for (size_t i = 0; i < 18; ++i) image.pixels[i] = static_cast<float>(i);
  const arma::fcube cube = ToFcube(image);
  EXPECT_EQ(cube.n_rows, 2U);
  EXPECT_EQ(cube(1, 2, 0), image.at(1, 2, 0));
  EXPECT_EQ(cube(0, 1, 2), image.at(0, 1, 2));
  EXPECT_EQ(ToImage(cube).pixels, image.pixels);
  EXPECT_EQ(ToImage(cube).width, 3);
}

TEST(Arma, RefusesWhatDoesNotFit) {
  EXPECT_THROW(ToImage(arma::fcube(2, 2, 4)), Error);
  EXPECT_THROW(ToFmat(Tensor(DType::kF32, {2, 2, 2})), Error);
  EXPECT_THROW(ToFcube(Tensor(DType::kF32, {2, 2})), Error);
  EXPECT_THROW(ToFmat(Tensor(DType::kF64, {2, 2})), Error);
}

}  // namespace
}  // namespace oort
