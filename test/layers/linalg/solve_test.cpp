// SPDX-License-Identifier: MIT
// Factorizations of matrices. Expected values are LAPACK's, or what the factors must multiply to.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "layers/linalg/needs_lapack.h"
#include "layers/linalg/square.h"

namespace oort::testing {
namespace {

TEST_F(Linalg, InvertsAndTellsOfSingularMatrices) {
  Check("aten::linalg_inv", {F({4, 2, 1, 3, 2, 0, 0, 8}, {2, 2, 2})},
        {F({0.3, -0.2, -0.1, 0.4, 0.5, 0, 0, 0.125}, {2, 2, 2})});
  Check("aten::linalg_inv_ex", {F({4, 2, 1, 3}, {2, 2}), Value(false)},
        {F({0.3, -0.2, -0.1, 0.4}, {2, 2}), Tensor::Scalar<int32_t>(0)});
  OperatorCase("aten::inverse")
      .Input(F({1, 2, 2, 4}, {2, 2}))
      .ExpectError(ErrorCode::kInvalidArgument, "the matrix is singular (at column 2)");
  OperatorCase("aten::linalg_inv")
      .Input(F({1, 2, 2, 4, 5, 6}, {2, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "expected square matrices, got (2,3)f32");
  OperatorCase("aten::linalg_inv")
      .Input(Tensor(DType::kI64, {2, 2}))
      .ExpectError(ErrorCode::kInvalidArgument, "has dtype i64");
  Check("aten::linalg_inv", {Tensor(DType::kF32, {0, 0})}, {Tensor(DType::kF32, {0, 0})});
}

TEST_F(Linalg, TakesDeterminants) {
  Check("aten::linalg_det", {F({4, 2, 1, 3, 0, 2, 3, 8}, {2, 2, 2})}, {F({10, -6}, {2})});
  Check("aten::linalg_slogdet", {F({0, 2, 3, 8}, {2, 2})},
        {Tensor::Scalar(-1.0f), Tensor::Scalar(std::log(6.0f))});
  Check("aten::logdet", {F({4, 2, 1, 3}, {2, 2})}, {Tensor::Scalar(std::log(10.0f))});
  Check("aten::logdet", {F({0, 2, 3, 8}, {2, 2})}, {Tensor::Scalar(std::nanf(""))});
  Check("aten::det", {F({1, 2, 2, 4}, {2, 2})}, {Tensor::Scalar(0.0f)});
}

TEST_F(Linalg, SolvesFromBothSidesAndForVectors) {
  const Tensor a = F({4, 2, 1, 3}, {2, 2});
  Check("aten::linalg_solve", {a, F({10, 5}, {2}), Value(true)}, {F({2, 1}, {2})});
  Check("aten::linalg_solve", {a, F({10, 4, 5, 1}, {2, 2}), Value(true)},
        {F({2, 1, 1, 0}, {2, 2})});
  Check("aten::linalg_solve", {a, F({9, 7}, {1, 2}), Value(false)}, {F({2, 1}, {1, 2})});
  Check("aten::linalg_solve", {a, F({10, 5, 4, 1}, {2, 2, 1}), Value(true)},
        {F({2, 1, 1, 0}, {2, 2, 1})});
  OperatorCase("aten::linalg_solve")
      .Input(a)
      .Input(F({1, 2, 3}, {3}))
      .Input(Value(true))
      .ExpectError(ErrorCode::kInvalidArgument, "a right side that fits (2,2)f32");
}

TEST_F(Linalg, SolvesWithTriangles) {
  const Tensor a = F({2, 9, 1, 4}, {2, 2}), b = F({4, 10}, {2, 1});
  const auto solve = [&](bool upper, bool left, bool unit, const Tensor& right,
                         const Tensor& want) {
    Check("aten::linalg_solve_triangular", {a, right, Value(upper), Value(left), Value(unit)},
          {want});
  };
  solve(false, true, false, b, F({2, 2}, {2, 1}));
  solve(false, true, true, b, F({4, 6}, {2, 1}));
  solve(true, true, false, b, F({-9.25, 2.5}, {2, 1}));
  solve(true, false, false, F({4, 10}, {1, 2}), F({2, -2}, {1, 2}));
  Check("aten::triangular_solve", {b, a, Value(true), Value(true), Value(false)},
        {F({2, -2}, {2, 1}), a});
}

}  // namespace
}  // namespace oort::testing
