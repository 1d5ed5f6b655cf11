// SPDX-License-Identifier: MIT
// 3x3 convolutions of ResNet, SqueezeNet and VGG by each variant of Winograd's algorithm. GFLOP/s
// and the percentage of peak count what the plain sum would need, so that they may pass 100%;
// `chosen` is 1 for the variant that the cost model takes.
#include <string>

#include "bench/measure.h"
#include "core/parallel.h"
#include "layers/convolution/winograd/winograd.h"

namespace oort::bench {
namespace {

struct Size {
  int64_t extent, in, out;
};

void RunWinograd(benchmark::State& state, Size size, WinogradVariant variant, int threads) {
  const WinogradSize shape = {1, size.extent, size.extent, size.in, size.out};
  const WinogradConv conv(DefaultIsa(), Filled({size.out, size.in, 3, 3}), Filled({size.out}),
                          variant);
  const Tensor input = Filled({size.extent, size.extent, size.in});
  Tensor output = Filled({size.extent, size.extent, size.out});
  const auto workspace = AllocateHost(conv.Workspace(shape, threads));
  WinogradCall call;
  call.input = input.data<float>();
  call.output = output.data<float>();
  call.batch = 1;
  call.height = call.width = call.out_height = call.out_width = size.extent;
  call.input_stride = size.in;
  call.output_stride = size.out;
  call.pad_top = call.pad_left = 1;
  call.activation.kind = Activation::kRelu;
  for (auto _ : state) conv.Run(call, threads, reinterpret_cast<float*>(workspace->data()));
  Report(state, 18.0 * static_cast<double>(size.extent * size.extent * size.in * size.out), threads,
         0);
  state.counters["chosen"] = WinogradConv::Choose(shape, DefaultIsa()) == variant ? 1 : 0;
}

constexpr Size kSizes[] = {{56, 64, 64},    {28, 128, 128}, {14, 256, 256}, {7, 512, 512},
                           {55, 16, 64},    {27, 32, 128},  {13, 64, 256},  {224, 64, 64},
                           {112, 128, 128}, {56, 256, 256}, {28, 512, 512}, {14, 512, 512}};

void RegisterAll() {
  const int all = AvailableThreads();
  for (const Size& size : kSizes) {
    for (const auto variant : {WinogradVariant::kF2, WinogradVariant::kF4, WinogradVariant::kF6}) {
      const std::string name = "winograd/F" + std::to_string(WinogradTile(variant)) + "/" +
                               std::to_string(size.in) + "_" + std::to_string(size.out) + "@" +
                               std::to_string(size.extent);
      benchmark::RegisterBenchmark((name + "/threads:1").c_str(), RunWinograd, size, variant, 1);
      if (all == 1) continue;
      benchmark::RegisterBenchmark((name + "/threads:" + std::to_string(all)).c_str(), RunWinograd,
                                   size, variant, all)
          ->UseRealTime();
    }
  }
}

}  // namespace
}  // namespace oort::bench

int main(int argc, char** argv) {
  oort::bench::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
