// SPDX-License-Identifier: MIT
// Factorizations of matrices. Expected values are LAPACK's, or what the factors must multiply to.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "layers/linalg/needs_lapack.h"
#include "layers/linalg/square.h"

namespace oort::testing {
namespace {

TEST_F(Linalg, TakesExponentials) {
  Check("aten::linalg_matrix_exp", {F({0, 1, -1, 0}, {2, 2})},
        {F({0.5403023, 0.8414710, -0.8414710, 0.5403023}, {2, 2})});
  Check("aten::matrix_exp", {F({10, 0, 0, -3}, {2, 2})},
        {F({22026.4658, 0, 0, 0.0497871}, {2, 2})});
}

}  // namespace
}  // namespace oort::testing
