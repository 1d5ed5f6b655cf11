// SPDX-License-Identifier: MIT
#include "oort/precision_choice.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "kit/paths.h"
#include "oort/oort.h"
#include "oort/testing.h"

namespace oort {
namespace {

/// The network of a case in a precision, and how often it was loaded.
struct Loader {
  int loads = 0;
  std::shared_ptr<const RuntimeGraph> operator()(Precision precision) {
    ++loads;
    const auto folder = TestData() / "corpus" / "mini_resnet";
    LoadOptions options;
    options.precision = precision;
    return RuntimeGraph::Load(folder / "model.pnnx.param", folder / "model.pnnx.bin", options);
  }
  std::vector<Tensor> Inputs() {
    const Port port = (*this)(Precision::kF32)->inputs()[0];
    return {testing::RandomTensor(port.dtype, port.shape, 1)};
  }
};

TEST(PrecisionChoice, TriesWhatTheMachineHasUnitsFor) {
  Loader load;
  const std::vector<Tensor> inputs = load.Inputs();
  load.loads = 0;
  const PrecisionChoice choice = ChoosePrecision(std::ref(load), inputs);
  const size_t units = static_cast<size_t>(HasUnits(Precision::kBF16)) +
                       static_cast<size_t>(HasUnits(Precision::kF16));
  ASSERT_EQ(choice.trials.size(), 1 + units);
  EXPECT_EQ(load.loads, static_cast<int>(1 + units));
  EXPECT_EQ(choice.trials[0].precision, Precision::kF32);
  EXPECT_EQ(choice.trials[0].error, 0);
  for (const PrecisionTrial& trial : choice.trials) {
    EXPECT_GT(trial.milliseconds, 0);
    EXPECT_LT(trial.error, 0.05) << Name(trial.precision);
    if (trial.precision == Precision::kF32) continue;
    EXPECT_GT(trial.error, 0) << Name(trial.precision);
  }
  EXPECT_EQ(choice.graph->precision(), choice.chosen.precision);
  EXPECT_LE(choice.chosen.error, PrecisionSearch().most_error);
}

TEST(PrecisionChoice, IsF32WhereNothingMayBeLost) {
  Loader load;
  const PrecisionChoice choice = ChoosePrecision(std::ref(load), load.Inputs(), {.most_error = 0});
  EXPECT_EQ(choice.chosen.precision, Precision::kF32);
  EXPECT_EQ(choice.graph->precision(), Precision::kF32);
}

TEST(PrecisionChoice, ScalarCodeHasNoUnits) {
  EXPECT_TRUE(HasUnits(Precision::kF32, Isa::kScalar));
  EXPECT_FALSE(HasUnits(Precision::kBF16, Isa::kScalar));
  EXPECT_FALSE(HasUnits(Precision::kF16, Isa::kScalar));
}

}  // namespace
}  // namespace oort
