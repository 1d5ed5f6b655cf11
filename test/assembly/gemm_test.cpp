// SPDX-License-Identifier: MIT
// Tiles of matrix products in assembly, beside their twins.
#include "cpu/features.h"
#include "twins.h"

namespace oort::assembly_test {
namespace {

/// Random panels: of f32, or of bf16.
std::vector<std::byte> Panel(Numbers& numbers, const GemmKernels& kernels, int64_t elements) {
  std::vector<std::byte> panel(static_cast<size_t>(elements * kernels.format.element + 256));
  for (int64_t i = 0; i < elements; ++i) {
    const float value = numbers.Real();
    const BFloat16 narrow(value);
    const void* from = kernels.format.element == 4 ? static_cast<const void*>(&value) : &narrow;
    std::memcpy(panel.data() + i * kernels.format.element, from,
                static_cast<size_t>(kernels.format.element));
  }
  return panel;
}

struct TileCase {
  int64_t steps;
  int rows, columns;
  bool accumulate, bias, addend;
  ActivationSpec activation;
  int64_t below = 1;  ///< tiles one below another
};

void Compare(const GemmKernels& assembly, const GemmKernels& twin, const TileCase& c) {
  ASSERT_TRUE(assembly.rows == twin.rows && assembly.columns == twin.columns);
  Numbers numbers(9);
  GemmTile tile;
  tile.k = c.steps * assembly.format.k_multiple;
  const int64_t a_size = tile.k * assembly.rows, b_size = tile.k * assembly.columns;
  const std::vector<std::byte> a = Panel(numbers, assembly, c.below * a_size);
  const std::vector<std::byte> b = Panel(numbers, assembly, b_size);
  const std::vector<float> bias = numbers.Reals<float>(assembly.columns);
  tile.a = a.data();
  tile.b = b.data();
  tile.rows = c.rows;
  tile.columns = c.columns;
  tile.ldc = assembly.columns + 3;
  tile.accumulate = c.accumulate;
  if (c.bias) tile.column_bias = bias.data();
  tile.activation = c.activation;
  const std::vector<float> c0 = numbers.Reals<float>(c.below * assembly.rows * tile.ldc);
  const std::vector<float> addend = numbers.Reals<float>(c.below * assembly.rows * tile.ldc);
  tile.addend_stride = tile.ldc;
  if (c.addend) tile.addend = addend.data();
  const auto run = [&](const GemmKernels& kernels) {
    std::vector<float> out = c0;
    tile.c = out.data();
    if (c.below == 1) {
      kernels.tile(tile);
    } else {
      EXPECT_TRUE(kernels.tiles_below(tile, c.below, a_size * kernels.format.element));
    }
    return out;
  };
  EXPECT_TRUE(Same(run(assembly), run(twin)))
      << c.rows << " x " << c.columns << " x " << tile.k << ", accumulate " << c.accumulate
      << ", bias " << c.bias << ", addend " << c.addend << ", activation "
      << static_cast<int>(c.activation.kind) << ", tiles " << c.below;
}

void CompareTiles(const GemmKernels& assembly, const GemmKernels& twin) {
  const ActivationSpec activations[] = {
      {}, {Activation::kRelu, 0, 0}, {Activation::kClamp, -0.25f, 0.5f}, {Activation::kSilu, 0, 0}};
  int turn = 0;
  for (const int64_t steps : {1, 2, 3, 4, 7, 8, 33}) {
    for (const int rows : {1, 3, 7, 8}) {
      for (const int columns : {1, 4, 9, 11, 12}) {
        for (int flags = 0; flags < 8; ++flags, ++turn) {
          Compare(assembly, twin,
                  {steps, rows, columns, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0,
                   activations[turn % 4]});
        }
      }
    }
    if (assembly.tiles_below == nullptr) continue;
    for (int flags = 0; flags < 8; ++flags) {
      Compare(assembly, twin,
              {steps, assembly.rows, assembly.columns, (flags & 1) != 0, (flags & 2) != 0,
               (flags & 4) != 0, activations[flags % 3], 3});
    }
  }
}

TEST(Assembly, GemmF32) { CompareTiles(neon::GemmKernelsGet(), neon_twin::GemmKernelsGet()); }

TEST(Assembly, GemmBf16) {
  if (!ThisCpu().arm_bf16) GTEST_SKIP() << "this processor has no matrix unit for bf16";
  CompareTiles(neon_bf16::GemmKernelsGet(), neon_bf16_twin::GemmKernelsGet());
}

}  // namespace
}  // namespace oort::assembly_test
