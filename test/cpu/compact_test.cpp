// SPDX-License-Identifier: MIT
// Products with weights of 32 to 4 bits, against sums in f64 over what the weights stand for.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cpu/compact/compact_matrix.h"

namespace oort {
namespace {

struct StoredKind {
  WeightFormat format;
  int group = 0;           // of Oort's own formats
  bool f16_scale = false;  // of these, too
  int multiple = 1;        // of the columns

  std::string Describe() const {
    return std::string(Name(format)) + " group " + std::to_string(group) +
           (f16_scale ? " f16 scales" : "");
  }
};

constexpr StoredKind kStoredKinds[] = {
    {WeightFormat::kF32},
    {WeightFormat::kF16},
    {WeightFormat::kBf16},
    {WeightFormat::kInt8, 16, true, 16},
    {WeightFormat::kInt8, 64, false, 64},
    {WeightFormat::kUint8, 32, true, 32},
    {WeightFormat::kUint8, 48, false, 48},
    {WeightFormat::kInt4, 32, true, 32},
    {WeightFormat::kInt4, 128, false, 128},
    {WeightFormat::kInt4, 8, false, 8},
    {WeightFormat::kUint4, 16, false, 16},
    {WeightFormat::kUint4, 32, false, 32},
    {WeightFormat::kUint4, 64, true, 64},
    {WeightFormat::kQ4_0, 0, false, 32},
    {WeightFormat::kQ4_1, 0, false, 32},
    {WeightFormat::kQ5_1, 0, false, 32},
    {WeightFormat::kQ8_0, 0, false, 32},
    {WeightFormat::kQ4K, 0, false, 256},
    {WeightFormat::kQ6K, 0, false, 256},
};

/// Small numbers, the same for the same seed.
class CompactNumbers {
 public:
  explicit CompactNumbers(unsigned seed) : engine_(seed) {}
  float Next() { return static_cast<float>(static_cast<int>(engine_() % 2001) - 1000) / 1000.0f; }
  std::byte Byte() { return static_cast<std::byte>(engine_() & 255u); }
  std::vector<float> Many(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = Next();
    return values;
  }

 private:
  std::minstd_rand engine_;
};

/// Where the f16 scales of a block stand.
struct BlockScales {
  int64_t bytes;
  std::vector<int64_t> at;
};

BlockScales ScalesOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_0: return {18, {0}};
    case WeightFormat::kQ4_1: return {20, {0, 2}};
    case WeightFormat::kQ5_1: return {24, {0, 2}};
    case WeightFormat::kQ8_0: return {34, {0}};
    case WeightFormat::kQ4K: return {144, {0, 2}};
    default: return {210, {208}};
  }
}

void PutHalf(std::byte* to, float value) {
  const uint16_t half = FloatToHalf(value);
  std::memcpy(to, &half, 2);
}

Tensor RandomScales(CompactNumbers& numbers, Shape shape, bool f16) {
  Tensor tensor(f16 ? DType::kF16 : DType::kF32, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const float value = numbers.Next() / 8;
    if (f16) {
      PutHalf(tensor.raw() + 2 * i, value);
    } else {
      tensor.data<float>()[i] = value;
    }
  }
  return tensor;
}

StoredMatrix RandomStored(const StoredKind& kind, int64_t rows, int64_t columns, unsigned seed) {
  CompactNumbers numbers(seed);
  StoredMatrix stored;
  stored.format = kind.format;
  stored.rows = rows;
  stored.columns = columns;
  const auto bytes = [&](DType dtype, Shape shape) {
    Tensor tensor(dtype, shape);
    for (size_t i = 0; i < tensor.bytes(); ++i) tensor.raw()[i] = numbers.Byte();
    return tensor;
  };
  const auto grouped = [&](DType dtype, int64_t width, bool minimum) {
    stored.data = bytes(dtype, {rows, width});
    stored.scale = RandomScales(numbers, {rows, columns / kind.group}, kind.f16_scale);
    if (minimum) {
      stored.minimum = RandomScales(numbers, {rows, columns / kind.group}, kind.f16_scale);
    }
  };
  switch (kind.format) {
    case WeightFormat::kF32: stored.data = RandomScales(numbers, {rows, columns}, false); break;
    case WeightFormat::kF16: stored.data = RandomScales(numbers, {rows, columns}, true); break;
    case WeightFormat::kBf16:
      stored.data = RandomScales(numbers, {rows, columns}, false).To(DType::kBF16);
      break;
    case WeightFormat::kInt8: grouped(DType::kI8, columns, false); break;
    case WeightFormat::kUint8: grouped(DType::kU8, columns, true); break;
    case WeightFormat::kInt4: grouped(DType::kU8, columns / 2, false); break;
    case WeightFormat::kUint4: grouped(DType::kU8, columns / 2, true); break;
    default: {
      const BlockScales scales = ScalesOf(kind.format);
      stored.data = bytes(DType::kU8, {rows, RowBytes(kind.format, columns)});
      for (int64_t i = 0; i < static_cast<int64_t>(stored.data.bytes()); i += scales.bytes) {
        for (int64_t at : scales.at) PutHalf(stored.data.raw() + i + at, numbers.Next() / 32);
      }
    }
  }
  return stored;
}

std::vector<float> ValuesOf(const StoredMatrix& stored) {
  std::vector<float> values(static_cast<size_t>(stored.rows * stored.columns));
  ReadRows(stored, 0, stored.rows, values.data());
  return values;
}

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
    CompactNumbers numbers(7);
    x = numbers.Many(c.rows * c.k);
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      stored.push_back(RandomStored(c.kind, c.outputs[i], c.k, 11u + static_cast<unsigned>(i)));
      matrices.push_back(std::make_shared<const CompactMatrix>(stored.back(), 2));
      biases.push_back(numbers.Many(c.outputs[i]));
      bias_data.push_back(c.bias ? biases.back().data() : nullptr);
    }
    addend = numbers.Many(c.rows * c.outputs[0]);
  }

  using Results = std::vector<std::vector<float>>;
  /// The product of `count` rows from `first` on.
  Results Run(Isa isa, Precision precision, int threads, int64_t first, int64_t count,
              bool halves = true) const {
    const size_t results = c_.gated ? 1 : c_.outputs.size();
    Results y(results);
    std::vector<float*> out;
    for (size_t i = 0; i < results; ++i) {
      y[i].assign(static_cast<size_t>(count * c_.outputs[i]), 1e9f);
      out.push_back(y[i].data());
    }
    CompactProduct product;
    product.rows = count;
    product.x = x.data() + first * c_.k;
    product.x_stride = c_.k;
    product.matrices = matrices;
    product.biases = bias_data;
    product.y = out;
    if (c_.addend) product.addend = addend.data() + first * c_.outputs[0];
    product.gated = c_.gated;
    product.activation.kind = c_.activation;
    const CompactMultiplier multiplier(isa, precision, halves);
    const auto bytes = static_cast<int64_t>(multiplier.Workspace(product, threads));
    Tensor workspace(DType::kU8, {bytes});
    multiplier.Run(product, threads, workspace.raw());
    return y;
  }
  Results RunAll(Isa isa, Precision precision, int threads, bool halves = true) const {
    return Run(isa, precision, threads, 0, c_.rows, halves);
  }

  ProductCase c_;
  std::vector<float> x, addend;
  std::vector<StoredMatrix> stored;
  std::vector<std::shared_ptr<const CompactMatrix>> matrices;
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
  const std::vector<float> w = ValuesOf(stored);
  Sums sums;
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t j = 0; j < stored.rows; ++j) {
      double sum = bias == nullptr ? 0 : bias[j], magnitude = std::fabs(sum);
      for (int64_t k = 0; k < c.k; ++k) {
        const double term = static_cast<double>(x[static_cast<size_t>(r * c.k + k)]) *
                            w[static_cast<size_t>(j * c.k + k)];
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

int64_t ColumnsOf(const StoredKind& kind, int64_t at_least) {
  return (at_least + kind.multiple - 1) / kind.multiple * kind.multiple;
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

/// One piece as half_rows.h has it; `power` takes the largest element of the row to 2^9 .. 2^10.
void RoundPieceToHalves(const float* x, bool fine, float power, float* rounded) {
  const auto up = [](float scale) {
    const auto bits = std::bit_cast<uint32_t>(std::max(scale, 1.0f / 16384));
    return std::bit_cast<float>((bits + 0x1fffu) & ~0x1fffu);
  };
  float most[2] = {0, 0};
  for (int i = 0; i < 32; ++i) most[i / 4 % 2] = std::max(most[i / 4 % 2], std::fabs(x[i]));
  if (fine) {
    const float scale = up(std::max(most[0], most[1]) * power / (127.0f * 254.0f));
    for (int i = 0; i < 32; ++i) {
      const float steps = x[i] * (power / (scale * 254.0f)), whole = std::nearbyint(steps);
      rounded[i] = (254 * whole + std::nearbyint((steps - whole) * 254)) * (scale / power);
    }
    return;
  }
  const float scale =
      up(std::max(most[0] * (1 / 119.0f), most[1] * (1 / 127.0f)) * power / 16) * 16;
  for (int i = 0; i < 32; ++i) {
    if (i / 4 % 2 != 0) continue;
    const float high = std::nearbyint(x[i + 4] * (power / scale));
    const float low = std::nearbyint(x[i] * (power / scale) - high / 16);
    rounded[i + 4] = high * (scale / power);
    rounded[i] = (low + high / 16) * (scale / power);
  }
}

std::vector<float> RoundedToHalves(const ProductCase& c, const std::vector<float>& x) {
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

bool HasByteUnits(Isa isa) { return CompactDotKernelsFor(isa) != nullptr; }

TEST(CompactProduct, ExactEqualsSumsInF64) {
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

TEST(CompactProduct, FastFewRowsAreProductsOfBytes) {
  for (const StoredKind& kind : kStoredKinds) {
    for (int64_t rows : {1, 2, 3, 4, 7, 12}) {
      const ProductCase c{kind, rows, ColumnsOf(kind, 300), {53}};
      const CompactMatrix matrix(RandomStored(kind, 1, c.k, 1), 1);
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
      const bool eight_bits = matrix.layout().type == CompactType::kInt8;
      for (Isa isa : SupportedIsas()) {
        if (!HasByteUnits(isa)) continue;
        for (bool with_halves : {false, true}) {
          const bool halves =
              with_halves && HalfKernelsFor(isa) != nullptr && TakesHalves(matrix.layout());
          SCOPED_TRACE(halves ? "halves" : "bytes");
          const Sums sums = Products(
              c, halves ? RoundedToHalves(c, data.x) : RoundedToBytes(c, data.x, piece, eight_bits),
              data.stored[0], nullptr);
          // There the minimums are multiplied with sums of x in f16.
          const double relative = halves && matrix.layout().has_minimum ? 1e-4 : 2e-6;
          const auto y = data.RunAll(isa, Precision::kBF16, 1, with_halves);
          for (size_t e = 0; e < y[0].size(); ++e) {
            ASSERT_NEAR(y[0][e], sums.y[e], relative * (sums.magnitude[e] + 1)) << "element " << e;
          }
          EXPECT_EQ(data.RunAll(isa, Precision::kBF16, 3, with_halves), y);
        }
      }
    }
  }
}

TEST(CompactProduct, FastManyRowsRoundBothSidesToBf16) {
  for (const StoredKind& kind : kStoredKinds) {
    for (int64_t k : {1, 40, 300}) {
      for (int64_t rows : {kCompactFewRows + 1, 40}) {
        for (int64_t outputs : {1, 16, 49, 100}) {
          CheckProduct({kind, rows, ColumnsOf(kind, k), {outputs}}, Precision::kBF16, {}, 0.0085);
        }
      }
    }
  }
}

TEST(CompactProduct, ARowDoesNotDependOnItsNeighbours) {
  for (const StoredKind& kind : kStoredKinds) {
    const ProductCase c{kind, kCompactFewRows, ColumnsOf(kind, 300), {70, 16}};
    ProductData data(c);
    for (size_t i = 5; i < data.x.size(); i += static_cast<size_t>(c.k) + 40) data.x[i] *= 20;
    for (Isa isa : SupportedIsas()) {
      SCOPED_TRACE(c.Describe() + ", " + std::string(Name(isa)));
      for (int64_t test = 4; test < 2 * (c.rows + 1); ++test) {
        const int64_t rows = test / 2;
        const bool halves = test % 2 == 0;
        const auto all = data.Run(isa, Precision::kBF16, 1, 0, rows, halves);
        for (int64_t row = 0; row < rows; ++row) {
          const auto alone = data.Run(isa, Precision::kBF16, 1, row, 1, halves);
          for (size_t i = 0; i < alone.size(); ++i) {
            const auto begin = all[i].begin() + row * c.outputs[i];
            ASSERT_TRUE(std::equal(alone[i].begin(), alone[i].end(), begin))
                << "row " << row << " of " << rows << ", result " << i;
          }
        }
      }
    }
  }
}

TEST(CompactProduct, FinishesWithBiasAddendAndActivation) {
  for (WeightFormat format : {WeightFormat::kQ4_1, WeightFormat::kQ8_0, WeightFormat::kF16}) {
    const StoredKind kind{format, 0, false, 32};
    for (int64_t rows : {1, 4, 6, 19, 33, 48}) {
      for (const auto& [precision, relative] :
           {std::pair{Precision::kF32, 3e-6}, std::pair{Precision::kBF16, 0.02}}) {
        CheckProduct({kind, rows, 64, {37}, true, true}, precision, {}, relative);
        CheckProduct({kind, rows, 64, {72, 32}, false, true}, precision, {}, relative);
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

TEST(CompactProduct, NoRowsIsNoWork) {
  const ProductData data({{WeightFormat::kQ4_0, 0, false, 32}, 1, 32, {16}});
  EXPECT_TRUE(data.Run(DefaultIsa(), Precision::kBF16, 2, 0, 0)[0].empty());
}

TEST(CompactProduct, RowsOfZerosAndHugeNumbersRoundToSomething) {
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

TEST(CompactProduct, PiecesThatAreNotFiniteCountAsZeros) {
  const ProductCase c{{WeightFormat::kQ4_1, 0, false, 32}, 1, 96, {16}};
  for (float value : {INFINITY, -INFINITY, NAN}) {
    ProductData data(c), zeros(c);
    data.x[5] = value;
    std::fill(zeros.x.begin(), zeros.x.begin() + 32, 0.0f);
    for (Isa isa : SupportedIsas()) {
      if (HalfKernelsFor(isa) == nullptr) continue;
      EXPECT_EQ(data.RunAll(isa, Precision::kBF16, 1), zeros.RunAll(isa, Precision::kBF16, 1));
    }
  }
}

TEST(CompactUnpack, Bf16IsTheRoundedF32) {
  for (const StoredKind& kind : kStoredKinds) {
    SCOPED_TRACE(kind.Describe());
    const int64_t k = ColumnsOf(kind, kind.multiple == 1 ? 13 : 70);
    const StoredMatrix stored = RandomStored(kind, 16, k, 5);
    const CompactMatrix matrix(stored, 1);
    const std::vector<float> values = ValuesOf(stored);
    for (Isa isa : SupportedIsas()) {
      const CompactUnpackKernels& kernels = CompactUnpackKernelsFor(isa);
      for (int group : {2, 4}) {
        const auto unpack = group == 2 ? kernels.unpack_pairs : kernels.unpack_fours;
        if (unpack == nullptr) continue;
        const int64_t groups = (k + group - 1) / group;
        std::vector<uint16_t> out(static_cast<size_t>(groups * 16 * group), 0xffff);
        Bf16Target to;
        for (int b = 0; b < 4; ++b) to.blocks[b] = out.data() + 4 * b * group;
        to.step = 16 * group;
        unpack(matrix.layout(), matrix.panel(0), 0, k, to);
        for (int64_t i = 0; i < groups * group; ++i) {
          for (int64_t row = 0; row < 16; ++row) {
            const auto at = static_cast<size_t>((i / group * 16 + row) * group + i % group);
            const float got = std::bit_cast<float>(static_cast<uint32_t>(out[at]) << 16);
            const float want = i < k ? values[static_cast<size_t>(row * k + i)] : 0.0f;
            ASSERT_NEAR(got, want, std::fabs(want) * 0.00391 + 1e-5)
                << Name(isa) << " group " << group << " step " << i << " row " << row;
          }
        }
      }
    }
  }
}

TEST(CompactMatrix, ReadsItsRowsBack) {
  for (const StoredKind& kind : kStoredKinds) {
    SCOPED_TRACE(kind.Describe());
    const int64_t k = ColumnsOf(kind, 70);
    const StoredMatrix stored = RandomStored(kind, 21, k, 9);
    const CompactMatrix matrix(stored, 3);
    const std::vector<float> values = ValuesOf(stored);
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

TEST(CompactMatrix, IsSharedWhileItsWeightIs) {
  const StoredMatrix stored = RandomStored({WeightFormat::kQ4_0, 0, false, 32}, 16, 32, 1);
  const auto first = CompactMatrix::Shared(stored, 1);
  EXPECT_EQ(CompactMatrix::Shared(stored, 1), first);
  StoredMatrix copy = stored;
  copy.data = stored.data.Clone();
  EXPECT_NE(CompactMatrix::Shared(copy, 1), first);
}

}  // namespace
}  // namespace oort
