// SPDX-License-Identifier: MIT
// A cluster of blocks shares the tokens that one row and one head of keys look at. Inside, as many
// lanes as a head has groups of eight elements do a token; every such team keeps a running maximum,
// sum and result for each head of queries, and in the end all teams of the cluster are merged.
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

  __device__ __forceinline__ void Add(float score, const Eight& value) {
    const float before = largest;
    largest = fmaxf(largest, score);
    const float shrink = __expf(before - largest), p = __expf(score - largest);
    weight = weight * shrink + p;
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i] = fmaf(p, value.v[i], sums[i] * shrink);
  }
};

/// Sizes of the shared arrays, in floats.
struct SharedLayout {
  int group, head_dim, teams;
  __host__ __device__ int query() const { return 0; }
  __host__ __device__ int new_key() const { return group * head_dim; }
  __host__ __device__ int new_value() const { return new_key() + head_dim; }
  __host__ __device__ int sums() const { return new_value() + head_dim; }  // (teams, group, dim)
  __host__ __device__ int weights() const { return sums() + teams * group * head_dim; }
  __host__ __device__ int merged() const { return weights() + teams * group * 2; }
  __host__ __device__ int merged_weights() const { return merged() + group * head_dim; }
  __host__ __device__ int total() const { return merged_weights() + group * 2; }
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

/// Merges what `count` have: out[i] of head g and the maximum and weight of it.
template <typename Weights, typename Value>
__device__ __forceinline__ float Merge(int count, const Weights& weights, const Value& value,
                                       float& largest, float& weight) {
  largest = kNone;
  for (int i = 0; i < count; ++i) largest = fmaxf(largest, weights(i)[0]);
  weight = 0;
  float sum = 0;
  for (int i = 0; i < count; ++i) {
    const float factor = __expf(weights(i)[0] - largest);
    weight = fmaf(weights(i)[1], factor, weight);
    sum = fmaf(value(i), factor, sum);
  }
  return sum;
}

/// The tokens of one team: base + team, + teams, … of the block's range.
template <typename Element, int kLanes>
struct Team {
  static constexpr int kTeams = kThreads / kLanes, kAhead = Packed<Element>::kAhead;
  static constexpr int kBatch = kTeams * kAhead;  // tokens of the block that come at a time
  Packed<Element> keys[kAhead], values[kAhead];
  int team = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;

  /// Begins to load tokens from `base` on; `skip` (the newest) lies elsewhere.
  __device__ __forceinline__ void Load(const AttentionArgs& a, const int32_t* table, int head,
                                       int base, int end, int skip) {
    if (lane * 8 >= a.head_dim) return;
    const int64_t offset = head * a.kv.head_stride + lane * 8;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int token = base + i * kTeams + team;
      if (token >= end || token == skip) continue;
      const int64_t at = table[token / a.kv.block_tokens] * a.kv.block_stride +
                         token % a.kv.block_tokens * a.head_dim + offset;
      keys[i].Load(static_cast<const Element*>(a.kv.keys) + at);
      values[i].Load(static_cast<const Element*>(a.kv.values) + at);
    }
  }
};

template <typename Element, int kLanes, int kGroup, bool kNewest>
__device__ void AttendTokens(const AttentionArgs& a, const SharedLayout& layout, float* shared,
                             const Range& range, int newest, int head, const int32_t* table,
                             Team<Element, kLanes>& team) {
  const int dim = a.head_dim, lane = team.lane;
  const bool active = lane * 8 < dim;
  Eight query[kGroup];
  Running running[kGroup];
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    query[g] = active && g < layout.group ? LoadEight(shared + g * dim + lane * 8) : Eight{};
  }
  // All lanes of a warp go round together; teams without a token do not count. The next tokens are
  // on their way while these are added.
  const int skip = kNewest ? newest : -1;
  Team<Element, kLanes> next;
  for (int base = range.begin; base < range.end; base += team.kBatch) {
    if (base + team.kBatch < range.end) {
      next.Load(a, table, head, base + team.kBatch, range.end, skip);
    }
#pragma unroll
    for (int i = 0; i < team.kAhead; ++i) {
      const int token = base + i * team.kTeams + team.team;
      const bool is_new = kNewest && token == newest && active;
      const Eight key =
          is_new ? LoadEight(shared + layout.new_key() + lane * 8) : team.keys[i].Widen();
      const Eight value =
          is_new ? LoadEight(shared + layout.new_value() + lane * 8) : team.values[i].Widen();
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
        float score = 0;
#pragma unroll
        for (int d = 0; d < 8; ++d) score = fmaf(query[g].v[d], key.v[d], score);
#pragma unroll
        for (int offset = kLanes / 2; offset > 0; offset /= 2) {
          score += __shfl_xor_sync(~0u, score, offset);
        }
        score *= a.scale;
        if (a.softcap > 0) score = a.softcap * tanhf(score / a.softcap);
        if (token < range.end) running[g].Add(score, value);
      }
    }
    team = next;
  }
  for (int g = 0; g < kGroup && g < layout.group; ++g) {
    const int at = team.team * layout.group + g;
    if (active) {
      float* sums = shared + layout.sums() + at * dim + lane * 8;
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[i] = running[g].sums[i];
    }
    if (lane == 0) {
      shared[layout.weights() + at * 2] = running[g].largest;
      shared[layout.weights() + at * 2 + 1] = running[g].weight;
    }
  }
}

/// Queries and, where this block has the newest token, its key and value, turned, in shared memory.
template <typename Element, bool kNewest>
__device__ void StageHeads(const AttentionArgs& a, const SharedLayout& layout, float* shared,
                           bool has_newest, int newest, const int32_t* table, int head,
                           int first_query, int row) {
  const int dim = a.head_dim;
  const float* angles =
      kNewest && a.angles != nullptr ? a.angles + static_cast<int64_t>(row) * 2 * a.pairs : nullptr;
  for (int i = threadIdx.x; i < layout.group * dim; i += kThreads) {
    const float* query =
        a.query + (static_cast<int64_t>(row) * a.heads + first_query + i / dim) * dim;
    shared[layout.query() + i] = Turned(query, i % dim, angles, a.pairs, a.interleaved);
  }
  if (!kNewest || !has_newest) return;
  const int64_t from = (static_cast<int64_t>(row) * a.kv_heads + head) * dim;
  const int64_t at = table[newest / a.kv.block_tokens] * a.kv.block_stride +
                     head * a.kv.head_stride + newest % a.kv.block_tokens * dim;
  const bool writes = first_query == head * (a.heads / a.kv_heads);
  for (int d = threadIdx.x; d < dim; d += kThreads) {
    const float key = Turned(a.key + from, d, angles, a.pairs, a.interleaved);
    const float value = a.value[from + d];
    shared[layout.new_key() + d] = key;
    shared[layout.new_value() + d] = value;
    if (!writes) continue;
    Store(static_cast<Element*>(a.kv.keys) + at + d, key);
    Store(static_cast<Element*>(a.kv.values) + at + d, value);
  }
}

/// Grid: parts (one cluster), heads of keys times pieces of their heads of queries, rows.
template <typename Element, int kLanes, int kGroup, bool kNewest, bool kClustered>
__device__ void AttendBody(const AttentionArgs& a) {
  extern __shared__ __align__(16) float attention_shared[];
  float* shared = attention_shared;
  const int per_head = a.heads / a.kv_heads, pieces = (per_head + kGroup - 1) / kGroup;
  const int head = blockIdx.y / pieces, piece = blockIdx.y % pieces, row = blockIdx.z;
  const int first_query = head * per_head + piece * kGroup;
  const SharedLayout layout{min(kGroup, per_head - piece * kGroup), a.head_dim, kThreads / kLanes};
  LaunchDependents();
  // Neither positions nor blocks nor what is in the cache since the last step comes from a kernel
  // before this one in the same step.
  const int newest = a.sequences.positions[row];
  const int32_t* table = a.sequences.blocks + a.sequences.first_blocks[row];
  const Range range = RangeOf(newest, a.window, blockIdx.x, gridDim.x);
  Team<Element, kLanes> team;
  if (kNewest) team.Load(a, table, head, range.begin, range.end, newest);
  WaitForPredecessor();
  if (!kNewest) team.Load(a, table, head, range.begin, range.end, -1);
  const bool has_newest = range.begin <= newest && newest < range.end;
  StageHeads<Element, kNewest>(a, layout, shared, has_newest, newest, table, head, first_query,
                               row);
  __syncthreads();
  AttendTokens<Element, kLanes, kGroup, kNewest>(a, layout, shared, range, newest, head, table,
                                                 team);
  __syncthreads();
  // The teams of this block.
  const int dim = a.head_dim, elements = layout.group * dim;
  for (int i = threadIdx.x; i < elements; i += kThreads) {
    const int g = i / dim;
    float largest, weight;
    const float sum = Merge(
        layout.teams,
        [&](int team) { return shared + layout.weights() + (team * layout.group + g) * 2; },
        [&](int team) { return shared[layout.sums() + team * elements + i]; }, largest, weight);
    shared[layout.merged() + i] = sum;
    if (i % dim == 0) {
      shared[layout.merged_weights() + g * 2] = largest;
      shared[layout.merged_weights() + g * 2 + 1] = weight;
    }
  }
  // The blocks of the cluster, each a part of the elements.
  float* out = a.out + (static_cast<int64_t>(row) * a.heads + first_query) * dim;
  const auto finish = [&](int parts, const auto& peer, int begin, int step) {
    for (int i = begin; i < elements; i += step) {
      float largest, weight;
      const float sum = Merge(
          parts, [&](int part) { return peer(part) + layout.merged_weights() + i / dim * 2; },
          [&](int part) { return peer(part)[layout.merged() + i]; }, largest, weight);
      out[i] = sum / weight;
    }
  };
#if __CUDA_ARCH__ >= 900
  if constexpr (kClustered) {
    const auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
    finish(
        kCluster, [&](int part) { return cluster.map_shared_rank(shared, part); },
        static_cast<int>(cluster.block_rank()) * kThreads + static_cast<int>(threadIdx.x),
        kCluster * kThreads);
    cluster.sync();
    return;
  }
#endif
  __syncthreads();
  finish(
      1, [&](int) { return shared; }, static_cast<int>(threadIdx.x), kThreads);
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
  const int32_t block =
      a.sequences.blocks[a.sequences.first_blocks[row] + newest / a.kv.block_tokens];
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
        block * a.kv.block_stride + head * a.kv.head_stride + newest % a.kv.block_tokens * dim + d;
    Store(static_cast<Element*>(a.kv.keys) + at,
          Turned(a.key + from, d, angles, a.pairs, a.interleaved));
    Store(static_cast<Element*>(a.kv.values) + at, a.value[from + d]);
  }
}

template <typename Element, int kLanes, int kGroup, bool kNewest>
void LaunchAttention(const Stream& stream, const AttentionArgs& args, bool overlap) {
  const int per_head = args.heads / args.kv_heads;
  const unsigned pieces = static_cast<unsigned>((per_head + kGroup - 1) / kGroup);
  const SharedLayout layout{std::min(kGroup, per_head), args.head_dim, kThreads / kLanes};
  // A row's result must not depend on how many others there are, where rows are sequences. Rows of
  // a prompt fill the GPU by themselves.
  const bool clustered = ComputeMajor(stream.device()) >= 9 && (kNewest || args.rows < 64);
  Grid grid{dim3(clustered ? kCluster : 1, static_cast<unsigned>(args.kv_heads) * pieces,
                 static_cast<unsigned>(args.rows)),
            dim3(kThreads), static_cast<size_t>(layout.total()) * sizeof(float), overlap};
  Launch(stream, grid,
         clustered ? AttendTogether<Element, kLanes, kGroup, kNewest>
                   : AttendAlone<Element, kLanes, kGroup, kNewest>,
         args);
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
