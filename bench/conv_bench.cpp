// SPDX-License-Identifier: MIT
// Convolutions of ResNet-50 and MobileNetV2 at 224 x 224. The ratio is to OpenBLAS' product of the
// same size alone, without the gathering of the image.
#include <string>

#include "bench/measure.h"
#include "core/parallel.h"
#include "oort/oort.h"

namespace oort::bench {
namespace {

struct Layer {
  const char* name;
  int64_t in, out, extent, kernel, stride, groups;
};

std::string Pair(int64_t value) {
  return "(" + std::to_string(value) + "," + std::to_string(value) + ")";
}

Graph ConvGraph(const Layer& layer) {
  Graph graph;
  const int x = graph.AddOperand("x"), y = graph.AddOperand("y");
  Operator input, conv, output;
  input.type = "pnnx.Input";
  input.name = "pnnx_input_0";
  input.outputs = {x};
  conv.type = "nn.Conv2d";
  conv.name = "conv";
  conv.inputs = {x};
  conv.outputs = {y};
  conv.params["stride"] = Parameter(Pair(layer.stride));
  conv.params["padding"] = Parameter(Pair(layer.kernel / 2));
  conv.params["groups"] = Parameter(std::to_string(layer.groups));
  conv.attributes["weight"] =
      Filled({layer.out, layer.in / layer.groups, layer.kernel, layer.kernel});
  conv.attributes["bias"] = Filled({layer.out});
  output.type = "pnnx.Output";
  output.name = "pnnx_output_0";
  output.inputs = {y};
  graph.AddOperator(std::move(input));
  graph.AddOperator(std::move(conv));
  graph.AddOperator(std::move(output));
  return graph;
}

void RunConv(benchmark::State& state, Layer layer, int threads) {
  Session session(RuntimeGraph::Build(ConvGraph(layer)), {.threads = threads});
  const Tensor x = Filled({1, layer.in, layer.extent, layer.extent});
  const int64_t out = (layer.extent - 1) / layer.stride + 1;
  RunOptions options;
  options.outputs = {Filled({1, layer.out, out, out})};
  for (auto _ : state) session.Forward({x}, options);
  const int64_t k = layer.in / layer.groups * layer.kernel * layer.kernel;
  const double flops = 2.0 * static_cast<double>(layer.out) * static_cast<double>(out * out) *
                       static_cast<double>(k);
  Report(state, flops, threads, layer.groups == 1 ? OpenBlasFlops(layer.out, out * out, k) : 0);
}

constexpr Layer kLayers[] = {
    {"resnet/7x7s2_3_64@224", 3, 64, 224, 7, 2, 1},
    {"resnet/1x1_64_64@56", 64, 64, 56, 1, 1, 1},
    {"resnet/3x3_64_64@56", 64, 64, 56, 3, 1, 1},
    {"resnet/1x1_64_256@56", 64, 256, 56, 1, 1, 1},
    {"resnet/3x3s2_128_128@56", 128, 128, 56, 3, 2, 1},
    {"resnet/3x3_128_128@28", 128, 128, 28, 3, 1, 1},
    {"resnet/1x1s2_512_1024@28", 512, 1024, 28, 1, 2, 1},
    {"resnet/3x3_256_256@14", 256, 256, 14, 3, 1, 1},
    {"resnet/1x1_1024_256@14", 1024, 256, 14, 1, 1, 1},
    {"resnet/3x3_512_512@7", 512, 512, 7, 3, 1, 1},
    {"resnet/1x1_512_2048@7", 512, 2048, 7, 1, 1, 1},
    {"mobilenet/3x3s2_3_32@224", 3, 32, 224, 3, 2, 1},
    {"mobilenet/dw3x3_32@112", 32, 32, 112, 3, 1, 32},
    {"mobilenet/dw3x3s2_96@112", 96, 96, 112, 3, 2, 96},
    {"mobilenet/dw3x3_192@28", 192, 192, 28, 3, 1, 192},
    {"mobilenet/dw3x3_960@7", 960, 960, 7, 3, 1, 960},
    {"mobilenet/1x1_16_96@112", 16, 96, 112, 1, 1, 1},
    {"mobilenet/1x1_960_160@7", 960, 160, 7, 1, 1, 1},
};

void RegisterAll() {
  const int all = AvailableThreads();
  for (const Layer& layer : kLayers) {
    const std::string name = std::string("conv/") + layer.name;
    benchmark::RegisterBenchmark((name + "/threads:1").c_str(), RunConv, layer, 1);
    if (all == 1) continue;
    benchmark::RegisterBenchmark((name + "/threads:" + std::to_string(all)).c_str(), RunConv, layer,
                                 all)
        ->UseRealTime();
  }
}

}  // namespace
}  // namespace oort::bench

int main(int argc, char** argv) {
  oort::bench::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
