// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "oort/tensor.h"

namespace oort::testing {

/// The same dtype, the same shape and the same bytes; for readers and writers.
inline void ExpectSameBytes(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.ToString(), want.ToString());
  ASSERT_EQ(got.has_data(), want.has_data());
  EXPECT_TRUE(std::equal(got.raw(), got.raw() + got.bytes(), want.raw())) << got.ToString();
}

}  // namespace oort::testing
