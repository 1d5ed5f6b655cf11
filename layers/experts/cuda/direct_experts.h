// SPDX-License-Identifier: MIT
// A mixture for the one or few tokens of a step of decode, in two launches: gate and up of each
// token's experts, and the sum of their down products. Each block routes the token that it
// computes, so that routing is no launch, and tokens are not grouped by expert: two that share one
// read its weights twice, the second time from the cache. The numbers are those of RouteExperts,
// RunExperts and SumExperts, bit by bit.
#pragma once

#include <cstdint>

#include "layers/experts/cuda/expert_products.h"
#include "layers/experts/cuda/route_experts.h"

namespace oort::cuda {

/// What RouteExperts, RunExperts (twice) and SumExperts would get; pairs and rows that only pass
/// from one of them to the next are not used.
struct DirectMixture {
  RoutingStep step;
  ExpertProduct up, down;
  ExpertSum sum;
  int64_t ahead = 0;  ///< most bytes of down weights that gate and up bring into the L2 cache
};

/// Whether so few tokens are computed that way. OORT_CUDA_DIRECT_EXPERTS: up to how many tokens
/// that is, to compare; 0 for none.
bool TakesDirectExperts(const DirectMixture& mixture, int device);
/// OORT_CUDA_EXPERTS_AHEAD: megabytes of down weights that gate and up bring into the L2 cache.
void RunDirectExperts(const Stream& stream, DirectMixture mixture);
/// One of the two launches: gate and up, or down.
void LaunchDirectExperts(const Stream& stream, const DirectMixture& mixture, bool up);

namespace experts {

/// What a block of either launch needs at most.
int64_t DirectSharedBytes(const DirectMixture& mixture);

void LaunchDirectPlain(const Stream& stream, const DirectMixture& mixture, bool up);
void LaunchDirectInt8(const Stream& stream, const DirectMixture& mixture, bool up);
void LaunchDirectInt4(const Stream& stream, const DirectMixture& mixture, bool up);

}  // namespace experts

}  // namespace oort::cuda
