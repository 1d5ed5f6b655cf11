// SPDX-License-Identifier: MIT
// The row with the largest product by way of fewer bits, against products with all of them.
#include "layers/quantized_linear/cpu/argmax_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace oort {
namespace {

/// Weights as the heads of language models have them: normal, some rows and columns larger.
StoredMatrix StoredHead(int64_t rows, int64_t columns, unsigned seed) {
  constexpr int64_t kGroup = 32, kBlock = 34;
  std::minstd_rand engine(seed);
  std::normal_distribution<float> normal;
  StoredMatrix stored;
  stored.format = WeightFormat::kQ8_0;
  stored.rows = rows;
  stored.columns = columns;
  stored.data = Tensor(DType::kU8, {rows, columns / kGroup * kBlock});
  std::byte* to = stored.data.raw();
  for (int64_t row = 0; row < rows; ++row) {
    const float size = std::exp(normal(engine) / 4);
    for (int64_t g = 0; g < columns / kGroup; ++g, to += kBlock) {
      float values[kGroup], most = 0;
      for (int i = 0; i < kGroup; ++i) {
        values[i] = normal(engine) * size * (g == 1 && i == 3 ? 5.0f : 1.0f);
        most = std::max(most, std::fabs(values[i]));
      }
      const uint16_t half = FloatToHalf(most / 127);
      std::memcpy(to, &half, 2);
      for (int i = 0; i < kGroup; ++i) {
        to[2 + i] = static_cast<std::byte>(std::lround(values[i] / HalfToFloat(half)));
      }
    }
  }
  return stored;
}

/// Normal, with one large element as the last hidden states of models have.
std::vector<float> Hidden(int64_t count, unsigned seed) {
  std::minstd_rand engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(count));
  for (float& value : x) value = normal(engine);
  x[seed % x.size()] *= 12;
  return x;
}

struct Head {
  std::shared_ptr<const QuantizedMatrix> matrix;
  ArgmaxRow argmax;

  Head(Isa isa, Precision precision, const StoredMatrix& stored, bool coarse = true)
      : matrix(std::make_shared<const QuantizedMatrix>(stored, 1)), argmax(isa, precision, matrix) {
    if (coarse) argmax.MakeCoarse(2);
  }

  std::vector<int32_t> Find(const std::vector<float>& x, int threads) const {
    const int64_t rows = static_cast<int64_t>(x.size()) / matrix->columns();
    Tensor workspace(DType::kU8, {static_cast<int64_t>(argmax.Workspace(rows, threads)) + 64});
    std::vector<int32_t> found(static_cast<size_t>(rows), -7);
    argmax.Find(x.data(), rows, threads, workspace.raw(), found.data());
    return found;
  }
};

std::vector<float> Products(Isa isa, const std::shared_ptr<const QuantizedMatrix>& matrix,
                            const std::vector<float>& x) {
  const QuantizedMultiplier multiplier(isa, Precision::kBF16);
  const float* no_bias = nullptr;
  std::vector<float> y(static_cast<size_t>(matrix->rows()));
  float* to = y.data();
  QuantizedProduct product;
  product.rows = 1;
  product.x = x.data();
  product.x_stride = matrix->columns();
  product.matrices = {&matrix, 1};
  product.biases = {&no_bias, 1};
  product.y = {&to, 1};
  Tensor workspace(DType::kU8, {static_cast<int64_t>(multiplier.Workspace(product, 1)) + 64});
  multiplier.Run(product, 1, workspace.raw());
  return y;
}

int32_t LargestOf(const std::vector<float>& y) {
  return static_cast<int32_t>(std::max_element(y.begin(), y.end()) - y.begin());
}

bool HasCoarse(Isa isa) { return QuantizedDotKernelsFor(isa) != nullptr; }

TEST(ArgmaxRow, IsThatOfAllBitsWhereFewerAreNotEnough) {
  constexpr int64_t kRows = 1003, kColumns = 192;
  const StoredMatrix stored = StoredHead(kRows, kColumns, 5);
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(Name(isa));
    const Head head(isa, Precision::kBF16, stored);
    ASSERT_EQ(head.argmax.coarse() != nullptr, HasCoarse(isa));
    const auto coarse = QuantizedMatrix::Coarse(*head.matrix, 1);
    const int vectors = isa == SupportedIsas().back() ? 3000 : 300;
    int coarse_is_wrong = 0;
    for (int i = 0; i < vectors; ++i) {
      const std::vector<float> x = Hidden(kColumns, static_cast<unsigned>(i));
      const int32_t want = LargestOf(Products(isa, head.matrix, x));
      ASSERT_EQ(head.Find(x, 1 + i % 3)[0], want) << "vector " << i;
      if (i < 100 && LargestOf(Products(isa, coarse, x)) != want) ++coarse_is_wrong;
    }
    EXPECT_GT(coarse_is_wrong, 3);  // else all of this says nothing
  }
}

StoredMatrix RowsOf(const StoredMatrix& all, int64_t begin, int64_t end) {
  StoredMatrix part = all;
  part.rows = end - begin;
  part.data = all.data.Rows(begin, end);
  return part;
}

/// What a part of a matrix finds where the others have `others` for its best.
int32_t FindBeside(const Head& part, const std::vector<float>& x,
                   const std::vector<ArgmaxRow::CoarseBest>& others, ArgmaxRow::CoarseBest& own) {
  Tensor workspace(DType::kU8, {static_cast<int64_t>(part.argmax.Workspace(1, 1)) + 64});
  int32_t found = -7;
  int calls = 0;
  const auto take_best = [&](std::span<ArgmaxRow::CoarseBest> bests) {
    ASSERT_EQ(bests.size(), 1U);
    own = bests[0];
    for (const auto& other : others) {
      if (!(other.product <= bests[0].product)) bests[0] = other;
    }
    ++calls;
  };
  const ArgmaxRow::ShareBests share = take_best;
  part.argmax.Find(x.data(), 1, 1, workspace.raw(), &found, &share);
  EXPECT_EQ(calls, 1);
  return found;
}

TEST(ArgmaxRow, PartsThatKnowTheBestOfAllFindIt) {
  constexpr int64_t kRows = 1003, kCut = 496, kColumns = 192;
  const StoredMatrix stored = StoredHead(kRows, kColumns, 5);
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(Name(isa));
    const Head whole(isa, Precision::kBF16, stored);
    const Head first(isa, Precision::kBF16, RowsOf(stored, 0, kCut));
    const Head second(isa, Precision::kBF16, RowsOf(stored, kCut, kRows));
    int nothing = 0;
    for (unsigned i = 0; i < 100; ++i) {
      const std::vector<float> x = Hidden(kColumns, i);
      ArgmaxRow::CoarseBest of_first, of_second, ignored;
      FindBeside(first, x, {}, of_first);
      const int32_t in_second = FindBeside(second, x, {of_first}, of_second);
      const int32_t in_first = FindBeside(first, x, {of_second}, ignored);
      const int32_t want = whole.Find(x, 1)[0];
      EXPECT_EQ(want < kCut ? in_first : in_second + kCut, want);
      nothing += (in_first < 0 ? 1 : 0) + (in_second < 0 ? 1 : 0);
    }
    // Else they have looked through more than the whole matrix would have.
    EXPECT_EQ(nothing > 5, HasCoarse(isa)) << nothing;
  }
}

TEST(ArgmaxRow, PartsTellWhatSaysNothing) {
  const StoredMatrix stored = StoredHead(64, 96, 7);
  const Isa isa = SupportedIsas().back();
  const Head head(isa, Precision::kBF16, stored), plain(isa, Precision::kBF16, stored, false);
  const std::vector<float> x = Hidden(96, 1);
  const int32_t want = plain.Find(x, 1)[0];
  ArgmaxRow::CoarseBest own;
  EXPECT_EQ(FindBeside(plain, x, {}, own), want);
  EXPECT_EQ(own.product, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(FindBeside(head, x, {own}, own), want);  // the other one has none
  if (!HasCoarse(isa)) return;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(FindBeside(head, x, {{nan, 0}}, own), want);
  std::vector<float> odd = x;
  odd[40] = std::numeric_limits<float>::infinity();
  FindBeside(head, odd, {}, own);
  EXPECT_TRUE(std::isnan(own.product));
}

TEST(ArgmaxRow, IsTheLowestOfEqualOnes) {
  constexpr int64_t kRows = 700, kColumns = 64;
  StoredMatrix stored = StoredHead(kRows, kColumns, 6);
  const int64_t bytes = RowBytes(stored.format, kColumns);
  for (int64_t row = 350; row < kRows; ++row) {
    std::memcpy(stored.data.raw() + row * bytes, stored.data.raw() + (row - 350) * bytes,
                static_cast<size_t>(bytes));
  }
  for (Isa isa : SupportedIsas()) {
    const Head head(isa, Precision::kBF16, stored);
    for (unsigned i = 0; i < 50; ++i) {
      const std::vector<float> x = Hidden(kColumns, i);
      const int32_t found = head.Find(x, 2)[0];
      EXPECT_LT(found, 350);
      EXPECT_EQ(found, LargestOf(Products(isa, head.matrix, x)));
    }
    EXPECT_EQ(head.Find(std::vector<float>(kColumns, 0.0f), 1)[0], 0);
  }
}

std::vector<std::pair<Isa, int64_t>> IsasAndRows(std::initializer_list<int64_t> rows) {
  std::vector<std::pair<Isa, int64_t>> all;
  for (const Isa isa : SupportedIsas()) {
    for (const int64_t count : rows) all.emplace_back(isa, count);
  }
  return all;
}

// Panels that are full and a last one that is not: only the first have coarse products of several
// rows.
TEST(ArgmaxRow, TakesWhatIsNotFiniteAndSeveralRows) {
  constexpr int64_t kColumns = 96;
  for (const auto& [isa, matrix_rows] : IsasAndRows({50, 64})) {
    const StoredMatrix stored = StoredHead(matrix_rows, kColumns, 7);
    const Head head(isa, Precision::kBF16, stored), plain(isa, Precision::kBF16, stored, false);
    std::vector<float> x = Hidden(kColumns, 1);
    for (const float odd :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38f}) {
      x[40] = odd;
      EXPECT_EQ(head.Find(x, 1), plain.Find(x, 1)) << odd;
    }
    std::vector<float> rows, alone;
    std::vector<int32_t> want;
    for (unsigned i = 0; i < 5; ++i) {
      alone = Hidden(kColumns, i);
      rows.insert(rows.end(), alone.begin(), alone.end());
      want.push_back(head.Find(alone, 1)[0]);
    }
    rows.insert(rows.end(), x.begin(), x.end());
    want.push_back(head.Find(x, 1)[0]);
    EXPECT_EQ(head.Find(rows, 2), want);
    EXPECT_EQ(plain.Find(rows, 2), want);
  }
}

TEST(ArgmaxRow, HasNoCoarseWeightsWhereTheyDoNotPay) {
  const StoredMatrix stored = StoredHead(32, 64, 8);
  const Isa isa = SupportedIsas().back();
  EXPECT_EQ(Head(isa, Precision::kF32, stored).argmax.coarse(), nullptr);  // exact
  StoredMatrix floats;
  floats.rows = 32;
  floats.columns = 64;
  floats.data = Tensor(DType::kF32, {32, 64});
  std::fill_n(floats.data.data<float>(), 32 * 64, 1.0f);
  const Head head(isa, Precision::kBF16, floats);
  EXPECT_EQ(head.argmax.coarse(), nullptr);
  EXPECT_EQ(head.Find(Hidden(64, 3), 1)[0], 0);
}

TEST(QuantizedMatrix, IsHalfAStepFromItsCoarseWeights) {
  constexpr int64_t kRows = 37, kColumns = 128, kGroup = 32;
  const QuantizedMatrix fine(StoredHead(kRows, kColumns, 9), 1);
  const auto coarse = QuantizedMatrix::Coarse(fine, 3);
  EXPECT_LT(coarse->bytes(), fine.bytes() * 6 / 10);
  std::vector<float> exact(kColumns), rounded(kColumns);
  for (int64_t row = 0; row < kRows; ++row) {
    fine.ReadRow(row, exact.data());
    coarse->ReadRow(row, rounded.data());
    for (int64_t k = 0; k < kColumns; ++k) {
      uint16_t half;
      const std::byte* group =
          coarse->panel(row / kPanelRows) + k / kGroup * coarse->layout().group_bytes();
      std::memcpy(&half, group + 2 * (row % kPanelRows), 2);
      const size_t i = static_cast<size_t>(k);
      EXPECT_LE(std::fabs(exact[i] - rounded[i]), 0.502f * std::fabs(HalfToFloat(half)));
    }
  }
}

}  // namespace
}  // namespace oort
