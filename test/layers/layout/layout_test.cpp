// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/layout/axes.h"
#include "layers/shape/moved_elements.h"

namespace oort::testing {
namespace {

TEST(ChannelsLastAxes, FollowTheRank) {
  const auto all = [](int rank) {
    std::vector<int> axes;
    for (int i = 0; i < rank; ++i) axes.push_back(ChannelsLastAxis(i, rank));
    return axes;
  };
  EXPECT_EQ(all(2), (std::vector<int>{0, 1}));
  EXPECT_EQ(all(3), (std::vector<int>{2, 0, 1}));
  EXPECT_EQ(all(4), (std::vector<int>{0, 3, 1, 2}));
  EXPECT_EQ(all(5), (std::vector<int>{0, 1, 4, 2, 3}));
  EXPECT_EQ(ChannelsLastAxis(-1, 4), 2);
  EXPECT_EQ(ChannelsLastAxis(-3, 4), 3);
  EXPECT_THROW(ChannelsLastAxis(4, 4), Error);
  EXPECT_EQ(ToChannelsLast({2, 3, 4, 5}), (Shape{2, 4, 5, 3}));
  EXPECT_EQ(ToChannelsLast({7}), (Shape{1, 7, 1}));
  EXPECT_EQ(ToChannelsFirst({2, 4, 5, 3}), (Shape{2, 3, 4, 5}));
  EXPECT_EQ(ToChannelsFirst({4, 5}), (Shape{4, 5}));
}

TEST(ChannelsLastLayout, MovesChannelsThereAndBack) {
  for (DType dtype : MovedDTypes()) {
    for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{2, 3, 131, 127}, Shape{1, 4, 7, 9},
                               Shape{1, 17, 5, 7}, Shape{16, 3, 33}, Shape{2, 1, 4, 3},
                               Shape{3, 70, 1, 1}, Shape{2, 2, 3, 2, 2}, Shape{0, 3, 2, 2}}) {
      const Tensor x = RandomTensor(dtype, shape);
      const Tensor y = Moved(x, ToChannelsLast(shape), [&](const Coordinates& at) {
        Coordinates from = at;
        for (int i = 0; i < shape.rank(); ++i) {
          from[static_cast<size_t>(i)] = at[static_cast<size_t>(ChannelsLastAxis(i, shape.rank()))];
        }
        return from;
      });
      OperatorCase("channels_last.enter").Input(x).ExpectOutputs({y});
      OperatorCase("channels_last.leave").Input(y).ExpectOutputs({x});
    }
  }
}

TEST(ChannelsLastLayout, TakesLowRanks) {
  const Tensor x = RandomTensor(DType::kF32, {6});
  OperatorCase("channels_last.enter").Input(x).ExpectOutputs({x.Reshaped({1, 6, 1})});
  const Tensor matrix = RandomTensor(DType::kF32, {2, 3});
  OperatorCase("channels_last.enter").Input(matrix).ExpectOutputs({matrix.Reshaped({2, 3, 1})});
  OperatorCase("channels_last.leave").Input(matrix).ExpectOutputs({matrix});
}

}  // namespace
}  // namespace oort::testing
