// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "oort/testing.h"

namespace oort {
namespace {

using testing::OperatorCase;
using testing::RandomTensor;

TEST(Argmax, PicksTheLowestOfTheLargest) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<std::vector<float>, int32_t>> rows = {
      {{1, 3, 3, -2, 3}, 1},          {{kNan, -5, kNan, -4, kNan}, 3},
      {{-0.0f, 0.0f, -1, -1, -1}, 0}, {{-kInf, -kInf, -1e30f, kNan, -kInf}, 2},
      {{-kInf, kInf, 0, kInf, 0}, 1}, {{kNan, -kInf, kNan, -kInf, kNan}, -1},
      {{-7, -6, -5, -4, -3}, 4}};
  std::vector<float> x;
  std::vector<int32_t> want;
  for (const auto& [row, best] : rows) {
    x.insert(x.end(), row.begin(), row.end());
    want.push_back(best);
  }
  const auto count = static_cast<int64_t>(rows.size());
  OperatorCase("oort.Argmax")
      .Input(Tensor::From<float>(x, {count, 5}))
      .ExpectOutputs({Tensor::From<int32_t>(want, {count})});
}

TEST(Argmax, TakesRowsOfAnyLengthAndNumber) {
  for (const int64_t length : {1, 7, 64, 1000, 2048, 2049, 5000}) {
    const Tensor x = RandomTensor(DType::kF32, {2, 3, length}, static_cast<uint64_t>(length));
    Tensor want(DType::kI32, {2, 3});
    for (int64_t row = 0; row < 6; ++row) {
      const float* begin = x.data<float>() + row * length;
      want.data<int32_t>()[row] =
          static_cast<int32_t>(std::max_element(begin, begin + length) - begin);
    }
    OperatorCase("oort.Argmax").Input(x).ExpectOutputs({want});
  }
  OperatorCase("oort.Argmax")
      .Input(Tensor(DType::kF32, {0, 5}))
      .ExpectOutputs({Tensor(DType::kI32, {0})});
  OperatorCase("oort.Argmax")
      .Input(Tensor(DType::kF32, {2, 0}))
      .ExpectOutputs({Tensor::From<int32_t>({-1, -1}, {2})});
  OperatorCase("oort.Argmax")
      .Input(Tensor(DType::kF32, Shape{}))
      .ExpectError(ErrorCode::kInvalidArgument, "rows");
}

}  // namespace
}  // namespace oort
