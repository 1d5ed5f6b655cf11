// SPDX-License-Identifier: MIT
#include "cpu/gemm_split.h"

#include <gtest/gtest.h>

namespace oort {
namespace {

struct Panels {
  int64_t kept, streamed;
  double most;  // times the even share, for the thread with most to do
};

int64_t Largest(int64_t extent, int parts) { return (extent + parts - 1) / parts; }

TEST(GemmSplit, PartsCoverEverythingOnce) {
  for (int64_t extent : {0, 1, 5, 16, 17, 1000}) {
    for (int parts : {1, 2, 3, 16}) {
      EXPECT_EQ(PartBegin(extent, parts, 0), 0);
      EXPECT_EQ(PartBegin(extent, parts, parts), extent);
      for (int i = 0; i < parts; ++i) {
        const int64_t size = PartBegin(extent, parts, i + 1) - PartBegin(extent, parts, i);
        EXPECT_GE(size, extent / parts);
        EXPECT_LE(size, extent / parts + 1);
      }
    }
  }
}

/// The products of ResNet, MobileNet and a transformer, in panels of 8 and 12.
TEST(GemmSplit, SixteenThreadsHaveNearlyEqualWork) {
  for (const Panels& p : {Panels{64, 5, 1.2}, Panels{32, 17, 1.2}, Panels{128, 17, 1.1},
                          Panels{256, 5, 1.1}, Panels{8, 262, 1.1}, Panels{16, 66, 1.1},
                          Panels{128, 86, 1.1}, Panels{64, 7, 1.2}, Panels{3, 262, 1.1}}) {
    const GemmSplit split = SplitTiles(p.kept, 8, p.streamed, 12, 16);
    ASSERT_LE(split.parts(), 16);
    const double largest = static_cast<double>(Largest(p.kept, split.kept_parts) *
                                               Largest(p.streamed, split.streamed_parts));
    const double even = static_cast<double>(p.kept * p.streamed) / 16;
    EXPECT_LE(largest, p.most * even) << p.kept << " x " << p.streamed << ": " << split.kept_parts
                                      << " x " << split.streamed_parts;
  }
}

TEST(GemmSplit, LargeSquareProductsAreCutOnBothSides) {
  const GemmSplit split = SplitTiles(128, 8, 86, 12, 16);
  EXPECT_GT(split.kept_parts, 1);
  EXPECT_GT(split.streamed_parts, 1);
}

TEST(GemmSplit, NeverMorePartsThanPanels) {
  const GemmSplit one = SplitTiles(1, 8, 1, 12, 16);
  EXPECT_EQ(one.parts(), 1);
  const GemmSplit few = SplitTiles(2, 8, 3, 12, 16);
  EXPECT_LE(few.kept_parts, 2);
  EXPECT_LE(few.streamed_parts, 3);
}

}  // namespace
}  // namespace oort
