// SPDX-License-Identifier: MIT
// A network on a GPU whose images are there already: median time of a Forward, results fetched.
//   bench_cuda_network MODEL.pnnx.param [f32|tf32|bf16|f16] [BATCH…]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "cuda/memory.h"
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

int Main(const std::vector<std::string>& arguments) {
  std::string reason;
  if (arguments.empty() || cuda::Devices(&reason).empty()) {
    std::printf("no model, or no GPU: %s\n", reason.c_str());
    return 0;
  }
  const std::string& param = arguments[0];
  LoadOptions options;
  options.device = Device::Cuda(0);
  options.precision = PrecisionOf(arguments.size() > 1 ? arguments[1] : "f16");
  const std::string bin = param.substr(0, param.rfind(".param")) + ".bin";
  const auto graph = RuntimeGraph::Load(param, bin, options);
  std::vector<std::string> batches(arguments.begin() + std::min<long>(2, std::ssize(arguments)),
                                   arguments.end());
  if (batches.empty()) batches = {"1", "32"};
  for (const std::string& batch : batches) {
    Shape shape = graph->inputs()[0].shape;
    shape[0] = std::stol(batch);
    Tensor image(DType::kF32, shape);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < image.elements(); ++i) image.data<float>()[i] = normal(random);
    Session session(graph);
    const Tensor input = cuda::ToDevice(image, Device::Cuda(0));
    std::printf("%s %s batch %s: %.4f ms\n", param.c_str(),
                std::string(Name(options.precision)).c_str(), batch.c_str(),
                MedianMilliseconds(session, input));
  }
  return 0;
}

}  // namespace
}  // namespace oort

int main(int count, char** arguments) {
  try {
    return oort::Main({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
