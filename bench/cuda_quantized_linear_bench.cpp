// SPDX-License-Identifier: MIT
// The products of layers of Llama-2-7B on a GPU, one behind the other as in a step of a language
// model, by the number of rows: microseconds a layer, and the share of the memory's bandwidth.
//   bench_cuda_quantized_linear [int4|int8|bf16] [GROUP] [LAYERS] [ROWS…]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "bench/gpu_program.h"
#include "cuda/memory.h"
#include "decoder/graph_writer.h"
#include "oort/runtime_graph.h"
#include "oort/session.h"

namespace oort {
namespace {

constexpr int64_t kWidth = 4096, kHidden = 11008;

struct Weights {
  WeightFormat format;
  int64_t group;
};

Tensor RandomBytes(DType dtype, Shape shape) {
  static std::mt19937 random(1);
  Tensor bytes(dtype, shape);
  for (size_t i = 0; i + 4 <= bytes.bytes(); i += 4) {
    const uint32_t word = random();
    std::copy_n(reinterpret_cast<const std::byte*>(&word), 4, bytes.raw() + i);
  }
  return bytes;
}

/// Small numbers of either sign: a step of several layers stays finite.
Tensor SmallNumbers(DType dtype, Shape shape, float unit) {
  static std::mt19937 random(2);
  Tensor numbers(DType::kF32, shape);
  for (int64_t i = 0; i < numbers.elements(); ++i) {
    numbers.data<float>()[i] = (static_cast<float>(random() >> 8) * 0x1p-23f - 1) * unit;
  }
  return numbers.To(dtype);
}

StoredMatrix Matrix(const Weights& weights, int64_t rows, int64_t columns) {
  StoredMatrix stored;
  stored.format = weights.format;
  stored.rows = rows;
  stored.columns = columns;
  switch (weights.format) {
    case WeightFormat::kInt4: stored.data = RandomBytes(DType::kU8, {rows, columns / 2}); break;
    case WeightFormat::kInt8: stored.data = RandomBytes(DType::kI8, {rows, columns}); break;
    default: stored.data = SmallNumbers(DType::kBF16, {rows, columns}, 0.02f); return stored;
  }
  const float unit = weights.format == WeightFormat::kInt4 ? 4e-3f : 3e-4f;
  stored.scale = SmallNumbers(DType::kF16, {rows, columns / weights.group}, unit);
  return stored;
}

class Model {
 public:
  Model(const Weights& weights, int layers) : weights_(weights) {
    int x = writer_.AddInput("pnnx_input_0", DType::kF32, {Shape::kUnknown, kWidth});
    for (int layer = 0; layer < layers; ++layer) {
      const std::string name = "layer" + std::to_string(layer) + ".";
      const int query = Linear(name + "qkv", {x}, kWidth, {kWidth, kWidth, kWidth}, true, false)[0];
      x = Linear(name + "o", {query, x}, kWidth, {kWidth}, false, false)[0];
      const int hidden = Linear(name + "up", {x}, kWidth, {kHidden, kHidden}, true, true)[0];
      x = Linear(name + "down", {hidden, x}, kHidden, {kWidth}, false, false)[0];
    }
    writer_.Add({"pnnx.Output", "pnnx_output_0"}, {x}, 0);
  }

  std::shared_ptr<const RuntimeGraph> Load() {
    LoadOptions options;
    options.device = Device::Cuda(0);
    options.precision = Precision::kBF16;
    options.disabled_passes = {"narrow-floats"};
    return RuntimeGraph::Build(writer_.Take(), options);
  }
  double bytes() const { return bytes_; }

 private:
  std::vector<int> Linear(const std::string& name, const std::vector<int>& inputs, int64_t columns,
                          const std::vector<int64_t>& parts, bool norm, bool gated) {
    Written linear{"oort.QuantizedLinear", name};
    Value::List rows;
    for (size_t i = 0; i < parts.size(); ++i) {
      const StoredMatrix matrix = Matrix(weights_, parts[i], columns);
      bytes_ += static_cast<double>(matrix.data.bytes());
      if (matrix.scale.defined()) bytes_ += static_cast<double>(matrix.scale.bytes());
      linear.AttachWeight(matrix, i == 0 ? "" : "_" + std::to_string(i));
      rows.emplace_back(parts[i]);
    }
    linear.Set("in_features", Value(columns)).Set("out_features", Value(rows));
    linear.Set("gated", Value(gated));
    if (gated) linear.Set("activation", Value(std::string("silu")));
    if (norm) linear.Attach("norm", SmallNumbers(DType::kF32, {columns}, 1));
    return writer_.Add(std::move(linear), inputs, gated ? 1 : static_cast<int>(parts.size()));
  }

  Weights weights_;
  GraphWriter writer_;
  double bytes_ = 0;
};

double MedianMicroseconds(Session& session, const Tensor& input, Tensor& output) {
  constexpr int kWarm = 5, kRuns = 60;
  std::vector<double> times;
  for (int i = 0; i < kWarm + kRuns; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    session.ForwardInto({&input, 1}, {&output, 1});
    const std::chrono::duration<double, std::micro> spent =
        std::chrono::steady_clock::now() - begin;
    if (i >= kWarm) times.push_back(spent.count());
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

void Run(const std::vector<std::string>& arguments) {
  const auto argument = [&](size_t i, const char* otherwise) {
    return i < arguments.size() ? arguments[i] : std::string(otherwise);
  };
  const std::string format = argument(0, "int4");
  const Weights weights = {format == "int4"   ? WeightFormat::kInt4
                           : format == "int8" ? WeightFormat::kInt8
                                              : WeightFormat::kBf16,
                           std::stol(argument(1, "64"))};
  const int layers = std::stoi(argument(2, "8"));
  Model model(weights, layers);
  const auto graph = model.Load();
  for (const int64_t count : bench::NumbersFrom(arguments, 3, {1, 2, 4, 5, 8, 16, 24, 32, 64})) {
    const Tensor input =
        cuda::ToDevice(SmallNumbers(DType::kF32, {count, kWidth}, 1), Device::Cuda(0));
    Tensor output = cuda::DeviceTensor(DType::kF32, {count, kWidth}, Device::Cuda(0));
    Session session(graph);
    const double time = MedianMicroseconds(session, input, output);
    std::printf("%s groups of %s, %ld rows: %.1f us a layer, %.0f GB/s\n", format.c_str(),
                argument(1, "64").c_str(), static_cast<long>(count), time / layers,
                model.bytes() / time * 1e-3);
  }
}

}  // namespace
}  // namespace oort

int main(int count, char** arguments) { return oort::bench::RunOnGpu(count, arguments, oort::Run); }
