// SPDX-License-Identifier: MIT
// Every distinct convolution of ResNet-50 in bytes on a GPU, with all tiles and splits: which plan
// is best, and what the one that would be chosen loses.
//   bench_cuda_byte_conv [BATCH…]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "bench/gpu_program.h"
#include "bench/resnet50_layers.h"
#include "cuda/memory.h"
#include "layers/quantize/cuda/byte_conv.h"
#include "oort/error.h"

namespace oort::cuda {
namespace {

Tensor RandomBytes(int64_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  Tensor host(DType::kU8, {count});
  for (int64_t i = 0; i < count; ++i) host.data<uint8_t>()[i] = static_cast<uint8_t>(random());
  return ToDevice(host, Device::Cuda(0));
}

Tensor Filled(DType dtype, int64_t count, float value) {
  Tensor host(DType::kF32, {count});
  for (int64_t i = 0; i < count; ++i) host.data<float>()[i] = value;
  return ToDevice(host.To(dtype), Device::Cuda(0));
}

class Bench {
 public:
  Bench(const ConvLayer& layer, int batch) : stream_(0) {
    call_.batch = batch;
    const int pad = layer.kernel / 2;
    const int out = (layer.size + 2 * pad - layer.kernel) / layer.stride + 1;
    call_.height = call_.width = {layer.size, out, layer.kernel, layer.stride, 1, pad};
    if (layer.channels == 8) {  // padded before
      call_.height = {layer.size + 2 * pad, out, layer.kernel, layer.stride, 1, 0};
      call_.width = {layer.size / 2 + pad, out, (layer.kernel + 1) / 2, 1, 1, 0};
    }
    call_.channels = call_.tap_channels = layer.channels;
    call_.filters = layer.filters;
    call_.in_pixel = layer.channels;
    call_.out_pixel = layer.filters;
    call_.depth = (call_.taps() * layer.channels + 15) / 16 * 16;
    in_ = RandomBytes(call_.batch * layer.size * layer.size * layer.channels);
    weight_ = RandomBytes(call_.depth * call_.padded_filters());
    scale_ = Filled(DType::kF32, call_.padded_filters(), 1e-4f);
    bias_ = Filled(DType::kF32, call_.padded_filters(), 1);
    starts_ = Filled(DType::kI32, call_.padded_filters(), 3);
    const int64_t results = call_.rows() * layer.filters;
    if (layer.addend) addend_ = RandomBytes(results);
    out_ = DeviceTensor(DType::kU8, {results}, Device::Cuda(0));
    call_.in = in_.raw();
    call_.weight = weight_.raw();
    call_.out = out_.raw();
    call_.epilogue.scale = scale_.data<float>();
    call_.epilogue.bias = bias_.data<float>();
    call_.epilogue.starts = starts_.data<int32_t>();
    call_.epilogue.addend = layer.addend ? addend_.raw() : nullptr;
    call_.epilogue.addend_scale = 0.3f;
    call_.epilogue.high = 255;
  }

  double operations() const {
    return 2.0 * static_cast<double>(call_.rows() * call_.filters * call_.channels * call_.taps());
  }
  bool Fits(const BytePlan& plan) const { return BytePlanFits(call_, plan, stream_.device()); }
  BytePlan Chosen() const { return ChooseBytePlan(call_, stream_.device()); }

  /// Microseconds of one call among many.
  double Time(const BytePlan& plan) {
    constexpr int kCalls = 20, kRuns = 3;
    const RecordedGraph graph(stream_, [&] {
      for (int i = 0; i < kCalls; ++i) ConvolveBytes(stream_, call_, plan);
    });
    graph.Launch(stream_);
    double best = INFINITY;
    for (int run = 0; run < kRuns; ++run) {
      Event begin(0, true), end(0, true);
      begin.Record(stream_);
      graph.Launch(stream_);
      end.Record(stream_);
      stream_.Synchronize();
      best = std::min(best, end.SecondsSince(begin) * 1e6 / kCalls);
    }
    return best;
  }

 private:
  Stream stream_;
  ByteConvCall call_;
  Tensor in_, weight_, scale_, bias_, starts_, addend_, out_;
};

struct Timed {
  BytePlan plan;
  double microseconds;
};

std::string PlanText(const BytePlan& plan) {
  const ConvTile& tile = ByteTiles()[static_cast<size_t>(plan.tile)];
  return "#" + std::to_string(plan.tile) + " " + std::to_string(tile.rows) + "x" +
         std::to_string(tile.columns) + "/" + std::to_string(plan.splits);
}

void RunBatch(int batch) {
  double best_sum = 0, chosen_sum = 0;
  for (ConvLayer layer : kResNet50Layers) {
    if (layer.channels == 4) layer.channels = 8;  // pairs of pixels
    Bench bench(layer, batch);
    std::vector<Timed> all;
    for (size_t tile = 0; tile < ByteTiles().size(); ++tile) {
      for (int splits : {1, 2, 3, 4, 6, 8}) {
        if (splits > 4 && batch > 8) break;
        const BytePlan plan = {static_cast<int>(tile), splits};
        if (bench.Fits(plan)) all.push_back({plan, bench.Time(plan)});
      }
    }
    std::sort(all.begin(), all.end(),
              [](const Timed& a, const Timed& b) { return a.microseconds < b.microseconds; });
    const BytePlan chosen = bench.Chosen();
    const double time = bench.Time(chosen);
    best_sum += layer.count * all[0].microseconds;
    chosen_sum += layer.count * time;
    std::printf("b%-2d %3d %4d->%4d k%d s%d x%d: %7.2f us %s %4.0f TOPS |", batch, layer.size,
                layer.channels, layer.filters, layer.kernel, layer.stride, layer.count, time,
                PlanText(chosen).c_str(), bench.operations() / time * 1e-6);
    for (size_t i = 0; i < all.size(); ++i) {
      if (i > 4 && all[i].plan.splits > 1) continue;
      std::printf(" %s %.2f", PlanText(all[i].plan).c_str(), all[i].microseconds);
    }
    std::printf("\n");
  }
  std::printf("batch %d: all layers %.1f us as chosen, %.1f us at best\n", batch, chosen_sum,
              best_sum);
}

void Run(const std::vector<std::string>& arguments) {
  for (const int64_t batch : bench::NumbersFrom(arguments, 0, {1, 32})) {
    RunBatch(static_cast<int>(batch));
  }
}

}  // namespace
}  // namespace oort::cuda

int main(int count, char** arguments) {
  return oort::bench::RunOnGpu(count, arguments, oort::cuda::Run);
}
