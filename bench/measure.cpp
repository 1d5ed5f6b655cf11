// SPDX-License-Identifier: MIT
#include "bench/measure.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include "cpu/roofs.h"
#ifdef OORT_OPENBLAS
#include <cblas.h>
#endif

namespace oort::bench {
namespace {

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Median seconds of several runs, after one that does not count.
template <typename Body>
double MedianSeconds(int runs, Body body) {
  body();
  std::vector<double> seconds;
  for (int i = 0; i < runs; ++i) {
    const double start = CpuSeconds();
    body();
    seconds.push_back(CpuSeconds() - start);
  }
  std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
  return seconds[static_cast<size_t>(runs / 2)];
}

}  // namespace

Tensor Filled(Shape shape) {
  Tensor tensor(DType::kF32, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    tensor.data<float>()[i] = static_cast<float>(i % 13) * 0.125f - 0.75f;
  }
  return tensor;
}

double Peak() {
  static const double peak = PeakFlops(DefaultIsa());
  return peak;
}

double OpenBlasFlops([[maybe_unused]] int64_t m, [[maybe_unused]] int64_t n,
                     [[maybe_unused]] int64_t k) {
#ifdef OORT_OPENBLAS
  openblas_set_num_threads(1);
  std::vector<float> a(static_cast<size_t>(m * k), 0.5f), b(static_cast<size_t>(k * n), 0.25f),
      c(static_cast<size_t>(m * n));
  const auto size = [](int64_t extent) { return static_cast<int>(extent); };
  const double seconds = MedianSeconds(11, [&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size(m), size(n), size(k), 1.0f,
                a.data(), size(k), b.data(), size(n), 0.0f, c.data(), size(n));
  });
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / seconds;
#else
  return 0;
#endif
}

void Report(benchmark::State& state, double flops, int threads, double openblas_flops) {
  using benchmark::Counter;
  // A rate's value is multiplied by the iterations and divided by the time.
  const auto rate = [&](double unit) {
    return Counter(flops / unit, Counter::kIsIterationInvariantRate);
  };
  state.counters["GFLOP/s"] = rate(1e9);
  state.counters["peak%"] = rate(Peak() * threads / 100);
  if (openblas_flops > 0) state.counters["x_openblas"] = rate(openblas_flops * threads);
}

}  // namespace oort::bench
