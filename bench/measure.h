// SPDX-License-Identifier: MIT
// What benchmarks compare themselves with: the peak of the machine and a peer, in the same run.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>

#include "oort/tensor.h"

namespace oort::bench {

/// A tensor of small numbers. Every element is written: untouched pages would all be one page of
/// zeros, which no real data is.
Tensor Filled(Shape shape);

/// Floating-point operations a second of one core with the kernels in use, measured once.
double Peak();

/// Operations a second of OpenBLAS' sgemm of this size on one thread; 0 where it is not linked.
double OpenBlasFlops(int64_t m, int64_t n, int64_t k);

/// Adds GFLOP/s, the percentage of the peak of `threads` cores and the ratio to OpenBLAS, which
/// counts as scaling perfectly, to what a benchmark prints.
void Report(benchmark::State& state, double flops, int threads, double openblas_flops);

}  // namespace oort::bench
