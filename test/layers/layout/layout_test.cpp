// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/layout/axes.h"
#include "layers/layout/nhwc_reference.h"
#include "layers/shape/moved_elements.h"

namespace oort::testing {
namespace {

TEST(NhwcAxes, FollowTheRank) {
  const auto all = [](int rank) {
    std::vector<int> axes;
    for (int i = 0; i < rank; ++i) axes.push_back(NhwcAxis(i, rank));
    return axes;
  };
  EXPECT_EQ(all(2), (std::vector<int>{0, 1}));
  EXPECT_EQ(all(3), (std::vector<int>{2, 0, 1}));
  EXPECT_EQ(all(4), (std::vector<int>{0, 3, 1, 2}));
  EXPECT_EQ(all(5), (std::vector<int>{0, 1, 4, 2, 3}));
  EXPECT_EQ(NhwcAxis(-1, 4), 2);
  EXPECT_EQ(NhwcAxis(-3, 4), 3);
  EXPECT_THROW(NhwcAxis(4, 4), Error);
  EXPECT_EQ(ToNhwc({2, 3, 4, 5}), (Shape{2, 4, 5, 3}));
  EXPECT_EQ(ToNhwc({7}), (Shape{1, 7, 1}));
  EXPECT_EQ(ToNchw({2, 4, 5, 3}), (Shape{2, 3, 4, 5}));
  EXPECT_EQ(ToNchw({4, 5}), (Shape{4, 5}));
}

TEST(NhwcLayout, MovesChannelsThereAndBack) {
  for (DType dtype : MovedDTypes()) {
    for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{2, 3, 131, 127}, Shape{1, 4, 7, 9},
                               Shape{1, 17, 5, 7}, Shape{16, 3, 33}, Shape{2, 1, 4, 3},
                               Shape{3, 70, 1, 1}, Shape{2, 2, 3, 2, 2}, Shape{0, 3, 2, 2}}) {
      const Tensor x = RandomTensor(dtype, shape);
      const Tensor y = WithNhwc(x);
      OperatorCase("nhwc.enter").Input(x).ExpectOutputs({y});
      OperatorCase("nhwc.leave").Input(y).ExpectOutputs({x});
    }
  }
}

TEST(NhwcLayout, TakesLowRanks) {
  const Tensor x = RandomTensor(DType::kF32, {6});
  OperatorCase("nhwc.enter").Input(x).ExpectOutputs({x.Reshaped({1, 6, 1})});
  const Tensor matrix = RandomTensor(DType::kF32, {2, 3});
  OperatorCase("nhwc.enter").Input(matrix).ExpectOutputs({matrix.Reshaped({2, 3, 1})});
  OperatorCase("nhwc.leave").Input(matrix).ExpectOutputs({matrix});
}

}  // namespace
}  // namespace oort::testing
