// SPDX-License-Identifier: MIT
// Factorizations of matrices. Expected values are LAPACK's, or what the factors must multiply to.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "layers/linalg/needs_lapack.h"
#include "layers/linalg/square.h"

namespace oort::testing {
namespace {

TEST_F(Linalg, TakesNormsOfMatrices) {
  const Tensor a = F({3, 0, 0, -4}, {2, 2});
  const auto norm = [&](const Value& order, float want) {
    Check("aten::linalg_matrix_norm", {a, order, L({-2, -1}), Value(false), Value()},
          {Tensor::Scalar(want)});
  };
  norm("fro", 5);
  norm("nuc", 7);
  norm(2, 4);
  norm(-2, 3);
  norm(1, 4);
  norm(Value(-INFINITY), 3);
  Check("aten::nuclear_norm", {a, L({0, 1}), Value(true)}, {F({7}, {1, 1})});
  Check("aten::linalg_cond", {a, Value()}, {Tensor::Scalar(4.0f / 3)});
  Check("aten::linalg_cond", {a, Value("fro")}, {Tensor::Scalar(25.0f / 12)});
  OperatorCase("aten::linalg_matrix_norm")
      .Input(a)
      .Input(Value(3))
      .Input(L({-2, -1}))
      .Input(Value(false))
      .Input(Value())
      .ExpectError(ErrorCode::kInvalidArgument, "expected a norm fro, nuc, 1, 2 or inf, got 3");
}

}  // namespace
}  // namespace oort::testing
