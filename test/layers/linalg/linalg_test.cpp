// SPDX-License-Identifier: MIT
// Factorizations of matrices. Expected values are LAPACK's, or what the factors must multiply to.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "layers/linalg/needs_lapack.h"
#include "layers/linalg/square.h"

namespace oort::testing {
namespace {

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
