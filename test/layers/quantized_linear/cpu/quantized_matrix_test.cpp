// SPDX-License-Identifier: MIT
// Weights of 32 to 4 bits as they are packed: read back, unpacked, rounded, shared.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "layers/quantized_linear/cpu/nibble_rows.h"
#include "layers/quantized_linear/cpu/quantized_cases.h"

namespace oort {
namespace {

/// Calls check(name, group, unpack(panel, target)) for all ways to unpack a matrix to bf16.
template <typename Check>
void ForBf16Kernels(const QuantizedMatrix& matrix, const Check& check) {
  const PanelLayout layout = matrix.layout();
  const int64_t k = matrix.columns();
  for (Isa isa : SupportedIsas()) {
    const std::string name(Name(isa));
    const DequantizeKernels& kernels = DequantizeKernelsFor(isa);
    for (int group : {2, 4}) {
      const auto unpack = group == 2 ? kernels.unpack_pairs : kernels.unpack_fours;
      if (unpack == nullptr) continue;
      check(name, group,
            [&](const std::byte* panel, const Bf16Target& to) { unpack(layout, panel, 0, k, to); });
    }
    const NibbleKernels* nibbles = NibbleKernelsFor(isa);
    if (nibbles == nullptr || !DequantizesByFmlal(layout)) continue;
    check(name + " by FMLAL", 4, [&](const std::byte* panel, const Bf16Target& to) {
      nibbles->unpack_fours(layout, panel, k, to);
    });
  }
}

TEST(Dequantize, Bf16IsTheRoundedF32) {
  for (const StoredKind& kind : kStoredKinds) {
    SCOPED_TRACE(kind.Describe());
    const int64_t k = ColumnsOf(kind, kind.multiple == 1 ? 13 : 70);
    const StoredMatrix stored = RandomStored(kind, 16, k, 5);
    const QuantizedMatrix matrix(stored, 1, kind.scales);
    const std::vector<float> values = ValuesOf(kind, stored);
    ForBf16Kernels(matrix, [&](const std::string& name, int group, const auto& unpack) {
      const int64_t groups = (k + group - 1) / group;
      std::vector<uint16_t> out(static_cast<size_t>(groups * 16 * group), 0xffff);
      Bf16Target to;
      for (int b = 0; b < 4; ++b) to.blocks[b] = out.data() + 4 * b * group;
      to.step = 16 * group;
      unpack(matrix.panel(0), to);
      for (int64_t i = 0; i < groups * group; ++i) {
        for (int64_t row = 0; row < 16; ++row) {
          const auto at = static_cast<size_t>((i / group * 16 + row) * group + i % group);
          const float got = std::bit_cast<float>(static_cast<uint32_t>(out[at]) << 16);
          const float want = i < k ? values[static_cast<size_t>(row * k + i)] : 0.0f;
          ASSERT_NEAR(got, want, std::fabs(want) * 0.00391 + 1e-5)
              << name << " group " << group << " step " << i << " row " << row;
        }
      }
    });
  }
}

TEST(QuantizedMatrix, ReadsItsRowsBack) {
  for (const StoredKind& kind : kStoredKinds) {
    SCOPED_TRACE(kind.Describe());
    const int64_t k = ColumnsOf(kind, 70);
    const StoredMatrix stored = RandomStored(kind, 21, k, 9);
    const QuantizedMatrix matrix(stored, 3);
    const std::vector<float> values = ValuesOf({kind.format}, stored);
    std::vector<float> row(static_cast<size_t>(k));
    for (int64_t r = 0; r < stored.rows; ++r) {
      matrix.ReadRow(r, row.data());
      for (int64_t i = 0; i < k; ++i) {
        // Minimums of uint8 move with its zero, by 128 scales.
        const float value = values[static_cast<size_t>(r * k + i)];
        ASSERT_NEAR(row[static_cast<size_t>(i)], value, 2e-6 * (1 + std::fabs(value)));
      }
    }
  }
}

/// Elements of a matrix of 4 bits with minimums are (q - 8) scale + middle.
TEST(QuantizedMatrix, RoundsScalesToBytesByLittle) {
  const StoredKind kind{WeightFormat::kUint4, 32, false, 32, ScaleStorage::kBytes};
  constexpr int64_t kRows = 21, kColumns = 160, kGroups = kColumns / 32;
  const StoredMatrix stored = RandomStored(kind, kRows, kColumns, 3);
  const QuantizedMatrix exact(stored, 2), rounded(stored, 2, ScaleStorage::kBytes);
  ASSERT_EQ(rounded.layout().scales, ScaleType::kByte);
  EXPECT_LT(rounded.panel_bytes(), exact.panel_bytes());
  std::vector<float> want(kColumns), got(kColumns);
  int moved = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    exact.ReadRow(row, want.data());
    rounded.ReadRow(row, got.data());
    const float* scale = stored.scale.data<float>() + row * kGroups;
    const float* minimum = stored.minimum.data<float>() + row * kGroups;
    float most_scale = 0, least = 1e9f, most = -1e9f;
    for (int64_t g = 0; g < kGroups; ++g) {
      most_scale = std::max(most_scale, scale[g]);
      least = std::min(least, minimum[g] + 8 * scale[g]);
      most = std::max(most, minimum[g] + 8 * scale[g]);
    }
    // Half a step, and a little for steps and starts that are f16.
    const float room = (8 * most_scale + (most - least)) * 0.51f / 255;
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], room) << "row " << row << ", " << i;
      if (got[i] != want[i]) ++moved;
    }
  }
  EXPECT_GT(moved, 1000);  // else they were not rounded
}

TEST(QuantizedMatrix, KeepsScalesThatBytesDoNotFit) {
  const StoredKind kind{WeightFormat::kUint4, 32, false, 32, ScaleStorage::kBytes};
  constexpr int64_t kRows = 40, kColumns = 320, kGroups = kColumns / 32;
  const auto layout = [&](float scale, float minimum) {
    StoredMatrix stored = RandomStored(kind, kRows, kColumns, 4);
    stored.scale.data<float>()[33 * kGroups + 2] = scale;
    stored.minimum.data<float>()[33 * kGroups + 3] = minimum;
    const QuantizedMatrix matrix(stored, 2, ScaleStorage::kBytes);
    std::vector<float> row(kColumns);
    matrix.ReadRow(20, row.data());
    EXPECT_NEAR(row[0], ValuesOf({kind.format}, stored)[20 * kColumns], 0.01f);
    return matrix.layout();
  };
  EXPECT_EQ(layout(0.1f, 0.1f).scales, ScaleType::kByte);
  for (const auto& [scale, minimum] : std::vector<std::pair<float, float>>{{-0.1f, 0.1f},
                                                                           {0.1f, 1000.0f},
                                                                           {0.1f, 1e30f},
                                                                           {0.1f, -1e30f},
                                                                           {0.1f, NAN},
                                                                           {INFINITY, 0.1f}}) {
    const PanelLayout kept = layout(scale, minimum);
    EXPECT_EQ(kept.scales, ScaleType::kF32) << scale << " " << minimum;
    EXPECT_EQ(kept.zero, 0);
  }
  // Only weights of 4 bits with minimums have bytes.
  for (WeightFormat format : {WeightFormat::kQ8_0, WeightFormat::kQ4_0}) {
    const StoredMatrix stored = RandomStored({format, 0, false, 32}, 16, 64, 5);
    EXPECT_EQ(QuantizedMatrix(stored, 1, ScaleStorage::kBytes).layout().scales, ScaleType::kF16);
  }
}

struct TightCase {
  WeightFormat format;
  int columns;
  WeightType type;
  ScaleType scales;
  double bits;  // of a weight, its part of the scales included
};
constexpr TightCase kTightCases[] = {
    {WeightFormat::kQ5_0, 64, WeightType::kInt5, ScaleType::kF16, 5.5},
    {WeightFormat::kQ5_1, 64, WeightType::kInt5, ScaleType::kF16, 6},
    {WeightFormat::kQ2K, 512, WeightType::kInt4, ScaleType::kByte, 5.1875},
    {WeightFormat::kQ3K, 512, WeightType::kInt4, ScaleType::kSignedByte, 4.5625},
    {WeightFormat::kQ4K, 512, WeightType::kInt4, ScaleType::kByte, 4.6875},
    {WeightFormat::kQ5K, 512, WeightType::kInt5, ScaleType::kByte, 5.6875},
    {WeightFormat::kQ6K, 512, WeightType::kInt6, ScaleType::kSignedByte, 6.5625},
};

TEST(QuantizedMatrix, KeepsTheBitsOfAFileAndNoMore) {
  for (const TightCase& c : kTightCases) {
    const StoredKind kind{c.format, 0, false, c.columns};
    SCOPED_TRACE(kind.Describe());
    const StoredMatrix stored = RandomStored(kind, 21, c.columns, 6);
    for (const ScaleStorage scales : {ScaleStorage::kStored, ScaleStorage::kBytes}) {
      const QuantizedMatrix matrix(stored, 2, scales);
      EXPECT_EQ(matrix.layout().type, c.type);
      EXPECT_EQ(matrix.layout().scales, c.scales);
      EXPECT_EQ(static_cast<double>(matrix.panel_bytes()), c.bits / 8 * c.columns * kPanelRows);
      // Scales times steps are exact; one rounding is that of the sum with a minimum.
      const std::vector<float> values = ValuesOf({c.format}, stored);
      std::vector<float> row(static_cast<size_t>(c.columns));
      for (int64_t r = 0; r < stored.rows; ++r) {
        matrix.ReadRow(r, row.data());
        for (int64_t i = 0; i < c.columns; ++i) {
          const float want = values[static_cast<size_t>(r * c.columns + i)];
          const float room = matrix.layout().has_minimum ? 1e-6f : 0.0f;
          ASSERT_NEAR(row[static_cast<size_t>(i)], want, room) << "row " << r << ", " << i;
        }
      }
    }
  }
}

TEST(QuantizedMatrix, StepsThatDoNotFitAreKeptAsFloats) {
  for (const TightCase& c : kTightCases) {
    if (c.columns < 256) continue;
    const StoredKind kind{c.format, 0, false, c.columns};
    for (const float step : {256.0f, -300.0f, static_cast<float>(INFINITY), NAN}) {
      SCOPED_TRACE(kind.Describe() + ", step " + std::to_string(step));
      StoredMatrix stored = RandomStored(kind, 21, c.columns, 6);
      const BlockScales at = ScalesOf(c.format);
      // Of the second block of row 17.
      PutHalf(stored.data.raw() + 35 * at.bytes + at.at[0], step);
      const QuantizedMatrix matrix(stored, 2);
      EXPECT_EQ(matrix.layout().scales, ScaleType::kF32);
      const std::vector<float> values = ValuesOf({c.format}, stored);
      std::vector<float> row(static_cast<size_t>(c.columns));
      for (const int64_t r : {17, 20}) {
        matrix.ReadRow(r, row.data());
        const int64_t end = std::isfinite(step) ? c.columns : 256;
        for (int64_t i = 0; i < end; ++i) {
          const float want = values[static_cast<size_t>(r * c.columns + i)];
          ASSERT_NEAR(row[static_cast<size_t>(i)], want, 2e-6f * (1 + std::fabs(want)));
        }
      }
    }
  }
}

TEST(QuantizedMatrix, IsSharedWhileItsWeightIs) {
  const StoredMatrix stored = RandomStored({WeightFormat::kQ4_0, 0, false, 32}, 16, 32, 1);
  const auto first = QuantizedMatrix::Shared(stored, 1);
  EXPECT_EQ(QuantizedMatrix::Shared(stored, 1), first);
  StoredMatrix copy = stored;
  copy.data = stored.data.Clone();
  EXPECT_NE(QuantizedMatrix::Shared(copy, 1), first);
}

TEST(QuantizedMatrix, IsSharedUnlessOtherScalesMakeItAnother) {
  const auto both_are_one = [](WeightFormat format) {
    const StoredMatrix stored = RandomStored({format, 0, false, 32}, 16, 32, 1);
    const auto plain = QuantizedMatrix::Shared(stored, 1);
    return QuantizedMatrix::Shared(stored, 1, ScaleStorage::kBytes) == plain;
  };
  EXPECT_TRUE(both_are_one(WeightFormat::kQ4_0));
  EXPECT_TRUE(both_are_one(WeightFormat::kQ8_0));
  EXPECT_FALSE(both_are_one(WeightFormat::kQ4_1));
}

TEST(QuantizedMatrix, ItsDataAreAllPanels) {
  const StoredMatrix stored = RandomStored({WeightFormat::kQ8_0, 0, false, 32}, 40, 64, 1);
  const QuantizedMatrix matrix(stored, 1);
  EXPECT_EQ(matrix.data().data(), matrix.panel(0));
  EXPECT_EQ(matrix.data().data() + matrix.data().size(), matrix.panel(matrix.panels()));
}

}  // namespace
}  // namespace oort
