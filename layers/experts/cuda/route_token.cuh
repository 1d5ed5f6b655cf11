// SPDX-License-Identifier: MIT
// Which experts a token goes to, as a warp finds out. For .cu files.
#pragma once

#include "cuda/float_order.h"
#include "layers/experts/expert_routing.h"

namespace oort::cuda {

__device__ __forceinline__ int RouteLane() { return static_cast<int>(threadIdx.x % 32); }

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

/// What experts are compared by, as ExpertRouting has it on the CPU. Logits are read at once, past
/// the L1 cache: the kernel may have begun before they were there.
__device__ __forceinline__ void RankExperts(const RoutingRule& rule, const float* logits,
                                            float* ranks) {
  constexpr int kAtOnce = 4;
  const int experts = static_cast<int>(rule.experts);
  for (int first = RouteLane(); first < experts; first += 32 * kAtOnce) {
    float numbers[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      numbers[i] = __ldcg(&logits[min(first + i * 32, experts - 1)]);
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
  const int groups = static_cast<int>(rule.groups), lane = RouteLane();
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
  for (int e = RouteLane(); e < experts; e += 32) {
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
  const int used = static_cast<int>(rule.used), lane = RouteLane();
  if (rule.sigmoid) {
    const float score = Sigmoid(logit);
    const float sum = SumInOrder(score, used);
    return score * (rule.normalized ? rule.scale / (sum + 1e-20f) : rule.scale);
  }
  float largest = lane < used ? logit : -INFINITY;
  if (!rule.normalized) {
    for (int e = lane; e < rule.experts; e += 32) largest = fmaxf(largest, __ldcg(&logits[e]));
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
  }
  float sum = 0;
  if (rule.normalized) {
    sum = SumInOrder(expf(logit - largest), used);
  } else {
    for (int e = lane; e < rule.experts; e += 32) sum += expf(__ldcg(&logits[e]) - largest);
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  }
  return expf(logit - largest) / sum * rule.scale;
}

/// An expert of a token, its weight, and its place among the token's experts in their order.
struct TokenExpert {
  int expert = 0, slot = 0;
  float weight = 0;
};

/// A warp routes a token; each of the first `used` lanes has one of its experts. `ranks`: room for
/// those of all experts, which other lanes may write to as soon as the warp has met again.
__device__ __forceinline__ TokenExpert RouteWithWarp(const RoutingRule& rule, const float* logits,
                                                     float* ranks) {
  const int used = static_cast<int>(rule.used), lane = RouteLane();
  RankExperts(rule, logits, ranks);
  unsigned taken = LeftOut(rule, ranks);
  Candidate own = BestOfLane(rule, ranks, taken);
  TokenExpert found;  // of the lane, in the order in which they are chosen
  for (int i = 0; i < used; ++i) {
    const int best = BestOfWarp(own.preference, own.place);
    if (lane == i) found.expert = best;
    if (best % 32 == lane) {
      taken |= 1u << (best / 32);
      own = BestOfLane(rule, ranks, taken);
    }
    __syncwarp();
  }
  const bool known = !AddsToRanks(rule);
  const float logit = lane >= used ? 0.0f
                      : known      ? ranks[found.expert]
                                   : __ldcg(&logits[found.expert]);
  found.weight = WeightOf(rule, logits, logit);
  for (int i = 0; i < used; ++i) {
    found.slot += __shfl_sync(~0u, found.expert, i) < found.expert ? 1 : 0;
  }
  return found;
}

/// An expert as it counts here (RoutedPairs).
__device__ __forceinline__ int HeldExpert(int expert, int64_t first, int64_t held) {
  const int64_t own = expert - first;
  return static_cast<int>(own >= 0 && own < held ? own : held);
}

}  // namespace oort::cuda
