// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "product_reference.h"

namespace oort::testing {
namespace {

void Check(const char* type, const char* b_name, Shape a, Shape b, Shape output, int64_t m,
           int64_t n, int64_t k) {
  SCOPED_TRACE(std::string(type) + " " + a.ToString() + " " + b.ToString());
  const Tensor x = RandomTensor(DType::kF32, a, 1), y = RandomTensor(DType::kF32, b, 2);
  const auto reference = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{ProductReference(in[0], in[1], output, m, n, k)};
  };
  OperatorCase(type).Input(x, "input").Input(y, b_name).ExpectLike(reference, {1e-4, -1});
  OperatorCase(type).Input(x, "input").Constant(y, b_name).ExpectLike(reference, {1e-4, -1});
}

TEST(Matmul, TakesEveryRank) {
  const auto check = [](Shape a, Shape b, Shape output, int64_t m, int64_t n, int64_t k) {
    Check("torch.matmul", "other", a, b, output, m, n, k);
  };
  check({5}, {5}, {}, 1, 1, 5);
  check({5}, {5, 3}, {3}, 1, 3, 5);
  check({4, 5}, {5}, {4}, 4, 1, 5);
  check({4, 5}, {5, 3}, {4, 3}, 4, 3, 5);
  check({2, 4, 5}, {5, 3}, {2, 4, 3}, 4, 3, 5);
  check({2, 4, 5}, {5}, {2, 4}, 4, 1, 5);
  check({5}, {2, 5, 3}, {2, 3}, 1, 3, 5);
  check({4, 5}, {2, 5, 3}, {2, 4, 3}, 4, 3, 5);
  check({2, 4, 5}, {2, 5, 3}, {2, 4, 3}, 4, 3, 5);
  check({2, 3, 4, 5}, {3, 5, 6}, {2, 3, 4, 6}, 4, 6, 5);
  check({3, 50, 64}, {3, 64, 50}, {3, 50, 50}, 50, 50, 64);
  check({130, 70}, {70, 90}, {130, 90}, 130, 90, 70);
}

TEST(Matmul, BroadcastsBothStacks) {
  // (2,1,2,2) by (3,2,1): each of the three columns times each of the two matrices.
  const Tensor a = Tensor::From<float>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 1, 2, 2});
  const Tensor b = Tensor::From<float>({1, 1, 1, 0, 0, 1}, {3, 2, 1});
  const Tensor expected = Tensor::From<float>({3, 7, 1, 3, 2, 4, 11, 15, 5, 7, 6, 8}, {2, 3, 2, 1});
  OperatorCase("torch.matmul").Input(a, "input").Input(b, "other").ExpectOutputs({expected});
}

TEST(Matmul, TakesEmptyOperands) {
  const auto check = [](Shape a, Shape b, Shape output, int64_t m, int64_t n, int64_t k) {
    Check("torch.matmul", "other", a, b, output, m, n, k);
  };
  check({0, 5}, {5, 3}, {0, 3}, 0, 3, 5);
  check({4, 5}, {5, 0}, {4, 0}, 4, 0, 5);
  check({4, 0}, {0, 3}, {4, 3}, 4, 3, 0);
  check({0, 4, 5}, {5, 3}, {0, 4, 3}, 4, 3, 5);
  check({0, 4, 5}, {0, 5, 3}, {0, 4, 3}, 4, 3, 5);
}

TEST(Matmul, HasItsNarrowForms) {
  Check("torch.mm", "mat2", {4, 5}, {5, 3}, {4, 3}, 4, 3, 5);
  Check("torch.bmm", "mat2", {2, 4, 5}, {2, 5, 3}, {2, 4, 3}, 4, 3, 5);
  Check("torch.mv", "vec", {40, 50}, {50}, {40}, 40, 1, 50);
}

TEST(Matmul, MultipliesIntegersWithWrapping) {
  OperatorCase("torch.matmul")
      .Input(Tensor::From<int64_t>({1, 2, 3, 4}, {2, 2}), "input")
      .Input(Tensor::From<int64_t>({5, 6, 7, 8}, {2, 2}), "other")
      .ExpectOutputs({Tensor::From<int64_t>({19, 22, 43, 50}, {2, 2})});
  OperatorCase("torch.matmul")
      .Input(Tensor::From<int8_t>({100, 100}, {2}), "input")
      .Input(Tensor::From<int8_t>({2, 2}, {2}), "other")
      .ExpectOutputs({Tensor::From<int8_t>({-112}, {})});
  OperatorCase("torch.matmul")
      .Input(Tensor::From<int32_t>({INT32_MAX, INT32_MIN}, {2}), "input")
      .Input(Tensor::From<int32_t>({INT32_MAX, INT32_MAX}, {2}), "other")
      .ExpectOutputs({Tensor::From<int32_t>({INT32_MIN + 1}, {})});
}

TEST(Matmul, RefusesWhatDoesNotFit) {
  const auto matmul = [](const char* type, const char* name, Shape a, Shape b) {
    return OperatorCase(type)
        .Input(RandomTensor(DType::kF32, a), "input")
        .Input(RandomTensor(DType::kF32, b), name);
  };
  matmul("torch.matmul", "other", {3, 4}, {5, 4})
      .ExpectError(ErrorCode::kInvalidArgument, "cannot multiply (3,4) by (5,4)");
  matmul("torch.matmul", "other", {}, {4}).ExpectError(ErrorCode::kInvalidArgument, "one axis");
  matmul("torch.matmul", "other", {2, 3, 4}, {3, 4, 5})
      .ExpectError(ErrorCode::kInvalidArgument, "");
  matmul("torch.mm", "mat2", {2, 3, 4}, {4, 5}).ExpectError(ErrorCode::kInvalidArgument, "rank 2");
  matmul("torch.mv", "vec", {3, 4}, {4, 1}).ExpectError(ErrorCode::kInvalidArgument, "rank 1");
  matmul("torch.bmm", "mat2", {1, 3, 4}, {2, 4, 5})
      .ExpectError(ErrorCode::kInvalidArgument, "one size");
  OperatorCase("torch.matmul")
      .Input(RandomTensor(DType::kF32, {3, 4}), "input")
      .Input(RandomTensor(DType::kF64, {4, 3}), "other")
      .ExpectError(ErrorCode::kInvalidArgument, "one dtype");
  OperatorCase("torch.matmul")
      .Input(RandomTensor(DType::kBool, {3, 4}), "input")
      .Input(RandomTensor(DType::kBool, {4, 3}), "other")
      .ExpectError(ErrorCode::kInvalidArgument, "bool");
}

}  // namespace
}  // namespace oort::testing
