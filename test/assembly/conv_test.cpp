// SPDX-License-Identifier: MIT
// Tiles of direct and Winograd convolutions in assembly, beside their twins.
#include "cpu/features.h"
#include "twins.h"

namespace oort::assembly_test {
namespace {

struct BlockCase {
  int64_t pixels, taps, depth, columns;
  bool addend;
  ActivationSpec activation;
};

/// Runs a block on both kernels.
template <typename T>
void Compare(const DirectConvKernelsOf<T>& assembly, const DirectConvKernelsOf<T>& twin,
             const BlockCase& c) {
  ASSERT_TRUE(assembly.rows == twin.rows && assembly.columns == twin.columns &&
              assembly.granule == twin.granule);
  Numbers numbers(7);
  const int64_t padded = (c.depth + 7) / 8 * 8, tiles = c.pixels / assembly.rows + 3;
  const std::vector<T> image = numbers.Reals<T>(64 * padded);
  std::vector<const T*> rows;
  for (int64_t i = 0; i < tiles * c.taps * assembly.rows; ++i) {
    rows.push_back(image.data() + numbers.Whole(0, 63) * padded);
  }
  const int64_t all = (c.columns + assembly.columns - 1) / assembly.columns * assembly.columns;
  const std::vector<T> weights = numbers.Reals<T>(all * c.taps * c.depth + 256);
  const std::vector<T> bias = numbers.Reals<T>(all);
  RowBlockOf<T> block;
  block.rows = rows.data();
  block.pixels = c.pixels;
  block.taps = c.taps;
  block.depth = c.depth;
  block.weights = weights.data();
  block.bias = bias.data();
  block.columns = c.columns;
  block.stride = c.columns + 3;
  block.activation = c.activation;
  const std::vector<T> addend = numbers.Reals<T>(c.pixels * block.stride + all);
  if (c.addend) block.addend = addend.data();
  std::vector<T> first(static_cast<size_t>(c.pixels * block.stride), T(-7.0f)), second = first;
  block.out = first.data();
  assembly.block(block);
  block.out = second.data();
  twin.block(block);
  EXPECT_TRUE(Same(first, second))
      << c.pixels << " pixels, " << c.taps << " taps, depth " << c.depth << ", " << c.columns
      << " columns, addend " << c.addend << ", activation " << static_cast<int>(c.activation.kind);
}

template <typename T>
void CompareBlocks(const DirectConvKernelsOf<T>& assembly, const DirectConvKernelsOf<T>& twin) {
  const ActivationSpec activations[] = {{},
                                        {Activation::kRelu, 0, 0},
                                        {Activation::kClamp, -0.25f, 0.5f},
                                        {Activation::kHardswish, 0, 0},
                                        {Activation::kTanh, 0, 0}};
  int turn = 0;
  for (const int64_t pixels : {1, 4, 5, 6, 7, 11, 12, 23, 31}) {
    for (const int64_t depth : {1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 24, 31}) {
      for (const int64_t columns : {1, 5, 8, 13, 16, 23, 24, 31, 32, 45}) {
        const BlockCase c{pixels,  1 + turn % 3,  depth,
                          columns, turn % 2 == 1, activations[turn % 5]};
        Compare(assembly, twin, c);
        ++turn;
      }
    }
  }
  // Panels that are cut into parts, by taps and within the only one.
  for (const int64_t columns : {8, 16, 24, 32}) {
    Compare(assembly, twin, {13, 9, 100, columns, true, activations[2]});
    Compare(assembly, twin, {13, 1, 1003, columns, false, activations[3]});
  }
}

TEST(Assembly, DirectConvF32) {
  CompareBlocks(neon::DirectConvKernelsGet(), neon_twin::DirectConvKernelsGet());
}

TEST(Assembly, DirectConvF16) {
  if (!ThisCpu().arm_f16) GTEST_SKIP() << "this processor has no arithmetic on f16";
  CompareBlocks(neon_f16::DirectConvKernelsGet(), neon_f16_twin::DirectConvKernelsGet());
}

template <typename T>
void CompareProducts(const WinogradKernelsOf<T>& assembly, const WinogradKernelsOf<T>& twin) {
  ASSERT_TRUE(assembly.width == twin.width && assembly.columns == twin.columns &&
              assembly.rows == twin.rows);
  Numbers numbers(8);
  for (const int64_t tiles : {1, 2, 3, 4, 5, 6, 7, 11, 13, 49}) {
    for (const int64_t vectors : {1, 2, 3, 4, 5, 8, 67}) {
      WinogradProductOf<T> p;
      p.tiles = tiles;
      p.k = vectors * assembly.width;
      p.v_row = p.k + assembly.width;
      p.m_row = assembly.columns + 5;
      const std::vector<T> v = numbers.Reals<T>((tiles + 1) * p.v_row + 16);
      const std::vector<T> u = numbers.Reals<T>(p.k * assembly.columns + 256);
      p.v = v.data();
      p.u = u.data();
      p.soon = u.data();
      std::vector<T> first(static_cast<size_t>(tiles * p.m_row), T(-7.0f)), second = first;
      p.m = first.data();
      assembly.product(p);
      p.m = second.data();
      twin.product(p);
      EXPECT_TRUE(Same(first, second)) << tiles << " tiles, k " << p.k;
    }
  }
}

TEST(Assembly, WinogradProductF32) {
  CompareProducts(neon::WinogradKernelsGet(), neon_twin::WinogradKernelsGet());
}

TEST(Assembly, WinogradProductF16) {
  if (!ThisCpu().arm_f16) GTEST_SKIP() << "this processor has no arithmetic on f16";
  CompareProducts(neon_f16::WinogradKernelsGet(), neon_f16_twin::WinogradKernelsGet());
}

}  // namespace
}  // namespace oort::assembly_test
