// SPDX-License-Identifier: MIT
#include "llm/sampling/token_drawer.h"

#include <algorithm>

#include "cuda/elements.h"
#include "cuda/float_order.h"
#include "cuda/launch.h"
#include "cuda/memory.h"

namespace oort::cuda {
namespace {

/// A TokenDraw whose lists are on the device.
struct DeviceDraw {
  double uniform;
  float temperature, top_p, min_p;
  int32_t top_k, row, reported, changes;
  const LogitChange* change;
  float* before;  ///< logits that were changed
  const uint32_t* allowed;
};

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
  const uint32_t* allowed = nullptr;  ///< bits of those that count; null: all do

  /// visit(i) for each index of the warp's part, all lanes at once; past the end, too.
  template <typename Visit>
  __device__ void VisitPart(const Visit& visit) const {
    const int part = (count + kThreads - 1) / kThreads * 32, lane = threadIdx.x % 32;
    const int begin = static_cast<int>(threadIdx.x / 32) * part;
#pragma unroll 8
    for (int i = begin; i < begin + part; i += 32) visit(i + lane);
  }
  __device__ float Logit(int i) const {
    if (i >= count) return -INFINITY;
    // A warp looks at one word.
    if (allowed != nullptr && (allowed[i / 32] >> (i % 32) & 1) == 0) return -INFINITY;
    return logits[i];
  }
  __device__ int32_t Id(int i) const { return ids == nullptr ? i : ids[i]; }
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
  int32_t drawn;
};

__device__ Mass SumBlock(Mass value, Shared& shared) {
  return CombineBlock(value, shared.sums, [](Mass a, Mass b) { return a + b; });
}

/// The largest order whose mass, with all that lies above, reaches a target.
struct Border {
  unsigned order = 0;
  Mass above = 0;  ///< of what is larger
};

/// For borders by number.
struct CountOne {
  __device__ Mass operator()(float) const { return 1; }
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
    token = row.Id(chosen);
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
__device__ int DepthFor(const Survey& survey, const DeviceDraw& draw, Mass target) {
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

__device__ float MostOf(const Row& row, Shared& shared) {
  float most = -INFINITY;
  row.VisitPart([&](int i) { most = fmaxf(most, row.Logit(i)); });  // of a NaN, the other
  return CombineBlock(most, reinterpret_cast<float*>(shared.sums),
                      [](float a, float b) { return fmaxf(a, b); });
}

__device__ int32_t FirstOf(const Row& row, float value, Shared& shared) {
  int first = INT32_MAX;
  row.VisitPart([&](int i) {
    if (first == INT32_MAX && row.Logit(i) == value) first = i;
  });
  return CombineBlock(first, shared.first, [](int a, int b) { return min(a, b); });
}

/// In one thread the token, or -2 where there is none; -1 in the others.
__device__ int32_t DrawRow(Row row, const DeviceDraw& draw, Shared& shared) {
  const float most = MostOf(row, shared);
  if (!(most > -INFINITY)) return threadIdx.x == 0 ? -2 : -1;
  if (draw.top_k == 1 && draw.uniform == 0) {
    const int32_t first = FirstOf(row, most, shared);
    return threadIdx.x == 0 ? first : -1;
  }
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
      kept.last = FindBorder(row, 1, static_cast<Mass>(draw.top_k), CountOne{}, shared).order;
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

/// The logits with biases and penalties, as LogitChange::Of rounds them on the host.
__device__ void ChangeLogits(float* logits, const DeviceDraw& draw) {
  for (int i = static_cast<int>(threadIdx.x); i < draw.changes; i += kThreads) {
    const LogitChange change = draw.change[i];
    const float before = logits[change.token];
    const float raised = __fadd_rn(before, change.bias);
    const float scaled =
        raised < 0 ? __fmul_rn(raised, change.penalty) : __fdiv_rn(raised, change.penalty);
    draw.before[i] = before;
    logits[change.token] = __fsub_rn(scaled, change.less);
  }
  __syncthreads();
}

__device__ void RestoreLogits(float* logits, const DeviceDraw& draw) {
  for (int i = static_cast<int>(threadIdx.x); i < draw.changes; i += kThreads) {
    logits[draw.change[i].token] = draw.before[i];
  }
  __syncthreads();
}

/// The `wanted` largest of a row, by one warp.
__device__ void CollectTop(const Row& row, const Border& border, int wanted, DrawReport& report) {
  const unsigned lane = threadIdx.x, below = (1u << lane) - 1;
  const unsigned last = max(border.order, 1u);
  int ties = wanted - static_cast<int>(min(border.above, static_cast<Mass>(wanted)));
  int found = 0;
  for (int first = 0; first < row.count; first += 32) {
    const int i = first + static_cast<int>(lane);
    const unsigned order = OrderOf(row.Logit(i));
    const unsigned all_ties = __ballot_sync(0xffffffffu, order == last);
    const bool in = order > last || (order == last && __popc(all_ties & below) < ties);
    ties -= min(ties, __popc(all_ties));
    const unsigned all = __ballot_sync(0xffffffffu, in);
    const int at = found + __popc(all & below);
    if (in && at < wanted) report.top[static_cast<size_t>(at)] = {row.Logit(i), row.Id(i)};
    found += __popc(all);
  }
  if (lane == 0) report.count = min(found, wanted);
}

/// What the whole row says of a token, and of the most likely ones.
__device__ void ReportRow(const Row& row, int32_t token, int wanted, DrawReport& report,
                          Shared& shared) {
  const Weigh weigh{MostOf(row, shared) + 0.0f, 1};
  const Survey survey = TakeSurvey(row, weigh, shared);
  if (threadIdx.x == 0) {
    report.max = weigh.max;
    report.drawn = row.logits[token];
    report.weights = static_cast<double>(survey.total) / static_cast<double>(kOne);
  }
  if (wanted == 0) return;
  int depth = 0;
  while (depth < kDepths && survey.count[depth] < wanted) ++depth;
  const bool fits = depth < kDepths && survey.count[depth] <= kMostKept;
  const Row near = fits ? Gather(row, weigh, depth, survey.count[depth], shared) : row;
  const Border border = FindBorder(near, 1, static_cast<Mass>(wanted), CountOne{}, shared);
  if (threadIdx.x < 32) CollectTop(near, border, wanted, report);
}

/// A block a draw.
__global__ void __launch_bounds__(kThreads)
    DrawKernel(float* all, int count, const DeviceDraw* draws, int32_t* tokens,
               DrawReport* reports) {
  extern __shared__ __align__(16) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const DeviceDraw draw = draws[blockIdx.x];
  float* const logits = all + static_cast<int64_t>(draw.row) * count;
  if (threadIdx.x == 0) shared.drawn = -1;
  if (draw.changes > 0) ChangeLogits(logits, draw);
  const int32_t token = DrawRow({logits, nullptr, count, draw.allowed}, draw, shared);
  if (token != -1) {
    tokens[draw.row] = max(token, -1);
    shared.drawn = token;
  }
  __syncthreads();
  // Others may want the model's own logits, too.
  if (draw.changes > 0) RestoreLogits(logits, draw);
  if (draw.reported < 0 || shared.drawn < 0) return;
  ReportRow({logits, nullptr, count}, shared.drawn, draw.reported, reports[blockIdx.x], shared);
}

/// Draws of one turn, and where the kernel finds their lists.
struct Turn {
  std::shared_ptr<Buffer> pinned, device;  // of the same layout
  std::shared_ptr<Buffer> reports;         // pinned: the kernel writes them there
  size_t count = 0;
  std::unique_ptr<Event> copied, drawn;
};

/// Gives out parts of a buffer.
class Parts {
 public:
  /// Where the next `bytes` begin.
  size_t Take(size_t bytes) {
    const size_t at = size_;
    size_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kAlignment = 16;
  size_t size_ = 0;
};

template <typename T>
T* At(const std::shared_ptr<Buffer>& buffer, size_t offset) {
  return reinterpret_cast<T*>(buffer->data() + offset);
}

class CudaTokenDrawer final : public TokenDrawer {
 public:
  explicit CudaTokenDrawer(Stream& stream) : stream_(stream), copies_(stream.device()) {
    for (Turn& turn : turns_) {
      turn.copied = std::make_unique<Event>(stream.device());
      turn.drawn = std::make_unique<Event>(stream.device());
    }
  }

  void Begin(size_t at, const Tensor& logits, std::span<const TokenDraw> draws,
             int32_t* tokens) override {
    Check(at, logits, draws);
    Turn& turn = turns_[at];
    turn.count = 0;
    if (draws.empty()) return;
    const size_t copied = Place(turn, draws);
    const DeviceGuard guard(stream_.device());
    // Beside the work in front of the draws, which takes longer.
    copies_.CopyToDevice(turn.device->data(), turn.pinned->data(), copied);
    turn.copied->Record(copies_);
    stream_.Wait(*turn.copied);
    Launch(stream_, {dim3(static_cast<unsigned>(draws.size())), dim3(kThreads), sizeof(Shared)},
           &DrawKernel, const_cast<float*>(logits.data<float>()),
           static_cast<int>(logits.dim(logits.rank() - 1)), At<const DeviceDraw>(turn.device, 0),
           tokens, At<DrawReport>(turn.reports, 0));
    turn.drawn->Record(stream_);
    turn.count = draws.size();
  }

  std::span<const DrawReport> End(size_t at) override {
    const Turn& turn = turns_.at(at);
    if (turn.count == 0) return {};
    turn.drawn->Synchronize();
    return {At<const DrawReport>(turn.reports, 0), turn.count};
  }

 private:
  /// Fills the turn's buffers; returns how many bytes of them the device needs.
  size_t Place(Turn& turn, std::span<const TokenDraw> draws) const {
    Parts parts;
    parts.Take(draws.size_bytes());  // a DeviceDraw is no larger
    static_assert(sizeof(DeviceDraw) <= sizeof(TokenDraw));
    size_t changes = 0;
    for (const TokenDraw& draw : draws) {
      parts.Take(draw.changes.size_bytes());
      parts.Take(draw.allowed.size_bytes());
      changes += draw.changes.size();
    }
    const size_t copied = parts.size(), before = parts.Take(changes * sizeof(float));
    if (!turn.pinned || turn.pinned->size() < parts.size()) {
      const size_t bytes = parts.size() + parts.size() / 2;  // lists grow with the answers
      turn.pinned = AllocatePinned(bytes);
      turn.device = AllocateDevice(bytes, stream_.device());
    }
    if (!turn.reports || turn.reports->size() < draws.size() * sizeof(DrawReport)) {
      turn.reports = AllocatePinned(draws.size() * sizeof(DrawReport));
    }
    Fill(turn, draws, At<float>(turn.device, before));
    return copied;
  }

  static void Fill(Turn& turn, std::span<const TokenDraw> draws, float* before) {
    Parts parts;
    parts.Take(draws.size_bytes());
    const auto list = [&]<typename T>(std::span<const T> values) -> const T* {
      const size_t at = parts.Take(values.size_bytes());
      std::copy(values.begin(), values.end(), At<T>(turn.pinned, at));
      return values.empty() ? nullptr : At<const T>(turn.device, at);
    };
    for (size_t i = 0; i < draws.size(); ++i) {
      const TokenDraw& draw = draws[i];
      At<DrawReport>(turn.reports, 0)[i].row = draw.row;
      At<DrawReport>(turn.reports, 0)[i].count = 0;
      At<DeviceDraw>(turn.pinned, 0)[i] = {.uniform = draw.uniform,
                                           .temperature = draw.temperature,
                                           .top_p = draw.top_p,
                                           .min_p = draw.min_p,
                                           .top_k = draw.top_k,
                                           .row = draw.row,
                                           .reported = draw.reported,
                                           .changes = static_cast<int32_t>(draw.changes.size()),
                                           .change = list(draw.changes),
                                           .before = before,
                                           .allowed = list(draw.allowed)};
      before += draw.changes.size();
    }
  }

  Stream& stream_;
  Stream copies_;
  std::array<Turn, kTurns> turns_;
};

}  // namespace

std::unique_ptr<TokenDrawer> MakeCudaTokenDrawer(Stream& stream) {
  return std::make_unique<CudaTokenDrawer>(stream);
}

}  // namespace oort::cuda
