// SPDX-License-Identifier: MIT
// Factorizations of matrices. Expected values are LAPACK's, or what the factors must multiply to.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "layers/linalg/needs_lapack.h"
#include "layers/linalg/square.h"

namespace oort::testing {
namespace {

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

}  // namespace
}  // namespace oort::testing
