// SPDX-License-Identifier: MIT
// Convolutions on units that read windows where they lie, over plain loops in the place of a unit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/gemm.h"
#include "kit/sanitized.h"
#include "layers/convolution/matrix_unit/matrix_unit_conv.h"
#include "layers/layout/nhwc_reference.h"
#include "oort/testing.h"

namespace oort::testing {
namespace {

constexpr int kUnitTestColumns = 32, kUnitTestStep = GemmWindowKernels::kStep;

uint16_t UnitTestBits(float value) { return BFloat16(value).bits; }

bool RoundPlainly(const float* from, int64_t count, uint16_t* to) {
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) {
    to[i] = UnitTestBits(from[i]);
    finite = finite && std::isfinite(from[i]);
  }
  return finite;
}

template <typename Narrow>
float UnitTestElement(const void* from, int64_t index) {
  Narrow value(0.0f);
  std::memcpy(&value, static_cast<const char*>(from) + 2 * index, sizeof(value));
  return static_cast<float>(value);
}

/// All rows of a half are read, as a unit does it; those that are wanted are written. Factors are
/// `Narrow`, what is added and the results T.
template <typename T, typename Narrow, typename Tile>
void MultiplyPlainlyBy(const Tile& tile, int64_t step) {
  for (const auto& half : tile.halves) {
    for (int r = 0; r < GemmWindowKernels::kHalfRows && half.rows > 0; ++r) {
      for (int n = 0; n < tile.columns; ++n) {
        double sum = tile.bias == nullptr ? 0 : tile.bias[n];
        for (int64_t k = 0; k < tile.steps * step; ++k) {
          const char* row =
              static_cast<const char*>(half.a) + r * tile.a_stride + tile.offsets[k / step];
          const int64_t at = (k / 2 * kUnitTestColumns + n) * 2 + k % 2;
          sum += static_cast<double>(UnitTestElement<Narrow>(row, k % step)) *
                 UnitTestElement<Narrow>(tile.b, at);
        }
        if (r >= half.rows) continue;
        if (half.addend != nullptr) {
          sum += static_cast<float>(half.addend[r * tile.addend_stride + n]);
        }
        if (tile.activation.kind == Activation::kRelu) sum = std::max(sum, 0.0);
        half.c[r * tile.ldc + n] = T(static_cast<float>(sum));
      }
    }
  }
}

void MultiplyPlainly(const GemmWindowTile& tile) {
  MultiplyPlainlyBy<float, BFloat16>(tile, kUnitTestStep);
}
void MultiplyHalvesPlainly(const TileF16& tile) {
  MultiplyPlainlyBy<Half, Half>(tile, tile.b_step / (2 * kUnitTestColumns));
}

bool CopyPlainly(const Half* from, int64_t count, Half* to) {
  std::copy_n(from, count, to);
  return std::all_of(from, from + count, [](Half x) { return std::isfinite(float(x)); });
}

const TileKernelsF16& PlainHalfUnit() {
  static constexpr TileKernelsF16 kKernels = {
      .begin = [](int) {}, .end = [] {}, .copy = CopyPlainly, .tile = MultiplyHalvesPlainly};
  return kKernels;
}

void ConvertPlainly(const float* from, int64_t k, const PanelPart& part) {
  const int64_t group = part.side == GemmSide::kA ? kUnitTestStep : 2;
  uint16_t* to = static_cast<uint16_t*>(part.panel);
  for (int64_t first = 0; first < (k + 31) / 32 * 32; first += group) {
    for (int64_t i = 0; i < part.width; ++i) {
      for (int64_t j = 0; j < group; ++j) {
        *to++ = first + j < k ? UnitTestBits(from[(first + j) * part.width + i]) : uint16_t{0};
      }
    }
  }
}

const GemmKernels& PlainUnit() {
  static constexpr GemmWindowKernels kWindows = {.round = RoundPlainly, .tile = MultiplyPlainly};
  static const GemmKernels kernels = [] {
    GemmKernels made = GemmKernelsFor(Isa::kScalar);
    made.format = {.element = 2, .a_group = kUnitTestStep, .b_group = 2, .k_multiple = 32};
    made.rows = 32;
    made.columns = kUnitTestColumns;
    made.convert = ConvertPlainly;
    made.windows = &kWindows;
    return made;
  }();
  return kernels;
}

struct MatrixUnitConvCase {
  Shape image, weight;  // channels first
  int64_t stride = 1, pad = 0, dilation = 1;
};

Tensor UnitTestTensor(const Shape& shape, uint64_t seed) {
  return RandomTensor(DType::kF32, shape, seed).To(DType::kBF16).To(DType::kF32);
}

/// The pixels of an image, `gap` elements between them.
template <typename T>
std::vector<T> WithGaps(const Tensor& image, int64_t gap) {
  const int64_t channels = image.dim(-1), pixel = channels + gap;
  std::vector<T> apart(static_cast<size_t>(image.elements() / channels * pixel));
  for (int64_t i = 0; i < image.elements(); ++i) {
    apart[static_cast<size_t>(i / channels * pixel + i % channels)] = T(image.data<float>()[i]);
  }
  return apart;
}

/// Images of T on `unit`; elements are bf16 or f16 before.
template <typename T>
void ExpectMatrixUnitConvOf(const typename MatrixUnitConvOf<T>::Kernels& unit,
                            const MatrixUnitConvCase& c, int64_t gap, bool with_addend) {
  SCOPED_TRACE(c.image.ToString() + " " + c.weight.ToString());
  ASSERT_TRUE(MatrixUnitConvOf<T>::Fits(unit, c.weight, 1));
  const Tensor image = UnitTestTensor(c.image, 1), weight = UnitTestTensor(c.weight, 2);
  const Tensor bias = RandomTensor(DType::kF32, {c.weight[0]}, 3);
  const auto pair = [](int64_t value) {
    return "(" + std::to_string(value) + "," + std::to_string(value) + ")";
  };
  const Tensor expected = OperatorCase("F.conv2d")
                              .Param("stride", pair(c.stride))
                              .Param("padding", pair(c.pad))
                              .Param("dilation", pair(c.dilation))
                              .Input(image, "input")
                              .Input(weight, "weight")
                              .Input(bias, "bias")
                              .Run()[0];
  const Tensor pixels = WithNhwc(image), wanted = WithNhwc(expected);
  const Tensor addend = UnitTestTensor(wanted.shape(), 4);
  const int64_t channels = c.image[1], columns = c.weight[0];
  const std::vector<T> in = WithGaps<T>(pixels, gap), added = WithGaps<T>(addend, gap);
  const int64_t count = wanted.elements() / columns;
  std::vector<T> out(static_cast<size_t>(count * (columns + gap)), T(77.0f));
  typename MatrixUnitConvOf<T>::Operands operands;
  operands.in = in.data();
  operands.in_pixel = channels + gap;
  if (with_addend) operands.addend = added.data();
  operands.activation = {with_addend ? Activation::kRelu : Activation::kNone, 0, 0};
  operands.out = out.data();
  operands.out_pixel = columns + gap;
  const ConvParams params({c.stride, c.stride}, {c.pad, c.pad}, {c.dilation, c.dilation}, 1);
  const ConvGeometry geometry = params.Geometry(c.image, c.weight);
  const MatrixUnitConvOf<T> conv(unit, weight, bias);
  const size_t bytes = conv.Workspace(geometry, channels + gap);
  for (const int threads : {1, 3}) {
    std::vector<std::byte> space(bytes + 64);
    void* aligned = space.data();
    size_t room = space.size();
    ASSERT_NE(std::align(64, bytes, aligned, room), nullptr);
    const Context context(threads, {static_cast<std::byte*>(aligned), room});
    ASSERT_TRUE(conv.Run(context, geometry, operands));
    for (int64_t i = 0; i < wanted.elements(); ++i) {
      float value = wanted.data<float>()[i];
      if (with_addend) value = std::max(0.0f, value + addend.data<float>()[i]);
      const T got = out[static_cast<size_t>(i / columns * (columns + gap) + i % columns)];
      const double rounding = std::is_same_v<T, Half> ? std::fabs(value) / 1024 : 0;
      ASSERT_NEAR(static_cast<float>(got), value,
                  1e-4 * static_cast<double>(c.weight.Product(1, 4)) + rounding)
          << i;
    }
    for (int64_t i = 0; gap > 0 && i < count; ++i) {
      ASSERT_EQ(static_cast<float>(out[static_cast<size_t>(i * (columns + gap) + columns)]), 77.0f);
    }
  }
}

void ExpectMatrixUnitConv(const MatrixUnitConvCase& c, int64_t gap, bool with_addend) {
  {
    SCOPED_TRACE("rounded to bf16");
    ExpectMatrixUnitConvOf<float>(PlainUnit(), c, gap, with_addend);
  }
  SCOPED_TRACE("f16");
  ExpectMatrixUnitConvOf<Half>(PlainHalfUnit(), c, gap, with_addend);
}

TEST(MatrixUnitConv, AnswersAsChannelsFirst) {
  const MatrixUnitConvCase cases[] = {
      {{1, 32, 5, 7}, {8, 32, 3, 3}, 1, 1},      {{2, 64, 4, 17}, {33, 64, 3, 3}, 1, 1},
      {{1, 32, 9, 35}, {40, 32, 3, 3}, 2, 1},    {{1, 32, 9, 8}, {4, 32, 2, 3}, 1, 0},
      {{1, 32, 12, 11}, {5, 32, 3, 3}, 1, 2, 2}, {{1, 32, 3, 3}, {3, 32, 1, 5}, 3, 4},
      {{1, 3, 20, 37}, {24, 3, 7, 7}, 2, 3},     {{2, 3, 9, 9}, {65, 3, 3, 3}, 2, 1},
      {{1, 16, 9, 18}, {20, 16, 3, 3}, 1, 1},    {{1, 33, 5, 6}, {7, 33, 3, 3}, 1, 1},
      {{1, 3, 24, 24}, {9, 3, 12, 12}, 12, 0},   {{1, 24, 8, 8}, {34, 24, 5, 4}, 2, 2},
      {{1, 1, 6, 20}, {3, 1, 5, 5}, 1, 2},       {{1, 3, 7, 7}, {16, 3, 3, 3}, 1, 0},
  };
  int number = 0;
  for (const MatrixUnitConvCase& c : cases) {
    const bool even = number++ % 2 == 0, both = !testing::TriesFewer();
    if (both || even) ExpectMatrixUnitConv(c, 0, false);
    if (both || !even) ExpectMatrixUnitConv(c, 5, true);
  }
}

/// Of f16 that is read where it lies, but for the last pixels.
TEST(MatrixUnitConv, MultipliesPixelsWhereTheyLie) {
  const MatrixUnitConvCase cases[] = {
      {{1, 32, 4, 8}, {8, 32, 1, 1}},     {{2, 24, 5, 7}, {40, 24, 1, 1}},
      {{3, 16, 1, 1}, {33, 16, 1, 1}},    {{1, 96, 6, 6}, {3, 96, 1, 1}},
      {{1, 40, 9, 7}, {65, 40, 1, 1}, 2}, {{1, 64, 5, 5}, {32, 64, 1, 1}, 1, 1},
  };
  for (const MatrixUnitConvCase& c : cases) {
    ExpectMatrixUnitConvOf<Half>(PlainHalfUnit(), c, 0, false);
    ExpectMatrixUnitConvOf<Half>(PlainHalfUnit(), c, 5, true);
  }
}

TEST(MatrixUnitConv, LeavesOthersAlone) {
  EXPECT_FALSE(MatrixUnitConvOf<Half>::Fits(PlainHalfUnit(), {8, 58, 1, 1}, 1));  // short steps
  EXPECT_FALSE(MatrixUnitConvOf<Half>::Fits(PlainHalfUnit(), {8, 32, 1, 1}, 2));
  EXPECT_FALSE(MatrixUnitConv::Fits(PlainUnit(), {8, 32, 1, 1}, 1));  // a product of pixels
  EXPECT_FALSE(MatrixUnitConv::Fits(PlainUnit(), {8, 32, 3, 3}, 2));
  EXPECT_FALSE(MatrixUnitConv::Fits(GemmKernelsFor(Isa::kScalar), {8, 32, 3, 3}, 1));
}

/// Where rows of windows are steps, what lies behind them is multiplied by zero.
TEST(MatrixUnitConv, RefusesInfinitiesBesideWindows) {
  const Tensor weight = UnitTestTensor({4, 3, 3, 3}, 1);
  const MatrixUnitConv conv(PlainUnit(), weight, Tensor());
  EXPECT_TRUE(conv.may_refuse());
  Tensor image = UnitTestTensor({1, 6, 6, 3}, 2);
  image.data<float>()[40] = std::numeric_limits<float>::infinity();
  const ConvGeometry geometry =
      ConvParams({1, 1}, {1, 1}, {1, 1}, 1).Geometry({1, 3, 6, 6}, weight.shape());
  std::vector<float> out(6 * 6 * 4);
  MatrixUnitConv::Operands operands;
  operands.in = image.data<float>();
  operands.in_pixel = 3;
  operands.out = out.data();
  operands.out_pixel = 4;
  const size_t bytes = conv.Workspace(geometry, 3);
  Tensor space(DType::kU8, {static_cast<int64_t>(bytes)});
  const Context context(1, {static_cast<std::byte*>(space.raw()), bytes});
  EXPECT_FALSE(conv.Run(context, geometry, operands));
}

}  // namespace
}  // namespace oort::testing
