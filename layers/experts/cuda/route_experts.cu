// SPDX-License-Identifier: MIT
#include "layers/experts/cuda/route_experts.h"

#include <algorithm>
#include <initializer_list>

#include "cuda/float_order.h"
#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"
#include "layers/experts/cuda/split_number.cuh"

namespace oort::cuda {
namespace {

constexpr int kRouteThreads = 1024, kRouteWarps = kRouteThreads / 32;
constexpr int kSumThreads = 128;

__device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x % 32); }
__device__ __forceinline__ int WarpOfBlock() { return static_cast<int>(threadIdx.x / 32); }

/// Larger for what is preferred; nothing is less than NaN, and 0 stands for what is taken.
__device__ __forceinline__ unsigned PreferenceOf(float rank) {
  if (isnan(rank)) return 1;
  return max(OrderOf(rank), 2u);
}

/// Whether experts are compared by something else than their logits.
__device__ __forceinline__ bool AddsToRanks(const RoutingRule& rule) {
  return rule.correction != nullptr || rule.groups_used < rule.groups;
}

__device__ __forceinline__ float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

/// Of the lanes' candidates the most preferred one; of equal ones the first. For whole warps.
__device__ __forceinline__ int BestOfWarp(unsigned preference, int place) {
  const unsigned most = __reduce_max_sync(~0u, preference);
  const unsigned mine = preference == most ? static_cast<unsigned>(place) : ~0u;
  return static_cast<int>(__reduce_min_sync(~0u, mine));
}

/// What experts are compared by, as ExpertRouting has it on the CPU. Several logits are loaded
/// at once, ahead of the ranks.
__device__ __forceinline__ void RankExperts(const RoutingRule& rule, const float* logits,
                                            float* ranks) {
  constexpr int kAtOnce = 4;
  const int experts = static_cast<int>(rule.experts);
  for (int first = Lane(); first < experts; first += 32 * kAtOnce) {
    float numbers[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) numbers[i] = logits[min(first + i * 32, experts - 1)];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int e = first + i * 32;
      if (e >= experts) break;
      float rank = numbers[i];
      if (rule.sigmoid && AddsToRanks(rule)) rank = Sigmoid(rank);
      if (rule.correction != nullptr) rank += rule.correction[e];
      ranks[e] = rank;
    }
  }
  __syncwarp();
}

/// How good a group is: its best expert, or its two best together where scores are sigmoids.
__device__ __forceinline__ float RankOfGroup(const RoutingRule& rule, const float* ranks,
                                             int group) {
  const int size = static_cast<int>(rule.experts / rule.groups);
  const float* const own = ranks + group * size;
  int best = 0, second = -1;
  for (int i = 1; i < size; ++i) {
    if (PreferenceOf(own[i]) > PreferenceOf(own[best])) {
      second = best;
      best = i;
    } else if (second < 0 || PreferenceOf(own[i]) > PreferenceOf(own[second])) {
      second = i;
    }
  }
  return rule.sigmoid && size > 1 ? own[best] + own[second] : own[best];
}

/// A lane has every 32nd expert. The bits of its experts that are in groups left out.
__device__ __forceinline__ unsigned LeftOut(const RoutingRule& rule, const float* ranks) {
  if (rule.groups_used >= rule.groups) return 0;
  const int groups = static_cast<int>(rule.groups), lane = Lane();
  unsigned preference = lane < groups ? PreferenceOf(RankOfGroup(rule, ranks, lane)) : 0;
  unsigned used = 0;
  for (int i = 0; i < rule.groups_used; ++i) {
    const int best = BestOfWarp(preference, lane);
    used |= 1u << best;
    if (lane == best) preference = 0;
  }
  const int size = static_cast<int>(rule.experts) / groups;
  unsigned out = 0;
  for (int e = lane; e < rule.experts; e += 32) {
    if ((used >> (e / size) & 1) == 0) out |= 1u << (e / 32);
  }
  return out;
}

/// A lane's best expert that is not taken.
struct Candidate {
  unsigned preference = 0;
  int place;
};
__device__ __forceinline__ Candidate BestOfLane(const RoutingRule& rule, const float* ranks,
                                                unsigned taken) {
  const int experts = static_cast<int>(rule.experts);
  Candidate best{0, experts - 1};
#pragma unroll 4
  for (int e = Lane(); e < experts; e += 32) {
    const unsigned preference = (taken >> (e / 32) & 1) != 0 ? 0 : PreferenceOf(ranks[e]);
    if (preference > best.preference) best = {preference, e};
  }
  return best;
}

/// The lanes' numbers added up in their order.
__device__ __forceinline__ float SumInOrder(float value, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += __shfl_sync(~0u, value, i);
  return sum;
}

/// The weight of a lane's expert, whose logit it has.
__device__ __forceinline__ float WeightOf(const RoutingRule& rule, const float* logits,
                                          float logit) {
  const int used = static_cast<int>(rule.used), lane = Lane();
  if (rule.sigmoid) {
    const float score = Sigmoid(logit);
    const float sum = SumInOrder(score, used);
    return score * (rule.normalized ? rule.scale / (sum + 1e-20f) : rule.scale);
  }
  float largest = lane < used ? logit : -INFINITY;
  if (!rule.normalized) {
    for (int e = lane; e < rule.experts; e += 32) largest = fmaxf(largest, logits[e]);
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
  }
  float sum = 0;
  if (rule.normalized) {
    sum = SumInOrder(expf(logit - largest), used);
  } else {
    for (int e = lane; e < rule.experts; e += 32) sum += expf(logits[e] - largest);
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  }
  return expf(logit - largest) / sum * rule.scale;
}

/// A warp routes a token. `ranks`: room of its own for those of all experts. `experts`: those of
/// the pairs, or null; they are wanted in global memory in any case.
__device__ void RouteToken(const RoutingStep& s, int64_t token, float* ranks, int* experts) {
  const RoutingRule& rule = s.rule;
  const float* const logits = s.logits + token * rule.experts;
  const int used = static_cast<int>(rule.used), lane = Lane();
  RankExperts(rule, logits, ranks);
  unsigned taken = LeftOut(rule, ranks);
  Candidate own = BestOfLane(rule, ranks, taken);
  int expert = 0;  // of the lane, in the order in which they are chosen
  for (int i = 0; i < used; ++i) {
    const int best = BestOfWarp(own.preference, own.place);
    if (lane == i) expert = best;
    if (best % 32 == lane) {
      taken |= 1u << (best / 32);
      own = BestOfLane(rule, ranks, taken);
    }
    __syncwarp();
  }
  float logit = 0;
  if (lane < used) logit = AddsToRanks(rule) ? logits[expert] : ranks[expert];
  const float weight = WeightOf(rule, logits, logit);
  int slot = 0;
  for (int i = 0; i < used; ++i) slot += __shfl_sync(~0u, expert, i) < expert ? 1 : 0;
  if (lane < used) {
    const int64_t place = expert - s.first, pair = token * used + slot;
    const int known = static_cast<int>(place >= 0 && place < s.held ? place : s.held);
    s.pairs.experts[pair] = known;
    if (experts != nullptr) experts[pair] = known;
    s.pairs.weights[pair] = weight;
  }
  __syncwarp();  // before the ranks of the next token
}

/// A block collects the pairs of each expert and finds out which are in use. `counts`: room for a
/// number of each expert. `experts`: of the pairs. Which pair of an expert comes first is left to
/// chance: results of a row do not depend on the rows beside it.
__device__ void CollectPairs(const RoutingStep& s, const int* experts, int* counts) {
  const int held = static_cast<int>(s.held), pairs = static_cast<int>(s.tokens * s.rule.used);
  const int thread = static_cast<int>(threadIdx.x);
  for (int e = thread; e < held; e += kRouteThreads) counts[e] = 0;
  __syncthreads();
  for (int pair = thread; pair < pairs; pair += kRouteThreads) {
    if (experts[pair] < held) atomicAdd(&counts[experts[pair]], 1);
  }
  __syncthreads();
  if (WarpOfBlock() == 0) {
    int begin = 0, known = 0;
    for (int first = 0; first < held; first += 32) {
      const int expert = first + Lane(), count = expert < held ? counts[expert] : 0;
      int upto = count;
#pragma unroll
      for (int offset = 1; offset < 32; offset *= 2) {
        const int more = __shfl_up_sync(~0u, upto, offset);
        if (Lane() >= offset) upto += more;
      }
      const unsigned used = __ballot_sync(~0u, count > 0);
      if (expert < held) s.pairs.starts[expert] = counts[expert] = begin + upto - count;
      if (count > 0) s.pairs.in_use[known + __popc(used & ((1u << Lane()) - 1))] = expert;
      begin += __shfl_sync(~0u, upto, 31);
      known += __popc(used);
    }
    if (Lane() == 0) {
      s.pairs.starts[held] = begin;
      s.pairs.in_use[held] = known;
    }
  }
  __syncthreads();
  for (int pair = thread; pair < pairs; pair += kRouteThreads) {
    if (experts[pair] < held) s.pairs.order[atomicAdd(&counts[experts[pair]], 1)] = pair;
  }
}

/// The same for one token: its experts are in order, and none comes twice.
__device__ void CollectPairsOfToken(const RoutingStep& s, const int* experts) {
  const int held = static_cast<int>(s.held), used = static_cast<int>(s.rule.used);
  const auto before = [&](int expert) {
    int count = 0;
#pragma unroll 8
    for (int i = 0; i < used; ++i) count += experts[i] < expert ? 1 : 0;
    return count;
  };
  const int thread = static_cast<int>(threadIdx.x);
  for (int e = thread; e <= held; e += kRouteThreads) {
    const int start = before(e);
    s.pairs.starts[e] = start;
    if (e == held) s.pairs.in_use[held] = start;
  }
  if (thread >= used || experts[thread] >= held) return;
  const int expert = experts[thread], place = before(expert);
  s.pairs.order[place] = thread;
  s.pairs.in_use[place] = expert;
}

/// A block splits a row of x.
__device__ void SplitRow(const RoutingStep& s, int64_t row) {
  const float* const from = s.x + row * s.columns;
  auto* const to =
      static_cast<__nv_bfloat16*>(s.split_x) + row * SplitRowElements(s.columns, s.planes);
  const int columns = static_cast<int>(s.columns), padded = static_cast<int>(SplitColumns(columns));
  for (int at = static_cast<int>(threadIdx.x) * 2; at < padded; at += kRouteThreads * 2) {
    float a = at < columns ? from[at] : 0.0f, b = at + 1 < columns ? from[at + 1] : 0.0f;
    for (int plane = 0; plane < s.planes; ++plane) {
      const __nv_bfloat16 first = TakePart(a);
      *reinterpret_cast<__nv_bfloat162*>(to + SplitPlace(at, plane, s.planes)) =
          __nv_bfloat162(first, TakePart(b));
    }
  }
}

/// What a block that routes has in shared memory: ranks of all experts for each warp, a number of
/// each expert and, where it routes all tokens, the experts of all pairs.
struct RoutePlan {
  int64_t experts, held, pairs;
  __host__ __device__ int64_t counts() const { return kRouteWarps * experts; }
  __host__ __device__ int64_t ids() const { return counts() + held; }
  __host__ __device__ int64_t bytes() const { return (ids() + pairs) * int64_t{sizeof(float)}; }
};

/// The first blocks route the tokens, each of the others splits a row. One that routes all of them
/// collects their pairs, too.
__global__ void __launch_bounds__(kRouteThreads, 1)
    RouteKernel(const __grid_constant__ RoutingStep s, const __grid_constant__ RoutePlan plan,
                int routing_blocks) {
  extern __shared__ float route_shared[];
  WaitForPredecessor();
  LaunchDependents();
  const int block = static_cast<int>(blockIdx.x);
  if (block >= routing_blocks) return SplitRow(s, block - routing_blocks);
  float* const ranks = route_shared + WarpOfBlock() * plan.experts;
  int* const counts = reinterpret_cast<int*>(route_shared + plan.counts());
  int* const experts = plan.pairs > 0 ? counts + plan.held : nullptr;
  for (int64_t token = block * kRouteWarps + WarpOfBlock(); token < s.tokens;
       token += int64_t{routing_blocks} * kRouteWarps) {
    RouteToken(s, token, ranks, experts);
  }
  if (experts == nullptr) return;
  __syncthreads();
  if (s.tokens == 1) return CollectPairsOfToken(s, experts);
  CollectPairs(s, experts, counts);
}

__global__ void __launch_bounds__(kRouteThreads, 1)
    CollectKernel(const __grid_constant__ RoutingStep s) {
  extern __shared__ int collect_shared[];
  WaitForPredecessor();
  LaunchDependents();
  CollectPairs(s, s.pairs.experts, collect_shared);
}

template <int kCount>
struct alignas(kCount * 4) SummedNumbers {
  float v[kCount];
};

/// Loads of a token's rows wait for none of the others.
template <int kCount>
__global__ void __launch_bounds__(kSumThreads) SumKernel(const __grid_constant__ ExpertSum s) {
  using Numbers = SummedNumbers<kCount>;
  constexpr int kAtOnce = 8;  // rows
  WaitForPredecessor();
  LaunchDependents();
  const int64_t own = (int64_t{blockIdx.x} * kSumThreads + threadIdx.x) * kCount;
  const int64_t column = min(own, s.width - kCount);
  const int lane = Lane();
  for (int64_t token = blockIdx.y; token < s.tokens; token += gridDim.y) {
    const int64_t first_pair = token * s.used;
    // A lane has a pair. Those of experts that another rank has count as nothing.
    const bool here = lane < s.used && s.pairs.experts[first_pair + lane] < s.held;
    const float weight = !here ? 0.0f : s.weighted ? s.pairs.weights[first_pair + lane] : 1.0f;
    const unsigned known = __ballot_sync(~0u, here);
    Numbers sum{};
    if (s.addend != nullptr) {
      sum = *reinterpret_cast<const Numbers*>(s.addend + token * s.width + column);
    }
    for (int first = 0; first < s.used; first += kAtOnce) {
      Numbers rows[kAtOnce] = {};
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if ((known >> (first + i) & 1) == 0) continue;
        rows[i] =
            *reinterpret_cast<const Numbers*>(s.rows + (first_pair + first + i) * s.width + column);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const float share = __shfl_sync(~0u, weight, first + i);
#pragma unroll
        for (int k = 0; k < kCount; ++k) sum.v[k] = fmaf(share, rows[i].v[k], sum.v[k]);
      }
    }
    if (own < s.width) *reinterpret_cast<Numbers*>(s.out + token * s.width + own) = sum;
  }
}

bool AreAligned(std::initializer_list<const void*> pointers) {
  return std::ranges::all_of(
      pointers, [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
}

template <int kCount>
void LaunchSum(const Stream& stream, const ExpertSum& sum) {
  constexpr int64_t kMostRows = 65535;  // of blocks along y
  const Grid grid{dim3(BlocksFor(sum.width, kSumThreads, kCount),
                       static_cast<unsigned>(std::min(sum.tokens, kMostRows))),
                  dim3(kSumThreads), 0, true};
  LaunchBetween(stream, grid, SumKernel<kCount>, sum);
}

}  // namespace

void RouteExperts(const Stream& stream, const RoutingStep& step) {
  const bool at_once = step.tokens <= kTokensOfOneRouting;
  const auto routing =
      at_once ? 1 : static_cast<int>((step.tokens + kRouteWarps - 1) / kRouteWarps);
  const RoutePlan plan{step.rule.experts, step.held, at_once ? step.tokens * step.rule.used : 0};
  const Grid grid{dim3(static_cast<unsigned>(routing + step.tokens)), dim3(kRouteThreads),
                  static_cast<size_t>(plan.bytes()), true};
  LaunchBetween(stream, grid, RouteKernel, step, plan, routing);
  if (at_once) return;
  const Grid one{dim3(1), dim3(kRouteThreads), static_cast<size_t>(step.held) * sizeof(int), true};
  LaunchBetween(stream, one, CollectKernel, step);
}

void SumExperts(const Stream& stream, const ExpertSum& sum) {
  if (sum.width % 4 == 0 && AreAligned({sum.rows, sum.addend, sum.out})) {
    LaunchSum<4>(stream, sum);
  } else {
    LaunchSum<1>(stream, sum);
  }
}

}  // namespace oort::cuda
