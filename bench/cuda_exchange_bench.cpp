// SPDX-License-Identifier: MIT
// What the exchanges of one token take between ranks on GPUs, without the model: as many sums of as
// many numbers as a model of a shape has, split fast. Ranks are threads, which take the GPUs of
// this machine in turns.
//
//   bench_cuda_exchange [RANKS HIDDEN LAYERS TOKENS]      2 4096 32 200 unless given: a model of 7B
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/gpu_program.h"
#include "collectives/local_collective.h"
#include "cuda/device.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "layers/collective/device_exchange.h"
#include "llm/rank_device.h"

namespace oort::bench {
namespace {

struct GpuTokens {
  int ranks = 2;
  int64_t hidden = 4096, layers = 32, tokens = 200;
  int64_t sums() const { return 2 * layers + 1; }
};

/// Microseconds of each token; `recorded` as a CUDA graph, where exchanges can be.
std::vector<double> TimeTokens(Collective& group, int device, const GpuTokens& shape,
                               bool recorded) {
  const cuda::DeviceGuard guard(device);
  const GroupScope scope(group);
  cuda::Stream stream(device);
  Tensor numbers = cuda::DeviceTensor(DType::kF32, {shape.hidden}, Device::Cuda(device));
  const auto scratch =
      cuda::AllocateDevice(ScratchOfSum(shape.hidden, shape.ranks), numbers.device().index);
  float* const values = reinterpret_cast<float*>(numbers.raw());
  stream.Fill(values, 0, numbers.bytes());
  const auto token = [&] {
    for (int64_t i = 0; i < shape.sums(); ++i) {
      if (DeviceGroup* const gpus = group.on_device()) {
        SumOverRanks(group, *gpus, "a sum", stream, values, shape.hidden, {},
                     reinterpret_cast<float*>(scratch->data()), values);
        continue;
      }
      ByWayOfHost(
          group, stream, numbers, shape.hidden,
          [&](std::span<const float> mine, std::span<float> sums) {
            std::copy(mine.begin(), mine.end(), sums.begin());
            group.AllReduce("a sum", sums);
          },
          values);
    }
  };
  token();
  stream.Synchronize();
  std::unique_ptr<cuda::RecordedGraph> graph;
  if (recorded) graph = std::make_unique<cuda::RecordedGraph>(stream, token);
  std::vector<double> times;
  for (int64_t i = 0; i < shape.tokens; ++i) {
    const auto start = std::chrono::steady_clock::now();
    graph ? graph->Launch(stream) : token();
    stream.Synchronize();
    const auto took = std::chrono::steady_clock::now() - start;
    times.push_back(std::chrono::duration<double, std::micro>(took).count());
  }
  group.Barrier("the end");
  std::sort(times.begin(), times.end());
  return times;
}

void RunWay(const GpuTokens& shape, RankOptions::Exchange exchange, bool recorded) {
  std::string reason;
  const int gpus = static_cast<int>(cuda::Devices(&reason).size());
  const char* name = exchange == RankOptions::Exchange::kHost ? "by way of the host"
                     : recorded                               ? "by NCCL, recorded"
                                                              : "by NCCL, step by step";
  auto groups = MakeLocalGroup(shape.ranks, 30);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Collective& group = *groups[static_cast<size_t>(rank)];
      try {
        LanguageModelOptions options;
        options.device = Device::Cuda(rank % gpus);
        options.ranks.exchange = exchange;
        ConnectGpus(group, options);
        const auto times = TimeTokens(group, options.device.index, shape, recorded);
        if (rank != 0) return;
        const double median = times[times.size() / 2];
        std::printf(
            "%d ranks on %d GPUs, %s: %lld sums of %lld numbers: %.1f us a token (90%% below "
            "%.1f), %.2f us a sum\n",
            shape.ranks, std::min(gpus, shape.ranks), name, static_cast<long long>(shape.sums()),
            static_cast<long long>(shape.hidden), median, times[times.size() * 9 / 10],
            median / static_cast<double>(shape.sums()));
      } catch (const std::exception& error) {
        group.Fail(error.what());
        if (rank == 0) std::printf("%d ranks, %s: %s\n", shape.ranks, name, error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void RunWays(const std::vector<std::string>& arguments) {
  const std::vector<int64_t> numbers = NumbersFrom(arguments, 0, {2, 4096, 32, 200});
  const auto number = [&](size_t place, int64_t otherwise) {
    return place < numbers.size() ? std::max<int64_t>(numbers[place], 1) : otherwise;
  };
  GpuTokens shape;
  shape.ranks = static_cast<int>(std::min<int64_t>(number(0, shape.ranks), kMostPartsOnDevice));
  shape.hidden = number(1, shape.hidden);
  shape.layers = number(2, shape.layers);
  shape.tokens = number(3, shape.tokens);
  RunWay(shape, RankOptions::Exchange::kHost, false);
  RunWay(shape, RankOptions::Exchange::kNccl, false);
  RunWay(shape, RankOptions::Exchange::kNccl, true);
}

}  // namespace
}  // namespace oort::bench

int main(int argc, char** argv) { return oort::bench::RunOnGpu(argc, argv, oort::bench::RunWays); }
