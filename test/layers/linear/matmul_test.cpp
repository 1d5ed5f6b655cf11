// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "oort/testing.h"

namespace oort::testing {
namespace {

/// One (m,k) by (k,n) product in double precision, added to `out`.
void MultiplyInto(const double* a, const double* b, int64_t m, int64_t n, int64_t k, double* out) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
      out[i * n + j] = sum;
    }
  }
}

/// Stacks whose leading axes are already equal or missing on one side.
Tensor Reference(const Tensor& a, const Tensor& b, Shape output, int64_t m, int64_t n, int64_t k) {
  Tensor result(DType::kF64, output);
  const int64_t count = m * n == 0 ? 0 : result.elements() / (m * n);
  const int64_t a_count = m * k == 0 ? 1 : a.elements() / (m * k);
  const int64_t b_count = n * k == 0 ? 1 : b.elements() / (n * k);
  for (int64_t i = 0; i < count; ++i) {
    MultiplyInto(a.data<double>() + i % a_count * m * k, b.data<double>() + i % b_count * k * n, m,
                 n, k, result.data<double>() + i * m * n);
  }
  return result;
}

void Check(const char* type, const char* b_name, Shape a, Shape b, Shape output, int64_t m,
           int64_t n, int64_t k) {
  SCOPED_TRACE(std::string(type) + " " + a.ToString() + " " + b.ToString());
  const Tensor x = RandomTensor(DType::kF32, a, 1), y = RandomTensor(DType::kF32, b, 2);
  const auto reference = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{Reference(in[0], in[1], output, m, n, k)};
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

/// beta * input + alpha * a @ b with an input of the shape of the result.
void CheckAddmm(const char* type, const char* a_name, const char* b_name, Shape input, Shape a,
                Shape b, double alpha, double beta) {
  SCOPED_TRACE(std::string(type) + " " + input.ToString());
  const int64_t m = a[a.rank() - 2], k = a[a.rank() - 1], n = b[b.rank() - 1];
  Shape output = a;
  output[output.rank() - 1] = n;
  OperatorCase(type)
      .Param("alpha", std::to_string(alpha))
      .Param("beta", std::to_string(beta))
      .Input(RandomTensor(DType::kF32, input, 1), "input")
      .Input(RandomTensor(DType::kF32, a, 2), a_name)
      .Input(RandomTensor(DType::kF32, b, 3), b_name)
      .ExpectLike([&](const std::vector<Tensor>& in) {
        Tensor y = Reference(in[1], in[2], output, m, n, k);
        for (int64_t i = 0; i < y.elements(); ++i) {
          const int64_t column = i % n, row = i / n % m;
          int64_t at = 0;  // the only shapes used below: (n), (m,1), (1,n), () and the whole
          if (in[0].elements() == y.elements()) {
            at = i;
          } else if (in[0].rank() > 0) {
            at = in[0].dim(-1) == n ? column : in[0].elements() > 1 ? row : 0;
          }
          y.data<double>()[i] = alpha * y.data<double>()[i] + beta * in[0].data<double>()[at];
        }
        return std::vector<Tensor>{y};
      });
}

TEST(Addmm, AddsAScaledProduct) {
  for (auto [alpha, beta] : {std::pair{1.0, 1.0}, {0.75, 1.5}, {1.0, 0.5}, {2.0, 0.0}}) {
    for (Shape input : {Shape{6}, Shape{4, 6}, Shape{4, 1}, Shape{1, 6}, Shape{}}) {
      CheckAddmm("torch.addmm", "mat1", "mat2", input, {4, 5}, {5, 6}, alpha, beta);
    }
    CheckAddmm("torch.baddbmm", "batch1", "batch2", {3, 4, 6}, {3, 4, 5}, {3, 5, 6}, alpha, beta);
    CheckAddmm("torch.baddbmm", "batch1", "batch2", {4, 1}, {3, 4, 5}, {3, 5, 6}, alpha, beta);
  }
  CheckAddmm("torch.addmm", "mat1", "mat2", {6}, {0, 5}, {5, 6}, 2, 3);
}

TEST(Addmm, IgnoresTheInputWhereBetaIsZero) {
  OperatorCase("torch.addmm")
      .Param("beta", "0")
      .Input(Tensor::From<float>({NAN, NAN}, {2}), "input")
      .Input(Tensor::From<float>({1, 2}, {1, 2}), "mat1")
      .Input(Tensor::From<float>({1, 2, 3, 4}, {2, 2}), "mat2")
      .ExpectOutputs({Tensor::From<float>({7, 10}, {1, 2})});
}

TEST(Addmm, RefusesWhatDoesNotFit) {
  const auto addmm = [](Shape input, Shape a, Shape b) {
    return OperatorCase("torch.addmm")
        .Input(RandomTensor(DType::kF32, input), "input")
        .Input(RandomTensor(DType::kF32, a), "mat1")
        .Input(RandomTensor(DType::kF32, b), "mat2");
  };
  addmm({3}, {2, 4}, {4, 5}).ExpectError(ErrorCode::kInvalidArgument, "");
  addmm({7, 2, 5}, {2, 4}, {4, 5}).ExpectError(ErrorCode::kInvalidArgument, "broadcasts to (2,5)");
  addmm({5}, {2, 4}, {3, 5}).ExpectError(ErrorCode::kInvalidArgument, "cannot multiply");
  addmm({5}, {1, 2, 4}, {4, 5}).ExpectError(ErrorCode::kInvalidArgument, "rank 2");
}

}  // namespace
}  // namespace oort::testing
