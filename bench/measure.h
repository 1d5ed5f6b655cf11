// SPDX-License-Identifier: MIT
// What benchmarks compare themselves with: the roofs of the machine and a peer, in the same run.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "oort/oort.h"

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

/// One operator with its inputs.
struct OperatorCase {
  std::string type;
  std::map<std::string, std::string> params;
  std::map<std::string, Tensor> attributes;
  std::vector<Shape> inputs;
  DType dtype = DType::kF32;  ///< of the inputs; the peak is that of its lanes
};

/// Runs the operator alone, as it stands, and adds GFLOP/s, GB/s, the percentages of the peak
/// (peak%) and of the bandwidth of the smallest cache that holds all its bytes (read%), and the
/// ratio to OpenBLAS where that is given. The label says which roof is the lower one.
void RunOperator(benchmark::State& state, const OperatorCase& op, int threads,
                 double openblas_flops = 0);

/// Registers `name` for one thread and for all.
void ForThreads(const std::string& name,
                const std::function<void(benchmark::State&, int threads)>& body);

/// "(value,value)"
std::string Pair(int64_t value);

}  // namespace oort::bench
