// SPDX-License-Identifier: MIT
// Reductions and scans that pnnx leaves as ATen operators. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/aten/aten_form.h"
#include "layers/short_tensors.h"

namespace oort::testing {
namespace {

TEST(AtenSort, TakesTheStableForm) {
  const Tensor x = Vector({2, 3, 1});
  const std::vector<Tensor> sorted = RunAten("aten::sort", {x}, {"True", "0", "True"}, 2);
  ExpectNear(sorted[0], Vector({3, 2, 1}));
  ExpectNear(sorted[1], Places({1, 0, 2}));
  ExpectNear(RunAten("aten::argsort", {x}, {"False", "0", "False"})[0], Places({2, 0, 1}));
}

}  // namespace
}  // namespace oort::testing
