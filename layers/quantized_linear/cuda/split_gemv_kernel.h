// SPDX-License-Identifier: MIT
// A GEMV of a few rows of x whose columns a cluster of blocks splits: so a block stages, and has
// space for, a quarter of x alone. Staging all of it was what several rows cost beside one.
//
// Its sums have the order of GemvKernel's (gemv_kernel.h), so that a row has the same bits here and
// there. Of that kernel's sixteen workers a block stands for four: for those steps of 64 columns
// that they would take. Each of its warps multiplies two strips at once by all rows, for one
// worker, and has a ring of its own in shared memory that asynchronous copies fill, across the ends
// of strips: so warps need not wait for each other. Eight strips are a round. After it the four
// warps that have parts of a strip sum them up, and have the copy engine send the sums to the block
// that finishes the strip, two strips a block. It does while the weights of the next round are on
// their way. One barrier of the cluster a round says that sums have been read, and may be sent
// again.
#pragma once

#include <algorithm>
#include <type_traits>

#include "cuda/kernel_launch.h"
#include "cuda/kernel_tools.h"
#include "cuda/stream.h"
#include "layers/quantized_linear/cuda/gemv_finish.h"
#include "layers/quantized_linear/cuda/gemv_kinds.h"
#include "layers/quantized_linear/cuda/split_gemv_parts.h"

namespace oort::cuda::gemv {

struct SplitArgs {
  GemvProduct product;
  int buffers;  ///< of sums: 2, or 1 where there is one round
};

/// Adds the products of a step of two strips. What a strip that is not there gets, nobody reads.
template <typename K, int kTiles>
__device__ __forceinline__ void MultiplyPair(const RecordPlace& place, const WorkerX<K, false>& x,
                                             Sums<K, kTiles> (&sums)[kPairStrips]) {
  PackedRecord<K> records[kPairStrips];
#pragma unroll
  for (int i = 0; i < kPairStrips; ++i) records[i].Load(place, i * K::kRecordBytes);
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    // Of four tiles three are always needed.
    if (tile > 2 && tile * K::kTileTokens >= x.rows()) break;
    StepX<K> step;
    step.Load(x, tile, 0);
#pragma unroll
    for (int i = 0; i < kPairStrips; ++i) MultiplyRecord(records[i], step, sums[i][tile]);
  }
}

/// What a thread finishes of a round: one row of a strip for one row of x.
template <typename K, int kTiles>
class RoundFinisher {
 public:
  using Shape = SplitShape<K, kTiles>;
  __device__ __forceinline__ RoundFinisher(const GemvProduct& p, const StripRange& strips,
                                           int share, const SumsPlace<K, kTiles>& sums,
                                           const float* squares, Barrier squared)
      : p_(p),
        sums_(sums),
        squares_(squares),
        squared_(squared),
        end_(strips.end),
        own_(static_cast<int>(threadIdx.x) / Shape::kStripSums),
        token_(static_cast<int>(threadIdx.x) / kStripRows % Shape::kTokens),
        row_(static_cast<int>(threadIdx.x) % kStripRows),
        first_(strips.first + share * kPairStrips) {}

  /// Loads all that is known before the sums are, and says how many will come.
  __device__ __forceinline__ void Prepare(int round, const Turn& buffer) {
    const int pair = first_ + round * kRoundStrips, strip = pair + own_;
    if (threadIdx.x == 0 && pair < end_) {
      sums_.Full(buffer).ArriveAndExpect(kShares * Shape::kPairSums * 4);
    }
    y_ = nullptr;
    addend_ = bias_ = 0;
    has_ = own_ < kPairStrips && strip < end_;  // the same for all lanes of a warp
    if (!has_) return;
    const Target target(p_, strip, row_);
    if (p_.bias != nullptr) bias_ = p_.bias[strip * kStripRows + row_];
    if (target.y == nullptr || token_ >= p_.rows) return;
    y_ = target.y + static_cast<int64_t>(token_) * target.rows;
    if (target.addend != nullptr) {
      addend_ = target.addend[static_cast<int64_t>(token_) * target.rows];
    }
  }
  /// Writes the result of the round that was prepared, when its sums are there.
  __device__ __forceinline__ void Finish(const Turn& buffer) {
    if (!has_) return;
    const int known = min(token_, p_.rows - 1);
    if (norm_ < 0) {
      if (p_.gain != nullptr) squared_.Wait(0);
      norm_ = NormOf(p_, squares_ + known * PiecesOf(p_));
    }
    sums_.Full(buffer).Wait(buffer.parity);
    const float* from =
        sums_.Received(buffer, 0) + (own_ * Shape::kTokens + known) * kStripRows + row_;
    const float sum = (from[0] + from[Shape::kPairSums]) +
                      (from[2 * Shape::kPairSums] + from[3 * Shape::kPairSums]);
    const float result = FinishResult(p_, fmaf(sum, norm_, bias_), addend_);
    if (y_ != nullptr) *y_ = result;
  }

 private:
  const GemvProduct& p_;
  const SumsPlace<K, kTiles>& sums_;
  const float* const squares_;
  const Barrier squared_;
  const int end_, own_, token_, row_, first_;
  float norm_ = -1;  // not known yet
  bool has_ = false;
  float* y_ = nullptr;
  float addend_ = 0, bias_ = 0;
};

/// Sums up what the four warps of a pair of strips have, and sends it to the block that finishes
/// the pair.
template <typename K, int kTiles>
__device__ __forceinline__ void SendSums(const SumsPlace<K, kTiles>& place, const Turn& buffer,
                                         int share, const Sums<K, kTiles> (&sums)[kPairStrips]) {
  using Shape = SplitShape<K, kTiles>;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int pair = warp / kOwnWorkers, own = warp % kOwnWorkers;
  float* const mine = place.Parts(buffer, pair) + own * Shape::kPairSums + t * kStripRows + g;
#pragma unroll
  for (int strip = 0; strip < kPairStrips; ++strip) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      float* const to = mine + strip * Shape::kStripSums + tile * K::kTileTokens * kStripRows;
      to[0] = sums[strip][tile][0];
      to[8] = sums[strip][tile][1];
    }
  }
  asm volatile("bar.sync %0, %1;" ::"r"(1 + pair), "n"(kOwnWorkers * 32) : "memory");
  constexpr int kEach = Shape::kPairSums / kOwnWorkers;  // that a warp sums up and sends
  const float* const parts = place.Parts(buffer, pair) + own * kEach;
  float* const sent = place.Sent(buffer, pair) + own * kEach;
#pragma unroll
  for (int i = lane; i < kEach; i += 32) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kOwnWorkers; ++k) sum += parts[k * Shape::kPairSums + i];
    sent[i] = sum;
  }
  SendToBlock(sent, place.Received(buffer, share) + own * kEach, kEach * 4, pair,
              place.Full(buffer));
}

template <typename K, int kTiles>
__global__ void __launch_bounds__(kWorkers * 32, 1)
    SplitGemvKernel(const __grid_constant__ SplitArgs args) {
  static_assert(K::kPacked && K::kSplits == 2);
  using Shape = SplitShape<K, kTiles>;
  const GemvProduct& p = args.product;
  extern __shared__ __align__(128) unsigned char gemv_shared[];
  __shared__ __align__(8) uint64_t barriers[3];
  const Cluster cluster = Cluster::Here();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4;
  const int own = warp % kOwnWorkers, pair = warp / kOwnWorkers;
  const int share = static_cast<int>(cluster.rank), worker = share * kOwnWorkers + own;
  const SplitPlan<K, kTiles> plan{p.rows, PiecesOf(p), args.buffers};
  const StripRange strips(p.weights);
  const uint32_t base = Keep(SharedAddress(gemv_shared));
  const uint32_t ring = base + warp * Shape::kRingBytes;
  const SumsPlace<K, kTiles> sums_place(gemv_shared, plan, SharedAddress(barriers));
  const Barrier squared{SharedAddress(&barriers[2])};
  LaunchDependents();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) sums_place.Full({i, 0}).Init(1);
    squared.Init(1);
    squared.ArriveAndExpect(plan.squares_bytes());
    PublishToCluster();
  }
  cluster.ArriveRelaxed();  // nobody sends to a block that has not begun
  // Weights do not depend on the kernel before.
  PairFetcher<K, Shape::kPlaces> fetcher(p.weights, strips, pair, worker, ring);
#pragma unroll
  for (int i = 0; i < Shape::kPlaces - 1; ++i) fetcher.Fetch();
  const WarpPieces pieces(p, kShares, cluster.rank);
  const Eight gain = LoadGain(p, pieces);
  cluster.Wait();
  WaitForPredecessor();
  const StagedX staged{
      gemv_shared + plan.values(), reinterpret_cast<int*>(gemv_shared + plan.starts()),
      reinterpret_cast<SpanFactor*>(gemv_shared + plan.factors()), p.rows, Cluster()};
  Stage<K>(p, staged, pieces, gain, [&](uint32_t place, float square) {
    if (lane < kShares) SendNumber(base + plan.squares() + place * 4, square, lane, squared);
  });
  __syncthreads();

  const WorkerX<K, false> x(base + plan.values(), base + plan.starts(), base + plan.factors(),
                            p.rows, own);
  RoundFinisher<K, kTiles> finisher(p, strips, share, sums_place,
                                    reinterpret_cast<const float*>(gemv_shared + plan.squares()),
                                    squared);
  const RecordPlace first{ring + lane * 16, ring + K::kWeightBytes + g * (K::kScaleBytes / 8)};
  const int rounds = (strips.end - strips.first + kRoundStrips - 1) / kRoundStrips;
  uint32_t at = 0;  // in the ring
  Turn buffer, before;
  for (int round = 0; round < rounds; ++round) {
    const bool has = strips.first + round * kRoundStrips + pair * kPairStrips < strips.end;
    Sums<K, kTiles> sums[kPairStrips] = {};
    if (has) {
      WorkerX<K, false> here = x;
#pragma unroll 1
      for (int step = worker; step < p.weights.steps; step += kWorkers) {
        WaitForCopies<Shape::kPlaces - 2>();
        __syncwarp();  // all lanes see the step, and none reads the one whose place is filled next
        fetcher.Fetch();
        MultiplyPair<K, kTiles>({first.weights + at, first.scales + at}, here, sums);
        here.Skip(kOwnWorkers);
        at = at + Shape::kPlaceBytes == Shape::kRingBytes ? 0 : at + Shape::kPlaceBytes;
      }
    }
    if (round > 0) {
      cluster.Wait();
      finisher.Finish(before);
    }
    if (has) SendSums<K, kTiles>(sums_place, buffer, share, sums);
    if (round + 1 < rounds) cluster.ArriveRelaxed();
    finisher.Prepare(round, buffer);
    before = buffer;
    buffer.Next(args.buffers);
  }
  finisher.Finish(before);
  // What was sent, squares to a block that finished nothing too, must come while all are here.
  if (p.gain != nullptr) squared.Wait(0);
  cluster.ArriveRelaxed();
  cluster.Wait();
}

// ---- Launches ----------------------------------------------------------------------------------

template <typename K, int kTiles>
KernelLaunch SplitLaunch(int device, const GemvProduct& product, SplitArgs* args) {
  KernelLaunch launch;
  launch.kernel = reinterpret_cast<const void*>(&SplitGemvKernel<K, kTiles>);
  launch.threads = kWorkers * 32;
  launch.cluster = kShares;
  SplitPlan<K, kTiles> plan{product.rows, PiecesOf(product), 1};
  // More than that would come one after the other.
  const int strips = product.weights.strips;
  const int clusters = std::min(static_cast<int>(ClustersAtOnce(launch, device)), strips);
  if ((strips + clusters - 1) / clusters > kRoundStrips) plan.buffers = 2;
  launch.shared = static_cast<size_t>(plan.total());
  launch.blocks = dim3(static_cast<unsigned>(clusters) * kShares);
  *args = {product, plan.buffers};
  return launch;
}

/// Calls visit with the number of tiles for so many rows of x.
template <typename Visit>
auto WithSplitTiles(int rows, const Visit& visit) {
  if (rows <= 4) return visit(std::integral_constant<int, 1>());
  if (rows <= 8) return visit(std::integral_constant<int, 2>());
  return visit(std::integral_constant<int, 4>());
}

/// Calls visit with how the product is launched.
template <typename Weights, typename Visit>
auto WithSplitLaunch(int device, const GemvProduct& product, const Visit& visit) {
  return WithPackedKind<FewDigits<Weights>>(product.weights, [&]<typename K>(K) {
    return WithSplitTiles(product.rows, [&]<int kTiles>(std::integral_constant<int, kTiles>) {
      SplitArgs args;
      const KernelLaunch launch = SplitLaunch<K, kTiles>(device, product, &args);
      return visit(launch, args);
    });
  });
}

int64_t SplitSharedInt8(int device, const GemvProduct& product);
int64_t SplitSharedInt4(int device, const GemvProduct& product);
void LaunchSplitInt8(const Stream& stream, const GemvProduct& product, bool overlap);
void LaunchSplitInt4(const Stream& stream, const GemvProduct& product, bool overlap);

template <typename Weights>
int64_t SplitShared(int device, const GemvProduct& product) {
  return WithSplitLaunch<Weights>(
      device, product,
      [](const KernelLaunch& launch, const SplitArgs&) { return int64_t(launch.shared); });
}
template <typename Weights>
void LaunchSplit(const Stream& stream, const GemvProduct& product, bool overlap) {
  WithSplitLaunch<Weights>(stream.device(), product,
                           [&](KernelLaunch launch, const SplitArgs& args) {
                             launch.overlap = overlap;
                             PreferShared(launch.kernel);
                             Launch(stream, launch, &args);
                           });
}

}  // namespace oort::cuda::gemv
