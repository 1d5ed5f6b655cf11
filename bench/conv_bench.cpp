// SPDX-License-Identifier: MIT
// Convolutions of ResNet-50, MobileNetV2 and V3 at 224 x 224. The ratio is to OpenBLAS' product of
// the same size alone, without the gathering of the image.
#include <string>
#include <vector>

#include "bench/measure.h"
#include "cpu/lanes_kernels.h"

namespace oort::bench {
namespace {

struct Layer {
  const char* name;
  int64_t in, out, extent, kernel, stride, groups;
};

/// One channel of an image after the other, or the channels of one pixel after the other: the
/// second is what networks mostly run, in f16 with --precision f16.
enum class Kind { kChannelsFirst, kNhwc, kF16 };

void RunConv(benchmark::State& state, const Layer& layer, Kind kind, int threads) {
  const bool nhwc = kind != Kind::kChannelsFirst;
  OperatorCase op;
  if (kind == Kind::kF16) {
    op.dtype = DType::kF16;
    op.params["precision"] = "f16";
  }
  op.type = nhwc ? "nhwc.Conv2d" : "nn.Conv2d";
  op.params["stride"] = Pair(layer.stride);
  op.params["padding"] = Pair(layer.kernel / 2);
  op.params["groups"] = std::to_string(layer.groups);
  op.attributes["weight"] =
      Filled({layer.out, layer.in / layer.groups, layer.kernel, layer.kernel});
  op.attributes["bias"] = Filled({layer.out});
  op.inputs = {nhwc ? Shape{1, layer.extent, layer.extent, layer.in}
                    : Shape{1, layer.in, layer.extent, layer.extent}};
  const int64_t out = (layer.extent - 1) / layer.stride + 1;
  const int64_t k = layer.in / layer.groups * layer.kernel * layer.kernel;
  RunOperator(state, op, threads, layer.groups == 1 ? OpenBlasFlops(layer.out, out * out, k) : 0);
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
    {"mobilenet/dw5x5s2_96@28", 96, 96, 28, 5, 2, 96},
    {"mobilenet/dw5x5_240@14", 240, 240, 14, 5, 1, 240},
    {"mobilenet/dw5x5_576@7", 576, 576, 7, 5, 1, 576},
    {"mobilenet/1x1_16_96@112", 16, 96, 112, 1, 1, 1},
    {"mobilenet/1x1_16_96@28", 16, 96, 28, 1, 1, 1},
    {"mobilenet/1x1_144_24@56", 144, 24, 56, 1, 1, 1},
    {"mobilenet/1x1_24_144@28", 24, 144, 28, 1, 1, 1},
    {"mobilenet/3x3s2_3_32@56", 3, 32, 56, 3, 2, 1},
    {"mobilenet/1x1_960_160@7", 960, 160, 7, 1, 1, 1},
};

void RegisterAll() {
  struct Named {
    Kind kind;
    const char* name;
  };
  std::vector<Named> kinds = {{Kind::kChannelsFirst, "channels_first/"}, {Kind::kNhwc, "nhwc/"}};
  if (HasF16Arithmetic(DefaultIsa())) kinds.push_back({Kind::kF16, "f16/"});
  for (const Named& named : kinds) {
    for (const Layer& layer : kLayers) {
      ForThreads(std::string("conv/") + named.name + layer.name,
                 [layer, kind = named.kind](benchmark::State& state, int threads) {
                   RunConv(state, layer, kind, threads);
                 });
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
