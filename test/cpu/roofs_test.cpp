// SPDX-License-Identifier: MIT
#include "cpu/roofs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kit/sanitized.h"
#include "oort/profile.h"

namespace oort {
namespace {

TEST(Roofs, EveryInstructionSetReadsEverything) {
  const size_t count = 3 * kRoofBlock;
  for (const Isa isa : SupportedIsas()) {
    const RoofKernels& kernels = RoofKernelsFor(isa);
    std::vector<float> zeros(count);
    EXPECT_EQ(kernels.read(zeros.data(), static_cast<int64_t>(zeros.size())), 0) << Name(isa);
    // Each element is one side of one product: none is left out if the sum has all of them.
    for (size_t i = 0; i < count; ++i) {
      std::vector<float> ones(count, 1.0f);
      ones[i] = 3.0f;
      const float sum = kernels.read(ones.data(), static_cast<int64_t>(ones.size()));
      ASSERT_EQ(sum, static_cast<float>(count) / 2 + 2) << Name(isa) << " at " << i;
    }
    EXPECT_GT(kernels.flops, 0);
    EXPECT_TRUE(std::isfinite(kernels.multiply_add(100)));
  }
}

TEST(Roofs, AreMeasuredForAllLevels) {
  if (testing::IsSanitized()) GTEST_SKIP() << "measures a sanitizer here";
  const MachineRoofs roofs = MeasureRoofs(2);
  EXPECT_EQ(roofs.threads, 2);
  ASSERT_EQ(roofs.compute.size(), SupportedIsas().size() + LowRoofs().size());
  for (size_t i = 0; i < roofs.compute.size(); ++i) {
    const bool whole = i < SupportedIsas().size();
    if (whole) {
      EXPECT_EQ(roofs.compute[i].isa, SupportedIsas()[i]);
    }
    EXPECT_EQ(roofs.compute[i].dtype == DType::kF32, whole);
    EXPECT_GT(roofs.compute[i].flops_one, 0);
    EXPECT_GT(roofs.compute[i].flops_all, 0);
  }
  ASSERT_GE(roofs.memory.size(), 2u);
  EXPECT_EQ(roofs.memory.front().name, "L1");
  EXPECT_EQ(roofs.memory.back().name, "memory");
  EXPECT_EQ(roofs.memory.back().size_one, SIZE_MAX);
  for (size_t i = 0; i < roofs.memory.size(); ++i) {
    EXPECT_GT(roofs.memory[i].one, 0);
    EXPECT_GT(roofs.memory[i].all, 0);
    EXPECT_GE(roofs.memory[i].size_all, roofs.memory[i].size_one);
    const size_t before = i > 0 ? roofs.memory[i - 1].size_one : 0;
    EXPECT_GT(roofs.memory[i].size_one, before);
  }
  EXPECT_GT(roofs.loop_seconds, 0);
}

}  // namespace
}  // namespace oort
