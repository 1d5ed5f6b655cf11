// SPDX-License-Identifier: MIT
// Products with weights of 32 to 4 bits, as language models do them: one row streams the weights
// from memory, many rows are a matrix product.
#include <string>
#include <vector>

#include "bench/measure.h"
#include "core/checked.h"
#include "layers/quantized_linear/cpu/quantized_matrix.h"

namespace oort::bench {
namespace {

struct Kind {
  const char* name;
  WeightFormat format;
  int group;  // 0: no groups
};

constexpr Kind kKinds[] = {
    {"q4_1", WeightFormat::kQ4_1, 0},      {"q4_0", WeightFormat::kQ4_0, 0},
    {"q8_0", WeightFormat::kQ8_0, 0},      {"q5_0", WeightFormat::kQ5_0, 0},
    {"q4_k", WeightFormat::kQ4K, 0},       {"q5_k", WeightFormat::kQ5K, 0},
    {"q6_k", WeightFormat::kQ6K, 0},       {"int4_g128", WeightFormat::kInt4, 128},
    {"int8_g64", WeightFormat::kInt8, 64}, {"f16", WeightFormat::kF16, 0},
    {"bf16", WeightFormat::kBf16, 0},      {"f32", WeightFormat::kF32, 0},
};

/// Bytes without infinities in whatever 16-bit numbers they make.
Tensor SomeBytes(Shape shape, DType dtype) {
  Tensor tensor(dtype, shape);
  uint32_t state = 1;
  for (size_t i = 0; i < tensor.bytes(); ++i) {
    state = state * 1664525u + 1013904223u;
    tensor.raw()[i] = static_cast<std::byte>((state >> 24) & 0x3fu);
  }
  return tensor;
}

StoredMatrix Weights(const Kind& kind, int64_t rows, int64_t columns) {
  StoredMatrix stored;
  stored.format = kind.format;
  stored.rows = rows;
  stored.columns = columns;
  switch (kind.format) {
    case WeightFormat::kF32: stored.data = Filled({rows, columns}); break;
    case WeightFormat::kF16: stored.data = SomeBytes({rows, columns}, DType::kF16); break;
    case WeightFormat::kBf16: stored.data = SomeBytes({rows, columns}, DType::kBF16); break;
    case WeightFormat::kInt8: stored.data = SomeBytes({rows, columns}, DType::kI8); break;
    case WeightFormat::kInt4: stored.data = SomeBytes({rows, columns / 2}, DType::kU8); break;
    default: stored.data = SomeBytes({rows, RowBytes(kind.format, columns)}, DType::kU8);
  }
  if (kind.group > 0) stored.scale = SomeBytes({rows, columns / kind.group}, DType::kF16);
  return stored;
}

struct Case {
  Kind kind;
  int64_t rows, n, k;
  bool exact;
  bool answers = false;  ///< a sequence each: few-row kernels, however many there are
};

void RunProduct(benchmark::State& state, const Case& c, int threads) {
  const std::vector<std::shared_ptr<const QuantizedMatrix>> matrices = {
      std::make_shared<const QuantizedMatrix>(Weights(c.kind, c.n, c.k), threads)};
  const QuantizedMultiplier multiplier(DefaultIsa(), c.exact ? Precision::kF32 : Precision::kBF16);
  Tensor x = Filled({c.rows, c.k}), y = Filled({c.rows, c.n});
  const std::vector<const float*> biases = {nullptr};
  float* const out = y.data<float>();
  QuantizedProduct product;
  product.rows = c.rows;
  product.x = x.data<float>();
  product.x_stride = c.k;
  product.matrices = matrices;
  product.biases = biases;
  product.y = {&out, 1};
  product.apart = c.answers;
  const int64_t bytes = static_cast<int64_t>(multiplier.Workspace(product, threads));
  Tensor workspace(DType::kU8, {bytes + 64});
  for (auto _ : state) multiplier.Run(product, threads, workspace.raw());
  const double read = static_cast<double>(matrices[0]->bytes());
  state.counters["GB/s"] =
      benchmark::Counter(read * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  Report(state, 2.0 * static_cast<double>(c.rows * c.n * c.k), threads, 0);
}

void Register(const std::string& name, const Case& c) {
  ForThreads(name, [c](benchmark::State& state, int threads) { RunProduct(state, c, threads); });
}

bool IsKQuant(WeightFormat format) {
  return format >= WeightFormat::kQ2K && format <= WeightFormat::kQ6K;
}

void RegisterAll() {
  for (const Kind& kind : kKinds) {
    const std::string name = std::string("quantized_linear/") + kind.name;
    const int64_t k = IsKQuant(kind.format) ? 768 : 576;  // blocks of K-quants are 256
    Register(name + "/gemv_memory", {kind, 1, 98304, k, false});
    Register(name + "/gemv_cache", {kind, 1, 1536, k, false});
    Register(name + "/gemv_exact", {kind, 1, 1536, k, true});
    // What checking guesses costs beside one row from memory.
    Register(name + "/memory_rows:5", {kind, 5, 98304, k, false});
    for (int64_t rows : {2, 4, 5, 8, 12, 16, 32, 128}) {
      Register(name + "/rows:" + std::to_string(rows), {kind, rows, 1536, k, false});
    }
    for (int64_t rows : {3, 16, 20, 24, 28, 32, 40}) {
      Register(name + "/answers:" + std::to_string(rows), {kind, rows, 1536, k, false, true});
      Register(name + "/prompt:" + std::to_string(rows), {kind, rows, 1536, k, false});
    }
    Register(name + "/down:128", {kind, 128, 576, 1536, false});
  }
}

}  // namespace
}  // namespace oort::bench

int main(int argc, char** argv) {
  oort::bench::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
