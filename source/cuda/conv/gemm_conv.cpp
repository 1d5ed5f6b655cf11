// SPDX-License-Identifier: MIT
// Chooses the kernel of a convolution and starts it.
#include "cuda/conv/gemm_conv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cuda/conv/conv_launch.h"
#include "cuda/conv/gemm_conv_args.h"
#include "cuda/error.h"

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

/// Cycles that a call takes, by a model of one multiprocessor: its blocks share the tensor cores
/// and the way to the L2 cache, and each waits for its copies and for the others of its cluster.
double ModelCycles(const ConvCall& call, ConvMath math, const GemmConvKernel& kernel, int splits,
                   int multiprocessors) {
  constexpr double kL2BytesPerCycle = 48, kL2Latency = 900, kBlockStart = 1200;
  const double per_multiply = math == ConvMath::kF32    ? 1.0 / 110
                              : math == ConvMath::kTF32 ? 1.0 / 600
                                                        : 1.0 / 1200;
  const int rows = kernel.tile.rows, columns = kernel.tile.columns;
  const double steps = CeilDiv(StepsOf(call, math), splits);
  const double blocks =
      static_cast<double>(CeilDiv(call.rows(), rows) * CeilDiv(call.filters, columns)) *
      call.groups * splits;
  const int shared = SharedBytes(kernel, static_cast<int>(steps));
  constexpr int kSharedOfProcessor = 227 * 1024, kThreadsOfProcessor = 2048;
  const int registers = columns * rows / kernel.threads + 96;
  const int resident = std::max(
      1, std::min({kSharedOfProcessor / (shared + 1024), kThreadsOfProcessor / kernel.threads,
                   65536 / (registers * kernel.threads)}));
  const double here = std::min<double>(resident, std::ceil(blocks / multiprocessors));
  const double waves = std::ceil(blocks / (here * multiprocessors));
  const double depth = kRowBytesOfStep / ItemSize(math);
  const double multiply = static_cast<double>(rows) * columns * depth * per_multiply;
  const double fetch = kernel.stage_bytes / kL2BytesPerCycle;
  const double step = std::max(
      {here * multiply, here * fetch, kL2Latency / std::min<double>(kernel.stages - 1, steps)});
  const double write = here * rows * columns * 8 / kL2BytesPerCycle / splits + 600;
  const double gather = splits == 1 ? 0 : 700 + 40 * splits + here * rows * columns * 4 / 32.0;
  return kBlockStart + waves * (kL2Latency + steps * step + write + gather);
}

}  // namespace

std::span<const ConvTile> ConvTiles(ConvMath math) {
  static const auto kTiles = [] {
    std::array<std::vector<ConvTile>, 4> tiles;
    for (size_t i = 0; i < tiles.size(); ++i) {
      for (const auto& kernel : KernelsOf(static_cast<ConvMath>(i)))
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

bool ConvPlanFits(const ConvCall& call, ConvMath math, const ConvPlan& plan) {
  const auto& kernels = KernelsOf(math)[static_cast<size_t>(plan.tile)].kernels;
  return kernels[static_cast<size_t>(GrainOf(call, math))] != nullptr &&
         plan.splits <= StepsOf(call, math);
}

ConvPlan ChooseConvPlan(const ConvCall& call, ConvMath math, const Stream& stream) {
  const DeviceTraits& device = TraitsOf(stream.device());
  const std::span<const GemmConvKernel> kernels = KernelsOf(math);
  const int grain = GrainOf(call, math), steps = StepsOf(call, math);
  const int most = device.clusters ? std::min(kMostSplits, steps) : 1;
  ConvPlan best;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].kernels[static_cast<size_t>(grain)] == nullptr) continue;
    for (int splits = 1; splits <= most; ++splits) {
      const double cycles = ModelCycles(call, math, kernels[i], splits, device.multiprocessors);
      if (cycles < least) {
        least = cycles;
        best = {static_cast<int>(i), splits};
      }
    }
  }
  return best;
}

void Convolve(const Stream& stream, const ConvCall& call, ConvMath math, const ConvPlan& plan,
              bool overlap) {
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

  ConvLaunch launch;
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
