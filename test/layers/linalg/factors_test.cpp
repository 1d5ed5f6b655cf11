// SPDX-License-Identifier: MIT
// Factorizations of matrices. Expected values are LAPACK's, or what the factors must multiply to.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "layers/linalg/needs_lapack.h"
#include "layers/linalg/square.h"

namespace oort::testing {
namespace {

TEST_F(Linalg, FactorsByCholesky) {
  const Tensor a = F({4, 2, 2, 5}, {2, 2}), l = F({2, 0, 1, 2}, {2, 2});
  Check("aten::linalg_cholesky", {a, Value(false)}, {l});
  Check("aten::linalg_cholesky", {a, Value(true)}, {F({2, 1, 0, 2}, {2, 2})});
  Check("aten::cholesky_solve", {F({8, 12}, {2, 1}), l, Value(false)}, {F({1, 2}, {2, 1})});
  Check("aten::cholesky_inverse", {l, Value(false)}, {F({0.3125, -0.125, -0.125, 0.25}, {2, 2})});
  OperatorCase("aten::linalg_cholesky")
      .Input(F({1, 2, 2, 1}, {2, 2}))
      .Input(Value(false))
      .ExpectError(ErrorCode::kInvalidArgument, "not positive definite (at column 2)");
  using C64 = std::complex<float>;
  const Tensor hermitian = Tensor::From<C64>({4, C64(0, 2), C64(0, -2), 5}, {2, 2});
  OperatorCase("aten::linalg_cholesky")
      .Input(hermitian)
      .Input(Value(false))
      .ExpectOutputs({Tensor::From<C64>({2, 0, C64(0, -1), 2}, {2, 2})});
}

TEST_F(Linalg, FactorsByLu) {
  const Tensor a = F({1, 2, 4, 2}, {2, 2});
  Check("aten::linalg_lu_factor", {a, Value(true)},
        {F({4, 2, 0.25, 1.5}, {2, 2}), Tensor::From<int32_t>({2, 2}, {2})});
  const Tensor p = F({0, 1, 1, 0}, {2, 2}), l = F({1, 0, 0.25, 1}, {2, 2}),
               u = F({4, 2, 0, 1.5}, {2, 2});
  Check("aten::linalg_lu", {a, Value(true)}, {p, l, u});
  const Tensor lu = F({4, 2, 0.25, 1.5}, {2, 2}), pivots = Tensor::From<int32_t>({2, 2}, {2});
  Check("aten::lu_unpack", {lu, pivots, Value(true), Value(true)}, {p, l, u});
  const auto solve = [&](const Tensor& b, bool left, bool adjoint, const Tensor& want) {
    Check("aten::linalg_lu_solve", {lu, pivots, b, Value(left), Value(adjoint)}, {want});
  };
  solve(F({5, 8}, {2, 1}), true, false, F({1, 2}, {2, 1}));
  solve(F({9, 6}, {2, 1}), true, true, F({1, 2}, {2, 1}));
  solve(F({9, 6}, {1, 2}), false, false, F({1, 2}, {1, 2}));
  solve(F({5, 8}, {1, 2}), false, true, F({1, 2}, {1, 2}));
  OperatorCase("aten::linalg_lu_factor")
      .Input(F({1, 2, 2, 4}, {2, 2}))
      .Input(Value(true))
      .Outputs(2)
      .ExpectError(ErrorCode::kInvalidArgument, "the matrix is singular (at column 2)");
  OperatorCase("aten::linalg_lu")
      .Input(a)
      .Input(Value(false))
      .Outputs(3)
      .ExpectError(ErrorCode::kUnsupported, "there is no LU without pivots on a CPU");
  OperatorCase("aten::lu_solve")
      .Input(F({5, 8}, {2, 1}))
      .Input(lu)
      .Input(Tensor::From<int32_t>({2, 9}, {2}))
      .ExpectError(ErrorCode::kInvalidArgument, "expected pivots from 1 to 2, got 9");
}

TEST_F(Linalg, FactorsByQr) {
  const Tensor a = F({3, 1, 4, 2, 0, 5}, {3, 2});
  Check("aten::linalg_qr", {a, Value("reduced")},
        {F({-0.6, 0.0637962, -0.8, -0.0478471, 0, -0.9968153}, {3, 2}),
         F({-5, -2.2, 0, -5.0159745}, {2, 2})});
  const std::vector<Tensor> full =
      OperatorCase("aten::linalg_qr").Input(a).Input(Value("complete")).Outputs(2).Run();
  EXPECT_EQ(full[0].shape(), (Shape{3, 3}));
  EXPECT_EQ(full[1].shape(), (Shape{3, 2}));
  OperatorCase("torch.matmul").Input(full[0]).Input(full[1]).ExpectOutputs({a}, {1e-5, 1e-5});
  OperatorCase("aten::linalg_qr")
      .Input(a)
      .Input(Value("raw"))
      .Outputs(2)
      .ExpectError(ErrorCode::kInvalidArgument, "expected mode reduced, complete or r, got raw");
}

}  // namespace
}  // namespace oort::testing
