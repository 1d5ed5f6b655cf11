// SPDX-License-Identifier: MIT
// Products with weights of 32 to 4 bits, against sums in f64 over what the weights stand for.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "layers/quantized_linear/cpu/quantized_cases.h"

namespace oort {
namespace {

/// Products of one x with some matrices and all that is done to them.
struct ProductCase {
  StoredKind kind;
  int64_t rows = 1, k = 0;
  std::vector<int64_t> outputs;
  bool bias = false, addend = false, gated = false;
  Activation activation = Activation::kNone;

  std::string Describe() const {
    return kind.Describe() + ", rows " + std::to_string(rows) + ", k " + std::to_string(k) +
           ", outputs " + std::to_string(outputs[0]) + " and " +
           std::to_string(outputs.size() - 1) + " others" + (gated ? ", gated" : "") +
           (bias ? ", bias" : "") + (addend ? ", addend" : "");
  }
};

class ProductData {
 public:
  explicit ProductData(const ProductCase& c) : c_(c) {
    QuantizedNumbers numbers(7);
    x = numbers.Many(c.rows * c.k);
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      stored.push_back(RandomStored(c.kind, c.outputs[i], c.k, 11u + static_cast<unsigned>(i)));
      matrices.push_back(std::make_shared<const QuantizedMatrix>(stored.back(), 2, c.kind.scales));
      biases.push_back(numbers.Many(c.outputs[i]));
      bias_data.push_back(c.bias ? biases.back().data() : nullptr);
    }
    addend = numbers.Many(c.rows * c.outputs[0]);
  }

  using Results = std::vector<std::vector<float>>;
  /// The product of `count` rows from `first` on.
  Results Run(Isa isa, Precision precision, int threads, int64_t first, int64_t count,
              bool nibbles = true, bool apart = false) const {
    const size_t results = c_.gated ? 1 : c_.outputs.size();
    Results y(results);
    std::vector<float*> out;
    for (size_t i = 0; i < results; ++i) {
      y[i].assign(static_cast<size_t>(count * c_.outputs[i]), 1e9f);
      out.push_back(y[i].data());
    }
    QuantizedProduct product;
    product.rows = count;
    product.x = x.data() + first * c_.k;
    product.x_stride = c_.k;
    product.matrices = matrices;
    product.biases = bias_data;
    product.next = next;
    product.y = out;
    if (c_.addend) product.addend = addend.data() + first * c_.outputs[0];
    product.gated = c_.gated;
    product.activation.kind = c_.activation;
    const QuantizedMultiplier multiplier(isa, precision, nibbles);
    // As a layer asks for it, which does not know yet whether rows are apart.
    const auto bytes = static_cast<int64_t>(multiplier.Workspace(product, threads));
    product.apart = apart;
    Tensor workspace(DType::kU8, {bytes});
    multiplier.Run(product, threads, workspace.raw());
    return y;
  }
  Results RunAll(Isa isa, Precision precision, int threads, bool nibbles = true) const {
    return Run(isa, precision, threads, 0, c_.rows, nibbles);
  }

  ProductCase c_;
  std::vector<float> x, addend;
  std::vector<StoredMatrix> stored;
  std::vector<std::shared_ptr<const QuantizedMatrix>> matrices;
  std::span<const std::byte> next;
  std::vector<std::vector<float>> biases;
  std::vector<const float*> bias_data;
};

double ActivateF64(Activation kind, double x) {
  if (kind == Activation::kRelu) return std::max(x, 0.0);
  if (kind == Activation::kSilu) return x / (1 + std::exp(-x));
  return x;
}

/// One result and what its sums of magnitudes are, by which errors are measured.
struct Sums {
  std::vector<double> y, magnitude;
};

/// Sums of x and weights as they are.
Sums Products(const ProductCase& c, const std::vector<float>& x, const StoredMatrix& stored,
              const float* bias) {
  const std::vector<float> w = ValuesOf(c.kind, stored);
  Sums sums;
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t j = 0; j < stored.rows; ++j) {
      // Pointers: in builds with sanitizers an operator[] is a call.
      const float *row = x.data() + r * c.k, *weights = w.data() + j * c.k;
      double sum = bias == nullptr ? 0 : bias[j], magnitude = std::fabs(sum);
      for (int64_t k = 0; k < c.k; ++k) {
        const double term = static_cast<double>(row[k]) * weights[k];
        sum += term;
        magnitude += std::fabs(term);
      }
      sums.y.push_back(sum);
      sums.magnitude.push_back(magnitude);
    }
  }
  return sums;
}

void CheckProduct(const ProductCase& c, Precision precision, const std::vector<float>& x,
                  double relative) {
  SCOPED_TRACE(c.Describe());
  const ProductData data(c);
  std::vector<Sums> sums;
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    sums.push_back(Products(c, x.empty() ? data.x : x, data.stored[i], data.bias_data[i]));
  }
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(Name(isa));
    const ProductData::Results one = data.RunAll(isa, precision, 1);
    for (size_t i = 0; i < one.size(); ++i) {
      for (size_t e = 0; e < one[i].size(); ++e) {
        double expected = sums[i].y[e], error = sums[i].magnitude[e];
        if (i == 0 && c.addend) expected += data.addend[e];
        if (i == 0) expected = ActivateF64(c.activation, expected);
        if (c.gated) {
          const double up = sums[1].y[e];
          error = error * std::fabs(up) + sums[1].magnitude[e] * std::fabs(expected);
          expected *= up;
        }
        ASSERT_NEAR(one[i][e], expected, relative * (error + 1)) << "result " << i << ", " << e;
      }
    }
    for (int threads : {2, 3}) {
      EXPECT_EQ(data.RunAll(isa, precision, threads), one) << threads << " threads";
    }
  }
}

/// x as whoever multiplies it as bytes sees it: in 127 steps; in parts of these for weights of 8
/// bits, and for pieces whose largest element has more than six times the mean square of those.
std::vector<float> RoundedToBytes(const ProductCase& c, const std::vector<float>& x, int piece,
                                  bool eight_bits) {
  EXPECT_EQ(c.k % piece, 0);
  std::vector<float> rounded(x.size());
  const auto width = static_cast<size_t>(c.k), step = static_cast<size_t>(piece);
  for (size_t row = 0; row < x.size(); row += width) {
    std::vector<float> largest;
    double squares = 0;
    for (size_t p = row; p < row + width; p += step) {
      float most = 0;
      for (size_t i = p; i < p + step; ++i) most = std::max(most, std::fabs(x[i]));
      largest.push_back(most);
      squares += static_cast<double>(most) * most;
    }
    for (size_t i = row; i < row + width; ++i) {
      const float most = largest[(i - row) / step];
      const bool fine = eight_bits || static_cast<double>(most) * most >
                                          6 * squares / static_cast<double>(largest.size());
      const float parts = fine ? static_cast<float>(kFineSteps) : 1;
      const float steps = most == 0 ? 0 : x[i] * (127.0f / most), whole = std::nearbyint(steps);
      const float part = fine ? std::nearbyint((steps - whole) * parts) / parts : 0;
      rounded[i] = (whole + part) * (most / 127.0f);
    }
  }
  return rounded;
}

/// One piece as nibble_rows.h has it; `power` takes the largest element of the row to 2^9 .. 2^10.
void RoundPieceToHalves(const float* x, bool fine, float power, float* rounded) {
  const auto up = [](float scale) {
    const auto bits = std::bit_cast<uint32_t>(std::max(scale, 1.0f / 16384));
    return std::bit_cast<float>((bits + 0x1fffu) & ~0x1fffu);
  };
  float most[2] = {0, 0};
  for (int i = 0; i < 32; ++i) most[i / 4 % 2] = std::max(most[i / 4 % 2], std::fabs(x[i]));
  const float scale =
      up(std::max(most[0] * (1 / 119.0f), most[1] * (1 / 127.0f)) * power / 16) * 16;
  // To whole steps, or to parts of these.
  const auto round = [&](float steps) {
    const float whole = std::nearbyint(steps);
    return fine ? whole + std::min(std::nearbyint((steps - whole) * 256), 127.0f) / 256 : whole;
  };
  for (int i = 0; i < 32; ++i) {
    if (i / 4 % 2 != 0) continue;
    const float high = round(x[i + 4] * (power / scale));
    const float low = round(x[i] * (power / scale) - high / 16);
    rounded[i + 4] = high * (scale / power);
    rounded[i] = (low + high / 16) * (scale / power);
  }
}

std::vector<float> RoundedToNibbles(const ProductCase& c, const std::vector<float>& x) {
  std::vector<float> rounded(x.size());
  const auto width = static_cast<size_t>(c.k);
  for (size_t row = 0; row < x.size(); row += width) {
    float squares = 0, most = 0;
    std::vector<float> largest;
    for (size_t p = row; p < row + width; p += 32) {
      float here = 0;
      for (size_t i = p; i < p + 32; ++i) here = std::max(here, std::fabs(x[i]));
      largest.push_back(here);
      squares += here * here;
      most = std::max(most, here);
    }
    const float fine_from = 6 * squares / static_cast<float>(largest.size());
    const float power = std::exp2(9 - std::floor(std::log2(most)));
    for (size_t p = 0; p < largest.size(); ++p) {
      const size_t at = row + 32 * p;
      RoundPieceToHalves(x.data() + at, largest[p] * largest[p] > fine_from, power,
                         rounded.data() + at);
    }
  }
  return rounded;
}

bool HasByteUnits(Isa isa) { return QuantizedDotKernelsFor(isa) != nullptr; }

TEST(QuantizedProduct, ExactEqualsSumsInF64) {
  for (const StoredKind& kind : kStoredKinds) {
    for (int64_t k : {1, 40, 300}) {
      for (int64_t rows : {1, 2, 3, 4, 5, 13}) {
        for (int64_t outputs : {1, 16, 37}) {
          CheckProduct({kind, rows, ColumnsOf(kind, k), {outputs}}, Precision::kF32, {}, 2e-6);
        }
      }
    }
  }
}

TEST(QuantizedProduct, FastFewRowsAreProductsOfBytes) {
  for (const StoredKind& kind : kStoredKinds) {
    for (int64_t rows : {1, 2, 3, 4, 7, 12}) {
      const ProductCase c{kind, rows, ColumnsOf(kind, 300), {53}};
      const QuantizedMatrix matrix(RandomStored(kind, 1, c.k, 1), 1, kind.scales);
      if (!matrix.layout().quantized() || !HasByteUnits(DefaultIsa())) continue;
      SCOPED_TRACE(c.Describe());
      const int piece = matrix.layout().group % 32 == 0 ? 32 : 16;
      ProductData data(c);
      // In every row another piece with elements that are far larger.
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t p = row % (c.k / piece);
        for (int64_t i = 0; i < piece; ++i)
          data.x[static_cast<size_t>(row * c.k + p * piece + i)] *= 20;
      }
      const bool eight_bits = matrix.layout().type == WeightType::kInt8;
      for (Isa isa : SupportedIsas()) {
        if (!HasByteUnits(isa)) continue;
        for (bool with_nibbles : {false, true}) {
          const bool nibbles =
              with_nibbles && NibbleKernelsFor(isa) != nullptr && TakesNibbles(matrix.layout());
          SCOPED_TRACE(nibbles ? "nibbles" : "bytes");
          const Sums sums = Products(
              c,
              nibbles ? RoundedToNibbles(c, data.x) : RoundedToBytes(c, data.x, piece, eight_bits),
              data.stored[0], nullptr);
          // There the minimums are multiplied with sums of x in f16.
          const double relative = nibbles && matrix.layout().has_minimum ? 1e-4 : 2e-6;
          const auto y = data.RunAll(isa, Precision::kBF16, 1, with_nibbles);
          for (size_t e = 0; e < y[0].size(); ++e) {
            ASSERT_NEAR(y[0][e], sums.y[e], relative * (sums.magnitude[e] + 1)) << "element " << e;
          }
          EXPECT_EQ(data.RunAll(isa, Precision::kBF16, 3, with_nibbles), y);
        }
      }
    }
  }
}

TEST(QuantizedProduct, FastManyRowsAreRounded) {
  for (const StoredKind& kind : kStoredKinds) {
    for (int64_t k : {1, 40, 300}) {
      for (int64_t rows : {kMostGemvRows + 1, 40}) {
        for (int64_t outputs : {1, 16, 49, 100}) {
          CheckProduct({kind, rows, ColumnsOf(kind, k), {outputs}}, Precision::kBF16, {}, 0.0085);
        }
      }
    }
  }
}

/// Runs some of the rows together, for several numbers of them, and expects of each row what it is
/// alone, bit by bit.
void ExpectRowsAsAlone(const ProductData& data, Isa isa, Precision precision, bool nibbles,
                       bool apart, std::span<const int64_t> counts) {
  const ProductCase& c = data.c_;
  std::vector<ProductData::Results> alone;
  for (int64_t row = 0; row < c.rows; ++row) {
    alone.push_back(data.Run(isa, precision, 1, row, 1, nibbles));
  }
  for (const int64_t rows : counts) {
    const auto all = data.Run(isa, precision, 2, c.rows - rows, rows, nibbles, apart);
    for (int64_t row = 0; row < rows; ++row) {
      const ProductData::Results& one = alone[static_cast<size_t>(c.rows - rows + row)];
      for (size_t i = 0; i < one.size(); ++i) {
        const auto begin = all[i].begin() + row * c.outputs[i];
        ASSERT_TRUE(std::equal(one[i].begin(), one[i].end(), begin))
            << "row " << row << " of " << rows << ", result " << i;
      }
    }
  }
}

TEST(QuantizedProduct, ARowDoesNotDependOnItsNeighbours) {
  constexpr int64_t kCounts[] = {2, 3, 5, 7, 8, 13, 17, 31, 64};
  for (const StoredKind& kind : kStoredKinds) {
    const ProductCase c{kind, 64, ColumnsOf(kind, 300), {140, 16}};
    ProductData data(c);
    for (size_t i = 5; i < data.x.size(); i += static_cast<size_t>(c.k) + 40) data.x[i] *= 20;
    for (Isa isa : SupportedIsas()) {
      SCOPED_TRACE(c.Describe() + ", " + std::string(Name(isa)));
      for (const bool nibbles : {false, true}) {
        ExpectRowsAsAlone(data, isa, Precision::kBF16, nibbles, true, kCounts);
      }
      ExpectRowsAsAlone(data, isa, Precision::kF32, true, true, kCounts);
    }
  }
}

// Bias, addend and gate belong to a row as its products do.
TEST(QuantizedProduct, EpiloguesOfManyRowsAreThoseOfOne) {
  constexpr int64_t kCounts[] = {8, 17, 40};
  for (const bool gated : {false, true}) {
    const ProductCase c{{WeightFormat::kQ4_1, 0, false, 32},
                        40,
                        96,
                        {150, 150},
                        true,
                        !gated,
                        gated,
                        Activation::kSilu};
    for (Isa isa : SupportedIsas()) {
      SCOPED_TRACE(c.Describe() + ", " + std::string(Name(isa)));
      ExpectRowsAsAlone(ProductData(c), isa, Precision::kBF16, true, true, kCounts);
    }
  }
}

// Where no unit multiplies many rows faster, those of a prompt are multiplied as answers are.
TEST(QuantizedProduct, InvariantRowsAreAsAlone) {
  const ProductCase c{{WeightFormat::kQ4K, 0, false, 256}, 150, 256, {33}};
  const ProductData data(c);
  QuantizedProduct product;
  product.matrices = data.matrices;
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(Name(isa));
    const int64_t invariant = QuantizedMultiplier(isa, Precision::kBF16).InvariantRows(product);
    ASSERT_GE(invariant, kMostGemvRows);
    const int64_t counts[] = {std::min(c.rows, invariant)};
    ExpectRowsAsAlone(data, isa, Precision::kBF16, true, false, counts);
  }
}

TEST(QuantizedProduct, WhatIsPrefetchedChangesNothing) {
  for (const StoredKind& kind : kStoredKinds) {
    const ProductCase c{kind, 2, ColumnsOf(kind, 300), {70, 16}};
    ProductData data(c);
    const auto y = data.RunAll(DefaultIsa(), Precision::kBF16, 1);
    data.next = data.matrices[0]->data();
    for (int threads : {1, 3}) {
      EXPECT_EQ(data.RunAll(DefaultIsa(), Precision::kBF16, threads), y) << c.Describe();
    }
    // It is never read, so it may be shorter than what is prefetched.
    data.next = data.next.first(1);
    EXPECT_EQ(data.RunAll(DefaultIsa(), Precision::kBF16, 1), y) << c.Describe();
  }
}

// x is rounded in pieces of 32, of 16 or as nibble_rows.h has it, as each matrix takes it.
TEST(QuantizedProduct, AMatrixDoesNotDependOnItsNeighbours) {
  const WeightFormat formats[] = {WeightFormat::kQ4K, WeightFormat::kQ6K, WeightFormat::kQ4_1,
                                  WeightFormat::kQ8_0};
  for (int64_t rows : {1, 3, 12}) {
    const ProductCase first{{formats[0], 0, false, 256}, rows, 512, {37}};
    ProductData together(first);
    std::vector<ProductData> alone;
    for (const WeightFormat format : formats) {
      ProductCase c = first;
      c.kind.format = format;
      alone.emplace_back(c);
      alone.back().x = together.x;
      if (alone.size() == 1) continue;
      together.c_.outputs.push_back(37);
      together.matrices.push_back(alone.back().matrices[0]);
      together.bias_data.push_back(nullptr);
    }
    for (Isa isa : SupportedIsas()) {
      SCOPED_TRACE(std::string(Name(isa)) + ", rows " + std::to_string(rows));
      const auto all = together.RunAll(isa, Precision::kBF16, 2);
      ASSERT_EQ(all.size(), alone.size());
      for (size_t i = 0; i < alone.size(); ++i) {
        EXPECT_EQ(alone[i].RunAll(isa, Precision::kBF16, 2)[0], all[i]) << Name(formats[i]);
      }
    }
  }
}

// Of many rows some may hold numbers that 16 bits of some kind cannot.
TEST(QuantizedProduct, RowsOfAnySizeAmongMany) {
  for (WeightFormat format : {WeightFormat::kQ4_1, WeightFormat::kQ4_0, WeightFormat::kQ8_0}) {
    for (const bool gated : {false, true}) {
      ProductCase c{{format, 0, false, 32}, 40, 96, {49, 20}, true, !gated, gated};
      if (gated) c.outputs = {33, 33};
      SCOPED_TRACE(c.Describe());
      ProductData odd(c), even(c);
      const std::pair<int64_t, float> units[] = {{0, 1e6f}, {3, 3e-7f}, {17, 0.0f}, {39, 1e4f}};
      for (const auto& [row, unit] : units) {
        for (int64_t k = 0; k < c.k; ++k) odd.x[static_cast<size_t>(row * c.k + k)] *= unit;
      }
      const Sums first = Products(c, odd.x, odd.stored[0], odd.bias_data[0]);
      for (Isa isa : SupportedIsas()) {
        SCOPED_TRACE(Name(isa));
        const auto y = odd.RunAll(isa, Precision::kBF16, 2);
        const auto others = even.RunAll(isa, Precision::kBF16, 2);
        for (int64_t row = 0; row < c.rows; ++row) {
          const bool changed =
              std::ranges::find(units, row, &std::pair<int64_t, float>::first) != std::end(units);
          for (int64_t j = 0; j < c.outputs[0]; ++j) {
            const size_t at = static_cast<size_t>(row * c.outputs[0] + j);
            if (!changed) {
              ASSERT_EQ(y[0][at], others[0][at]) << "row " << row;
            }
            if (gated) continue;
            const double want = first.y[at] + odd.addend[at];
            ASSERT_NEAR(y[0][at], want, 0.02 * (first.magnitude[at] + 1)) << "row " << row;
          }
        }
      }
    }
  }
}

TEST(QuantizedProduct, FinishesWithBiasAddendAndActivation) {
  for (WeightFormat format : {WeightFormat::kQ4_1, WeightFormat::kQ8_0, WeightFormat::kF16}) {
    const StoredKind kind{format, 0, false, 32};
    for (int64_t rows : {1, 4, 6, 19, 33, 48}) {
      for (const auto& [precision, relative] :
           {std::pair{Precision::kF32, 3e-6}, std::pair{Precision::kBF16, 0.02}}) {
        CheckProduct({kind, rows, 64, {37}, true, true}, precision, {}, relative);
        CheckProduct({kind, rows, 64, {72, 32}, false, true}, precision, {}, relative);
        // More steps than tiles are multiplied with at a time.
        CheckProduct({kind, rows, 672, {72, 32}, false, true}, precision, {}, relative);
        CheckProduct({kind, rows, 1440, {50}, true, true}, precision, {}, relative);
        CheckProduct({kind, rows, 64, {37}, true, true, false, Activation::kRelu}, precision, {},
                     relative);
        CheckProduct({kind, rows, 96, {50, 16, 3}, true}, precision, {}, relative);
        CheckProduct({kind, rows, 64, {150, 150}, true, false, true, Activation::kSilu}, precision,
                     {}, relative);
        CheckProduct({kind, rows, 64, {33, 33}, false, false, true, Activation::kSilu}, precision,
                     {}, relative);
      }
    }
  }
}

TEST(QuantizedProduct, NoRowsIsNoWork) {
  const ProductData data({{WeightFormat::kQ4_0, 0, false, 32}, 1, 32, {16}});
  EXPECT_TRUE(data.Run(DefaultIsa(), Precision::kBF16, 2, 0, 0)[0].empty());
}

TEST(QuantizedProduct, RowsOfZerosAndHugeNumbersRoundToSomething) {
  for (const auto& [format, relative] :
       {std::pair{WeightFormat::kQ8_0, 1e-5}, std::pair{WeightFormat::kQ4_0, 0.004},
        std::pair{WeightFormat::kQ4_1, 0.01}}) {
    const ProductCase c{{format, 0, false, 32}, 1, 64, {16}};
    SCOPED_TRACE(c.Describe());
    for (float value : {0.0f, 1e-40f, 1e-30f, 1e30f}) {
      ProductData data(c);
      std::fill(data.x.begin(), data.x.end(), value);
      const Sums sums = Products(c, data.x, data.stored[0], nullptr);
      for (Isa isa : SupportedIsas()) {
        const auto y = data.RunAll(isa, Precision::kBF16, 1);
        for (size_t e = 0; e < y[0].size(); ++e) {
          EXPECT_NEAR(y[0][e], sums.y[e], relative * sums.magnitude[e] + 1e-36) << value;
        }
      }
    }
  }
}

TEST(QuantizedProduct, PiecesThatAreNotFiniteCountAsZeros) {
  const ProductCase c{{WeightFormat::kQ4_1, 0, false, 32}, 1, 96, {16}};
  for (float value : {INFINITY, -INFINITY, NAN}) {
    ProductData data(c), zeros(c);
    data.x[5] = value;
    std::fill(zeros.x.begin(), zeros.x.begin() + 32, 0.0f);
    for (Isa isa : SupportedIsas()) {
      if (NibbleKernelsFor(isa) == nullptr) continue;
      EXPECT_EQ(data.RunAll(isa, Precision::kBF16, 1), zeros.RunAll(isa, Precision::kBF16, 1));
    }
  }
}

}  // namespace
}  // namespace oort
