// SPDX-License-Identifier: MIT
// Matrix products with a packed left side, as convolutions and linear layers do them.
#include <string>

#include "bench/measure.h"
#include "cpu/gemm.h"

namespace oort::bench {
namespace {

struct Size {
  int64_t m, n, k;
};

void RunGemm(benchmark::State& state, Size size, int threads) {
  const GemmKernels& kernels = GemmKernelsFor(DefaultIsa());
  Tensor a = Filled({size.m, size.k});
  Tensor b = Filled({size.k, size.n});
  Tensor c = Filled({size.m, size.n});
  const MatrixSource rows(kernels, {a.data<float>(), 1, size.k});
  const MatrixSource columns(kernels, {b.data<float>(), size.n, 1});
  const PackedMatrix packed(kernels, GemmSide::kA, size.m, size.k, rows);
  GemmProblem problem;
  problem.size = {size.m, size.n, size.k, true, false};
  problem.packed = packed.panels();
  problem.b = &columns;
  problem.c = c.data<float>();
  problem.ldc = size.n;
  Tensor workspace(DType::kF32, {GemmWorkspace(kernels, problem.size, threads)});
  for (auto _ : state) Gemm(kernels, problem, threads, workspace.data<float>());
  const double flops =
      2.0 * static_cast<double>(size.m) * static_cast<double>(size.n) * static_cast<double>(size.k);
  Report(state, flops, threads, OpenBlasFlops(size.m, size.n, size.k));
}

constexpr Size kSizes[] = {
    {64, 12544, 147}, {64, 3136, 64},   {64, 3136, 576},  {256, 3136, 64}, {128, 784, 1152},
    {512, 784, 128},  {256, 196, 2304}, {1024, 196, 256}, {512, 49, 4608}, {2048, 49, 512},
    {768, 50, 768},   {3072, 50, 768},  {1000, 1, 2048},  {512, 512, 512}, {1024, 1024, 1024},
};

void RegisterAll() {
  for (const Size& size : kSizes) {
    const std::string name = "gemm/" + std::to_string(size.m) + "x" + std::to_string(size.n) + "x" +
                             std::to_string(size.k);
    ForThreads(name,
               [size](benchmark::State& state, int threads) { RunGemm(state, size, threads); });
  }
}

}  // namespace
}  // namespace oort::bench

int main(int argc, char** argv) {
  oort::bench::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
