// SPDX-License-Identifier: MIT
// Decode attention over a paged cache (Kwon et al. 2023), split along the tokens as in
// Flash-Decoding (Dao et al. 2023). A cluster of thread blocks shares the tokens of one row and one
// head of keys, each taking every fourth block of the cache. Within a thread block a team computes
// a token: as many lanes as the head has groups of eight elements. Each team keeps the running
// maximum, sum and result of an online softmax for each head of queries. At the end the teams of a
// warp are merged, each warp sends each thread block of the cluster its share, and that thread
// block merges what it received.
#include "layers/attention/paged/cuda/device_paged_attention.h"

#include <cooperative_groups.h>

#include "cuda/device.h"
#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"
#include "layers/attention/paged/cuda/attention_tokens.h"
#include "layers/attention/paged/kv_spread.h"
#include "oort/error.h"

namespace oort::cuda {
namespace {

using namespace attention;

constexpr int kMostGroup = 4;  // heads of queries that one block serves
constexpr int kCluster = 4;

/// Sizes of the shared arrays, in floats. A unit is eight elements of a head's result; block i of
/// the cluster has units i, i + parts, …
struct SharedLayout {
  int group, head_dim, parts;
  /// (warps of the cluster, own units, 8)
  __host__ __device__ int sums() const { return 0; }
  /// (warps of the cluster, group, 2): maximum and weight
  __host__ __device__ int weights() const { return sums() + warps() * own_units() * 8; }
  __host__ __device__ int total() const { return weights() + warps() * group * 2; }
  __host__ __device__ int warps() const { return parts * kWarps; }
  __host__ __device__ int units() const { return group * head_dim / 8; }
  __host__ __device__ int own_units() const { return (units() + parts - 1) / parts; }
};

// ---- Blocks of a cluster -----------------------------------------------------------------------

/// Once all thread blocks have arrived here, they may write into each other's shared memory.
template <bool kClustered>
__device__ __forceinline__ void ArriveEarly() {
#if __CUDA_ARCH__ >= 900
  if constexpr (kClustered) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
template <bool kClustered>
__device__ __forceinline__ void WaitEarly() {
#if __CUDA_ARCH__ >= 900
  if constexpr (kClustered) asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
}
/// After this, all thread blocks see what the others have written.
template <bool kClustered>
__device__ __forceinline__ void MeetAll() {
#if __CUDA_ARCH__ >= 900
  if constexpr (kClustered) {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    return;
  }
#endif
  __syncthreads();
}
template <bool kClustered>
__device__ __forceinline__ float* SharedOf(float* shared, int block) {
#if __CUDA_ARCH__ >= 900
  if constexpr (kClustered) {
    return cooperative_groups::this_cluster().map_shared_rank(shared, block);
  }
#endif
  return shared;
}

/// Gives every block of the cluster its units of this warp's results.
template <int kLanes, int kGroup, bool kClustered>
__device__ __forceinline__ void Distribute(const SharedLayout& layout, float* shared,
                                           Running (&running)[kGroup]) {
  const int lane = threadIdx.x % 32, per_head = layout.head_dim / 8;
  const int warp = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    if (g >= layout.group) break;
    Running& mine = running[g];
#pragma unroll
    for (int offset = kLanes; offset < 32; offset *= 2) mine.Merge(offset);
    if (lane < per_head) {
      const int unit = g * per_head + lane;
      float* to = SharedOf<kClustered>(shared, unit % layout.parts) + layout.sums() +
                  (warp * layout.own_units() + unit / layout.parts) * 8;
      *reinterpret_cast<float4*>(to) = {mine.sums[0], mine.sums[1], mine.sums[2], mine.sums[3]};
      *reinterpret_cast<float4*>(to + 4) = {mine.sums[4], mine.sums[5], mine.sums[6], mine.sums[7]};
    }
    if (lane < layout.parts) {
      float* to =
          SharedOf<kClustered>(shared, lane) + layout.weights() + (warp * layout.group + g) * 2;
      to[0] = mine.largest;
      to[1] = mine.weight;
    }
  }
}

/// Sums eight numbers over all lanes of a warp by a butterfly: in each round lanes exchange half of
/// their numbers, until one is left. Bits 16, 8 and 4 of a lane say whose sum it ends with.
__device__ __forceinline__ float AddAcross(float (&v)[8], int lane) {
#pragma unroll
  for (int half = 4, offset = 16; half > 0; half /= 2, offset /= 2) {
    const bool upper = (lane & offset) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float given = upper ? v[i] : v[i + half], kept = upper ? v[i + half] : v[i];
      v[i] = kept + __shfl_xor_sync(~0u, given, offset);
    }
  }
  float sum = v[0];
  sum += __shfl_xor_sync(~0u, sum, 2);
  return sum + __shfl_xor_sync(~0u, sum, 1);
}

/// Maps a float to an integer of the same order, by inverting the bits of negative numbers.
__device__ __forceinline__ float LargestOfWarp(float v) {
  const auto turn = [](int bits) { return bits < 0 ? bits ^ 0x7fffffff : bits; };
  return __int_as_float(turn(__reduce_max_sync(~0u, turn(__float_as_int(v)))));
}

/// Merges what all warps of the cluster sent to this thread block. Each lane takes what one warp
/// sent.
template <int kGroup, bool kClustered>
__device__ __forceinline__ void Finish(const SharedLayout& layout, const float* shared,
                                       float* out) {
  const int lane = threadIdx.x % 32, block = kClustered ? static_cast<int>(blockIdx.x) : 0;
  const bool has = lane < layout.warps();
  for (int own = static_cast<int>(threadIdx.x) / 32;; own += kWarps) {
    const int unit = own * layout.parts + block;
    if (unit >= layout.units()) return;
    const int g = kGroup == 1 ? 0 : unit * 8 / layout.head_dim;
    const float* weights = shared + layout.weights() + ((has ? lane : 0) * layout.group + g) * 2;
    const float4* from = reinterpret_cast<const float4*>(
        shared + layout.sums() + ((has ? lane : 0) * layout.own_units() + own) * 8);
    const float4 low = from[0], high = from[1];
    const float largest = weights[0];
    const float most = LargestOfWarp(largest);
    const float factor = has ? __expf(largest - most) : 0.0f;
    float weight = weights[1] * factor;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) weight += __shfl_xor_sync(~0u, weight, offset);
    float v[8] = {low.x * factor,  low.y * factor,  low.z * factor,  low.w * factor,
                  high.x * factor, high.y * factor, high.z * factor, high.w * factor};
    const float sum = AddAcross(v, lane);
    if (lane % 4 == 0) out[unit * 8 + lane / 4] = __fdividef(sum, weight);
  }
}

/// Grid: parts (one cluster), heads of keys times pieces of their heads of queries, rows.
template <typename Element, int kLanes, int kGroup, bool kNewest, bool kClustered>
__device__ __forceinline__ void AttendBody(const AttentionArgs& a) {
  extern __shared__ __align__(16) float attention_shared[];
  float* shared = attention_shared;
  constexpr int kParts = kClustered ? kCluster : 1;
  const int row = blockIdx.z;
  int head = blockIdx.y, piece = 0, first_query = head, group = 1;
  if constexpr (kGroup > 1) {
    const int pieces = (a.group + kGroup - 1) / kGroup;
    if (pieces > 1) head = blockIdx.y / pieces, piece = blockIdx.y % pieces;
    first_query = head * a.group + piece * kGroup;
    group = min(kGroup, a.group - piece * kGroup);
  }
  const SharedLayout layout{group, a.head_dim, kParts};
  LaunchDependents();
  ArriveEarly<kClustered>();
  // Positions, block tables and the cache of earlier steps may be read before the preceding kernel
  // of this step has ended, because it does not write them.
  const View<Element, kLanes, kParts> view(a, row, head);
  constexpr int kAhead = Tokens<Element, kLanes, kParts>::kAhead;
  const int d = threadIdx.x % kLanes * 8, but = kNewest ? view.newest : -1;
  const bool has = d < a.head_dim;
  int n = a.window > 0 ? view.FirstNumber() : 0;
  Tokens<Element, kLanes, kParts> tokens, next;
  tokens.Find(view, n);
  if (!kNewest) WaitForPredecessor();
  tokens.Load(view, n, but, has);
  const float* angles = nullptr;
  Newest<Element, kLanes, kParts> last(view);
  if (kNewest) {
    if (a.angles != nullptr) angles = a.angles + static_cast<int64_t>(row) * 2 * a.pairs;
    WaitForPredecessor();
    if (last.n >= 0 && has) last.Load(a, angles, row, head, d);
  }
  Eight query[kGroup];
  const float* queries = a.query + (static_cast<int64_t>(row) * a.heads + first_query) * a.head_dim;
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    TurnedEight turned;
    if (g < layout.group && has) {
      turned.Load(queries + g * a.head_dim, d, angles, a.pairs, a.interleaved);
    }
    query[g] = turned.Get();
  }
  Running running[kGroup];
  // The next tokens are loaded while these are added.
  for (; view.FirstToken(n) <= view.newest; n += kAhead) {
    if (view.FirstToken(n + kAhead) <= view.newest) {
      next.Find(view, n + kAhead);
      next.Load(view, n + kAhead, but, has);
    }
    if constexpr (kNewest) {
      if (last.n >= n && last.n < n + kAhead && has) last.Join(view, n, piece == 0, tokens);
    }
    AddTokens<Element, kLanes, kParts, kGroup>(a, view, tokens, n, query, running);
    tokens = next;
  }
  WaitEarly<kClustered>();
  Distribute<kLanes, kGroup, kClustered>(layout, shared, running);
  MeetAll<kClustered>();
  Finish<kGroup, kClustered>(
      layout, shared, a.out + (static_cast<int64_t>(row) * a.heads + first_query) * a.head_dim);
}

template <typename Element, int kLanes, int kGroup, bool kNewest>
__global__ void __launch_bounds__(kThreads, kGroup == 1 ? 2 : 1)
    AttendAlone(const __grid_constant__ AttentionArgs args) {
  AttendBody<Element, kLanes, kGroup, kNewest, false>(args);
}

template <typename Element, int kLanes, int kGroup, bool kNewest>
__global__ void __launch_bounds__(kThreads, kGroup == 1 ? 2 : 1)
#if __CUDA_ARCH__ >= 900
    __cluster_dims__(kCluster, 1, 1)
#endif
        AttendTogether(const __grid_constant__ AttentionArgs args) {
  AttendBody<Element, kLanes, kGroup, kNewest, true>(args);
}

/// Grid: rows, heads of queries and of keys.
template <typename Element>
__global__ void __launch_bounds__(128)
    WriteKernel(const __grid_constant__ AttentionArgs a, float* turned) {
  LaunchDependents();
  WaitForPredecessor();
  const int row = blockIdx.x, dim = a.head_dim;
  const float* angles =
      a.angles != nullptr ? a.angles + static_cast<int64_t>(row) * 2 * a.pairs : nullptr;
  const int query_elements = a.heads * dim, all = query_elements + a.kv_heads * dim;
  const int newest = a.sequences.positions[row];
  const int32_t block = a.sequences.blocks[a.sequences.first_blocks[row] + newest / kKvBlock];
  for (int i = threadIdx.x + blockIdx.y * 128; i < all; i += 128 * gridDim.y) {
    if (i < query_elements) {
      const float* query = a.query + static_cast<int64_t>(row) * query_elements + i / dim * dim;
      turned[static_cast<int64_t>(row) * query_elements + i] =
          Turned(query, i % dim, angles, a.pairs, a.interleaved);
      continue;
    }
    const int j = i - query_elements, head = j / dim, d = j % dim;
    const int64_t from = (static_cast<int64_t>(row) * a.kv_heads + head) * dim;
    const int64_t at =
        block * a.kv.block_stride + head * a.kv.head_stride + newest % kKvBlock * dim + d;
    Store(static_cast<Element*>(a.kv.keys) + at,
          Turned(a.key + from, d, angles, a.pairs, a.interleaved));
    Store(static_cast<Element*>(a.kv.values) + at, a.value[from + d]);
  }
}

constexpr int kWriteWarps = 4;

/// What a lane has of a head that a warp works on: elements 32 apart, of 256 at most.
struct LaneOfHead {
  float v[8];

  template <typename ElementOf>
  __device__ __forceinline__ LaneOfHead(const ElementOf& element_of, int dim) {
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = At(i) < dim ? element_of(At(i)) : 0;
  }
  static __device__ __forceinline__ int At(int i) {
    return static_cast<int>(threadIdx.x) % 32 + 32 * i;
  }
  template <typename Put>
  __device__ __forceinline__ void Each(int dim, const Put& put) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (At(i) < dim) put(At(i), v[i]);
    }
  }

  /// Multiplies each `width` elements by Hadamard's matrix: sums in the order of the CPU's
  /// (kv_spread.simd.cpp).
  __device__ __forceinline__ void Spread(int width) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2) {
      if (apart >= width) break;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float other = __shfl_xor_sync(~0u, v[i], apart);
        v[i] = (lane & apart) != 0 ? other - v[i] : v[i] + other;
      }
    }
#pragma unroll
    for (int apart = 1; apart < 8; apart *= 2) {
      if (32 * apart >= width) break;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if ((i & apart) != 0) continue;
        const float first = v[i], second = v[i + apart];
        v[i] = first + second;
        v[i + apart] = first - second;
      }
    }
    const float factor = 1.0f / sqrtf(static_cast<float>(width));
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] *= factor;
  }
};

/// Quantizes one head of a token.
__device__ __forceinline__ void WriteScaled(const LaneOfHead& head, int dim, int8_t* to,
                                            float* scale) {
  float most = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) most = fmaxf(most, fabsf(head.v[i]));
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    most = fmaxf(most, __shfl_xor_sync(~0u, most, offset));
  }
  const bool usable = most > 1e-30f && most < 3.4e38f;  // as on the CPU
  const float inverse = usable ? 127.0f / most : 0.0f;
  if (threadIdx.x % 32 == 0) *scale = usable ? most / 127.0f : 0.0f;
  head.Each(dim, [&](int d, float x) {
    to[d] = static_cast<int8_t>(fmaxf(rintf(x * inverse), -127.0f));
  });
}

/// WriteKernel for int8: a warp takes a head at a time, of queries and then of keys and values.
/// `width`: of KvSpreadWidth.
__global__ void __launch_bounds__(kWriteWarps * 32)
    WriteScaledKernel(const __grid_constant__ AttentionArgs a, float* turned, int width) {
  LaunchDependents();
  WaitForPredecessor();
  const int row = blockIdx.x, dim = a.head_dim;
  const float* angles =
      a.angles != nullptr ? a.angles + static_cast<int64_t>(row) * 2 * a.pairs : nullptr;
  const int newest = a.sequences.positions[row], slot = newest % static_cast<int>(kKvBlock);
  const int32_t block = a.sequences.blocks[a.sequences.first_blocks[row] + newest / kKvBlock];
  const int first = static_cast<int>(blockIdx.y) * kWriteWarps + static_cast<int>(threadIdx.x) / 32;
  const auto spread = [&](const float* head, const float* centre) {
    LaneOfHead lane(
        [&](int d) {
          const float turned_element = Turned(head, d, angles, a.pairs, a.interleaved);
          return centre == nullptr ? turned_element : turned_element - centre[d];
        },
        dim);
    lane.Spread(width);
    return lane;
  };
  for (int h = first; h < a.heads + a.kv_heads; h += kWriteWarps * static_cast<int>(gridDim.y)) {
    if (h < a.heads) {
      const int64_t at = (static_cast<int64_t>(row) * a.heads + h) * dim;
      spread(a.query + at, nullptr).Each(dim, [&](int d, float x) { turned[at + d] = x; });
      continue;
    }
    const int head = h - a.heads;
    const int64_t from = (static_cast<int64_t>(row) * a.kv_heads + head) * dim;
    const int64_t base = block * a.kv.block_stride + head * a.kv.head_stride;
    int8_t* const keys = static_cast<int8_t*>(a.kv.keys) + base;
    int8_t* const values = static_cast<int8_t*>(a.kv.values) + base;
    const int scales = static_cast<int>(kKvBlock) * dim;
    const float* const centre = a.key_centre == nullptr ? nullptr : a.key_centre + head * dim;
    WriteScaled(spread(a.key + from, centre), dim, keys + slot * dim,
                reinterpret_cast<float*>(keys + scales) + slot);
    WriteScaled(LaneOfHead([&](int d) { return a.value[from + d]; }, dim), dim, values + slot * dim,
                reinterpret_cast<float*>(values + scales) + slot);
  }
}

/// Whether one thread block for each row and head of keys keeps all multiprocessors busy.
bool FillsGpu(const Stream& stream, const AttentionArgs& args, unsigned pieces) {
  constexpr int64_t kBlocksEach = 4;  // two at a time, twice
  return int64_t{args.rows} * args.kv_heads * pieces >=
         kBlocksEach * MultiprocessorCount(stream.device());
}

template <typename Element, int kLanes, int kGroup, bool kNewest>
void LaunchAttention(const Stream& stream, const AttentionArgs& args, bool overlap) {
  const int per_head = args.heads / args.kv_heads;
  AttentionArgs call = args;
  call.group = per_head;
  const unsigned pieces = static_cast<unsigned>((per_head + kGroup - 1) / kGroup);
  // Of few sequences the split along the tokens is fixed. Rows of a prompt fill the GPU without.
  const bool splits =
      kNewest ? args.rows <= kInvariantRows || !FillsGpu(stream, args, pieces) : args.rows < 64;
  const bool clustered = splits && ComputeMajor(stream.device()) >= 9;
  const SharedLayout layout{std::min(kGroup, per_head), args.head_dim, clustered ? kCluster : 1};
  Grid grid{dim3(clustered ? kCluster : 1, static_cast<unsigned>(args.kv_heads) * pieces,
                 static_cast<unsigned>(args.rows)),
            dim3(kThreads), static_cast<size_t>(layout.total()) * sizeof(float), overlap};
  const auto kernel = clustered ? AttendTogether<Element, kLanes, kGroup, kNewest>
                                : AttendAlone<Element, kLanes, kGroup, kNewest>;
  PreferShared(kernel);  // as the products before and behind it
  Launch(stream, grid, kernel, call);
}

template <typename Element, int kLanes, bool kNewest>
void LaunchGroups(const Stream& stream, const AttentionArgs& args, bool overlap) {
  const int per_head = args.heads / args.kv_heads;
  if (per_head == 1) return LaunchAttention<Element, kLanes, 1, kNewest>(stream, args, overlap);
  LaunchAttention<Element, kLanes, kMostGroup, kNewest>(stream, args, overlap);
}

template <typename Element, bool kNewest>
void LaunchLanes(const Stream& stream, const AttentionArgs& args, bool overlap) {
  if (args.head_dim <= 64) return LaunchGroups<Element, 8, kNewest>(stream, args, overlap);
  if (args.head_dim <= 128) return LaunchGroups<Element, 16, kNewest>(stream, args, overlap);
  LaunchGroups<Element, 32, kNewest>(stream, args, overlap);
}

template <bool kNewest>
void LaunchElements(const Stream& stream, const AttentionArgs& args, bool overlap) {
  switch (args.kv.type) {
    case KvType::kF32: return LaunchLanes<float, kNewest>(stream, args, overlap);
    case KvType::kF16: return LaunchLanes<__half, kNewest>(stream, args, overlap);
    case KvType::kInt8:
      if constexpr (!kNewest) LaunchLanes<int8_t, kNewest>(stream, args, overlap);
      return;
    case KvType::kFp8: return LaunchLanes<Fp8, kNewest>(stream, args, overlap);
    case KvType::kK6V4: return;  // refused before
  }
}

}  // namespace

bool CanAttend(int heads, int kv_heads, int head_dim) {
  return head_dim % 8 == 0 && head_dim <= 256 && heads % kv_heads == 0;
}

void AttendNewest(const Stream& stream, const AttentionArgs& args, bool overlap) {
  LaunchElements<true>(stream, args, overlap);
}

void AttendWritten(const Stream& stream, const AttentionArgs& args, bool overlap) {
  LaunchElements<false>(stream, args, overlap);
}

void WriteKeysAndValues(const Stream& stream, const AttentionArgs& args, float* turned,
                        bool overlap) {
  if (args.kv.type == KvType::kInt8) {
    const unsigned heads = static_cast<unsigned>(args.heads + args.kv_heads);
    return Launch(stream,
                  {dim3(static_cast<unsigned>(args.rows), BlocksFor(heads, kWriteWarps, 4)),
                   dim3(kWriteWarps * 32), 0, overlap},
                  WriteScaledKernel, args, turned,
                  static_cast<int>(KvSpreadWidth(args.kv.type, args.head_dim)));
  }
  const int64_t elements = static_cast<int64_t>(args.heads + args.kv_heads) * args.head_dim;
  const Grid grid{dim3(static_cast<unsigned>(args.rows), BlocksFor(elements, 128, 4)), dim3(128), 0,
                  overlap};
  const auto kernel = args.kv.type == KvType::kF32   ? WriteKernel<float>
                      : args.kv.type == KvType::kFp8 ? WriteKernel<Fp8>
                                                     : WriteKernel<__half>;
  Launch(stream, grid, kernel, args, turned);
}

}  // namespace oort::cuda
