// SPDX-License-Identifier: MIT
// Every distinct convolution of ResNet-50 on a GPU, with all tiles and splits: which plan is best,
// and what the one that would be chosen loses.
//   bench_cuda_conv [f16|bf16|tf32|f32] [BATCH…]
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "bench/gpu_program.h"
#include "bench/resnet50_layers.h"
#include "cuda/memory.h"
#include "layers/convolution/cuda/conv.h"
#include "oort/error.h"

namespace oort::cuda {
namespace {

DType TypeOf(ConvMath math) {
  if (math == ConvMath::kF16) return DType::kF16;
  return math == ConvMath::kBF16 ? DType::kBF16 : DType::kF32;
}

/// Random numbers on the device: drawn once, repeated.
Tensor Random(DType dtype, int64_t count, float scale) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::normal_distribution<float> normal(0, scale);
  std::array<float, 65521> drawn;
  for (float& x : drawn) x = normal(random);
  Tensor host(DType::kF32, {count});
  for (int64_t i = 0; i < count; ++i) {
    host.data<float>()[i] = drawn[static_cast<size_t>(i) % drawn.size()];
  }
  return ToDevice(host.To(dtype), Device::Cuda(0));
}

class Bench {
 public:
  Bench(ConvMath math, const ConvLayer& layer, int batch) : math_(math), stream_(0) {
    call_.batch = batch;
    const int pad = layer.kernel / 2,
              out = (layer.size + 2 * pad - layer.kernel) / layer.stride + 1;
    call_.height = call_.width = {layer.size, out, layer.kernel, layer.stride, 1, pad};
    call_.channels = layer.channels;
    call_.filters = layer.filters;
    call_.in_pixel = layer.channels;
    call_.out_pixel = layer.filters;
    call_.depth = ConvDepth(math, layer.channels, call_.taps());
    const DType type = TypeOf(math);
    in_ = Random(type, call_.batch * layer.size * layer.size * layer.channels, 1);
    const double fan = static_cast<double>(layer.channels) * static_cast<double>(call_.taps());
    weight_ = Random(type, call_.depth * layer.filters, static_cast<float>(std::sqrt(2 / fan)));
    bias_ = Random(DType::kF32, layer.filters, 1);
    const int64_t results = call_.rows() * layer.filters;
    if (layer.addend) addend_ = Random(type, results, 1);
    out_ = DeviceTensor(type, {results}, Device::Cuda(0));
    call_.in = in_.raw();
    call_.weight = weight_.raw();
    call_.out = out_.raw();
    call_.epilogue.bias = bias_.data<float>();
    call_.epilogue.addend = layer.addend ? addend_.raw() : nullptr;
    call_.epilogue.activation = Activation::kRelu;
  }

  double flops() const {
    return 2.0 * static_cast<double>(call_.rows() * call_.filters * call_.channels * call_.taps());
  }
  bool Fits(const ConvPlan& plan) const { return ConvPlanFits(call_, math_, plan, stream_); }
  ConvPlan Chosen() const { return ChooseConvPlan(call_, math_, stream_.device()); }

  /// Microseconds of one call among many.
  double Time(const ConvPlan& plan) {
    constexpr int kCalls = 20, kRuns = 3;
    const RecordedGraph graph(stream_, [&] {
      for (int i = 0; i < kCalls; ++i) Convolve(stream_, call_, math_, plan);
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

  /// ‖difference from the plain kernel‖ / ‖its results‖.
  double Error(const ConvPlan& plan) {
    if (!plain_.defined()) {
      ConvolvePlain(stream_, call_, math_);
      plain_ = Results();
    }
    stream_.Fill(out_.raw(), 0xff, out_.bytes());
    Convolve(stream_, call_, math_, plan);
    const Tensor results = Results();
    double error = 0, norm = 0;
    for (int64_t i = 0; i < results.elements(); ++i) {
      const double want = plain_.data<float>()[i];
      const double difference = results.data<float>()[i] - want;
      error += difference * difference;
      norm += want * want;
    }
    return std::sqrt(error / norm);
  }

 private:
  Tensor Results() {
    stream_.Synchronize();
    return ToHost(out_).To(DType::kF32);
  }

  ConvMath math_;
  Stream stream_;
  ConvCall call_;
  Tensor in_, weight_, bias_, addend_, out_, plain_;
};

struct Timed {
  ConvPlan plan;
  double microseconds;
};

std::string PlanText(ConvMath math, const ConvPlan& plan) {
  const ConvTile& tile = ConvTiles(math)[static_cast<size_t>(plan.tile)];
  return "#" + std::to_string(plan.tile) + " " + std::to_string(tile.rows) + "x" +
         std::to_string(tile.columns) + "/" + std::to_string(plan.splits);
}

constexpr int kHopperTiles = 2;  // they come last

void RunBatch(ConvMath math, int batch) {
  double best_sum = 0, chosen_sum = 0;
  for (const ConvLayer& layer : kResNet50Layers) {
    Bench bench(math, layer, batch);
    std::vector<Timed> all;
    for (size_t tile = 0; tile < ConvTiles(math).size(); ++tile) {
      for (int splits : {1, 2, 3, 4, 6, 8, 12, 16}) {
        if (splits > 4 && batch > 8) break;
        const ConvPlan plan = {static_cast<int>(tile), splits};
        if (bench.Fits(plan)) all.push_back({plan, bench.Time(plan)});
      }
    }
    std::sort(all.begin(), all.end(),
              [](const Timed& a, const Timed& b) { return a.microseconds < b.microseconds; });
    const ConvPlan chosen = bench.Chosen();
    const double time = bench.Time(chosen);
    best_sum += layer.count * all[0].microseconds;
    chosen_sum += layer.count * time;
    std::printf("b%-2d %3d %4d->%4d k%d s%d x%d: %7.2f us %s %4.0f TF |", batch, layer.size,
                layer.channels, layer.filters, layer.kernel, layer.stride, layer.count, time,
                PlanText(math, chosen).c_str(), bench.flops() / time * 1e-6);
    for (size_t i = 0; i < std::min<size_t>(5, all.size()); ++i) {
      std::printf(" %s %.2f", PlanText(math, all[i].plan).c_str(), all[i].microseconds);
    }
    std::printf(" |");
    for (const Timed& timed : all) {  // Hopper's, wherever they stand
      if (timed.plan.tile >= static_cast<int>(ConvTiles(math).size()) - kHopperTiles) {
        std::printf(" %s %.2f", PlanText(math, timed.plan).c_str(), timed.microseconds);
      }
    }
    if (batch == 1) std::printf(" | err %.1e %.1e", bench.Error(chosen), bench.Error(all[0].plan));
    std::printf("\n");
  }
  std::printf("batch %d: all layers %.1f us as chosen, %.1f us at best\n", batch, chosen_sum,
              best_sum);
}

void Run(const std::vector<std::string>& arguments) {
  const std::string name = arguments.empty() ? "f16" : arguments[0];
  const ConvMath math = name == "f32"    ? ConvMath::kF32
                        : name == "tf32" ? ConvMath::kTF32
                        : name == "bf16" ? ConvMath::kBF16
                                         : ConvMath::kF16;
  for (const int64_t batch : bench::NumbersFrom(arguments, 1, {1, 32})) {
    RunBatch(math, static_cast<int>(batch));
  }
}

}  // namespace
}  // namespace oort::cuda

int main(int count, char** arguments) {
  return oort::bench::RunOnGpu(count, arguments, oort::cuda::Run);
}
