// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "moved_elements.h"

namespace oort::testing {
namespace {

const Coordinates kZero = {-1};

TEST(Diag, PutsAVectorOnADiagonal) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {3});
    for (int64_t k : {-2, -1, 0, 1, 3}) {
      const int64_t size = 3 + std::abs(k);
      OperatorCase("torch.diag")
          .Param("diagonal", std::to_string(k))
          .Input(x)
          .ExpectOutputs({Moved(x, {size, size}, [&](const Coordinates& at) {
            return at[1] - at[0] == k ? Coordinates{std::min(at[0], at[1])} : kZero;
          })});
    }
  }
}

TEST(Diag, TakesTheDiagonalOfAMatrix) {
  const Tensor x = RandomTensor(DType::kF32, {3, 5});
  const std::pair<int64_t, int64_t> lengths[] = {{0, 3}, {2, 3},  {4, 1}, {5, 0},
                                                 {9, 0}, {-1, 2}, {-3, 0}};
  for (const auto& [k, length] : lengths) {
    const int64_t diagonal = k;
    OperatorCase("torch.diag")
        .Param("diagonal", std::to_string(k))
        .Input(x)
        .ExpectOutputs({Moved(x, {length}, [&](const Coordinates& at) {
          return diagonal >= 0 ? Coordinates{at[0], at[0] + diagonal}
                               : Coordinates{at[0] - diagonal, at[0]};
        })});
  }
}

TEST(Diag, RefusesOtherRanksAndAbsurdSizes) {
  OperatorCase("torch.diag")
      .Input(RandomTensor(DType::kF32, {2, 2, 2}))
      .ExpectError(ErrorCode::kInvalidArgument, "expected a vector or a matrix");
  OperatorCase("torch.diag")
      .Input(RandomTensor(DType::kF32, {}))
      .ExpectError(ErrorCode::kInvalidArgument, "expected a vector or a matrix");
  OperatorCase("torch.diag")
      .Input(RandomTensor(DType::kF32, {2}), "input")
      .Input(INT64_MAX, "diagonal")
      .ExpectError(ErrorCode::kInvalidArgument, "overflows");
  OperatorCase("torch.diag")
      .Input(RandomTensor(DType::kF32, {2}), "input")
      .Input(INT64_MIN, "diagonal")
      .ExpectError(ErrorCode::kInvalidArgument, "overflows");
}

}  // namespace
}  // namespace oort::testing
