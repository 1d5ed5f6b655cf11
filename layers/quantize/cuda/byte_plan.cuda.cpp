// SPDX-License-Identifier: MIT
// Chooses the tiles of a convolution of bytes and starts them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cuda/kernel_launch.h"
#include "layers/quantize/cuda/byte_bulk.h"
#include "layers/quantize/cuda/byte_gemm.h"
#include "layers/quantize/cuda/byte_pairs.h"

namespace oort::cuda {
namespace {

constexpr int kByteStep = 128;  // channels of a step: bytes of a row in shared memory

int64_t CeilDivideBytes(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool IsByteAligned(const void* pointer, size_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

/// All kernels, those for Hopper alone last.
std::span<const ByteGemmKernel> AllKernels() {
  static const auto kAll = [] {
    std::vector<ByteGemmKernel> all;
    for (const ByteGemmKernel& kernel : ByteGemmKernels()) all.push_back(kernel);
    for (const ByteGemmKernel& kernel : ByteGroupKernels()) all.push_back(kernel);
    return all;
  }();
  return kAll;
}

bool IsPlain(const ByteConvCall& call) {
  return call.epilogue.bytes && !call.epilogue.activated && call.padding.zero_point == 0;
}

/// 8 neighbouring results may be moved at once.
bool HasWholePieces(const ByteConvCall& call) {
  return call.filters % 8 == 0 && call.out_pixel % 8 == 0 &&
         IsByteAligned(call.out, call.epilogue.bytes ? 8 : 16) &&
         IsByteAligned(call.epilogue.addend, 8);
}

bool TakesWarpgroups(const ByteConvCall& call, int device) {
  return TraitsOf(device).bulk && IsPlain(call) && HasWholePieces(call) && call.groups == 1 &&
         !call.in_signed;
}

/// The kernel that copies as many bytes at a time as the channels of a pixel allow; null where the
/// tile has none.
const void* FunctionOf(const ByteConvCall& call, const ByteGemmKernel& kernel) {
  const auto fits = [&](int grain) {
    return call.channels % grain == 0 && call.in_pixel % grain == 0 &&
           IsByteAligned(call.in, static_cast<size_t>(grain));
  };
  if (fits(16)) return kernel.whole;
  if (fits(8)) return kernel.small;
  return fits(4) ? kernel.words : nullptr;
}

int ByteSteps(const ByteConvCall& call) {
  return static_cast<int>(CeilDivideBytes(call.channels * call.taps(), kByteStep));
}

/// Of one block: a few steps need no more stages than there are steps. `gathers`: sums go through
/// shared memory.
int ByteSharedBytes(const ByteGemmKernel& kernel, int steps, bool gathers) {
  // Matrices of warpgroups begin at whole 1024 bytes.
  return std::max(
      std::min(kernel.stages, steps) * kernel.stage_bytes + (kernel.warpgroups ? 1024 : 0),
      gathers ? kernel.sum_bytes : 0);
}

int ResidentBlocks(const ByteGemmKernel& kernel, int steps, bool gathers) {
  constexpr int kShared = 227 * 1024, kThreads = 2048, kRegisters = 65536;
  const int registers = RegistersOf(kernel.whole) * kernel.threads;
  return std::max(1, std::min({kShared / (ByteSharedBytes(kernel, steps, gathers) + 1024),
                               kThreads / kernel.threads, kRegisters / registers}));
}

/// Cycles that a call takes, by the model of one multiprocessor that gemm_conv.cuda.cpp has for 16
/// bits. The numbers are fitted to what bench_cuda_byte_conv measured on an H200; those of
/// warpgroups are what these can do.
double ByteCycles(const ByteConvCall& call, const ByteGemmKernel& kernel, int splits,
                  int multiprocessors) {
  constexpr double kStart = 720, kFill = 300, kLatency = 2100, kBarrier = 16;
  const double multiplies = kernel.warpgroups ? 3400 : 3000;
  const double warp_multiplies = kernel.warpgroups ? 480 : 170;
  constexpr double kFetchBytes = 54, kWriteBytes = 20;
  constexpr double kManyWaves = 1.3, kFinish = 0.15, kWriteBatch = 1660;
  constexpr double kGather = 1660, kGatherBlock = 130, kGatherBytes = 15;
  const double rows = kernel.tile.rows, columns = kernel.tile.columns, threads = kernel.threads;
  const auto steps = static_cast<int>(CeilDivideBytes(ByteSteps(call), splits));
  const double blocks = static_cast<double>(CeilDivideBytes(call.rows(), kernel.tile.rows) *
                                            CeilDivideBytes(call.filters, kernel.tile.columns)) *
                        call.groups * splits;
  const double here = std::min<double>(ResidentBlocks(kernel, steps, splits > 1 || !IsPlain(call)),
                                       std::ceil(blocks / multiprocessors));
  double waves = blocks / (here * multiprocessors);
  waves = waves < kManyWaves ? std::ceil(waves) : waves + 0.5;
  const double products = here * rows * columns * kByteStep;
  const double step = std::max({products / multiplies, here * kernel.stage_bytes / kFetchBytes,
                                kLatency / std::min(kernel.stages - 1, steps),
                                products / (warp_multiplies * here * threads / 32)}) +
                      kBarrier;
  const double moved = rows * columns * (call.epilogue.addend != nullptr ? 2 : 1);
  const double write =
      here * (rows * columns * kFinish + moved / kWriteBytes) / splits + kWriteBatch;
  const double gather =
      splits == 1 ? 0 : kGather + kGatherBlock * splits + here * rows * columns * 4 / kGatherBytes;
  return kStart + waves * (kFill + steps * step + write + gather);
}

/// The same for blocks that stay (byte_bulk.sm90a.cu), fitted in microseconds to what
/// bench_cuda_byte_conv measured on an H200: a tile costs its steps, in which tensor cores wait for
/// shared memory and the copy engine for pixels, and its results, which few warps make.
double BulkCycles(const ByteConvCall& call, const ByteBulkKernel& kernel, int multiprocessors) {
  constexpr double kCycles = 1850, kStart = 3.1, kMemoryBytes = 4.2e6;
  const bool wide = kernel.tile.columns > 64, whole = kernel.step_bytes == kByteStep;
  const double windows = wide ? (whole ? 0.313 : 0.24) : 0.19;
  const double step = wide || call.taps() > 1 ? windows : whole ? 0.15 : 0.08;
  const auto steps =
      static_cast<double>(call.taps() * CeilDivideBytes(call.channels, kernel.step_bytes));
  const double rounds =
      static_cast<double>(CeilDivideBytes(CeilDivideBytes(call.rows(), kernel.tile.rows) *
                                              CeilDivideBytes(call.filters, kernel.tile.columns),
                                          multiprocessors));
  const bool adds = call.epilogue.addend != nullptr;
  // Two warpgroups make the results of the first two rounds at once, and those of the last round
  // are part of the start.
  const double finish = wide ? (adds ? 1.2 : 0.8) : (adds ? 0.88 : 0.62);
  const double busy =
      rounds * steps * step + finish * (rounds <= 2 ? (rounds - 1) / 4 : rounds - 1);
  const double results = static_cast<double>(call.rows()) * call.filters;
  const double seen = static_cast<double>(call.batch) * call.height.in * call.width.in *
                      call.channels / (call.height.stride * call.width.stride);
  return kCycles * (kStart + std::max(busy, (seen + results * (adds ? 2 : 1)) / kMemoryBytes));
}

/// Null unless the plan is one of these.
const ByteBulkKernel* BulkKernelOf(const BytePlan& plan) {
  const auto index = static_cast<size_t>(plan.tile);
  const size_t others = AllKernels().size();
  const std::span<const ByteBulkKernel> bulk = ByteBulkKernels();
  return index < others || index - others >= bulk.size() ? nullptr : &bulk[index - others];
}

/// The last one is that of the first layer.
bool IsOfPairs(const BytePlan& plan) {
  return static_cast<size_t>(plan.tile) == AllKernels().size() + ByteBulkKernels().size();
}
bool TakesPairs(const ByteConvCall& call, int device) {
  return TraitsOf(device).bulk && ConvolvesBytePairs(call);
}

}  // namespace

std::span<const ConvTile> ByteTiles() {
  static const auto kTiles = [] {
    std::vector<ConvTile> tiles;
    for (const ByteGemmKernel& kernel : AllKernels()) tiles.push_back(kernel.tile);
    for (const ByteBulkKernel& kernel : ByteBulkKernels()) tiles.push_back(kernel.tile);
    tiles.push_back(BytePairTile());
    return tiles;
  }();
  return kTiles;
}

bool ConvolvesBytes(const ByteConvCall& call) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 2;
  const double in = static_cast<double>(call.batch) * (call.height.in + 2.0 * call.height.pad) *
                    (call.width.in + 2.0 * call.width.pad) * static_cast<double>(call.in_pixel);
  const double sums =
      static_cast<double>(call.height.kernel + 1) * (call.width.kernel + 1) * call.padding.filters;
  return call.weight != nullptr && call.in_channel == 1 && call.out_channel == 1 &&
         call.channels % 4 == 0 && call.in_pixel % 4 == 0 && IsByteAligned(call.in, 4) &&
         in < kMost && call.rows() < kMost && call.depth * call.padded_filters() < kMost &&
         sums < kMost && call.groups < 65536 && call.out_pixel < kMost &&
         int64_t{call.height.dilation} * call.height.kernel < kMost / 4 &&
         int64_t{call.width.dilation} * call.width.kernel < kMost / 4;
}

bool BytePlanFits(const ByteConvCall& call, const BytePlan& plan, int device) {
  if (IsOfPairs(plan)) return plan.splits == 1 && TakesPairs(call, device);
  if (BulkKernelOf(plan) != nullptr) {
    return plan.splits == 1 && TraitsOf(device).bulk &&
           ConvolvesBytesInBulk(call, *BulkKernelOf(plan));
  }
  const ByteGemmKernel& kernel = AllKernels()[static_cast<size_t>(plan.tile)];
  if (kernel.warpgroups && (plan.splits > 1 || !TakesWarpgroups(call, device))) return false;
  return FunctionOf(call, kernel) != nullptr && plan.splits <= ByteSteps(call);
}

BytePlan ChooseBytePlan(const ByteConvCall& call, int device) {
  const DeviceTraits& traits = TraitsOf(device);
  const std::span<const ByteGemmKernel> kernels = AllKernels();
  if (TakesPairs(call, device)) {
    return {static_cast<int>(kernels.size() + ByteBulkKernels().size()), 1};
  }
  const int most = traits.clusters ? ByteSteps(call) : 1;
  BytePlan best;
  double least = std::numeric_limits<double>::infinity();
  const auto take = [&](double cycles, size_t tile, int splits) {
    if (cycles >= least) return;
    least = cycles;
    best = {static_cast<int>(tile), splits};
  };
  for (size_t i = 0; i < kernels.size(); ++i) {
    // Larger clusters, and odd ones, find no place on some groups of multiprocessors.
    for (int splits : {1, 2, 3, 4, 6, 8}) {
      if (splits > most) break;
      if (!BytePlanFits(call, {static_cast<int>(i), splits}, device)) continue;
      take(ByteCycles(call, kernels[i], splits, traits.multiprocessors), i, splits);
    }
  }
  const std::span<const ByteBulkKernel> bulk = ByteBulkKernels();
  for (size_t i = 0; i < bulk.size() && traits.bulk; ++i) {
    if (!ConvolvesBytesInBulk(call, bulk[i])) continue;
    take(BulkCycles(call, bulk[i], traits.multiprocessors), kernels.size() + i, 1);
  }
  return best;
}

void ConvolveBytes(const Stream& stream, const ByteConvCall& call, const BytePlan& plan,
                   bool overlap) {
  if (IsOfPairs(plan)) return ConvolveBytePairs(stream, call, overlap);
  if (const ByteBulkKernel* bulk = BulkKernelOf(plan)) {
    return ConvolveBytesInBulk(stream, call, *bulk, overlap);
  }
  const ByteGemmKernel& kernel = AllKernels()[static_cast<size_t>(plan.tile)];
  ByteGemm conv = {};
  GemmConv& gemm = conv.gemm;
  gemm.in = call.in;
  gemm.weight = call.weight;
  gemm.out = call.out;
  gemm.rows = static_cast<int>(call.rows());
  gemm.filters = call.padded_filters();
  gemm.channels = call.channels;
  gemm.height = call.height.in;
  gemm.width = call.width.in;
  gemm.out_width = call.width.out;
  gemm.out_plane = call.height.out * call.width.out;
  gemm.in_pixel = static_cast<int>(call.in_pixel);
  gemm.out_pixel = static_cast<int>(call.out_pixel);
  gemm.depth = static_cast<int>(call.depth);
  gemm.kernel_height = call.height.kernel;
  gemm.kernel_width = call.width.kernel;
  gemm.stride_down = call.height.stride;
  gemm.stride_along = call.width.stride;
  gemm.pad_top = call.height.pad;
  gemm.pad_left = call.width.pad;
  gemm.dilation_down = call.height.dilation;
  gemm.dilation_along = call.width.dilation;
  const int taps = kByteStep / call.channels;
  gemm.channel_step = kByteStep % call.channels;
  gemm.column_step = taps % call.width.kernel;
  gemm.row_step = taps / call.width.kernel;
  gemm.steps = ByteSteps(call);
  gemm.splits = std::max(1, std::min(plan.splits, gemm.steps));
  gemm.column_tiles = static_cast<int>(CeilDivideBytes(call.filters, kernel.tile.columns));
  conv.epilogue = call.epilogue;
  conv.padding = call.padding;
  conv.filters = call.filters;
  conv.flip = call.in_signed ? kSignBits : 0;
  conv.whole_pieces = HasWholePieces(call);
  conv.plain = conv.whole_pieces && IsPlain(call);
  conv.rounding = ByteRounding::Of(call.epilogue);
  conv.addend_flip = call.epilogue.addend_signed ? kSignBits : 0;
  conv.addend_origin = call.epilogue.addend_signed ? (1 << 23) + 128.0f : 1 << 23;
  const int64_t tiles = CeilDivideBytes(call.rows(), kernel.tile.rows) * gemm.column_tiles;

  KernelLaunch launch;
  launch.kernel = FunctionOf(call, kernel);
  launch.blocks =
      dim3(static_cast<unsigned>(tiles * gemm.splits), 1, static_cast<unsigned>(call.groups));
  launch.threads = static_cast<unsigned>(kernel.threads);
  launch.cluster = static_cast<unsigned>(gemm.splits);
  const int most_steps = static_cast<int>(CeilDivideBytes(gemm.steps, gemm.splits));
  launch.shared =
      static_cast<size_t>(ByteSharedBytes(kernel, most_steps, gemm.splits > 1 || !conv.plain));
  launch.overlap = overlap;
  Launch(stream, launch, &conv);
}

}  // namespace oort::cuda
