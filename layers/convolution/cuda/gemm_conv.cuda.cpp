// SPDX-License-Identifier: MIT
// Chooses the kernel of a convolution and starts it.
#include "layers/convolution/cuda/gemm_conv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cuda/error.h"
#include "cuda/kernel_launch.h"
#include "layers/convolution/cuda/bulk_conv.h"
#include "layers/convolution/cuda/gemm_conv_args.h"

namespace oort::cuda {
namespace {

constexpr int kRowBytesOfStep = 128;  // of shared memory: a step is as many bytes of each row

std::span<const GemmConvKernel> KernelsOf(ConvMath math) {
  switch (math) {
    case ConvMath::kF16: return GemmConvKernelsF16();
    case ConvMath::kBF16: return GemmConvKernelsBF16();
    case ConvMath::kTF32: return GemmConvKernelsTF32();
    default: return GemmConvKernelsF32();
  }
}

bool IsAligned(const void* pointer, size_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

/// Index into kConvGrains, or -1: each grain lies in one pixel, and all are aligned.
int GrainOf(const ConvCall& call, ConvMath math) {
  const int64_t item = ItemSize(math);
  for (size_t i = 0; i < kConvGrains.size(); ++i) {
    const int64_t grain = kConvGrains[i];
    if (call.channels * item % grain == 0 && call.in_pixel * item % grain == 0 &&
        IsAligned(call.in, static_cast<size_t>(grain))) {
      return item == 4 && grain == 8 ? static_cast<int>(i) + 1 : static_cast<int>(i);
    }
  }
  return -1;
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int StepsOf(const ConvCall& call, ConvMath math) {
  return static_cast<int>(CeilDiv(call.channels * call.taps() * ItemSize(math), kRowBytesOfStep));
}

/// Of one block: a few steps need no more stages than there are steps.
int SharedBytes(const GemmConvKernel& kernel, int steps) {
  return std::max(std::min(kernel.stages, steps) * kernel.stage_bytes, kernel.sum_bytes);
}

/// Blocks of a kernel that fit on a multiprocessor.
int Resident(const GemmConvKernel& kernel, int steps) {
  constexpr int kShared = 227 * 1024, kThreads = 2048, kRegisters = 65536;
  const int registers = RegistersOf(kernel.kernels[0]) * kernel.threads;
  return std::max(1, std::min({kShared / (SharedBytes(kernel, steps) + 1024),
                               kThreads / kernel.threads, kRegisters / registers}));
}

/// Cycles that a call takes, by a model of one multiprocessor: its blocks share the tensor cores
/// and the way to the L2 cache, and each waits for its copies and for the others of its cluster.
/// The numbers are fitted to what bench_cuda_conv measured on an H200.
double ModelCycles(const ConvCall& call, ConvMath math, const GemmConvKernel& kernel, int splits,
                   int multiprocessors) {
  constexpr double kStart = 1580, kLatency = 300, kBarrier = 16, kMultiplies = 1400;
  constexpr double kWarpMultiplies = 100, kFetchBytes = 54, kWriteBytes = 26;
  constexpr double kStoreCycles = 0.05, kWriteBatch = 394, kManyWaves = 1.3;
  constexpr double kGather = 670, kGatherBlock = 40, kGatherBytes = 15;
  const double slower = math == ConvMath::kF32 ? 10 : math == ConvMath::kTF32 ? 2 : 1;
  const double rows = kernel.tile.rows, columns = kernel.tile.columns, threads = kernel.threads;
  const auto steps = static_cast<int>(CeilDiv(StepsOf(call, math), splits));
  const double blocks = static_cast<double>(CeilDiv(call.rows(), kernel.tile.rows) *
                                            CeilDiv(call.filters, kernel.tile.columns)) *
                        call.groups * splits;
  const double here =
      std::min<double>(Resident(kernel, steps), std::ceil(blocks / multiprocessors));
  double waves = blocks / (here * multiprocessors);
  waves = waves < kManyWaves ? std::ceil(waves) : waves + 0.5;
  const double products = here * rows * columns * (kRowBytesOfStep / ItemSize(math)) * slower;
  const double step = std::max({products / kMultiplies, here * kernel.stage_bytes / kFetchBytes,
                                kLatency / std::min(kernel.stages - 1, steps),
                                products / (kWarpMultiplies * here * threads / 32)}) +
                      kBarrier;
  const double moved = rows * columns * ItemSize(math) * (call.epilogue.addend != nullptr ? 2 : 1);
  const double write = here * (rows * columns * kStoreCycles + moved / kWriteBytes) / splits +
                       kWriteBatch * std::ceil(rows * columns / (32 * threads * splits));
  const double gather =
      splits == 1 ? 0 : kGather + kGatherBlock * splits + here * rows * columns * 4 / kGatherBytes;
  return kStart + waves * (kLatency + steps * step + write + gather);
}

/// The same for blocks that stay: they fetch and write while they multiply. Fitted in microseconds
/// to what bench_cuda_conv measured on an H200, where ModelCycles are about kCycles of each.
double BulkCycles(const ConvCall& call, const BulkConvKernel& kernel, int multiprocessors) {
  constexpr double kCycles = 1000, kMemoryBytes = 3.6e6;
  const auto steps = static_cast<double>(call.taps() * CeilDiv(call.channels, 64));
  const auto tiles = static_cast<double>(CeilDiv(call.rows(), kernel.tile.rows) *
                                         CeilDiv(call.filters, kernel.tile.columns));
  const double here = std::min<double>(kernel.resident, std::ceil(tiles / multiprocessors));
  const double rounds = std::ceil(tiles / (here * multiprocessors));
  const double busy = std::min(1.0, tiles / multiprocessors);
  double start = 1.3, step = 0.53, finish = 1.4;  // two blocks of 64 columns
  if (kernel.tile.columns > 64) {
    start = 1.4, step = 0.285 + 0.08 * busy, finish = 1.1;
  } else if (here == 1) {
    step = 0.215 + 0.26 * busy, finish = 0.85;
  }
  const double results = static_cast<double>(call.rows()) * call.filters;
  const double read = static_cast<double>(call.batch) * call.height.in * call.width.in *
                      call.channels / (call.height.stride * call.width.stride);
  const double bytes = 2 * (read + results * (call.epilogue.addend != nullptr ? 2 : 1));
  return kCycles * std::max(start + rounds * (steps * step + finish), bytes / kMemoryBytes);
}

size_t GemmKernelCount(ConvMath math) { return KernelsOf(math).size(); }

/// Null unless the plan is one for Hopper.
const BulkConvKernel* BulkKernelOf(ConvMath math, const ConvPlan& plan) {
  const auto index = static_cast<size_t>(plan.tile);
  const size_t others = GemmKernelCount(math);
  return index < others ? nullptr : &BulkConvKernels(math)[index - others];
}

}  // namespace

std::span<const ConvTile> ConvTiles(ConvMath math) {
  static const auto kTiles = [] {
    std::array<std::vector<ConvTile>, 4> tiles;
    for (size_t i = 0; i < tiles.size(); ++i) {
      for (const auto& kernel : KernelsOf(static_cast<ConvMath>(i)))
        tiles[i].push_back(kernel.tile);
      for (const auto& kernel : BulkConvKernels(static_cast<ConvMath>(i)))
        tiles[i].push_back(kernel.tile);
    }
    return tiles;
  }();
  return kTiles[static_cast<size_t>(math)];
}

bool Convolves(const ConvCall& call, ConvMath math) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 2;
  const double in = static_cast<double>(call.batch) * (call.height.in + 2.0 * call.height.pad) *
                    (call.width.in + 2.0 * call.width.pad) * static_cast<double>(call.in_pixel);
  return GrainOf(call, math) >= 0 && in < kMost && call.rows() < kMost &&
         call.depth * call.filters < kMost && call.groups < 65536 && call.out_pixel < kMost &&
         int64_t{call.height.dilation} * call.height.kernel < kMost / 4 &&
         int64_t{call.width.dilation} * call.width.kernel < kMost / 4;
}

bool HasConvTiles(const ConvCall& call, ConvMath math, ConvTileKind kind, int device) {
  if (kind == ConvTileKind::kMma) return true;
  return TraitsOf(device).bulk && ConvolvesInBulk(call, math);
}

ConvTileKind KindOf(ConvMath math, const ConvPlan& plan) {
  return BulkKernelOf(math, plan) != nullptr ? ConvTileKind::kTma : ConvTileKind::kMma;
}

bool ConvPlanFits(const ConvCall& call, ConvMath math, const ConvPlan& plan, const Stream& stream) {
  const ConvTileKind kind = KindOf(math, plan);
  if (!HasConvTiles(call, math, kind, stream.device())) return false;
  if (kind == ConvTileKind::kTma) return plan.splits == 1;
  const auto& kernels = KernelsOf(math)[static_cast<size_t>(plan.tile)].kernels;
  return kernels[static_cast<size_t>(GrainOf(call, math))] != nullptr &&
         plan.splits <= StepsOf(call, math);
}

ConvPlan ChooseConvPlan(const ConvCall& call, ConvMath math, int device,
                        std::optional<ConvTileKind> kind) {
  const DeviceTraits& traits = TraitsOf(device);
  const std::span<const GemmConvKernel> kernels = KernelsOf(math);
  const int grain = GrainOf(call, math), steps = StepsOf(call, math);
  const int most = traits.clusters ? steps : 1;
  const auto wanted = [&](ConvTileKind of) {
    return kind.value_or(of) == of && HasConvTiles(call, math, of, device);
  };
  ConvPlan best;
  double least = std::numeric_limits<double>::infinity();
  const auto take = [&](double cycles, size_t tile, int splits) {
    if (cycles < least) {
      least = cycles;
      best = {static_cast<int>(tile), splits};
    }
  };
  for (size_t i = 0; i < kernels.size() && wanted(ConvTileKind::kMma); ++i) {
    if (kernels[i].kernels[static_cast<size_t>(grain)] == nullptr) continue;
    // Larger clusters, and odd ones, find no place on some groups of multiprocessors.
    for (int splits : {1, 2, 3, 4, 6, 8}) {
      if (splits > most) break;
      take(ModelCycles(call, math, kernels[i], splits, traits.multiprocessors), i, splits);
    }
  }
  if (!wanted(ConvTileKind::kTma)) return best;
  const std::span<const BulkConvKernel> bulk = BulkConvKernels(math);
  for (size_t i = 0; i < bulk.size(); ++i) {
    take(BulkCycles(call, bulk[i], traits.multiprocessors), kernels.size() + i, 1);
  }
  return best;
}

void Convolve(const Stream& stream, const ConvCall& call, ConvMath math, const ConvPlan& plan,
              bool overlap) {
  if (const BulkConvKernel* bulk = BulkKernelOf(math, plan)) {
    return ConvolveInBulk(stream, call, math, *bulk, overlap);
  }
  const GemmConvKernel& kernel = KernelsOf(math)[static_cast<size_t>(plan.tile)];
  const int item = ItemSize(math), step = kRowBytesOfStep / item;
  GemmConv conv = {};
  conv.in = call.in;
  conv.weight = call.weight;
  conv.out = call.out;
  conv.epilogue = call.epilogue;
  conv.rows = static_cast<int>(call.rows());
  conv.filters = call.filters;
  conv.channels = call.channels;
  conv.height = call.height.in;
  conv.width = call.width.in;
  conv.out_width = call.width.out;
  conv.out_plane = call.height.out * call.width.out;
  conv.in_pixel = static_cast<int>(call.in_pixel);
  conv.out_pixel = static_cast<int>(call.out_pixel);
  conv.depth = static_cast<int>(call.depth);
  conv.kernel_height = call.height.kernel;
  conv.kernel_width = call.width.kernel;
  conv.stride_down = call.height.stride;
  conv.stride_along = call.width.stride;
  conv.pad_top = call.height.pad;
  conv.pad_left = call.width.pad;
  conv.dilation_down = call.height.dilation;
  conv.dilation_along = call.width.dilation;
  const int taps = step / call.channels;
  conv.channel_step = step % call.channels;
  conv.column_step = taps % call.width.kernel;
  conv.row_step = taps / call.width.kernel;
  conv.steps = StepsOf(call, math);
  conv.splits = std::max(1, std::min(plan.splits, conv.steps));
  conv.column_tiles = static_cast<int>(CeilDiv(call.filters, kernel.tile.columns));
  const int pieces = 16 / item;
  conv.whole_pieces = call.filters % 8 == 0 && call.out_pixel % pieces == 0 &&
                      IsAligned(call.out, 16) && IsAligned(call.epilogue.addend, 16);
  const int64_t tiles = CeilDiv(call.rows(), kernel.tile.rows) * conv.column_tiles;

  KernelLaunch launch;
  launch.kernel = kernel.kernels[static_cast<size_t>(GrainOf(call, math))];
  launch.blocks =
      dim3(static_cast<unsigned>(tiles * conv.splits), 1, static_cast<unsigned>(call.groups));
  launch.threads = static_cast<unsigned>(kernel.threads);
  launch.cluster = static_cast<unsigned>(conv.splits);
  const int most_steps = static_cast<int>(CeilDiv(conv.steps, conv.splits));
  launch.shared = static_cast<size_t>(SharedBytes(kernel, most_steps));
  launch.overlap = overlap;
  Launch(stream, launch, &conv);
}

}  // namespace oort::cuda
