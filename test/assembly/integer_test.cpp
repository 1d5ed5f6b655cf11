// SPDX-License-Identifier: MIT
// Windows of bytes times panels of filters in assembly, beside their twins.
#include "cpu/features.h"
#include "twins.h"

namespace oort::assembly_test {
namespace {

struct PanelCase {
  int64_t outputs, channels, runs, steps;
  IntegerResult result = IntegerResult::kU8;
  bool addend = false, small_sums = false;
};

void ComparePanels(const PanelCase& c, const IntegerKernels& assembly, const IntegerKernels& twin) {
  Numbers numbers(12);
  const int64_t run = c.steps * assembly.step, window = c.runs * run;
  const std::vector<uint8_t> image = numbers.Wholes<uint8_t>(c.outputs * window + 64, 0, 255);
  const std::vector<int8_t> weights = numbers.Wholes<int8_t>(assembly.panel * window, -128, 127);
  const int32_t first = c.small_sums ? kSmallSums : 0;
  const auto starts = numbers.Wholes<int32_t>(assembly.panel, first - 1000, first + 1000);
  const std::vector<float> scale = numbers.Reals<float>(assembly.panel);
  const std::vector<float> bias = numbers.Reals<float>(assembly.panel);
  const std::vector<uint8_t> addend = numbers.Wholes<uint8_t>(c.outputs * c.channels, 0, 255);
  std::vector<const std::byte*> windows;
  for (int64_t i = 0; i < c.outputs; ++i) {
    windows.push_back(reinterpret_cast<const std::byte*>(image.data()) + i * window);
  }
  std::vector<int64_t> runs;
  for (int64_t i = 0; i < c.runs; ++i) runs.push_back(i * run);
  const int64_t rows = c.outputs + assembly.pack_rows;
  std::vector<std::byte> packed(static_cast<size_t>(rows * window));
  IntegerWindows job{.windows = windows.data(),
                     .count = c.outputs,
                     .runs = runs.data(),
                     .run_count = c.runs,
                     .run_steps = c.steps,
                     .packed = packed.data(),
                     .weights = weights.data(),
                     .starts = starts.data(),
                     .channels = c.channels,
                     .epilogue = {.scale = scale.data(), .bias = bias.data()}};
  if (c.addend) job.epilogue.addend = addend.data();
  job.epilogue.addend_scale = 0.25f;
  job.epilogue.low = -100;
  job.epilogue.high = 155;
  job.epilogue.zero_point = 100;
  job.epilogue.small_sums = c.small_sums;
  job.epilogue.result = c.result;
  job.epilogue.stride = job.epilogue.addend_stride = c.channels;
  assembly.pack(job, packed.data());
  std::vector<uint8_t> results[2];
  for (int i = 0; i < 2; ++i) {
    results[i].assign(static_cast<size_t>(4 * c.outputs * c.channels + 16), 7);
    job.epilogue.out = results[i].data();
    (i == 0 ? assembly : twin).product(job);
  }
  EXPECT_TRUE(Same(results[0], results[1]))
      << c.outputs << " outputs, " << c.channels << " channels, " << c.steps << " steps";
}

void CompareUnit(const IntegerKernels& assembly, const IntegerKernels& twin) {
  for (const int64_t outputs : {1, 2, 3, 5, 6, 7, 12, 17}) {
    for (const int64_t channels : {16, 13, 8, 5}) {
      for (const int64_t steps : {1, 2, 5}) {
        ComparePanels({outputs, channels, 2, steps}, assembly, twin);
        ComparePanels({outputs, channels, 1, steps, IntegerResult::kF32, true}, assembly, twin);
        ComparePanels({outputs, channels, 1, steps, IntegerResult::kI8, true}, assembly, twin);
        ComparePanels({outputs, channels, 3, steps, IntegerResult::kU8, true, true}, assembly,
                      twin);
      }
    }
  }
}

TEST(Assembly, IntegerDot) {
  if (!ThisCpu().arm_dot) GTEST_SKIP() << "this processor has no dot products of bytes";
  CompareUnit(neon_dot::IntegerKernelsGet(), neon_dot_twin::IntegerKernelsGet());
}

TEST(Assembly, IntegerMatrices) {
  if (!ThisCpu().arm_i8mm) GTEST_SKIP() << "this processor has no products of matrices of bytes";
  CompareUnit(neon_i8mm::IntegerKernelsGet(), neon_i8mm_twin::IntegerKernelsGet());
}

}  // namespace
}  // namespace oort::assembly_test
