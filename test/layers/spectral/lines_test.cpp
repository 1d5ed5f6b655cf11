// SPDX-License-Identifier: MIT
// The engine under the layers, with memory of exactly the size that it asks for: sanitizers see
// what lies beyond, which they cannot in a session's arena.
#include <gtest/gtest.h>

#include "layers/spectral/fft_lines.h"
#include "spectral_reference.h"

namespace oort::testing {
namespace {

/// Numbers a point of the source and of the target, and points of both.
struct LinesLayout {
  int64_t source_item, target_item, source_points, target_points;
};

LinesLayout LayoutOf(FftKind kind, int64_t n) {
  switch (kind) {
    case FftKind::kComplex: return {2, 2, n, n};
    case FftKind::kRealToComplex: return {1, 2, n, n / 2 + 1};
    case FftKind::kRealToFull: return {1, 2, n, n};
    case FftKind::kComplexToReal: break;
  }
  return {2, 1, n / 2 + 1, n};
}

template <typename T>
DftArray LinesExpected(const std::vector<T>& source, FftKind kind, int64_t n, int64_t lines) {
  const LinesLayout layout = LayoutOf(kind, n);
  DftArray x(Shape{lines, layout.source_points});
  for (size_t i = 0; i < x.values.size(); ++i) {
    x.values[i] = layout.source_item == 1 ? DftNumber(source[i])
                                          : DftNumber(source[2 * i], source[2 * i + 1]);
  }
  if (kind == FftKind::kComplexToReal) return DftOfHalf(x, 1, n, 1);
  return kind == FftKind::kRealToComplex ? DftFirstHalf(x, 1, n, -1) : Dft(x, 1, n, -1);
}

template <typename T>
void ExpectLines(Isa isa, FftKind kind, int64_t n, int64_t lines, int threads) {
  SCOPED_TRACE(std::string(Name(isa)) + ", kind " + std::to_string(static_cast<int>(kind)) + ", " +
               std::to_string(lines) + " lines of " + std::to_string(n) + " points, " +
               std::to_string(threads) + " threads");
  const LinesLayout layout = LayoutOf(kind, n);
  const Tensor random =
      RandomTensor(kDTypeOf<T>, {lines * layout.source_points * layout.source_item});
  const std::vector<T> source(random.span<T>().begin(), random.span<T>().end());
  std::vector<T> target(static_cast<size_t>(lines * layout.target_points * layout.target_item));
  const FftRunner<T> runner(isa, kind, n, lines, threads);
  std::vector<T> workspace(runner.workspace() / sizeof(T));

  FftJob<T> job;
  job.kind = kind;
  job.n = n;
  job.inverse = kind == FftKind::kComplexToReal;
  job.source = source.data();
  job.source_real = layout.source_item == 1;
  job.source_step = layout.source_item;
  job.source_count = layout.source_points;
  job.target = target.data();
  job.target_step = layout.target_item;
  job.axes[0] = {lines, lines, layout.source_points * layout.source_item,
                 layout.target_points * layout.target_item};
  job.axis_count = 1;
  runner.Run(job, workspace.data());

  const DftArray expected = LinesExpected(source, kind, n, lines);
  const double allowed =
      std::sqrt(static_cast<double>(n)) * (sizeof(T) == sizeof(float) ? 1e-5 : 2e-14);
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const DftNumber got = layout.target_item == 1 ? DftNumber(target[i])
                                                  : DftNumber(target[2 * i], target[2 * i + 1]);
    ASSERT_NEAR(std::abs(got - expected.values[i]), 0, allowed) << "element " << i;
  }
}

TEST(SpectralLines, NeedNoMoreMemoryThanTheySay) {
  for (Isa isa : SupportedIsas()) {
    for (FftKind kind : {FftKind::kComplex, FftKind::kRealToComplex, FftKind::kRealToFull,
                         FftKind::kComplexToReal}) {
      for (int64_t n : {1, 2, 3, 12, 53, 106, 520, 1042}) {
        for (int64_t lines : {1, 2, 5, 19}) {
          for (int threads : {1, 3}) {
            ExpectLines<float>(isa, kind, n, lines, threads);
            if (n < 500) ExpectLines<double>(isa, kind, n, lines, threads);
          }
        }
      }
    }
  }
}

TEST(SpectralLines, RecentPlansAreTheSame) {
  const auto plan = GetFftPlan<FftPlan<float>>(77);
  EXPECT_EQ(GetFftPlan<FftPlan<float>>(77), plan);
  for (int64_t n = 100; n < 200; ++n) GetFftPlan<FftPlan<float>>(n);
  EXPECT_NE(GetFftPlan<FftPlan<float>>(77), plan) << "what was not used for long is forgotten";
  EXPECT_EQ(plan->length(), 77) << "but lives as long as somebody holds it";
}

TEST(SpectralLines, RootsAreExactWhereTheyCanBe) {
  for (int64_t n : {4, 8, 12, 1000, 4096, 1 << 24}) {
    EXPECT_EQ(FftRoot(0, n), DftNumber(1, 0));
    EXPECT_EQ(FftRoot(n / 4, n), DftNumber(0, 1));
    EXPECT_EQ(FftRoot(n / 2, n), DftNumber(-1, 0));
    EXPECT_EQ(FftRoot(3 * n / 4, n), DftNumber(0, -1));
  }
  const DftNumber root = FftRoot(1 << 21, 1 << 24);
  EXPECT_NEAR(root.real(), std::numbers::sqrt2 / 2, 2e-16);
  EXPECT_NEAR(root.imag(), std::numbers::sqrt2 / 2, 2e-16);
}

}  // namespace
}  // namespace oort::testing
