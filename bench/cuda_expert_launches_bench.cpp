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
#include "layers/experts/cuda/expert_products.h"
#include "layers/experts/cuda/mixture_scratch.h"
#include "layers/experts/cuda/route_experts.h"
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
    step_.rule.experts = step_.held = shape.experts;
    step_.rule.used = shape.used;
    step_.rule.normalized = true;
    step_.logits = logits.data<float>();
    step_.x = x.data<float>();
    step_.tokens = x.dim(0);
    step_.columns = shape.hidden;
    step_.pairs = pairs;
    step_.split_x = scratch + layout.x;
    step_.planes = cuda::kFastPlanes;
    const auto product = [&](const cuda::DeviceMatrix& matrix, int64_t rows) {
      cuda::ExpertProduct made;
      made.weights = matrix.weights();
      made.strips = static_cast<int>(made.weights.strips / shape.experts);
      made.planes = cuda::kFastPlanes;
      made.tokens = step_.tokens;
      made.used = static_cast<int>(shape.used);
      made.held = static_cast<int>(shape.experts);
      made.pairs = pairs;
      made.rows = static_cast<int>(rows);
      return made;
    };
    up_ = product(*weights.up, shape.intermediate);
    up_.x = step_.split_x;
    up_.gated = true;
    up_.activation = Activation::kSilu;
    up_.hidden = scratch + layout.hidden;
    down_ = product(*weights.down, shape.hidden);
    down_.x = up_.hidden;
    down_.y = reinterpret_cast<float*>(scratch + layout.rows);
    sum_.rows = down_.y;
    sum_.addend = x.data<float>();
    sum_.out = out.data<float>();
    sum_.tokens = step_.tokens;
    sum_.width = shape.hidden;
    sum_.used = down_.used;
    sum_.held = down_.held;
    sum_.pairs = pairs;
  }

  void Route(const cuda::Stream& stream) const { cuda::RouteExperts(stream, step_); }
  void GateAndUp(const cuda::Stream& stream) const { cuda::RunExperts(stream, up_); }
  void Down(const cuda::Stream& stream) const { cuda::RunExperts(stream, down_); }
  void Sum(const cuda::Stream& stream) const { cuda::SumExperts(stream, sum_); }
  void All(const cuda::Stream& stream) const {
    Route(stream);
    GateAndUp(stream);
    Down(stream);
    Sum(stream);
  }

 private:
  cuda::RoutingStep step_;
  cuda::ExpertProduct up_, down_;
  cuda::ExpertSum sum_;
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
        layers.back().All(stream);  // what launches alone read
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
    report("route", 0, [&](const LayerCalls& layer) { layer.Route(stream); });
    report("gate and up", up, [&](const LayerCalls& layer) { layer.GateAndUp(stream); });
    report("down", down, [&](const LayerCalls& layer) { layer.Down(stream); });
    report("sum", 0, [&](const LayerCalls& layer) { layer.Sum(stream); });
    report("all four", up + down, [&](const LayerCalls& layer) { layer.All(stream); });
  }
}

}  // namespace
}  // namespace oort

int main(int count, char** arguments) { return oort::bench::RunOnGpu(count, arguments, oort::Run); }
