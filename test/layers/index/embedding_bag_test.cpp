// SPDX-License-Identifier: MIT
// Rearrangements, diagonals, bags of rows and distances in ATen's form. Expected values are
// torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/aten/aten_values.h"

namespace oort::testing {
namespace {

/// Runs a bag of rows as pnnx writes it: with nine inputs, of which flags are constants.
void Bag(const std::vector<Value>& inputs, const Tensor& expected) {
  const char* names[] = {"weight",
                         "indices",
                         "offsets",
                         "scale_grad_by_freq",
                         "mode",
                         "sparse",
                         "per_sample_weights",
                         "include_last_offset",
                         "padding_idx"};
  OperatorCase tested("aten::embedding_bag");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].IsTensor()) {
      tested.Input(inputs[i], names[i]);
    } else if (!inputs[i].IsNone()) {
      tested.Param(names[i], inputs[i].ToString());
    }
  }
  tested.ExpectOutputs({expected}, {1e-5, 1e-4});
}

TEST(AtenComposed, GathersBags) {
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 2, 2}, {3}), Value(false), Value(0), Value(false), Value(),
       Value(false), Value()},
      F({1.6700001, -4.46, 0.0, 0.0, -1.48, -0.9599999}, {3, 2}));
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 2, 2}, {3}), Value(false), Value(1), Value(false), Value(),
       Value(false), Value()},
      F({0.835, -2.23, 0.0, 0.0, -0.4933333, -0.32}, {3, 2}));
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 2, 2}, {3}), Value(false), Value(2), Value(false), Value(),
       Value(false), Value()},
      F({1.09, -0.02, 0.0, 0.0, 0.52, 0.55}, {3, 2}));
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 2, 2}, {3}), Value(false), Value(0), Value(false),
       F({-1.83, -2.1800001, -0.53, 0.38, -0.44}, {5}), Value(false), Value()},
      F({-3.2591, 8.1688004, 0.0, 0.0, -0.0788, 0.8239}, {3, 2}));
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 3, 5}, {3}), Value(false), Value(1), Value(false), Value(),
       Value(true), Value()},
      F({0.2233334, -1.3033334, -0.24, -0.755}, {2, 2}));
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 2, 2}, {3}), Value(false), Value(1), Value(false), Value(),
       Value(false), Value(2)},
      F({0.835, -2.23, 0.0, 0.0, 0.52, -2.0599999}, {3, 2}));
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 2, 2}, {3}), Value(false), Value(2), Value(false), Value(),
       Value(false), Value(-1)},
      F({1.09, -4.4400001, 0.0, 0.0, 0.52, 0.55}, {3, 2}));
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 5}, {2}), Value(false), Value(0), Value(false), Value(),
       Value(false), Value()},
      F({0.1900001, -5.4200001, 0.0, 0.0}, {2, 2}));
}

TEST(AtenComposed, BagsTellWhereRowsWent) {
  const std::vector<Tensor> outputs = RunAten(
      "aten::embedding_bag", {F({1, 2, 3, 4, 5, 0}, {3, 2}), I({2, 0, 1}, {3}), I({0, 2}, {2})},
      {"False", "2", "False", "None", "False", "None"}, 4);
  ExpectNear(outputs[0], F({5, 2, 3, 4}, {2, 2}));
  ExpectNear(outputs[1], I({0, 0, 1}, {3}));
  ExpectNear(outputs[2], I({2, 1}, {2}));
  ExpectNear(outputs[3], I({2, 0, 1, 1}, {2, 2}));
}

}  // namespace
}  // namespace oort::testing
