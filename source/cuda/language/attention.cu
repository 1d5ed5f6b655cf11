// SPDX-License-Identifier: MIT
// A cluster of blocks shares the tokens that one row and one head of keys look at. Inside, as many
// lanes as a head has groups of eight elements do a token; every such team keeps a running maximum,
// sum and result for each head of queries. In the end the teams of a warp are merged, every warp
// gives each block of the cluster its share, and that block merges what it got.
#include "cuda/language/attention.h"

#include <cooperative_groups.h>
#include <cuda_fp16.h>

#include "cuda/device.h"
#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"
#include "oort/error.h"

namespace oort::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;
constexpr int kMostGroup = 4;  // heads of queries that one block serves
constexpr int kCluster = 4;
constexpr float kNone = -1e30f;  // a maximum of nothing: finite, so that differences are no NaN

struct Eight {
  float v[8];
};

/// Eight neighbouring elements of the cache as they lie there.
template <typename Element>
struct Packed;
template <>
struct Packed<__half> {
  static constexpr int kAhead = 4;  // tokens whose keys and values a team has on their way
  uint4 bits = {0, 0, 0, 0};
  __device__ __forceinline__ void Load(const __half* from) {
    bits = *reinterpret_cast<const uint4*>(from);
  }
  __device__ __forceinline__ Eight Widen() const {
    const __half2* pairs = reinterpret_cast<const __half2*>(&bits);
    Eight out;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = __half22float2(pairs[i]);
      out.v[2 * i] = pair.x;
      out.v[2 * i + 1] = pair.y;
    }
    return out;
  }
};
template <>
struct Packed<float> {
  static constexpr int kAhead = 2;
  float4 low = {0, 0, 0, 0}, high = {0, 0, 0, 0};
  __device__ __forceinline__ void Load(const float* from) {
    low = *reinterpret_cast<const float4*>(from);
    high = *reinterpret_cast<const float4*>(from + 4);
  }
  __device__ __forceinline__ Eight Widen() const {
    return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  }
};

__device__ __forceinline__ Eight LoadEight(const float* from) {
  Packed<float> packed;
  packed.Load(from);
  return packed.Widen();
}

__device__ __forceinline__ void Store(__half* to, float v) { *to = __float2half(v); }
__device__ __forceinline__ void Store(float* to, float v) { *to = v; }

/// Element d of a head after it has turned.
__device__ __forceinline__ float Turned(const float* head, int d, const float* angles, int pairs,
                                        bool interleaved) {
  if (angles == nullptr || d >= 2 * pairs) return head[d];
  const int pair = interleaved ? d / 2 : d % pairs;
  const bool second = interleaved ? d % 2 != 0 : d >= pairs;
  const float other = head[interleaved ? d ^ 1 : second ? d - pairs : d + pairs];
  const float cosine = angles[pair], sine = angles[pairs + pair];
  return second ? head[d] * cosine + other * sine : head[d] * cosine - other * sine;
}

/// Running results of one team for one head of queries.
struct Running {
  float largest = kNone, weight = 0;
  float sums[8] = {};

  /// A larger maximum.
  __device__ __forceinline__ void Raise(float most) {
    const float shrink = __expf(largest - most);
    largest = most;
    weight *= shrink;
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i] *= shrink;
  }
  __device__ __forceinline__ void Add(float p, const Eight& value) {
    weight += p;
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i] = fmaf(p, value.v[i], sums[i]);
  }

  /// With what the lane `offset` away has.
  __device__ __forceinline__ void Merge(int offset) {
    const float most = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
    const float shrink = __expf(largest - most);
    largest = most;
    weight *= shrink;
    weight += __shfl_xor_sync(~0u, weight, offset);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sums[i] *= shrink;
      sums[i] += __shfl_xor_sync(~0u, sums[i], offset);
    }
  }
};

/// Sizes of the shared arrays, in floats; queries come first. A unit is eight elements of a head's
/// result; block i of the cluster has units i, i + parts, …
struct SharedLayout {
  int group, head_dim, parts;
  __host__ __device__ int new_key() const { return group * head_dim; }
  __host__ __device__ int new_value() const { return new_key() + head_dim; }
  /// (warps of the cluster, own units, 8)
  __host__ __device__ int sums() const { return new_value() + head_dim; }
  /// (warps of the cluster, group, 2): maximum and weight
  __host__ __device__ int weights() const { return sums() + warps() * own_units() * 8; }
  __host__ __device__ int total() const { return weights() + warps() * group * 2; }
  __host__ __device__ int warps() const { return parts * kWarps; }
  __host__ __device__ int units() const { return group * head_dim / 8; }
  __host__ __device__ int own_units() const { return (units() + parts - 1) / parts; }
};

/// Where this block's tokens begin and end.
struct Range {
  int begin, end;
};

__device__ __forceinline__ Range RangeOf(int newest, int window, int part, int parts) {
  const int first = window > 0 ? max(0, newest + 1 - window) : 0;
  const int count = newest + 1 - first;
  const int each = ((count + parts - 1) / parts + 15) / 16 * 16;
  const int begin = first + part * each;
  return {min(begin, newest + 1), min(begin + each, newest + 1)};
}

/// The tokens of one team: base + team, + teams, … of the block's range.
template <typename Element, int kLanes>
struct Team {
  static constexpr int kTeams = kThreads / kLanes, kAhead = Packed<Element>::kAhead;
  static constexpr int kBatch = kTeams * kAhead;  // tokens of the block that come at a time
  Packed<Element> keys[kAhead], values[kAhead];
  int team = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;

  __device__ __forceinline__ int Token(int base, int i) const { return base + i * kTeams + team; }
  /// Begins to load tokens from `base` on; `skip` (the newest) lies elsewhere.
  __device__ __forceinline__ void Load(const AttentionArgs& a, const int32_t* table, int head,
                                       int base, int end, int skip) {
    if (lane * 8 >= a.head_dim) return;
    const int64_t offset = head * a.kv.head_stride + lane * 8;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int token = Token(base, i);
      if (token >= end || token == skip) continue;
      const int64_t at =
          table[token / kKvBlock] * a.kv.block_stride + token % kKvBlock * a.head_dim + offset;
      keys[i].Load(static_cast<const Element*>(a.kv.keys) + at);
      values[i].Load(static_cast<const Element*>(a.kv.values) + at);
    }
  }
};

template <typename Element, int kLanes, int kGroup, bool kNewest>
__device__ __forceinline__ void AttendTokens(const AttentionArgs& a, const SharedLayout& layout,
                                             const float* shared, const Range& range, int newest,
                                             int head, const int32_t* table,
                                             Team<Element, kLanes>& team,
                                             Running (&running)[kGroup]) {
  const int dim = a.head_dim, lane = team.lane;
  const bool active = lane * 8 < dim;
  Eight query[kGroup];
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    query[g] = active && g < layout.group ? LoadEight(shared + g * dim + lane * 8) : Eight{};
  }
  // All lanes of a warp go round together; teams without a token do not count. The next tokens are
  // on their way while these are added.
  // The newest token lies in the shared memory of the block that has it in its range, and nowhere
  // else.
  const int here = kNewest && newest < range.end ? newest : -1;
  Team<Element, kLanes> next;
  for (int base = range.begin; base < range.end; base += team.kBatch) {
    if (base + team.kBatch < range.end) {
      next.Load(a, table, head, base + team.kBatch, range.end, here);
    }
    // All scores first: none of them waits for another.
    constexpr int kAhead = Team<Element, kLanes>::kAhead;
    float scores[kAhead][kGroup];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const bool is_new = kNewest && active && team.Token(base, i) == here;
      const Eight key =
          is_new ? LoadEight(shared + layout.new_key() + lane * 8) : team.keys[i].Widen();
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
        float score = 0;
#pragma unroll
        for (int d = 0; d < 8; ++d) score = fmaf(query[g].v[d], key.v[d], score);
        scores[i][g] = score;
      }
    }
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
#pragma unroll
        for (int g = 0; g < kGroup; ++g) {
          scores[i][g] += __shfl_xor_sync(~0u, scores[i][g], offset);
        }
      }
    }
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      float most = running[g].largest;
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        float score = scores[i][g] * a.scale;
        if (a.softcap > 0) score = a.softcap * tanhf(score / a.softcap);
        scores[i][g] = team.Token(base, i) < range.end ? score : 2 * kNone;
        most = fmaxf(most, scores[i][g]);
      }
      running[g].Raise(most);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const bool is_new = kNewest && active && team.Token(base, i) == here;
      const Eight value =
          is_new ? LoadEight(shared + layout.new_value() + lane * 8) : team.values[i].Widen();
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
        running[g].Add(__expf(scores[i][g] - running[g].largest), value);
      }
    }
    team = next;
  }
}

/// Queries and, where this block has the newest token, its key and value, turned, in shared memory.
/// `place`: of the newest token in the cache. All loads are on their way before the first is
/// needed.
template <typename Element, int kLanes, int kGroup, bool kNewest>
__device__ __forceinline__ void StageHeads(const AttentionArgs& a, const SharedLayout& layout,
                                           float* shared, bool has_newest, int64_t place, int head,
                                           int first_query, int row) {
  const int dim = a.head_dim, queries = layout.group * dim;
  const int count = kNewest && has_newest ? queries + 2 * dim : queries;
  const float* angles =
      kNewest && a.angles != nullptr ? a.angles + static_cast<int64_t>(row) * 2 * a.pairs : nullptr;
  const float* query = a.query + (static_cast<int64_t>(row) * a.heads + first_query) * dim;
  const int64_t from = (static_cast<int64_t>(row) * a.kv_heads + head) * dim;
  constexpr int kEach = ((kGroup + (kNewest ? 2 : 0)) * kLanes * 8 + kThreads - 1) / kThreads;
  float items[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int at = i * kThreads + static_cast<int>(threadIdx.x);
    if (at >= count) break;
    const int part = at / dim, d = at % dim;
    items[i] = at < queries ? Turned(query + part * dim, d, angles, a.pairs, a.interleaved)
               : part == layout.group ? Turned(a.key + from, d, angles, a.pairs, a.interleaved)
                                      : a.value[from + d];
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int at = i * kThreads + static_cast<int>(threadIdx.x);
    if (at >= count) break;
    shared[at] = items[i];
    if (at < queries || first_query != head * (a.heads / a.kv_heads)) continue;
    void* cache = at < queries + dim ? a.kv.keys : a.kv.values;
    Store(static_cast<Element*>(cache) + place + at % dim, items[i]);
  }
}

// ---- Blocks of a cluster -----------------------------------------------------------------------

/// They may write into each other's memory once all have arrived here.
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
/// What all have written is there for all.
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

/// The sums over all lanes of eight numbers, one for each four lanes: bits 16, 8 and 4 of a lane
/// say of which it is. Lanes exchange halves of what they have until one number is left.
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

/// As whole numbers floats are in order if the bits of negative ones are turned.
__device__ __forceinline__ float LargestOfWarp(float v) {
  const auto turn = [](int bits) { return bits < 0 ? bits ^ 0x7fffffff : bits; };
  return __int_as_float(turn(__reduce_max_sync(~0u, turn(__float_as_int(v)))));
}

/// Merges what all warps of the cluster gave this block; each lane has what one of them gave.
template <bool kClustered>
__device__ __forceinline__ void Finish(const SharedLayout& layout, const float* shared,
                                       float* out) {
  const int lane = threadIdx.x % 32, block = kClustered ? static_cast<int>(blockIdx.x) : 0;
  const bool has = lane < layout.warps();
  for (int own = static_cast<int>(threadIdx.x) / 32;; own += kWarps) {
    const int unit = own * layout.parts + block;
    if (unit >= layout.units()) return;
    const int g = unit * 8 / layout.head_dim;
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
    if (lane % 4 == 0) out[unit * 8 + lane / 4] = sum / weight;
  }
}

/// Grid: parts (one cluster), heads of keys times pieces of their heads of queries, rows.
template <typename Element, int kLanes, int kGroup, bool kNewest, bool kClustered>
__device__ __forceinline__ void AttendBody(const AttentionArgs& a) {
  extern __shared__ __align__(16) float attention_shared[];
  float* shared = attention_shared;
  const int per_head = a.heads / a.kv_heads, pieces = (per_head + kGroup - 1) / kGroup;
  const int head = blockIdx.y / pieces, piece = blockIdx.y % pieces, row = blockIdx.z;
  const int first_query = head * per_head + piece * kGroup;
  const SharedLayout layout{min(kGroup, per_head - piece * kGroup), a.head_dim,
                            kClustered ? kCluster : 1};
  LaunchDependents();
  ArriveEarly<kClustered>();
  // Neither positions nor blocks nor what is in the cache since the last step comes from a kernel
  // before this one in the same step.
  const int newest = a.sequences.positions[row];
  const int32_t* table = a.sequences.blocks + a.sequences.first_blocks[row];
  const Range range = RangeOf(newest, a.window, blockIdx.x, gridDim.x);
  const bool has_newest = range.begin <= newest && newest < range.end;
  Team<Element, kLanes> team;
  int64_t place = 0;
  if (kNewest) {
    team.Load(a, table, head, range.begin, range.end, newest);
    place = table[newest / kKvBlock] * a.kv.block_stride + head * a.kv.head_stride +
            newest % kKvBlock * a.head_dim;
  }
  WaitForPredecessor();
  if (!kNewest) team.Load(a, table, head, range.begin, range.end, -1);
  StageHeads<Element, kLanes, kGroup, kNewest>(a, layout, shared, has_newest, place, head,
                                               first_query, row);
  __syncthreads();
  Running running[kGroup];
  AttendTokens<Element, kLanes, kGroup, kNewest>(a, layout, shared, range, newest, head, table,
                                                 team, running);
  WaitEarly<kClustered>();
  Distribute<kLanes, kGroup, kClustered>(layout, shared, running);
  MeetAll<kClustered>();
  Finish<kClustered>(layout, shared,
                     a.out + (static_cast<int64_t>(row) * a.heads + first_query) * a.head_dim);
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

template <typename Element, int kLanes, int kGroup, bool kNewest>
void LaunchAttention(const Stream& stream, const AttentionArgs& args, bool overlap) {
  const int per_head = args.heads / args.kv_heads;
  const unsigned pieces = static_cast<unsigned>((per_head + kGroup - 1) / kGroup);
  // A row's result must not depend on how many others there are, where rows are sequences. Rows of
  // a prompt fill the GPU by themselves.
  const bool clustered = ComputeMajor(stream.device()) >= 9 && (kNewest || args.rows < 64);
  const SharedLayout layout{std::min(kGroup, per_head), args.head_dim, clustered ? kCluster : 1};
  Grid grid{dim3(clustered ? kCluster : 1, static_cast<unsigned>(args.kv_heads) * pieces,
                 static_cast<unsigned>(args.rows)),
            dim3(kThreads), static_cast<size_t>(layout.total()) * sizeof(float), overlap};
  const auto kernel = clustered ? AttendTogether<Element, kLanes, kGroup, kNewest>
                                : AttendAlone<Element, kLanes, kGroup, kNewest>;
  PreferShared(kernel);  // as the products before and behind it
  Launch(stream, grid, kernel, args);
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
  args.kv.f32 ? LaunchLanes<float, kNewest>(stream, args, overlap)
              : LaunchLanes<__half, kNewest>(stream, args, overlap);
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
  const int64_t elements = static_cast<int64_t>(args.heads + args.kv_heads) * args.head_dim;
  const Grid grid{dim3(static_cast<unsigned>(args.rows), BlocksFor(elements, 128, 4)), dim3(128), 0,
                  overlap};
  Launch(stream, grid, args.kv.f32 ? WriteKernel<float> : WriteKernel<__half>, args, turned);
}

}  // namespace oort::cuda
