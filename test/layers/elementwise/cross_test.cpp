// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "oort/testing.h"

namespace oort::testing {
namespace {

/// a and b of shape (outer, 3, inner).
Tensor Reference(const Tensor& a, const Tensor& b) {
  Tensor c(DType::kF64, a.shape());
  const int64_t inner = a.dim(2);
  for (int64_t i = 0; i < a.dim(0); ++i) {
    for (int64_t j = 0; j < inner; ++j) {
      const auto at = [&](const Tensor& t, int64_t k) {
        return t.data<double>()[(i * 3 + k % 3) * inner + j];
      };
      for (int64_t k = 0; k < 3; ++k) {
        c.data<double>()[(i * 3 + k) * inner + j] =
            at(a, k + 1) * at(b, k + 2) - at(a, k + 2) * at(b, k + 1);
      }
    }
  }
  return c;
}

void CheckCross(const char* type, const char* dim, Shape shape, Shape as) {
  OperatorCase test(type);
  if (*dim != 0) test.Param("dim", dim);
  test.Input(RandomTensor(DType::kF32, shape, 1), "input")
      .Input(RandomTensor(DType::kF32, shape, 2), "other")
      .ExpectLike(
          [&](const std::vector<Tensor>& inputs) {
            const Tensor c = Reference(inputs[0].Reshaped(as), inputs[1].Reshaped(as));
            return std::vector<Tensor>{c.Reshaped(shape)};
          },
          {1e-2, 1e-2});
}

TEST(Cross, MatchesItsFormula) {
  CheckCross("torch.cross", "", {2, 3, 4}, {2, 3, 4});
  CheckCross("torch.cross", "None", {3, 3, 5}, {1, 3, 15});
  CheckCross("torch.cross", "1", {3, 3, 5}, {3, 3, 5});
  CheckCross("torch.cross", "-1", {3, 3}, {3, 3, 1});
  CheckCross("aten::linalg_cross", "", {3, 4, 3}, {12, 3, 1});
  CheckCross("torch.cross", "0", {3}, {1, 3, 1});
  CheckCross("torch.cross", "1", {0, 3, 5}, {0, 3, 5});
}

TEST(Cross, IsExact) {
  OperatorCase("torch.cross")
      .Param("dim", "0")
      .Input(Tensor::From<int64_t>({1, 2, 3}, {3}))
      .Input(Tensor::From<int64_t>({4, 5, -6}, {3}))
      .ExpectOutputs({Tensor::From<int64_t>({-27, 18, -3}, {3})});
  OperatorCase("torch.cross")
      .Param("dim", "0")
      .Input(Tensor::From<uint8_t>({0, 16, 0}, {3}))
      .Input(Tensor::From<uint8_t>({17, 0, 0}, {3}))
      .ExpectOutputs({Tensor::From<uint8_t>({0, 0, 240}, {3})});
}

TEST(Cross, Broadcasts) {
  const Tensor a = Tensor::From<float>({1, 0, 0}, {1, 3});
  const Tensor b = Tensor::From<float>({0, 1, 0, 0, 0, 2}, {2, 3});
  OperatorCase("torch.cross")
      .Param("dim", "1")
      .Input(a)
      .Input(b)
      .ExpectOutputs({Tensor::From<float>({0, 0, 1, 0, -2, 0}, {2, 3})});
}

TEST(Cross, RefusesWhatDoesNotFit) {
  const auto cross = [](Shape a, Shape b) {
    return OperatorCase("torch.cross")
        .Input(RandomTensor(DType::kF32, a))
        .Input(RandomTensor(DType::kF32, b));
  };
  cross({2, 4}, {2, 4}).ExpectError(ErrorCode::kInvalidArgument, "3 elements, got (2,4)f32");
  cross({3, 4}, {4, 4}).ExpectError(ErrorCode::kInvalidArgument, "3 elements");
  cross({3, 4}, {3}).ExpectError(ErrorCode::kInvalidArgument, "one rank");
  cross({3, 4}, {3, 5}).ExpectError(ErrorCode::kInvalidArgument, "broadcast");
  cross({}, {}).ExpectError(ErrorCode::kInvalidArgument, "3 elements");
  cross({3, 4}, {3, 4}).Param("dim", "2").ExpectError(ErrorCode::kInvalidArgument, "2");
}

}  // namespace
}  // namespace oort::testing
