// SPDX-License-Identifier: MIT
// Factorizations of matrices. Expected values are LAPACK's, or what the factors must multiply to.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "layers/aten/aten_values.h"
#include "layers/linalg/needs_lapack.h"

namespace oort::testing {
namespace {

Tensor Square() { return F({4, 1, -2, 1, 3, 0.5, -2, 0.5, 5}, {3, 3}); }

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

TEST_F(Linalg, FindsSingularValues) {
  Check("aten::linalg_svdvals", {F({3, 0, 0, -4, 0, 0}, {3, 2}), Value()}, {F({4, 3}, {2})});
  Check("aten::linalg_svdvals", {F({1, 2, 3, 2, 4, 6}, {2, 3}), Value()}, {F({8.3666003, 0}, {2})});
  for (const bool full : {false, true}) {
    const Tensor a = RandomTensor(DType::kF32, {2, 5, 3}, 7);
    const std::vector<Tensor> of = OperatorCase("aten::linalg_svd")
                                       .Input(a)
                                       .Input(Value(full))
                                       .Input(Value())
                                       .Outputs(3)
                                       .Run();
    ASSERT_EQ(of[0].shape(), (Shape{2, 5, full ? 5 : 3}));
    OperatorCase("torch.einsum")
        .Param("equation", "bik,bk,bkj->bij")
        .Input(full ? OperatorCase("torch.narrow")
                          .Param("dim", "2")
                          .Param("start", "0")
                          .Param("length", "3")
                          .Input(of[0])
                          .Run()[0]
                    : of[0])
        .Input(of[1])
        .Input(of[2])
        .ExpectOutputs({a}, {1e-5, 1e-5});
    OperatorCase("torch.einsum")
        .Param("equation", "bki,bkj->bij")
        .Input(of[0])
        .Input(of[0])
        .ExpectOutputs({OperatorCase("Tensor.expand")
                            .Param("sizes", full ? "(2,5,5)" : "(2,3,3)")
                            .Input(OperatorCase("torch.diag")
                                       .Input(RangeTensor(DType::kF32, {full ? 5 : 3}, 1, 0))
                                       .Run()[0])
                            .Run()[0]},
                       {1e-5, 1e-5});
  }
}

TEST_F(Linalg, FindsEigenvaluesOfHermitianMatrices) {
  Check("aten::linalg_eigvalsh", {F({0, 2, 2, 3}, {2, 2}), Value("L")}, {F({-1, 4}, {2})});
  // The other triangle does not count.
  Check("aten::linalg_eigvalsh", {F({0, 9, 2, 3}, {2, 2}), Value("L")}, {F({-1, 4}, {2})});
  Check("aten::linalg_eigvalsh", {F({0, 2, 9, 3}, {2, 2}), Value("U")}, {F({-1, 4}, {2})});
  Check("aten::linalg_eigvalsh", {F({0, 1, 1, 0}, {2, 2}), Value("L")}, {F({-1, 1}, {2})});
  const std::vector<Tensor> of =
      OperatorCase("aten::linalg_eigh").Input(Square()).Input(Value("L")).Outputs(2).Run();
  OperatorCase("torch.einsum")
      .Param("equation", "ik,k,jk->ij")
      .Input(of[1])
      .Input(of[0])
      .Input(of[1])
      .ExpectOutputs({Square()}, {1e-5, 1e-5});
}

TEST_F(Linalg, InvertsWhatIsNotSquare) {
  const Tensor a = F({1, 2, 3, 2, 4, 6}, {2, 3});
  Check("aten::linalg_pinv", {a, Value(), Value(), Value(false)},
        {F({0.0142857, 0.0285714, 0.0285714, 0.0571429, 0.0428571, 0.0857143}, {3, 2})});
  Check("aten::linalg_matrix_rank", {a, Value(), Value(), Value(false)},
        {Tensor::Scalar<int64_t>(1)});
  Check("aten::linalg_matrix_rank", {Square(), Value(), Value(), Value(false)},
        {Tensor::Scalar<int64_t>(3)});
  const std::vector<Tensor> of = OperatorCase("aten::linalg_lstsq")
                                     .Input(F({1, 0, 0, 1, 1, 1}, {3, 2}))
                                     .Input(F({1, 2, 6}, {3, 1}))
                                     .Input(Value())
                                     .Input(Value())
                                     .Outputs(4)
                                     .Run();
  ExpectNear(of[0], F({2, 3}, {2, 1}));
  EXPECT_EQ(of[1].shape(), (Shape{0}));  // torch's usual driver tells of none
  EXPECT_EQ(of[2].data<int64_t>()[0], 2);
}

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

TEST_F(Linalg, TakesExponentials) {
  Check("aten::linalg_matrix_exp", {F({0, 1, -1, 0}, {2, 2})},
        {F({0.5403023, 0.8414710, -0.8414710, 0.5403023}, {2, 2})});
  Check("aten::matrix_exp", {F({10, 0, 0, -3}, {2, 2})},
        {F({22026.4658, 0, 0, 0.0497871}, {2, 2})});
}

TEST_F(Linalg, ReadsTensorsAsMatrices) {
  Check("aten::linalg_tensorinv", {F({4, 2, 1, 3}, {2, 1, 2}), Value(2)},
        {F({0.3, -0.2, -0.1, 0.4}, {2, 2, 1})});
  Check("aten::linalg_tensorsolve", {F({4, 2, 1, 3}, {2, 1, 2}), F({10, 5}, {2, 1}), Value()},
        {F({2, 1}, {2})});
}

#ifdef OORT_NO_LAPACK
TEST(LinalgWithoutLapack, IsRefusedWithTheReason) {
  OperatorCase("aten::linalg_inv")
      .Input(Square())
      .ExpectError(ErrorCode::kUnsupported, "configured with OORT_LAPACK=OFF");
}
#endif

}  // namespace
}  // namespace oort::testing
