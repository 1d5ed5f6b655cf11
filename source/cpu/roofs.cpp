// SPDX-License-Identifier: MIT
#include "cpu/roofs.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <ctime>
#include <fstream>
#include <functional>
#include <thread>

#include "core/parallel.h"
#include "cpu/gemm.h"
#include "oort/profile.h"

namespace oort {
namespace {

constexpr int kRoofRounds = 7;
constexpr double kRoofSeconds = 3e-3;  // of one round: long beside the clock, short beside a slice

/// The processor time of this thread, so that the time of other programs does not count.
double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Keeps a result alive.
void Consume(float value) { asm volatile("" : : "r"(&value) : "memory"); }

using RoofBody = std::function<double(int thread, int64_t repeats)>;  ///< returns units of work

/// The most units a second that `threads` threads together do of `body`, each on its own core.
double BestRate(int threads, const RoofBody& body) {
  double start = ThreadSeconds();
  body(0, 1);
  start = ThreadSeconds();
  body(0, 1);
  const double once = std::max(1e-9, ThreadSeconds() - start);
  const auto repeats = static_cast<int64_t>(std::max(1.0, kRoofSeconds / once));
  std::vector<double> rates(static_cast<size_t>(threads * kRoofRounds));
  std::barrier together(threads);
  const auto run = [&](int thread) {
    body(thread, 1);
    for (int round = 0; round < kRoofRounds; ++round) {
      together.arrive_and_wait();
      const double begin = ThreadSeconds();
      const double units = body(thread, repeats);
      rates[static_cast<size_t>(round * threads + thread)] =
          units / std::max(1e-9, ThreadSeconds() - begin);
    }
  };
  {
    std::vector<std::jthread> others;
    others.reserve(static_cast<size_t>(threads));
    for (int i = 1; i < threads; ++i) others.emplace_back(run, i);
    run(0);
  }
  double best = 0;
  for (int round = 0; round < kRoofRounds; ++round) {
    double sum = 0;
    for (int i = 0; i < threads; ++i) sum += rates[static_cast<size_t>(round * threads + i)];
    best = std::max(best, sum);
  }
  return best;
}

double RegisterFlops(Isa isa, int threads) {
  const RoofKernels& kernels = RoofKernelsFor(isa);
  constexpr int64_t kSteps = 1000;
  return BestRate(threads, [&](int, int64_t repeats) {
    Consume(kernels.multiply_add(kSteps * repeats));
    return static_cast<double>(kernels.flops) * static_cast<double>(kSteps * repeats);
  });
}

/// Times a tile of the matrix product with everything in the L1 cache. It is the peak where its
/// assembly is scheduled better than the compiler's loop.
double TileFlops(Isa isa) {
  const GemmKernels& kernels = GemmKernelsFor(isa);
  std::vector<float> a(static_cast<size_t>(kernels.rows * kernels.depth), 0.5f);
  std::vector<float> b(static_cast<size_t>(kernels.columns * kernels.depth), 0.25f);
  std::vector<float> c(static_cast<size_t>(kernels.rows * kernels.columns));
  GemmTile tile;
  tile.k = kernels.depth;
  tile.a = a.data();
  tile.b = b.data();
  tile.c = c.data();
  tile.ldc = tile.columns = kernels.columns;
  tile.rows = kernels.rows;
  const double flops = 2.0 * kernels.rows * kernels.columns * static_cast<double>(kernels.depth);
  return BestRate(1, [&](int, int64_t repeats) {
    for (int64_t i = 0; i < repeats; ++i) kernels.tile(tile);
    return flops * static_cast<double>(repeats);
  });
}

struct CacheLevel {
  size_t size = 0;
  int sharers = 1;  ///< processors that use one such cache
};

/// "0-3,8" names five processors.
int CountList(const std::string& list) {
  int count = 0;
  for (size_t at = 0; at < list.size();) {
    size_t end = list.find(',', at);
    if (end == std::string::npos) end = list.size();
    const std::string part = list.substr(at, end - at);
    const size_t dash = part.find('-');
    const long first = std::strtol(part.c_str(), nullptr, 10);
    const long last =
        dash == std::string::npos ? first : std::strtol(part.c_str() + dash + 1, nullptr, 10);
    count += static_cast<int>(std::clamp(last - first + 1, 1L, 65536L));
    at = end + 1;
  }
  return std::max(1, count);
}

/// The data caches of the first processor, smallest first; usual ones where nothing is told.
std::vector<CacheLevel> Caches() {
  std::vector<CacheLevel> levels;
  for (int index = 0; index < 8; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    std::ifstream type_file(folder + "type"), size_file(folder + "size"),
        list_file(folder + "shared_cpu_list");
    std::string type, list;
    size_t kib = 0;
    char unit = 0;
    if (!(type_file >> type) || type == "Instruction" || !(size_file >> kib >> unit)) continue;
    list_file >> list;
    levels.push_back({kib << (unit == 'M' ? 20 : 10), CountList(list)});
  }
  if (levels.empty()) levels = {{size_t{32} << 10, 1}, {size_t{512} << 10, 1}};
  std::sort(levels.begin(), levels.end(),
            [](const CacheLevel& a, const CacheLevel& b) { return a.size < b.size; });
  return levels;
}

/// Each thread reads `bytes` of its own, over and over.
double ReadRate(Isa isa, int threads, size_t bytes, const Tensor& data) {
  const RoofKernels& kernels = RoofKernelsFor(isa);
  const auto count = static_cast<int64_t>(bytes / sizeof(float)) / kRoofBlock * kRoofBlock;
  return BestRate(threads, [&](int thread, int64_t repeats) {
    const float* begin = data.data<float>() + thread * count;
    for (int64_t i = 0; i < repeats; ++i) Consume(kernels.read(begin, count));
    return static_cast<double>(count) * sizeof(float) * static_cast<double>(repeats);
  });
}

std::vector<MachineRoofs::Memory> MemoryRoofs(Isa isa, int threads) {
  constexpr size_t kLeast = size_t{64} << 20, kMost = size_t{512} << 20;
  const std::vector<CacheLevel> caches = Caches();
  const size_t team = static_cast<size_t>(threads);
  const size_t beyond = std::clamp(2 * caches.back().size, kLeast, kMost);
  // Every element is written, because untouched pages would all map to one page of zeros.
  Tensor data(DType::kF32, {static_cast<int64_t>(beyond / sizeof(float) + team * kRoofBlock)});
  std::fill_n(data.data<float>(), data.elements(), 1.0f);
  std::vector<MachineRoofs::Memory> roofs;
  for (size_t i = 0; i < caches.size(); ++i) {
    const size_t sharers = std::min(team, static_cast<size_t>(caches[i].sharers));
    MachineRoofs::Memory& roof = roofs.emplace_back();
    roof.name = "L" + std::to_string(i + 1);
    roof.size_one = caches[i].size;
    roof.size_all = caches[i].size * std::max<size_t>(1, team / sharers);
    // Half of it: the rest is for what else the machine does.
    roof.one = ReadRate(isa, 1, std::min(beyond, caches[i].size) / 2, data);
    const size_t share = std::min(beyond / team, caches[i].size / 2 / sharers);
    roof.all = threads == 1 ? roof.one : ReadRate(isa, threads, share, data);
  }
  MachineRoofs::Memory& memory = roofs.emplace_back();
  memory.name = "memory";
  memory.size_one = memory.size_all = SIZE_MAX;
  memory.one = ReadRate(isa, 1, beyond, data);
  memory.all = threads == 1 ? memory.one : ReadRate(isa, threads, beyond / team, data);
  return roofs;
}

double LoopSeconds(int threads) {
  using Clock = std::chrono::steady_clock;
  double best = 1;
  for (int i = 0; i < 200; ++i) {
    const Clock::time_point start = Clock::now();
    ParallelFor(threads, threads, 1, [](int64_t, int64_t) {});
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

double PeakFlops(Isa isa) { return std::max(RegisterFlops(isa, 1), TileFlops(isa)); }

MachineRoofs MeasureRoofs(int threads) {
  MachineRoofs roofs;
  roofs.threads = threads > 0 ? threads : AvailableThreads();
  for (Isa isa : SupportedIsas()) {
    MachineRoofs::Compute& compute = roofs.compute.emplace_back();
    compute.isa = isa;
    const double registers = RegisterFlops(isa, 1);
    compute.flops_one = std::max(registers, TileFlops(isa));
    compute.flops_all = compute.flops_one;
    if (roofs.threads > 1) {
      // The tile is timed on one core. Other cores slow it down by the same factor as register
      // arithmetic.
      compute.flops_all *= RegisterFlops(isa, roofs.threads) / registers;
    }
  }
  for (const LowRoof& low : LowRoofs()) {
    const auto rate = [&](int team) {
      return BestRate(team, [&](int, int64_t repeats) {
        low.run(1000 * repeats);
        return static_cast<double>(low.flops) * 1000 * static_cast<double>(repeats);
      });
    };
    const double one = rate(1);
    roofs.compute.push_back(
        {low.isa, low.dtype, one, roofs.threads > 1 ? rate(roofs.threads) : one});
  }
  roofs.memory = MemoryRoofs(SupportedIsas().back(), roofs.threads);
  roofs.loop_seconds = LoopSeconds(roofs.threads);
  return roofs;
}

}  // namespace oort
