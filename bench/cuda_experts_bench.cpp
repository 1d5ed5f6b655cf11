// SPDX-License-Identifier: MIT
// Mixtures of experts on a GPU, one behind the other as in a step of a language model, by the
// number of rows: microseconds a layer, and how many bytes a second are read of the experts in use.
//   bench_cuda_experts [int4|int8|bf16] [GROUP] [LAYERS] [HIDDEN INTERMEDIATE EXPERTS USED] [ROWS…]
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/gpu_program.h"
#include "bench/random_weights.h"
#include "cuda/memory.h"
#include "decoder/graph_writer.h"
#include "layers/experts/expert_routing.h"
#include "oort/runtime_graph.h"

namespace oort {
namespace {

/// That of Qwen3-30B-A3B.
struct Mixture {
  int64_t hidden = 2048, intermediate = 768, experts = 128, used = 8;
};

struct LoadedMixtures {
  std::shared_ptr<const RuntimeGraph> graph;
  double expert_bytes = 0;  ///< of one expert of a layer
};

LoadedMixtures Load(const Mixture& mixture, const bench::Weights& weights, int layers) {
  LoadedMixtures loaded;
  GraphWriter writer;
  int x = writer.AddInput("pnnx_input_0", DType::kF32, {Shape::kUnknown, mixture.hidden});
  const int router =
      writer.AddInput("pnnx_input_1", DType::kF32, {Shape::kUnknown, mixture.experts});
  for (int layer = 0; layer < layers; ++layer) {
    Written experts{"oort.ExpertMixture", "layer" + std::to_string(layer)};
    for (int part = 0; part < 3; ++part) {
      const int64_t rows = part == 2 ? mixture.hidden : mixture.intermediate;
      const StoredMatrix matrix = bench::Matrix(weights, mixture.experts * rows,
                                                part == 2 ? mixture.intermediate : mixture.hidden);
      const size_t scales = matrix.scale.defined() ? matrix.scale.bytes() : 0;
      loaded.expert_bytes += static_cast<double>(matrix.data.bytes() + scales) /
                             static_cast<double>(mixture.experts * layers);
      experts.AttachWeight(matrix, part == 0 ? "" : "_" + std::to_string(part));
    }
    experts.Set("in_features", Value(mixture.hidden));
    experts.Set("intermediate", Value(mixture.intermediate));
    experts.Set("experts", Value(mixture.experts)).Set("used", Value(mixture.used));
    experts.Set("normalized", Value(true)).Set("activation", Value(std::string("silu")));
    x = writer.AddOne(std::move(experts), {x, router, x});
  }
  writer.Add({"pnnx.Output", "pnnx_output_0"}, {x}, 0);
  LoadOptions options;
  options.device = Device::Cuda(0);
  options.precision = Precision::kBF16;
  options.disabled_passes = {"narrow-floats"};
  loaded.graph = RuntimeGraph::Build(writer.Take(), options);
  return loaded;
}

void Run(const std::vector<std::string>& arguments) {
  const auto argument = [&](size_t i, const std::string& otherwise) {
    return i < arguments.size() ? arguments[i] : otherwise;
  };
  const std::string format = argument(0, "int4"), group = argument(1, "64");
  const int layers = std::stoi(argument(2, "8"));
  Mixture mixture;
  size_t at = 3;
  for (int64_t* size : {&mixture.hidden, &mixture.intermediate, &mixture.experts, &mixture.used}) {
    *size = std::stol(argument(at++, std::to_string(*size)));
  }
  const LoadedMixtures loaded =
      Load(mixture, bench::WeightsNamed(format, std::stol(group)), layers);
  RoutingRule rule;
  rule.experts = mixture.experts;
  rule.used = mixture.used;
  for (const int64_t rows :
       bench::NumbersFrom(arguments, at, {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 2048})) {
    const Tensor logits = bench::SmallNumbers(DType::kF32, {rows, mixture.experts}, 3);
    const ExpertRouting routing(rule, logits.data<float>(), rows);
    const double read = loaded.expert_bytes * static_cast<double>(routing.experts_in_use().size());
    const Tensor x = bench::SmallNumbers(DType::kF32, {rows, mixture.hidden}, 1);
    const std::vector<Tensor> inputs = {cuda::ToDevice(x, Device::Cuda(0)),
                                        cuda::ToDevice(logits, Device::Cuda(0))};
    Tensor output = cuda::DeviceTensor(DType::kF32, {rows, mixture.hidden}, Device::Cuda(0));
    Session session(loaded.graph);
    const double time = bench::MedianMicroseconds(session, inputs, output) / layers;
    std::printf("%s groups of %s, %ld rows: %.1f us a layer, %.0f GB/s\n", format.c_str(),
                group.c_str(), static_cast<long>(rows), time, read / time * 1e-3);
  }
}

}  // namespace
}  // namespace oort

int main(int count, char** arguments) { return oort::bench::RunOnGpu(count, arguments, oort::Run); }
