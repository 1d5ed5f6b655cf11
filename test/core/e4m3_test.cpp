// SPDX-License-Identifier: MIT
#include "core/e4m3.h"

#include <gtest/gtest.h>

namespace oort {
namespace {

TEST(E4m3, BytesStandForWhatTheyShould) {
  EXPECT_EQ(ValueOfE4m3(0x00), 0.0F);
  EXPECT_EQ(ValueOfE4m3(0x01), std::ldexp(1.0F, -9));
  EXPECT_EQ(ValueOfE4m3(0x08), std::ldexp(1.0F, -6));
  EXPECT_EQ(ValueOfE4m3(0x38), 1.0F);
  EXPECT_EQ(ValueOfE4m3(0xBC), -1.5F);
  EXPECT_EQ(ValueOfE4m3(0x7E), 448.0F);
  EXPECT_TRUE(std::isnan(ValueOfE4m3(0x7F)));
  EXPECT_TRUE(std::isnan(ValueOfE4m3(0xFF)));
}

TEST(E4m3, EveryNumberIsItself) {
  for (int bits = 0; bits < 256; ++bits) {
    const float value = ValueOfE4m3(static_cast<uint8_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(ValueOfE4m3(E4m3Of(value))));
    } else {
      EXPECT_EQ(E4m3Of(value), bits) << value;
    }
  }
}

/// The middle of two neighbours goes to the even one, what is a little off it to the nearer one.
TEST(E4m3, RoundsToTheNearest) {
  for (int bits = 0; bits + 1 < 0x7f; ++bits) {
    const float low = ValueOfE4m3(static_cast<uint8_t>(bits));
    const float high = ValueOfE4m3(static_cast<uint8_t>(bits + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(E4m3Of(middle), bits + bits % 2) << middle;
    EXPECT_EQ(E4m3Of(std::nextafter(middle, 0.0F)), bits) << middle;
    EXPECT_EQ(E4m3Of(std::nextafter(middle, 1000.0F)), bits + 1) << middle;
    EXPECT_EQ(E4m3Of(-middle), (bits + bits % 2) | 0x80) << middle;
  }
}

TEST(E4m3, WhatIsTooLargeBecomesTheLargest) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {448.1F, 463.0F, 480.0F, 1e30F, infinity}) {
    EXPECT_EQ(E4m3Of(value), 0x7e) << value;
    EXPECT_EQ(E4m3Of(-value), 0xfe) << value;
  }
}

}  // namespace
}  // namespace oort
