// SPDX-License-Identifier: MIT
// The kernels on tiles alone: what they unpack and multiply is the rounded weight. Products as a
// whole are in quantized_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "layers/quantized_linear/cpu/quantized_matrix.h"

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

/// What weights are unpacked to, and how x is packed.
struct TileFormat {
  const char* name;
  const QuantizedTileKernels* kernels;
  bool half;  ///< f16, else bf16

  float Widen(uint16_t value) const {
    return half ? HalfToFloat(value) : std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
  }
  uint16_t one() const { return half ? 0x3c00 : 0x3f80; }
  /// Where step k stands: pairs are of neighbours, or of steps 0 and 2, 1 and 3 of four.
  int64_t Place(int64_t k) const { return half ? k / 4 * 4 + k % 2 * 2 + k % 4 / 2 : k; }
};

std::vector<TileFormat> TileFormats() {
  std::vector<TileFormat> formats;
  if (const auto* kernels = QuantizedTileKernelsFor(DefaultIsa())) {
    formats.push_back({"bf16", kernels, false});
  }
  if (const auto* kernels = QuantizedF16TileKernelsFor(DefaultIsa())) {
    formats.push_back({"f16", kernels, true});
  }
  return formats;
}

/// Multiplies ones with a piece: what is unpacked is the rounded weight, and each sum that of a
/// column.
void CheckPiece(const TileFormat& format, const TileStretch& piece, const StoredMatrix& stored,
                int64_t x_rows) {
  const int64_t steps = piece.padded - piece.k0, tall = (x_rows + 31) / 32 * 32;
  std::vector<float> values(static_cast<size_t>(stored.rows * stored.columns));
  ReadRows(stored, 0, stored.rows, values.data());
  std::vector<uint16_t> unpacked(static_cast<size_t>(steps * kTileColumns), 0xffff);
  const std::vector<uint16_t> ones(static_cast<size_t>(tall * steps), format.one());
  std::vector<float> sums(static_cast<size_t>(tall * kTileColumns));
  QuantizedTiles tiles;
  tiles.rows = x_rows;
  tiles.a = ones.data();
  tiles.a_panel = 64 * steps;
  tiles.piece = piece;
  tiles.piece.to = unpacked.data();
  tiles.sums = sums.data();
  tiles.stride = kTileColumns;
  format.kernels->begin();
  format.kernels->multiply(tiles);
  format.kernels->end();
  const double relative = format.half ? 0.00049 : 0.00391;
  for (int64_t row = 0; row < stored.rows; ++row) {
    double sum = 0;
    for (int64_t k = 0; k < steps; ++k) {
      const int64_t place = format.Place(k);
      const int64_t at = (place / 2 * kTileColumns + row) * 2 + place % 2;
      const float got = format.Widen(unpacked[static_cast<size_t>(at)]);
      const int64_t column = piece.k0 + k;
      const float want =
          column < piece.k ? values[static_cast<size_t>(row * stored.columns + column)] : 0.0f;
      ASSERT_NEAR(got, want, std::fabs(want) * relative + 1e-6) << "step " << k << " row " << row;
      sum += got;
    }
    for (int64_t r = 0; r < x_rows; ++r) {
      ASSERT_NEAR(sums[static_cast<size_t>(r * kTileColumns + row)], sum, 1e-4);
    }
  }
}

TEST(QuantizedTiles, UnpackWhatTheyMultiply) {
  const std::vector<TileFormat> formats = TileFormats();
  if (formats.empty()) GTEST_SKIP() << "no tiles";
  for (const TileFormat& format : formats) {
    for (WeightFormat weights : {WeightFormat::kQ4_0, WeightFormat::kQ4_1, WeightFormat::kQ8_0}) {
      for (int64_t rows : {16, 32}) {
        constexpr int64_t kK = 96;
        const StoredMatrix stored = TileWeights(weights, rows, kK);
        const QuantizedMatrix matrix(stored, 1);
        TileStretch piece;
        piece.layout = matrix.layout();
        piece.panels[0] = matrix.panel(0);
        if (rows > 16) piece.panels[1] = matrix.panel(1);
        // Some begin in the midst; behind k there are zeros.
        for (const auto& [k0, padded] : {std::pair<int64_t, int64_t>{0, 96}, {0, 128}, {64, 128}}) {
          piece.k0 = k0;
          piece.k = std::min(padded, kK);
          piece.padded = padded;
          for (int64_t x_rows : {1, 16, 17, 48, 200}) {
            SCOPED_TRACE(std::string(format.name) + ", " + std::string(Name(weights)) + ", " +
                         std::to_string(rows) + " outputs, k from " + std::to_string(k0) + ", " +
                         std::to_string(x_rows) + " rows");
            CheckPiece(format, piece, stored, x_rows);
          }
        }
      }
    }
  }
}

TEST(QuantizedTiles, PackRowsThatHalvesHold) {
  const QuantizedTileKernels* kernels = QuantizedF16TileKernelsFor(DefaultIsa());
  if (kernels == nullptr) GTEST_SKIP() << "no tiles of f16";
  constexpr int64_t kRows = 35, kK = 44, kPadded = 64, kTall = 64;
  std::vector<float> x(kRows * kK);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) * 0.25f - 12;
  const auto fill = [&](int64_t row, float value) { std::fill_n(x.begin() + row * kK, kK, value); };
  fill(1, 0);
  fill(2, 32767);
  fill(3, 1e-4f);  // less than bf16 keeps would be left
  fill(4, 40000);
  fill(34, INFINITY);
  x[5 * kK + 7] = NAN;
  std::vector<uint16_t> a(kTall * kPadded, 0xffff);
  bool fits[kRows] = {};
  kernels->pack({x.data(), kK, 0, kTall, kRows, kK, kPadded, a.data(), fits});
  for (int64_t row = 0; row < kTall; ++row) {
    const bool held = row < kRows && row != 3 && row != 4 && row != 5 && row != 34;
    if (row < kRows) {
      EXPECT_EQ(fits[row], held) << row;
    }
    for (int64_t k = 0; k < kPadded; ++k) {
      const int64_t place = TileFormat{"", kernels, true}.Place(k);
      const int64_t at = (row / 32 * kPadded / 32 + place / 32) * 1024 + row % 32 * 32 + place % 32;
      const float want = held && k < kK ? x[static_cast<size_t>(row * kK + k)] : 0.0f;
      ASSERT_EQ(a[static_cast<size_t>(at)], FloatToHalf(want)) << "row " << row << " step " << k;
    }
  }
}

}  // namespace
}  // namespace oort
