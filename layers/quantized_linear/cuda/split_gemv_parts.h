// SPDX-License-Identifier: MIT
// Where the blocks of a split GEMV have what, how they fetch weights, and how they send each other
// sums. For split_gemv_kernel.h alone.
#pragma once

#include "layers/quantized_linear/cuda/gemv_multiply.h"

namespace oort::cuda::gemv {

constexpr int kShares = 4;                       // blocks of a cluster
constexpr int kOwnWorkers = kWorkers / kShares;  // whose steps are a block's
constexpr int kPairStrips = 2;                   // strips of a warp in a round
constexpr int kPairs = kWorkers / kOwnWorkers;   // of strips in a round
constexpr int kRoundStrips = kPairs * kPairStrips;
static_assert(kPairs == kShares, "block i finishes the strips of pair i");
static_assert(kOwnWorkers * kStepColumns == kPieceColumns, "a block stages what it multiplies");

template <typename K, int kTiles>
struct SplitShape {
  static constexpr int kTokens = kTiles * K::kTileTokens;
  /// A place in the ring of a warp has a step of both strips.
  static constexpr int kPlaceBytes = kPairStrips * K::kRecordBytes;
  /// Enough bytes on their way; of many rows, x takes the space.
  static constexpr int kRingsBytes = (kTiles > 2 ? 56 : 104) << 10;
  static constexpr int kFitting = kRingsBytes / (kWorkers * kPlaceBytes);
  static constexpr int kPlaces = kFitting < 2 ? 2 : kFitting > 6 ? 6 : kFitting;
  static constexpr int kRingBytes = kPlaces * kPlaceBytes;
  /// Sums of a strip and of a pair.
  static constexpr int kStripSums = kTokens * kStripRows, kPairSums = kPairStrips * kStripSums;
};

/// Where things lie in dynamic shared memory.
template <typename K, int kTiles>
struct SplitPlan {
  using Shape = SplitShape<K, kTiles>;
  int rows, pieces;  ///< of x, and of a row
  int buffers;       ///< of sums
  __host__ __device__ int parts() const { return kWorkers * Shape::kRingBytes; }
  /// (buffers, pairs, own workers, sums of a pair)
  __host__ __device__ int sent() const {
    return parts() + buffers * kWorkers * Shape::kPairSums * 4;
  }
  /// (buffers, pairs, sums of a pair)
  __host__ __device__ int received() const {
    return sent() + buffers * kPairs * Shape::kPairSums * 4;
  }
  /// (buffers, blocks, sums of a pair)
  __host__ __device__ int values() const {
    return received() + buffers * kShares * Shape::kPairSums * 4;
  }
  /// Those of x are laid out as in StagedX, of the steps of this block alone.
  __host__ __device__ int starts() const {
    return values() + steps() * rows * K::kSplits * K::kStepBytes;
  }
  __host__ __device__ int factors() const { return starts() + spans() * 8; }
  /// (rows, pieces), all of them
  __host__ __device__ int squares() const {
    return factors() + spans() * static_cast<int>(sizeof(SpanFactor));
  }
  __host__ __device__ int squares_bytes() const { return pieces * rows * 4; }
  __host__ __device__ int total() const { return squares() + squares_bytes(); }

 private:
  __host__ __device__ int steps() const { return (pieces + kShares - 1) / kShares * kOwnWorkers; }
  __host__ __device__ int spans() const {
    return steps() * K::kSpansPerStep * rows * K::kPairsPerRow;
  }
};

/// The buffers through which sums go, by turns.
template <typename K, int kTiles>
struct SumsPlace {
  using Shape = SplitShape<K, kTiles>;
  float *parts, *sent, *received;
  uint32_t full;  ///< barriers: a buffer has received its sums

  __device__ __forceinline__ SumsPlace(unsigned char* shared, const SplitPlan<K, kTiles>& plan,
                                       uint32_t barriers)
      : parts(reinterpret_cast<float*>(shared + plan.parts())),
        sent(reinterpret_cast<float*>(shared + plan.sent())),
        received(reinterpret_cast<float*>(shared + plan.received())),
        full(barriers) {}
  __device__ __forceinline__ float* Parts(const Turn& buffer, int pair) const {
    return parts + (buffer.place * kPairs + pair) * kOwnWorkers * Shape::kPairSums;
  }
  __device__ __forceinline__ float* Sent(const Turn& buffer, int pair) const {
    return sent + (buffer.place * kPairs + pair) * Shape::kPairSums;
  }
  __device__ __forceinline__ float* Received(const Turn& buffer, int share) const {
    return received + (buffer.place * kShares + share) * Shape::kPairSums;
  }
  __device__ __forceinline__ Barrier Full(const Turn& buffer) const {
    return {full + buffer.place * 8};
  }
};

/// Strips of a cluster.
struct StripRange {
  int first, end;
  __device__ __forceinline__ explicit StripRange(const DeviceWeights& w) {
    const int64_t clusters = gridDim.x / kShares, here = blockIdx.x / kShares;
    first = static_cast<int>(w.strips * here / clusters);
    end = static_cast<int>(w.strips * (here + 1) / clusters);
  }
};

/// Fetches the steps of a warp, of all its strips one behind the other.
template <typename K, int kPlaces>
class PairFetcher {
 public:
  __device__ __forceinline__ PairFetcher(const DeviceWeights& w, const StripRange& strips, int pair,
                                         int worker, uint32_t ring)
      : data_(static_cast<const char*>(w.data)),
        steps_(w.steps),
        worker_(worker),
        strip_(strips.first + pair * kPairStrips),
        end_(strips.end),
        ring_(ring + threadIdx.x % 32 * 16),
        to_(ring_) {
    if (worker_ >= steps_) end_ = strip_;  // nothing at all
    Restart();
  }

  /// Begins to fetch the next step, where there is one.
  __device__ __forceinline__ void Fetch() {
    if (strip_ < end_) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        if (CopyIs(i)) CopyAsync16(to_ + i * 512, from_ + i * 512 + Gap(i));
      }
      step_ += kWorkers;
      from_ += kWorkers * K::kRecordBytes;
      if (step_ >= steps_) {
        strip_ += kRoundStrips;
        Restart();
      }
    }
    CommitCopies();
    to_ = to_ == ring_ + (kPlaces - 1) * kPlaceBytes ? ring_ : to_ + kPlaceBytes;
  }

 private:
  static constexpr int kPlaceBytes = kPairStrips * K::kRecordBytes;
  /// Of a warp, 16 bytes a lane. Lanes of one copy may be in either record.
  static constexpr int kPieces = kPlaceBytes / 16, kCopies = (kPieces + 31) / 32;

  /// Whether this lane has a part in a copy; the second record of a last strip is not there.
  __device__ __forceinline__ bool CopyIs(int i) const {
    const int piece = i * 32 + static_cast<int>(threadIdx.x) % 32;
    return i * 32 + 32 <= kPieces / 2 || piece < present_;
  }
  __device__ __forceinline__ void Restart() {
    step_ = worker_;
    from_ = data_ + (static_cast<int64_t>(strip_) * steps_ + worker_) * K::kRecordBytes +
            threadIdx.x % 32 * 16;
    present_ = strip_ + 1 < end_ ? kPieces : kPieces / 2;
  }
  /// What lies between the records of both strips, for a lane that copies of the second.
  __device__ __forceinline__ int64_t Gap(int i) const {
    if ((i + 1) * 32 <= kPieces / 2) return 0;
    const int64_t apart = static_cast<int64_t>(steps_ - 1) * K::kRecordBytes;
    if (i * 32 >= kPieces / 2) return apart;
    return i * 32 + static_cast<int>(threadIdx.x) % 32 >= kPieces / 2 ? apart : 0;
  }

  const char* data_;
  const char* from_;  // what this lane copies of the next step
  int steps_, worker_, strip_, end_, step_, present_;
  uint32_t ring_, to_;
};

// ---- Messages ----------------------------------------------------------------------------------

/// Makes barriers that this thread has initialized known to the cluster, before it arrives at the
/// cluster's own barrier.
__device__ __forceinline__ void PublishToCluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/// Where a block of the cluster has what this one has at an address of its shared memory.
__device__ __forceinline__ uint32_t AddressInBlock(uint32_t block, uint32_t address) {
  uint32_t there = address;
#if __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
#endif
  return there;
}

/// Sends a number to a place in the shared memory of a block, whose barrier expects four bytes.
__device__ __forceinline__ void SendNumber([[maybe_unused]] uint32_t to,
                                           [[maybe_unused]] float number,
                                           [[maybe_unused]] uint32_t block,
                                           [[maybe_unused]] Barrier barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(
          AddressInBlock(block, to)),
      "r"(__float_as_uint(number)), "r"(AddressInBlock(block, barrier.at))
      : "memory");
#endif
}

/// Has the copy engine send what the lanes of this warp have written to shared memory, in whole 16
/// bytes, to a place in that of a block, whose barrier expects them.
__device__ __forceinline__ void SendToBlock([[maybe_unused]] const float* from,
                                            [[maybe_unused]] float* to, [[maybe_unused]] int bytes,
                                            [[maybe_unused]] uint32_t block,
                                            [[maybe_unused]] Barrier barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();
  if (threadIdx.x % 32 != 0) return;
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(AddressInBlock(block, SharedAddress(to))),
      "r"(SharedAddress(from)), "r"(bytes), "r"(AddressInBlock(block, barrier.at))
      : "memory");
#endif
}

}  // namespace oort::cuda::gemv
