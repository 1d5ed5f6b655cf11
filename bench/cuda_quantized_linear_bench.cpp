// SPDX-License-Identifier: MIT
// The products of layers of Llama-2-7B on a GPU, one behind the other as in a step of a language
// model, by the number of rows: microseconds a layer, and the share of the memory's bandwidth.
//   bench_cuda_quantized_linear [int4|int8|bf16] [GROUP] [LAYERS] [ROWS…]
#include <cstdio>
#include <string>
#include <vector>

#include "bench/gpu_program.h"
#include "bench/random_weights.h"
#include "cuda/memory.h"
#include "decoder/graph_writer.h"
#include "oort/runtime_graph.h"
#include "oort/session.h"

namespace oort {
namespace {

using bench::Matrix;
using bench::SmallNumbers;
using bench::Weights;

constexpr int64_t kWidth = 4096, kHidden = 11008;

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

void Run(const std::vector<std::string>& arguments) {
  const auto argument = [&](size_t i, const char* otherwise) {
    return i < arguments.size() ? arguments[i] : std::string(otherwise);
  };
  const std::string format = argument(0, "int4");
  const Weights weights = bench::WeightsNamed(format, std::stol(argument(1, "64")));
  const int layers = std::stoi(argument(2, "8"));
  Model model(weights, layers);
  const auto graph = model.Load();
  for (const int64_t count : bench::NumbersFrom(arguments, 3, {1, 2, 4, 5, 8, 16, 24, 32, 64})) {
    const Tensor input =
        cuda::ToDevice(SmallNumbers(DType::kF32, {count, kWidth}, 1), Device::Cuda(0));
    Tensor output = cuda::DeviceTensor(DType::kF32, {count, kWidth}, Device::Cuda(0));
    Session session(graph);
    const double time = bench::MedianMicroseconds(session, {&input, 1}, output);
    std::printf("%s groups of %s, %ld rows: %.1f us a layer, %.0f GB/s\n", format.c_str(),
                argument(1, "64").c_str(), static_cast<long>(count), time / layers,
                model.bytes() / time * 1e-3);
  }
}

}  // namespace
}  // namespace oort

int main(int count, char** arguments) { return oort::bench::RunOnGpu(count, arguments, oort::Run); }
