// SPDX-License-Identifier: MIT
// Every distinct convolution of ResNet-50 on a GPU, with all tiles and splits: which plan is best,
// and what the one that would be chosen loses.
//   bench_cuda_conv [f16|bf16|tf32|f32]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cuda/conv/conv.h"
#include "cuda/device.h"
#include "cuda/memory.h"
#include "oort/error.h"

namespace oort::cuda {
namespace {

struct Layer {
  int size, channels, filters, kernel, stride, count;
  bool addend;
};

/// As they come in the network; `count` says how often.
constexpr Layer kLayers[] = {
    {224, 4, 64, 7, 2, 1, false},     {56, 64, 64, 1, 1, 1, false},
    {56, 64, 64, 3, 1, 3, false},     {56, 64, 256, 1, 1, 4, true},
    {56, 256, 64, 1, 1, 2, false},    {56, 256, 128, 1, 1, 1, false},
    {56, 128, 128, 3, 2, 1, false},   {28, 128, 512, 1, 1, 4, true},
    {56, 256, 512, 1, 2, 1, false},   {28, 512, 128, 1, 1, 3, false},
    {28, 128, 128, 3, 1, 3, false},   {28, 512, 256, 1, 1, 1, false},
    {28, 256, 256, 3, 2, 1, false},   {14, 256, 1024, 1, 1, 6, true},
    {28, 512, 1024, 1, 2, 1, false},  {14, 1024, 256, 1, 1, 5, false},
    {14, 256, 256, 3, 1, 5, false},   {14, 1024, 512, 1, 1, 1, false},
    {14, 512, 512, 3, 2, 1, false},   {7, 512, 2048, 1, 1, 3, true},
    {14, 1024, 2048, 1, 2, 1, false}, {7, 2048, 512, 1, 1, 2, false},
    {7, 512, 512, 3, 1, 2, false},    {1, 2048, 1000, 1, 1, 1, false},
};

uint16_t HalfOf(float x) {
  const _Float16 half = static_cast<_Float16>(x);
  uint16_t bits;
  std::memcpy(&bits, &half, 2);
  return bits;
}

/// Random numbers in the math's format.
std::shared_ptr<Buffer> Random(ConvMath math, int64_t count, float scale) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::normal_distribution<float> normal(0, scale);
  const size_t bytes = static_cast<size_t>(count) * static_cast<size_t>(ItemSize(math));
  std::vector<std::byte> host(bytes);
  constexpr size_t kPeriod = 65521;  // drawn once, repeated
  std::vector<float> drawn(kPeriod);
  for (float& x : drawn) x = normal(random);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const float x = drawn[i % kPeriod];
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    if (math == ConvMath::kF16) {
      const uint16_t half = HalfOf(x);
      std::memcpy(&host[2 * i], &half, 2);
    } else if (math == ConvMath::kBF16) {
      const auto top = static_cast<uint16_t>(bits >> 16);
      std::memcpy(&host[2 * i], &top, 2);
    } else {
      std::memcpy(&host[4 * i], &bits, 4);
    }
  }
  auto buffer = AllocateDevice(bytes + 16, 0);
  Upload(buffer->data(), host.data(), bytes, 0);
  return buffer;
}

double ValueAt(ConvMath math, const std::byte* data, size_t i) {
  uint32_t bits = 0;
  if (math == ConvMath::kF16) {
    _Float16 half;
    std::memcpy(&half, data + 2 * i, 2);
    return static_cast<double>(half);
  }
  std::memcpy(&bits, data + i * static_cast<size_t>(ItemSize(math)),
              static_cast<size_t>(ItemSize(math)));
  if (math == ConvMath::kBF16) bits <<= 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

class Bench {
 public:
  Bench(ConvMath math, const Layer& layer, int batch) : math_(math), stream_(0) {
    call_.batch = batch;
    const int pad = layer.kernel / 2,
              out = (layer.size + 2 * pad - layer.kernel) / layer.stride + 1;
    call_.height = call_.width = {layer.size, out, layer.kernel, layer.stride, 1, pad};
    call_.channels = layer.channels;
    call_.filters = layer.filters;
    call_.in_pixel = layer.channels;
    call_.out_pixel = layer.filters;
    call_.depth = ConvDepth(math, layer.channels, call_.taps());
    in_ = Random(math, call_.batch * layer.size * layer.size * layer.channels, 1);
    const double fan = static_cast<double>(layer.channels) * static_cast<double>(call_.taps());
    weight_ = Random(math, call_.depth * layer.filters, static_cast<float>(std::sqrt(2 / fan)));
    bias_ = Random(ConvMath::kF32, layer.filters, 1);
    const int64_t results = call_.rows() * layer.filters;
    addend_ = Random(math, results, 1);
    out_ = AllocateDevice(static_cast<size_t>(results * ItemSize(math)), 0);
    call_.in = in_->data();
    call_.weight = weight_->data();
    call_.out = out_->data();
    call_.epilogue.bias = reinterpret_cast<const float*>(bias_->data());
    call_.epilogue.addend = layer.addend ? addend_->data() : nullptr;
    call_.epilogue.activation = Activation::kRelu;
  }

  double flops() const {
    return 2.0 * static_cast<double>(call_.rows() * call_.filters * call_.channels * call_.taps());
  }
  ConvPlan Chosen() const { return ChooseConvPlan(call_, math_, stream_); }

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
    const auto count = static_cast<size_t>(call_.rows() * call_.filters);
    if (plain_.empty()) {
      ConvolvePlain(stream_, call_, math_);
      plain_ = Results();
    }
    stream_.Fill(out_->data(), 0xff, out_->size());
    Convolve(stream_, call_, math_, plan);
    const std::vector<std::byte> results = Results();
    double error = 0, norm = 0;
    for (size_t i = 0; i < count; ++i) {
      const double want = ValueAt(math_, plain_.data(), i);
      const double difference = ValueAt(math_, results.data(), i) - want;
      error += difference * difference;
      norm += want * want;
    }
    return std::sqrt(error / norm);
  }

 private:
  std::vector<std::byte> Results() {
    std::vector<std::byte> host(out_->size());
    stream_.CopyToHost(host.data(), out_->data(), host.size());
    stream_.Synchronize();
    return host;
  }

  ConvMath math_;
  Stream stream_;
  ConvCall call_;
  std::shared_ptr<Buffer> in_, weight_, bias_, addend_, out_;
  std::vector<std::byte> plain_;
};

struct Timed {
  ConvPlan plan;
  double microseconds;
};

std::string PlanText(ConvMath math, const ConvPlan& plan) {
  const ConvTile& tile = ConvTiles(math)[static_cast<size_t>(plan.tile)];
  return std::to_string(tile.rows) + "x" + std::to_string(tile.columns) + "/" +
         std::to_string(plan.splits);
}

void RunBatch(ConvMath math, int batch) {
  double best_sum = 0, chosen_sum = 0;
  for (const Layer& layer : kLayers) {
    Bench bench(math, layer, batch);
    std::vector<Timed> all;
    const int depth = layer.channels * layer.kernel * layer.kernel * ItemSize(math) / 128;
    for (size_t tile = 0; tile < ConvTiles(math).size(); ++tile) {
      for (int splits : {1, 2, 3, 4, 6, 8, 12, 16}) {
        if (splits > depth && splits > 1) break;
        if (splits > 4 && batch > 8) break;
        const ConvPlan plan = {static_cast<int>(tile), splits};
        try {
          all.push_back({plan, bench.Time(plan)});
        } catch (const oort::Error&) {  // not with this grain, or too large a cluster
        }
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
    for (size_t i = 0; i < std::min<size_t>(4, all.size()); ++i) {
      std::printf(" %s %.2f", PlanText(math, all[i].plan).c_str(), all[i].microseconds);
    }
    if (batch == 1) std::printf(" | err %.1e %.1e", bench.Error(chosen), bench.Error(all[0].plan));
    std::printf("\n");
  }
  std::printf("batch %d: all layers %.1f us as chosen, %.1f us at best\n", batch, chosen_sum,
              best_sum);
}

int Main(int count, char** arguments) {
  const std::string name = count > 1 ? arguments[1] : "f16";
  const ConvMath math = name == "f32"    ? ConvMath::kF32
                        : name == "tf32" ? ConvMath::kTF32
                        : name == "bf16" ? ConvMath::kBF16
                                         : ConvMath::kF16;
  std::string reason;
  if (Devices(&reason).empty()) {
    std::printf("no GPU: %s\n", reason.c_str());
    return 0;
  }
  RunBatch(math, 1);
  RunBatch(math, 32);
  return 0;
}

}  // namespace
}  // namespace oort::cuda

int main(int count, char** arguments) {
  try {
    return oort::cuda::Main(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
