// SPDX-License-Identifier: MIT
// Tiles of bytes, against sums in f64 over what the bytes stand for.
#include "layers/quantized_linear/cpu/byte_tiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "layers/quantized_linear/cpu/quantized_cases.h"
#include "layers/quantized_linear/cpu/row_forms.h"

namespace oort {
namespace {

/// A matrix, and rows of x as bytes.
struct TileCase {
  std::shared_ptr<const QuantizedMatrix> matrix;
  int64_t rows;
  std::vector<float> x;
  std::vector<std::byte> memory;
  ByteRows bytes;

  TileCase(Isa isa, const StoredMatrix& stored, ScaleStorage scales, std::vector<float> values,
           bool two_bytes)
      : matrix(std::make_shared<const QuantizedMatrix>(stored, 1, scales)),
        rows(static_cast<int64_t>(values.size()) / stored.columns),
        x(std::move(values)) {
    QuantizedProduct product;
    product.rows = rows;
    product.x = x.data();
    product.x_stride = stored.columns;
    product.matrices = {&matrix, 1};
    const ByteScratch scratch(product, PieceOf(matrix->layout()), two_bytes);
    memory.resize(static_cast<size_t>(scratch.bytes));
    bytes = scratch.Fill(QuantizedKernelsFor(isa), product, 1, memory.data());
  }

  /// What the bytes of row r stand for at step k.
  double X(int64_t r, int64_t k) const {
    const int64_t at = bytes.number_at(r, k / bytes.piece);
    const int64_t byte = at * bytes.piece + k % bytes.piece;
    const bool all = matrix->layout().type == WeightType::kInt8 && bytes.of_8_bits.scale != nullptr;
    const double scale = (all ? bytes.of_8_bits : bytes.of_4_bits).scale[at];
    if (!all && bytes.is_fine[at] == 0) return scale * bytes.q[byte];
    return scale * (kFineSteps * bytes.q[byte] + bytes.fine[byte]);
  }

  std::vector<float> Run(const ByteTileKernels& kernels, int64_t panel) const {
    std::vector<std::byte> unpacked(
        static_cast<size_t>(BytePanel::Bytes(matrix->layout(), matrix->columns())));
    constexpr int64_t kStride = kPanelRows + 3;
    std::vector<float> y(static_cast<size_t>(rows * kStride), -1e9f);
    ByteTiles tiles;
    tiles.layout = matrix->layout();
    tiles.k = matrix->columns();
    tiles.panel = kernels.unpack(tiles.layout, tiles.k, matrix->panel(panel), unpacked.data());
    tiles.x = bytes;
    tiles.rows = static_cast<int>(rows);
    tiles.y = y.data();
    tiles.y_stride = kStride;
    kernels.multiply(tiles);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = kPanelRows; i < kStride; ++i) {
        EXPECT_EQ(y[static_cast<size_t>(r * kStride + i)], -1e9f) << "behind row " << r;
      }
      std::copy_n(y.begin() + r * kStride, kPanelRows, y.begin() + r * kPanelRows);
    }
    y.resize(static_cast<size_t>(rows * kPanelRows));
    return y;
  }

  void Check(const ByteTileKernels& kernels, double relative) const {
    const int64_t columns = matrix->columns();
    std::vector<float> w(static_cast<size_t>(columns));
    std::vector<double> seen;  // what the bytes stand for
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < columns; ++k) seen.push_back(X(r, k));
    }
    for (int64_t panel = 0; panel < matrix->panels(); ++panel) {
      const std::vector<float> y = Run(kernels, panel);
      for (int64_t i = 0; i < std::min<int64_t>(kPanelRows, matrix->rows() - panel * kPanelRows);
           ++i) {
        matrix->ReadRow(panel * kPanelRows + i, w.data());
        for (int64_t r = 0; r < rows; ++r) {
          // Pointers: in builds with sanitizers an operator[] is a call.
          const double* row = seen.data() + r * columns;
          const float* weights = w.data();
          double sum = 0, magnitude = 0;
          for (int64_t k = 0; k < columns; ++k) {
            const double term = row[k] * weights[k];
            sum += term;
            magnitude += std::fabs(term);
          }
          ASSERT_NEAR(y[static_cast<size_t>(r * kPanelRows + i)], sum,
                      relative * (magnitude + 1e-3))
              << "row " << r << " of " << rows << ", panel " << panel << ", row of weights " << i;
        }
      }
    }
  }
};

/// Calls body(isa, kernels) for all that have tiles of bytes.
template <typename Body>
void ForTileKernels(Body body) {
  for (Isa isa : SupportedIsas()) {
    const ByteTileKernels* kernels = ByteTileKernelsFor(isa);
    if (kernels == nullptr) continue;
    SCOPED_TRACE(Name(isa));
    body(isa, *kernels);
  }
}

TEST(ByteTiles, EveryFormatEqualsSumsInF64) {
  ForTileKernels([](Isa isa, const ByteTileKernels& kernels) {
    for (const StoredKind& kind : kStoredKinds) {
      for (int64_t rows : {2, 3, 4, 7, 13, 14, 25}) {
        for (const bool two_bytes : {false, true}) {
          if (two_bytes && !kernels.two_bytes) continue;
          const int64_t k = ColumnsOf(kind, rows % 2 == 0 ? 1 : 300);
          const StoredMatrix stored = RandomStored(kind, 21, k, 3);
          if (!QuantizedMatrix(stored, 1, kind.scales).layout().quantized()) continue;
          SCOPED_TRACE(kind.Describe() + (two_bytes ? ", two bytes" : ""));
          std::vector<float> x = QuantizedNumbers(7).Many(rows * k);
          // In some rows a piece with elements that are far larger, which gets a second byte.
          for (size_t i = 5; i < x.size(); i += static_cast<size_t>(3 * k + 40)) x[i] *= 30;
          TileCase(isa, stored, kind.scales, std::move(x), two_bytes).Check(kernels, 3e-6);
        }
      }
    }
  });
}

/// The bits of a row do not depend on the rows beside it, and so not on the tile that it is in.
TEST(ByteTiles, RowsHaveTheBitsThatTheyHaveAlone) {
  ForTileKernels([](Isa isa, const ByteTileKernels& kernels) {
    for (const WeightFormat format : {WeightFormat::kQ8_0, WeightFormat::kQ4_1}) {
      constexpr int64_t kColumns = 288, kMostRows = 17;
      const StoredMatrix stored = RandomStored({format, 0, false, 32}, 16, kColumns, 3);
      std::vector<float> x = QuantizedNumbers(7).Many(kMostRows * kColumns);
      for (size_t i = 5; i < x.size(); i += size_t{3 * kColumns + 40}) x[i] *= 30;
      const auto rows_of = [&](int64_t begin, int64_t end) {
        std::vector<float> some(x.begin() + begin * kColumns, x.begin() + end * kColumns);
        return TileCase(isa, stored, ScaleStorage::kStored, std::move(some), false).Run(kernels, 0);
      };
      std::vector<float> alone;
      for (int64_t rows = 1; rows <= kMostRows; ++rows) {
        const std::vector<float> last = rows_of(rows - 1, rows);
        alone.insert(alone.end(), last.begin(), last.end());
        EXPECT_EQ(rows_of(0, rows), alone) << Name(format) << ", rows " << rows;
      }
    }
  });
}

// The largest sums that there can be: all weights and all elements at an end of their range.
TEST(ByteTiles, LargestSumsDoNotOverflow) {
  ForTileKernels([](Isa isa, const ByteTileKernels& kernels) {
    for (WeightFormat format : {WeightFormat::kQ8_0, WeightFormat::kQ4_0, WeightFormat::kQ5_0,
                                WeightFormat::kQ5_1, WeightFormat::kQ6K, WeightFormat::kQ4K}) {
      for (const int fill : {0x00, 0x7f, 0x80, 0xff}) {
        for (const float sign : {1.0f, -1.0f}) {
          for (const bool two_bytes : {false, true}) {
            if (two_bytes && !kernels.two_bytes) continue;
            StoredMatrix stored = RandomStored({format, 0, false, 256}, 16, 512, 3);
            const BlockScales scales = ScalesOf(format);
            for (int64_t i = 0; i < static_cast<int64_t>(stored.data.bytes()); ++i) {
              stored.data.raw()[i] = static_cast<std::byte>(fill);
              const int64_t in_block = i % scales.bytes;
              if (in_block + 1 < scales.bytes || scales.at.empty()) continue;
              for (int64_t at : scales.at) {
                PutHalf(stored.data.raw() + i - in_block + at, 0.125f);
              }
            }
            SCOPED_TRACE(std::string(Name(format)) + " filled with " + std::to_string(fill));
            std::vector<float> x(9 * 512, sign);
            for (size_t i = 0; i < 512; ++i) x[i] = i % 2 == 0 ? sign : -sign;
            TileCase(isa, stored, ScaleStorage::kStored, std::move(x), two_bytes)
                .Check(kernels, 3e-6);
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace oort
