// SPDX-License-Identifier: MIT
// Operators that are a few calls of others, and what they refuse. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/aten/aten_values.h"

namespace oort::testing {
namespace {

TEST(AtenDecomposition, LossesKeepWhatIsNotReduced) {
  const Tensor x = F({0.5, -1, 2}, {3}), y = F({0, 1, 2.5}, {3});
  Check("aten::mse_loss", {x, y, Value(0)}, {F({0.25, 4, 0.25}, {3})});
  Check("aten::mse_loss", {x, y, Value(1)}, {Tensor::Scalar(1.5f)});
  Check("aten::l1_loss", {x, y, Value(2)}, {Tensor::Scalar(3.0f)});
  Check("aten::nll_loss",
        {F({-1, -2, -3, -4}, {2, 2}), I({1, -100}, {2}), Value(), Value(1), Value(-100)},
        {Tensor::Scalar(2.0f)});
}

}  // namespace
}  // namespace oort::testing
