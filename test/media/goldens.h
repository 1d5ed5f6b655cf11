// SPDX-License-Identifier: MIT
// What make_goldens.py wrote, and how far our answers may be from it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <span>
#include <string>

#include "kit/paths.h"
#include "oort/npy.h"

namespace oort::goldens {

inline std::filesystem::path Golden(const std::string& name) {
  return TestData() / "media" / "goldens" / name;
}

inline Tensor GoldenTensor(const std::string& name) { return ReadNpy(Golden(name + ".npy")); }

/// Every element within `absolute` + `relative` of the golden's magnitude.
inline void ExpectNear(std::span<const float> ours, const Tensor& golden, double absolute,
                       double relative = 0) {
  ASSERT_EQ(static_cast<int64_t>(ours.size()), golden.elements());
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const double wanted = golden.data<float>()[i];
    const double over = std::abs(ours[i] - wanted) / (absolute + relative * std::abs(wanted));
    if (!(over <= worst)) {
      worst = over;
      where = i;
    }
  }
  EXPECT_LE(worst, 1) << "element " << where << ": " << ours[where] << " instead of "
                      << golden.data<float>()[where];
}

}  // namespace oort::goldens
