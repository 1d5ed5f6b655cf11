// SPDX-License-Identifier: MIT
// Depthwise convolutions of MobileNet and EfficientNet in NHWC. The
// first ones fit the L1 and L2 caches, so that they show the kernel and not the memory.
#include <string>

#include "bench/measure.h"
#include "core/parallel.h"
#include "layers/convolution/depthwise/depthwise.h"

namespace oort::bench {
namespace {

struct DepthwiseLayer {
  int64_t channels, extent, kernel, stride;
};

void RunDepthwise(benchmark::State& state, DepthwiseLayer layer, int threads) {
  const ConvParams params({layer.stride, layer.stride}, {layer.kernel / 2, layer.kernel / 2},
                          {1, 1}, layer.channels);
  const Tensor weight = Filled({layer.channels, 1, layer.kernel, layer.kernel});
  const ConvGeometry geometry =
      params.Geometry({1, layer.channels, layer.extent, layer.extent}, weight.shape());
  const int64_t out = geometry.axes[1].out;
  const Tensor x = Filled({layer.extent, layer.extent, layer.channels});
  const Tensor bias = Filled({layer.channels});
  Tensor y = Filled({out, out, layer.channels});
  DepthwiseConv::Operands operands;
  operands.in = x.data<float>();
  operands.bias = bias.data<float>();
  operands.out = y.data<float>();
  operands.in_pixel = operands.out_pixel = layer.channels;
  operands.activation = {Activation::kClamp, 0, 6};
  const DepthwiseConv convolution(DefaultIsa(), weight);
  const Context context(threads, {});
  for (auto _ : state) {
    convolution.Run(context, geometry, operands);
    benchmark::ClobberMemory();
  }
  const double flops = 2.0 * static_cast<double>(y.elements() * layer.kernel * layer.kernel);
  Report(state, flops, threads, 0);
}

constexpr DepthwiseLayer kDepthwiseLayers[] = {
    {16, 14, 3, 1},  {64, 28, 3, 1},  {64, 28, 5, 1},  {64, 28, 3, 2},  {32, 112, 3, 1},
    {96, 112, 3, 2}, {144, 56, 3, 1}, {192, 28, 3, 1}, {384, 14, 3, 1}, {576, 14, 3, 2},
    {960, 7, 3, 1},  {240, 28, 5, 1}, {672, 14, 5, 1}, {672, 14, 5, 2}, {1152, 7, 5, 1},
    {512, 14, 3, 1}, {96, 56, 7, 1},
};

void RegisterDepthwise() {
  const int all = AvailableThreads();
  for (const DepthwiseLayer& layer : kDepthwiseLayers) {
    const std::string size = std::to_string(layer.kernel);
    const std::string name = "depthwise/" + size + "x" + size + "s" + std::to_string(layer.stride) +
                             "_" + std::to_string(layer.channels) + "@" +
                             std::to_string(layer.extent);
    benchmark::RegisterBenchmark((name + "/threads:1").c_str(), RunDepthwise, layer, 1);
    if (all == 1) continue;
    benchmark::RegisterBenchmark((name + "/threads:" + std::to_string(all)).c_str(), RunDepthwise,
                                 layer, all)
        ->UseRealTime();
  }
}

}  // namespace
}  // namespace oort::bench

int main(int argc, char** argv) {
  oort::bench::RegisterDepthwise();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
