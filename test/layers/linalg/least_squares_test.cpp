// SPDX-License-Identifier: MIT
// Factorizations of matrices. Expected values are LAPACK's, or what the factors must multiply to.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "layers/linalg/needs_lapack.h"
#include "layers/linalg/square.h"

namespace oort::testing {
namespace {

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

}  // namespace
}  // namespace oort::testing
