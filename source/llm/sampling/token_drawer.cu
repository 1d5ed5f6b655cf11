// SPDX-License-Identifier: MIT
#include "llm/sampling/token_drawer.h"

#include <algorithm>

#include "cuda/elements.h"
#include "cuda/float_order.h"
#include "cuda/launch.h"
#include "cuda/memory.h"

namespace oort::cuda {
namespace {

/// Weights are integers of so many fractional bits: their sums do not depend on who adds first.
constexpr float kOne = 0x1p40f;
using Mass = unsigned long long;
constexpr int kThreads = 512, kWarps = kThreads / 32;
/// Where a row is surveyed: what lies so many temperatures below the maximum, or nearer.
constexpr int kDepths = 4;
__device__ constexpr float kDepth[kDepths] = {4, 8, 16, 32};
constexpr int kMostKept = 4096;
constexpr int kDigitBits = 11, kBins = 1 << kDigitBits;

/// A whole row, or what was kept of it in shared memory; in the order of ids.
struct Row {
  const float* logits;
  const int32_t* ids;  ///< null: the index
  int count;

  /// visit(i) for each index of the warp's part, all lanes at once; past the end, too.
  template <typename Visit>
  __device__ void VisitPart(const Visit& visit) const {
    const int part = (count + kThreads - 1) / kThreads * 32, lane = threadIdx.x % 32;
    const int begin = static_cast<int>(threadIdx.x / 32) * part;
#pragma unroll 8
    for (int i = begin; i < begin + part; i += 32) visit(i + lane);
  }
  __device__ float Logit(int i) const { return i < count ? logits[i] : -INFINITY; }
};

struct Weigh {
  float max, scale;
  __device__ Mass operator()(float logit) const {
    if (logit == max) return static_cast<Mass>(kOne);  // also where both are infinite
    return OrderOf(logit) == 0 ? 0 : __float2ull_rn(expf((logit - max) * scale) * kOne);
  }
};

struct Shared {
  float logits[kMostKept];
  int32_t ids[kMostKept];
  Mass bins[kBins];
  Mass sums[kWarps];
  int counts[kWarps][kDepths];
  int first[kWarps];
  // What one thread found for all.
  unsigned bin;
  Mass above;
  int warp, ties;
  Mass left;
};

__device__ Mass SumBlock(Mass value, Shared& shared) {
  return CombineBlock(value, shared.sums, [](Mass a, Mass b) { return a + b; });
}

/// The largest order whose mass, with all that lies above, reaches a target.
struct Border {
  unsigned order = 0;
  Mass above = 0;  ///< of what is larger
};

/// Finds in which bin, from the last one down, the target is reached.
__device__ void FindBin(Mass above, Mass target, Shared& shared) {
  if (threadIdx.x >= 32) return;
  constexpr int kEach = kBins / 32;
  const int last = kBins - static_cast<int>(threadIdx.x) * kEach;  // the lane's bins end here
  Mass own = 0;
  for (int i = 1; i <= kEach; ++i) own += shared.bins[last - i];
  Mass before = own;  // of the lanes up to this one
  for (int offset = 1; offset < 32; offset *= 2) {
    const Mass other = __shfl_up_sync(0xffffffffu, before, offset);
    if (threadIdx.x >= static_cast<unsigned>(offset)) before += other;
  }
  const unsigned reached = __ballot_sync(0xffffffffu, above + before >= target);
  const int lane = reached == 0 ? 31 : __ffs(static_cast<int>(reached)) - 1;
  if (static_cast<int>(threadIdx.x) != lane) return;
  above += before - own;
  int bin = last - 1;
  while (bin > last - kEach && above + shared.bins[bin] < target) above += shared.bins[bin--];
  shared.bin = static_cast<unsigned>(bin);
  shared.above = above;
}

/// `mass(logit)` is that of a number of the row whose order is at least `floor`.
template <typename MassOf>
__device__ Border FindBorder(const Row& row, unsigned floor, Mass target, const MassOf& mass,
                             Shared& shared) {
  Border border;
  unsigned known = 0;
  for (int shift = 32 - kDigitBits; known != 0xffffffffu; shift = max(shift - kDigitBits, 0)) {
    for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads) shared.bins[i] = 0;
    __syncthreads();
    row.VisitPart([&](int i) {
      const float logit = row.Logit(i);
      const unsigned order = OrderOf(logit);
      if (order == 0 || order < floor || (order & known) != border.order) return;
      atomicAdd(&shared.bins[(order & ~known) >> shift], mass(logit));
    });
    __syncthreads();
    FindBin(border.above, target, shared);
    __syncthreads();
    border.order |= shared.bin << shift;
    border.above = shared.above;
    known = shift == 0 ? 0xffffffffu : 0xffffffffu << shift;
    __syncthreads();
  }
  return border;
}

/// Which numbers of a row may be drawn.
struct Kept {
  unsigned last = 1;        ///< the least order
  int ties = INT32_MAX;     ///< so many of the last order, the lowest ids
  float least = -INFINITY;  ///< by min_p
};

/// By position on the sum of the kept weights, in the order of ids.
__device__ int32_t DrawKept(const Row& row, const Kept& kept, const Weigh& weigh, double uniform,
                            Shared& shared) {
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  Mass larger = 0;
  int ties = 0;
  row.VisitPart([&](int i) {
    const float logit = row.Logit(i);
    const unsigned order = OrderOf(logit);
    if (order < kept.last || !(logit >= kept.least)) return;
    if (order == kept.last) {
      ++ties;
    } else {
      larger += weigh(logit);
    }
  });
  for (int offset = 16; offset > 0; offset /= 2) {
    larger += __shfl_xor_sync(0xffffffffu, larger, offset);
    ties += __shfl_xor_sync(0xffffffffu, ties, offset);
  }
  if (lane == 0) {
    shared.sums[warp] = larger;
    shared.first[warp] = ties;
  }
  const Mass tie_weight = weigh(OfOrder(kept.last));
  __syncthreads();
  if (threadIdx.x == 0) {
    Mass total = 0;
    int left = kept.ties;
    for (int i = 0; i < kWarps; ++i) {
      const int mine = min(shared.first[i], left);
      left -= mine;
      total += shared.sums[i] += mine * tie_weight;
      shared.first[i] = mine;
    }
    Mass at = min(static_cast<Mass>(uniform * static_cast<double>(total)), total - 1);
    int found = 0;
    while (found < kWarps - 1 && at >= shared.sums[found]) at -= shared.sums[found++];
    shared.warp = found;
    shared.ties = shared.first[found];
    shared.left = at;
  }
  __syncthreads();
  if (warp != shared.warp) return -1;
  Mass left = shared.left;
  int ties_left = shared.ties;
  int32_t token = -1;
  row.VisitPart([&](int i) {
    if (token >= 0) return;  // all lanes know it
    const float logit = row.Logit(i);
    const unsigned order = OrderOf(logit);
    const bool tie = order == kept.last;
    const unsigned all_ties = __ballot_sync(0xffffffffu, tie);
    const bool in = order >= kept.last && logit >= kept.least &&
                    (!tie || __popc(all_ties & ((1u << lane) - 1)) < ties_left);
    ties_left -= min(ties_left, __popc(all_ties));
    Mass sum = in ? weigh(logit) : 0;
    for (int offset = 1; offset < 32; offset *= 2) {
      const Mass other = __shfl_up_sync(0xffffffffu, sum, offset);
      if (lane >= offset) sum += other;
    }
    const unsigned behind = __ballot_sync(0xffffffffu, in && sum > left);
    if (behind == 0) {
      left -= __shfl_sync(0xffffffffu, sum, 31);
      return;
    }
    const int chosen = __shfl_sync(0xffffffffu, i, __ffs(static_cast<int>(behind)) - 1);
    token = row.ids == nullptr ? chosen : row.ids[chosen];
  });
  return lane == 0 ? token : -1;
}

/// What of a row lies near its maximum.
struct Survey {
  Mass total, mass[kDepths];
  int count[kDepths];
};

__device__ Survey TakeSurvey(const Row& row, const Weigh& weigh, Shared& shared) {
  Survey survey{};
  row.VisitPart([&](int i) {
    const float logit = row.Logit(i);
    const Mass weight = weigh(logit);
    const float depth = logit == weigh.max ? 0 : (weigh.max - logit) * weigh.scale;
    survey.total += weight;
#pragma unroll
    for (int d = 0; d < kDepths; ++d) {
      const bool near = depth <= kDepth[d];
      survey.mass[d] += near ? weight : 0;
      survey.count[d] += near ? 1 : 0;
    }
  });
  survey.total = SumBlock(survey.total, shared);
#pragma unroll
  for (int d = 0; d < kDepths; ++d) {
    survey.mass[d] = SumBlock(survey.mass[d], shared);
    int count = survey.count[d];
    for (int offset = 16; offset > 0; offset /= 2) {
      count += __shfl_xor_sync(0xffffffffu, count, offset);
    }
    if (threadIdx.x % 32 == 0) shared.counts[threadIdx.x / 32][d] = count;
  }
  __syncthreads();
#pragma unroll
  for (int d = 0; d < kDepths; ++d) {
    survey.count[d] = 0;
    for (int w = 0; w < kWarps; ++w) survey.count[d] += shared.counts[w][d];
  }
  return survey;
}

/// The row's numbers that lie no deeper, in shared memory.
__device__ Row Gather(const Row& row, const Weigh& weigh, int depth, int count, Shared& shared) {
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  int at = 0;
  for (int w = 0; w < warp; ++w) at += shared.counts[w][depth];
  row.VisitPart([&](int i) {
    const float logit = row.Logit(i);
    const bool near = logit == weigh.max || (weigh.max - logit) * weigh.scale <= kDepth[depth];
    const unsigned all = __ballot_sync(0xffffffffu, near);
    if (near) {
      const int mine = at + __popc(all & ((1u << lane) - 1));
      shared.logits[mine] = logit;
      shared.ids[mine] = i;
    }
    at += __popc(all);
  });
  __syncthreads();
  return {shared.logits, shared.ids, count};
}

/// The least depth that holds all that the draw may pick; kDepths: none does.
__device__ int DepthFor(const Survey& survey, const TokenDraw& draw, Mass target) {
  for (int d = 0; d < kDepths; ++d) {
    if (survey.count[d] > kMostKept) return kDepths;
    const bool by_count = draw.top_k > 0 && survey.count[d] >= draw.top_k;
    const bool by_mass = draw.top_k <= 0 && draw.top_p < 1 && survey.mass[d] >= target;
    const bool by_share =
        draw.min_p > 0 && draw.top_k <= 0 && draw.top_p >= 1 && -logf(draw.min_p) < kDepth[d];
    if (by_count || by_mass || by_share) return d;
  }
  return kDepths;
}

__device__ Mass TargetOf(float top_p, Mass total) {
  return max(static_cast<Mass>(ceil(static_cast<double>(top_p) * static_cast<double>(total))),
             Mass{1});
}

__device__ int32_t DrawRow(Row row, const TokenDraw& draw, Shared& shared) {
  float most = -INFINITY;
  row.VisitPart([&](int i) { most = fmaxf(most, row.Logit(i)); });  // of a NaN, the other
  most = CombineBlock(most, reinterpret_cast<float*>(shared.sums),
                      [](float a, float b) { return fmaxf(a, b); });
  if (!(most > -INFINITY)) return threadIdx.x == 0 ? -2 : -1;
  const Weigh weigh{most + 0.0f, 1 / draw.temperature};
  Kept kept;
  if (draw.min_p > 0) kept.least = most + draw.temperature * logf(draw.min_p);
  const bool limited = draw.top_k > 0 || draw.top_p < 1 || draw.min_p > 0;
  if (limited && most < INFINITY) {  // infinite ones share all of the probability
    const Survey survey = TakeSurvey(row, weigh, shared);
    Mass total = survey.total;
    const int depth = DepthFor(survey, draw, TargetOf(draw.top_p, total));
    if (depth < kDepths) row = Gather(row, weigh, depth, survey.count[depth], shared);
    if (draw.top_k > 0 && draw.top_k < row.count) {
      const auto one = [](float) { return Mass{1}; };
      kept.last = FindBorder(row, 1, static_cast<Mass>(draw.top_k), one, shared).order;
      kept.last = max(kept.last, 1u);
    }
    if (draw.top_p < 1) {
      if (draw.top_k > 0) {
        Mass mine = 0;
        row.VisitPart([&](int i) {
          if (OrderOf(row.Logit(i)) >= kept.last) mine += weigh(row.Logit(i));
        });
        total = SumBlock(mine, shared);
      }
      const Mass target = TargetOf(draw.top_p, total);
      const Border border = FindBorder(row, kept.last, target, weigh, shared);
      const Mass each = max(weigh(OfOrder(border.order)), Mass{1});
      kept.last = border.order;
      kept.ties = static_cast<int>(min((target - border.above + each - 1) / each, Mass{INT32_MAX}));
    }
  }
  return DrawKept(row, kept, weigh, draw.uniform, shared);
}

/// A block a row.
__global__ void __launch_bounds__(kThreads)
    DrawKernel(const float* logits, int count, const TokenDraw* draws, int32_t* tokens) {
  extern __shared__ __align__(16) unsigned char memory[];
  const Row row{logits + static_cast<int64_t>(blockIdx.x) * count, nullptr, count};
  const int32_t token = DrawRow(row, draws[blockIdx.x], *reinterpret_cast<Shared*>(memory));
  if (token >= 0) tokens[blockIdx.x] = token;
  if (token == -2) tokens[blockIdx.x] = -1;
}

}  // namespace

TokenDrawer::TokenDrawer(int device) : stream_(device) {}

std::span<const int32_t> TokenDrawer::Draw(const Tensor& logits, std::span<const TokenDraw> draws) {
  const int64_t count = logits.dim(logits.rank() - 1);
  if (logits.elements() != count * static_cast<int64_t>(draws.size()) || count < 1 ||
      count > INT32_MAX - kThreads || draws.size() > static_cast<size_t>(INT32_MAX)) {
    throw Error(ErrorCode::kInvalidArgument, "expected a row of logits for each draw, got " +
                                                 logits.ToString() + " for " +
                                                 std::to_string(draws.size()));
  }
  if (draws.empty()) return {};
  if (!draws_ || draws_->size() < draws.size_bytes()) {
    draws_ = AllocatePinned(draws.size_bytes());
    tokens_ = AllocatePinned(draws.size() * sizeof(int32_t));
  }
  std::copy(draws.begin(), draws.end(), reinterpret_cast<TokenDraw*>(draws_->data()));
  auto* const tokens = reinterpret_cast<int32_t*>(tokens_->data());
  const DeviceGuard guard(stream_.device());
  Launch(stream_, {dim3(static_cast<unsigned>(draws.size())), dim3(kThreads), sizeof(Shared)},
         &DrawKernel, logits.data<float>(), static_cast<int>(count),
         reinterpret_cast<const TokenDraw*>(draws_->data()), tokens);
  stream_.Synchronize();
  return {tokens, draws.size()};
}

}  // namespace oort::cuda
