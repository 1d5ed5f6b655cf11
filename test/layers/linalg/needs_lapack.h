// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

namespace oort::testing {

/// Tests of what LAPACK does skip in a build without it, and fail where it only is not installed.
template <typename Base>
class NeedsLapack : public Base {
 protected:
  void SetUp() override {
#ifdef OORT_NO_LAPACK
    GTEST_SKIP() << "built with OORT_LAPACK=OFF";
#endif
  }
};

class Linalg : public NeedsLapack<::testing::Test> {};

}  // namespace oort::testing
