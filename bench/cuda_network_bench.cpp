// SPDX-License-Identifier: MIT
// A network on a GPU whose images are there already: median time of a Forward, results fetched.
//   bench_cuda_network MODEL.pnnx.param [f32|tf32|bf16|f16] [BATCH…]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "bench/gpu_program.h"
#include "cuda/memory.h"
#include "oort/error.h"
#include "oort/session.h"

namespace oort {
namespace {

double MedianMilliseconds(Session& session, const Tensor& input) {
  constexpr int kWarm = 10, kRuns = 200;
  std::vector<double> times;
  for (int i = 0; i < kWarm + kRuns; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    session.Forward({input});
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    if (i >= kWarm) times.push_back(spent.count());
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

void Run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw Error(ErrorCode::kInvalidArgument, "which model? MODEL.pnnx.param");
  const std::string& param = arguments[0];
  LoadOptions options;
  options.device = Device::Cuda(0);
  options.precision = PrecisionOf(arguments.size() > 1 ? arguments[1] : "f16");
  const std::string bin = param.substr(0, param.rfind(".param")) + ".bin";
  const auto graph = RuntimeGraph::Load(param, bin, options);
  for (const int64_t batch : bench::NumbersFrom(arguments, 2, {1, 32})) {
    Shape shape = graph->inputs()[0].shape;
    shape[0] = batch;
    Tensor image(DType::kF32, shape);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < image.elements(); ++i) image.data<float>()[i] = normal(random);
    Session session(graph);
    const Tensor input = cuda::ToDevice(image, Device::Cuda(0));
    std::printf("%s %s batch %ld: %.4f ms\n", param.c_str(),
                std::string(Name(options.precision)).c_str(), static_cast<long>(batch),
                MedianMilliseconds(session, input));
  }
}

}  // namespace
}  // namespace oort

int main(int count, char** arguments) { return oort::bench::RunOnGpu(count, arguments, oort::Run); }
