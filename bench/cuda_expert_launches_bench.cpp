// SPDX-License-Identifier: MIT
// The launches of a mixture of experts on a GPU, each alone in a recorded chain of itself, layer
// behind layer, and all of them as in a step: microseconds a layer, and which share of the memory's
// bandwidth the weights of the experts in use are read at.
//   bench_cuda_expert_launches [int4|int8|bf16] [GROUP] [LAYERS] [HIDDEN INTERMEDIATE EXPERTS USED]
//       [ROWS…]                                    int4 64 8 2048 768 128 8 1 4 8 64 unless given
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/gpu_program.h"
#include "bench/random_weights.h"
#include "cuda/memory.h"
#include "cuda/roofs.h"
#include "cuda/stream.h"
#include "layers/experts/cuda/direct_experts.h"
#include "layers/experts/cuda/mixture_scratch.h"
#include "layers/experts/expert_routing.h"
#include "layers/quantized_linear/cuda/device_matrix.h"
#include "layers/quantized_linear/stored_weight.h"

namespace oort {
namespace {

struct MeasuredMixture {
  int64_t hidden = 2048, intermediate = 768, experts = 128, used = 8;
};

/// The weights of a layer, gates and what they gate in one matrix.
struct MixtureWeights {
  std::unique_ptr<cuda::DeviceMatrix> up, down;
};

MixtureWeights RandomMixture(const MeasuredMixture& shape, const bench::Weights& weights) {
  const auto experts = [&](int64_t rows, int64_t columns) {
    return bench::Matrix(weights, shape.experts * rows, columns);
  };
  const StoredMatrix gate = experts(shape.intermediate, shape.hidden),
                     up = experts(shape.intermediate, shape.hidden),
                     down = experts(shape.hidden, shape.intermediate);
  std::vector<StoredMatrix> ups, downs;
  for (int64_t expert = 0; expert < shape.experts; ++expert) {
    ups.push_back(StoredRows(gate, expert, shape.intermediate));
    ups.push_back(StoredRows(up, expert, shape.intermediate));
    downs.push_back(StoredRows(down, expert, shape.hidden));
  }
  const Device device = Device::Cuda(0);
  return {std::make_unique<cuda::DeviceMatrix>(ups, true, device),
          std::make_unique<cuda::DeviceMatrix>(downs, false, device)};
}

/// The calls of a layer for so many rows.
class LayerCalls {
 public:
  LayerCalls(const MeasuredMixture& shape, const MixtureWeights& weights, const Tensor& logits,
             const Tensor& x, Tensor& out, std::byte* scratch) {
    const cuda::MixtureScratch layout(
        {shape.hidden, shape.intermediate, shape.experts, shape.used, cuda::kFastPlanes}, x.dim(0));
    const auto numbers = [&](size_t at) { return reinterpret_cast<int*>(scratch + at); };
    const cuda::RoutedPairs pairs = {
        numbers(layout.experts), reinterpret_cast<float*>(scratch + layout.weights),
        numbers(layout.order), numbers(layout.starts), numbers(layout.in_use)};
    cuda::RoutingStep& step = calls_.step;
    step.rule.experts = step.held = shape.experts;
    step.rule.used = shape.used;
    step.rule.normalized = true;
    step.logits = logits.data<float>();
    step.x = x.data<float>();
    step.tokens = x.dim(0);
    step.columns = shape.hidden;
    step.pairs = pairs;
    step.split_x = scratch + layout.x;
    step.planes = cuda::kFastPlanes;
    const auto product = [&](const cuda::DeviceMatrix& matrix, int64_t rows) {
      cuda::ExpertProduct made;
      made.weights = matrix.weights();
      made.strips = static_cast<int>(made.weights.strips / shape.experts);
      made.planes = cuda::kFastPlanes;
      made.tokens = step.tokens;
      made.used = static_cast<int>(shape.used);
      made.held = static_cast<int>(shape.experts);
      made.pairs = pairs;
      made.rows = static_cast<int>(rows);
      return made;
    };
    calls_.up = product(*weights.up, shape.intermediate);
    calls_.up.x = step.split_x;
    calls_.up.gated = true;
    calls_.up.activation = Activation::kSilu;
    calls_.up.hidden = scratch + layout.hidden;
    calls_.down = product(*weights.down, shape.hidden);
    calls_.down.x = calls_.up.hidden;
    calls_.down.y = reinterpret_cast<float*>(scratch + layout.rows);
    calls_.sum.rows = calls_.down.y;
    calls_.sum.addend = x.data<float>();
    calls_.sum.out = out.data<float>();
    calls_.sum.tokens = step.tokens;
    calls_.sum.width = shape.hidden;
    calls_.sum.used = calls_.down.used;
    calls_.sum.held = calls_.down.held;
    calls_.sum.pairs = pairs;
  }

  const cuda::DirectMixture& calls() const { return calls_; }

  void Grouped(const cuda::Stream& stream) const {
    cuda::RouteExperts(stream, calls_.step);
    cuda::RunExperts(stream, calls_.up);
    cuda::RunExperts(stream, calls_.down);
    cuda::SumExperts(stream, calls_.sum);
  }

 private:
  cuda::DirectMixture calls_;
};

/// Seconds of a call of each layer: the best of several chains.
double TimeOfCall(cuda::Stream& stream, const std::vector<LayerCalls>& layers,
                  const std::function<void(const LayerCalls&)>& call) {
  constexpr int kChains = 20;
  const cuda::RecordedGraph chain(stream, [&] {
    for (const LayerCalls& layer : layers) call(layer);
  });
  double best = 0;
  for (int i = 0; i < kChains; ++i) {
    cuda::Event begin(0, true), end(0, true);
    begin.Record(stream);
    chain.Launch(stream);
    end.Record(stream);
    stream.Synchronize();
    const double seconds = end.SecondsSince(begin);
    if (i > 0 && (best == 0 || seconds < best)) best = seconds;
  }
  return best / static_cast<double>(layers.size());
}

void Run(const std::vector<std::string>& arguments) {
  const auto argument = [&](size_t i, const std::string& otherwise) {
    return i < arguments.size() ? arguments[i] : otherwise;
  };
  const std::string format = argument(0, "int4"), group = argument(1, "64");
  const int count = std::stoi(argument(2, "8"));
  MeasuredMixture shape;
  size_t at = 3;
  for (int64_t* size : {&shape.hidden, &shape.intermediate, &shape.experts, &shape.used}) {
    *size = std::stol(argument(at++, std::to_string(*size)));
  }
  std::vector<MixtureWeights> weights;
  weights.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    weights.push_back(RandomMixture(shape, bench::WeightsNamed(format, std::stol(group))));
  }
  const double bandwidth = cuda::MeasureRoofs(0).read_bandwidth;
  const auto mean = [&](const cuda::DeviceMatrix& matrix) {
    return static_cast<double>(matrix.bytes()) / static_cast<double>(shape.experts);
  };
  const double up_bytes = mean(*weights[0].up), down_bytes = mean(*weights[0].down);
  std::printf("%s groups of %s; the memory gives %.0f GB/s\n", format.c_str(), group.c_str(),
              bandwidth * 1e-9);
  const Device device = Device::Cuda(0);
  for (const int64_t rows : bench::NumbersFrom(arguments, at, {1, 4, 8, 64})) {
    RoutingRule rule;
    rule.experts = shape.experts;
    rule.used = shape.used;
    const Tensor x =
        cuda::ToDevice(bench::SmallNumbers(DType::kF32, {rows, shape.hidden}, 1), device);
    Tensor out = cuda::DeviceTensor(DType::kF32, {rows, shape.hidden}, device);
    const cuda::MixtureScratch layout(
        {shape.hidden, shape.intermediate, shape.experts, shape.used, cuda::kFastPlanes}, rows);
    cuda::Stream stream(0);
    // Each layer several times, for other experts each time: the caches know none of them.
    constexpr int kRounds = 4;
    std::vector<Tensor> logits, scratch;
    std::vector<LayerCalls> layers;
    double in_use = 0;
    for (int round = 0; round < kRounds; ++round) {
      for (const MixtureWeights& own : weights) {
        const Tensor host = bench::SmallNumbers(DType::kF32, {rows, shape.experts}, 3);
        const ExpertRouting routing(rule, host.data<float>(), rows);
        in_use += static_cast<double>(routing.experts_in_use().size());
        logits.push_back(cuda::ToDevice(host, device));
        scratch.push_back(
            cuda::DeviceTensor(DType::kU8, {static_cast<int64_t>(layout.total)}, device));
        layers.emplace_back(shape, own, logits.back(), x, out, scratch.back().raw());
        layers.back().Grouped(stream);  // what launches alone read
      }
    }
    in_use /= static_cast<double>(layers.size());
    const auto report = [&](const char* name, double bytes,
                            const std::function<void(const LayerCalls&)>& call) {
      const double seconds = TimeOfCall(stream, layers, call);
      std::printf("%4ld rows, %-14s %7.2f us", static_cast<long>(rows), name, seconds * 1e6);
      if (bytes > 0) std::printf(", %5.1f %% of the bandwidth", bytes / seconds / bandwidth * 100);
      std::printf("\n");
    };
    const double up = in_use * up_bytes, down = in_use * down_bytes;
    report("route", 0, [&](const LayerCalls& l) { cuda::RouteExperts(stream, l.calls().step); });
    report("gate and up", up, [&](const LayerCalls& l) { cuda::RunExperts(stream, l.calls().up); });
    report("down", down, [&](const LayerCalls& l) { cuda::RunExperts(stream, l.calls().down); });
    report("sum", 0, [&](const LayerCalls& l) { cuda::SumExperts(stream, l.calls().sum); });
    report("all four", up + down, [&](const LayerCalls& l) { l.Grouped(stream); });
    if (!cuda::TakesDirectExperts(layers[0].calls(), 0)) continue;
    report("direct up", up,
           [&](const LayerCalls& l) { cuda::LaunchDirectExperts(stream, l.calls(), true); });
    report("direct down", down,
           [&](const LayerCalls& l) { cuda::LaunchDirectExperts(stream, l.calls(), false); });
    report("direct both", up + down,
           [&](const LayerCalls& l) { cuda::RunDirectExperts(stream, l.calls()); });
  }
}

}  // namespace
}  // namespace oort

int main(int count, char** arguments) { return oort::bench::RunOnGpu(count, arguments, oort::Run); }
