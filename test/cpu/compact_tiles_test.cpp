// SPDX-License-Identifier: MIT
// The kernels on tiles alone: what is unpacked between the products of another stretch is what is
// unpacked alone, and that is the rounded weight. Products as a whole are in compact_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "cpu/compact/compact_matrix.h"

namespace oort {
namespace {

/// 32 or 16 rows of blocks with f16 scales in front.
StoredMatrix TileWeights(WeightFormat format, int64_t rows, int64_t columns) {
  const int64_t block = RowBytes(format, 32);
  StoredMatrix stored;
  stored.format = format;
  stored.rows = rows;
  stored.columns = columns;
  stored.data = Tensor(DType::kU8, {rows, RowBytes(format, columns)});
  std::byte* bytes = stored.data.raw();
  for (size_t i = 0; i < stored.data.bytes(); ++i) {
    bytes[i] = static_cast<std::byte>((i * 2654435761u) >> 11);
  }
  const int scales = format == WeightFormat::kQ4_1 ? 2 : 1;
  for (size_t i = 0; i < stored.data.bytes(); i += static_cast<size_t>(block)) {
    for (int s = 0; s < scales; ++s) {
      const uint16_t half = FloatToHalf(0.01f * static_cast<float>(1 + i % 7) - 0.03f);
      std::memcpy(bytes + i + 2 * static_cast<size_t>(s), &half, 2);
    }
  }
  return stored;
}

float WidenTile(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof(wide));
  return wide;
}

TEST(CompactTiles, UnpackBetweenProductsWhatTheyUnpackAlone) {
  const CompactTileKernels* kernels = CompactTileKernelsFor(DefaultIsa());
  if (kernels == nullptr) GTEST_SKIP() << "no tiles";
  for (WeightFormat format : {WeightFormat::kQ4_0, WeightFormat::kQ4_1, WeightFormat::kQ8_0}) {
    for (int64_t rows : {16, 32}) {
      SCOPED_TRACE(std::string(Name(format)) + ", " + std::to_string(rows) + " outputs");
      constexpr int64_t kK = 96;
      const StoredMatrix stored = TileWeights(format, rows, kK);
      const CompactMatrix matrix(stored, 1);
      std::vector<float> values(static_cast<size_t>(rows * kK));
      ReadRows(stored, 0, rows, values.data());
      // As if k ended inside of a tile: what lies behind must be zeros.
      constexpr int64_t kPadded = kK + 32;
      std::vector<uint16_t> alone(kPadded * kTileColumns, 0xffff), meanwhile = alone;
      TileStretch stretch;
      stretch.layout = matrix.layout();
      stretch.k = kK;
      stretch.padded = kPadded;
      stretch.panels[0] = matrix.panel(0);
      if (rows > 16) stretch.panels[1] = matrix.panel(1);
      stretch.to = alone.data();
      kernels->unpack(stretch);
      for (int64_t k = 0; k < kPadded; ++k) {
        for (int64_t row = 0; row < rows; ++row) {
          const int64_t at = (k / 2 * kTileColumns + row) * 2 + k % 2;
          const float want = k < kK ? values[static_cast<size_t>(row * kK + k)] : 0.0f;
          ASSERT_NEAR(WidenTile(alone[static_cast<size_t>(at)]), want,
                      std::fabs(want) * 0.00391 + 1e-6)
              << "step " << k << " row " << row;
        }
      }
      // Pieces, which may begin inside of a group, are parts of the whole.
      for (const auto& [k0, k1] : {std::pair<int64_t, int64_t>{32, 64}, {64, 128}}) {
        std::vector<uint16_t> piece(static_cast<size_t>((k1 - k0) * kTileColumns), 0xffff);
        TileStretch part = stretch;
        part.k0 = k0;
        part.k = std::min(k1, kK);
        part.padded = k1;
        part.to = piece.data();
        kernels->unpack(part);
        EXPECT_TRUE(std::equal(piece.begin(), piece.end(), alone.begin() + k0 * kTileColumns));
      }
      for (int64_t x_rows : {1, 16, 17, 48, 200}) {
        // Ones: each sum is that of a column.
        const int64_t tall = (x_rows + 31) / 32 * 32;
        const std::vector<uint16_t> ones(static_cast<size_t>(tall * kPadded), uint16_t{0x3f80});
        std::vector<float> sums(static_cast<size_t>(tall * kTileColumns));
        std::fill(meanwhile.begin(), meanwhile.end(), uint16_t{0xffff});
        TileStretch next = stretch;
        next.to = meanwhile.data();
        kernels->begin();
        kernels->multiply({x_rows, ones.data(), 64 * kPadded, alone.data(), kPadded, sums.data(),
                           kTileColumns, &next});
        kernels->end();
        EXPECT_EQ(meanwhile, alone) << x_rows << " rows";
        for (int64_t row = 0; row < rows; ++row) {
          double sum = 0;
          for (int64_t k = 0; k < kPadded; ++k) {
            const int64_t at = (k / 2 * kTileColumns + row) * 2 + k % 2;
            sum += WidenTile(alone[static_cast<size_t>(at)]);
          }
          for (int64_t r = 0; r < x_rows; ++r) {
            ASSERT_NEAR(sums[static_cast<size_t>(r * kTileColumns + row)], sum, 1e-4);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace oort
