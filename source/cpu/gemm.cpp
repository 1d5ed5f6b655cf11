// SPDX-License-Identifier: MIT
#include "cpu/gemm.h"

#include <algorithm>

#include "core/checked.h"
#include "core/host_memory.h"
#include "core/parallel.h"
#include "cpu/gemm_split.h"

namespace oort {
namespace {

constexpr int64_t kAlignFloats = 16;               // 64 bytes
constexpr int64_t kSlackFloats = 16;               // kernels may read a vector past a panel
constexpr int64_t kPrivateBlock = 128 * 1024;      // floats of one thread's block: half an L2
constexpr int64_t kSharedBlock = 2 * 1024 * 1024;  // floats of a block that all threads share
constexpr int64_t kFewPanels = 12;                 // for one thread: splitting them is uneven
constexpr double kGrainWork = 64 * 1024;           // multiplications of one grain (see parallel.h)

int PanelWidth(const GemmKernels& kernels, GemmSide side) {
  return side == GemmSide::kA ? kernels.rows : kernels.columns;
}

/// How a product is cut. The kept side is the one whose panels exist as a whole; blocks of the
/// other, the streamed side, are packed as they are needed.
struct Plan {
  GemmSide kept = GemmSide::kA;
  int64_t kept_extent = 0, streamed_extent = 0, k = 0;
  int kept_width = 0, streamed_width = 0;
  int64_t kept_panels = 0, streamed_panels = 0;
  int threads = 1;
  bool gemv = false;
  /// All threads work on one block of the streamed side, instead of each on its own.
  bool shared = false;
  int64_t k_step = 1;  // of one pass over the tiles
  /// One step's part of the kept side stays in the L2 cache: then each streamed panel meets all of
  /// it while it is in the L1 cache.
  bool kept_in_cache = false;
  int64_t block_panels = 1;  // of the streamed side
  int64_t kept_floats = 0;   // scratch for the kept side, if it is not packed yet
  int64_t block_floats = 0;  // scratch for one block
  int64_t workspace = 0;
};

/// Equal steps, so that no short one is left over.
int64_t StepOf(int64_t k, int64_t most) {
  const int64_t steps = std::max<int64_t>(1, CeilDivide(k, most));
  return std::max<int64_t>(1, CeilDivide(k, steps));
}

int64_t AlignFloats(int64_t floats) {
  return CheckedAdd<int64_t>(floats, 2 * kSlackFloats) / kAlignFloats * kAlignFloats;
}

double GrainsOf(const GemmSize& size) {
  return static_cast<double>(size.m) * static_cast<double>(size.n) * static_cast<double>(size.k) /
         kGrainWork;
}

/// Depends on nothing but the arguments: the workspace is made for that many.
int UsefulThreads(const GemmSize& size, int threads) {
  return ChoosePieces(threads, GrainsOf(size), true);
}

void PlanBlocks(const GemmKernels& kernels, Plan& plan) {
  plan.k_step = StepOf(plan.k, kernels.depth);
  plan.shared = plan.threads > 1 && plan.streamed_panels < kFewPanels * plan.threads;
  const int64_t depth = plan.shared ? plan.k : plan.k_step;
  const int64_t panel = std::max<int64_t>(1, CheckedMultiply<int64_t>(depth, plan.streamed_width));
  const int64_t most = std::max<int64_t>(1, (plan.shared ? kSharedBlock : kPrivateBlock) / panel);
  plan.kept_in_cache =
      !plan.shared && CheckedMultiply(plan.kept_extent, plan.k_step) <= kPrivateBlock;
  const int64_t mine =
      plan.shared ? plan.streamed_panels : CeilDivide(plan.streamed_panels, plan.threads);
  plan.block_panels = std::clamp<int64_t>(mine, 1, most);
  plan.block_floats = AlignFloats(CheckedMultiply(panel, plan.block_panels));
}

Plan MakePlan(const GemmKernels& kernels, const GemmSize& size, int threads) {
  Plan plan;
  const bool none = !size.a_packed && !size.b_packed;
  plan.kept = size.b_packed || (none && size.n < size.m) ? GemmSide::kB : GemmSide::kA;
  const bool a_kept = plan.kept == GemmSide::kA;
  plan.k = size.k;
  plan.kept_extent = a_kept ? size.m : size.n;
  plan.streamed_extent = a_kept ? size.n : size.m;
  plan.kept_width = a_kept ? kernels.rows : kernels.columns;
  plan.streamed_width = a_kept ? kernels.columns : kernels.rows;
  plan.kept_panels = CeilDivide(plan.kept_extent, plan.kept_width);
  plan.streamed_panels = CeilDivide(plan.streamed_extent, plan.streamed_width);
  plan.threads = UsefulThreads(size, threads);
  if (none) {
    plan.kept_floats = PackedSize(kernels, plan.kept, plan.kept_extent, plan.k);
  }
  plan.gemv = plan.streamed_extent == 1;
  if (plan.gemv) {
    plan.block_floats = AlignFloats(plan.k);
    plan.workspace = CheckedAdd(plan.kept_floats, plan.block_floats);
    return plan;
  }
  PlanBlocks(kernels, plan);
  const int64_t blocks = plan.shared ? 1 : plan.threads;
  plan.workspace =
      CheckedAdd(plan.kept_floats, CheckedMultiply<int64_t>(plan.block_floats, blocks));
  return plan;
}

/// One product being computed.
class Run {
 public:
  Run(const GemmKernels& kernels, const GemmProblem& problem, const Plan& plan, float* workspace)
      : kernels_(kernels), problem_(problem), plan_(plan) {
    a_kept_ = plan.kept == GemmSide::kA;
    streamed_ = a_kept_ ? problem.b : problem.a;
    kept_ = problem.packed;
    if (kept_ == nullptr) {
      PackMatrix(kernels, plan.kept, plan.kept_extent, plan.k, a_kept_ ? *problem.a : *problem.b,
                 plan.threads, workspace);
      kept_ = workspace;
    }
    blocks_ = workspace + plan.kept_floats;
  }

  void Go() const {
    if (plan_.gemv) return Vector();
    if (plan_.shared) return Shared();
    Private();
  }

 private:
  /// Each thread takes a range of the streamed side and works through it alone.
  void Private() const {
    ParallelPieces(plan_.threads, plan_.threads, GrainsOf(problem_.size), [this](int t) {
      float* block = blocks_ + t * plan_.block_floats;
      const int64_t last = PartBegin(plan_.streamed_panels, plan_.threads, t + 1);
      for (int64_t p = PartBegin(plan_.streamed_panels, plan_.threads, t); p < last;
           p += plan_.block_panels) {
        PrivateBlock(block, p, std::min(last, p + plan_.block_panels));
      }
    });
  }

  void PrivateBlock(float* block, int64_t first, int64_t last) const {
    int64_t k0 = 0;
    do {
      const int64_t k1 = std::min(plan_.k, k0 + plan_.k_step);
      const int64_t stride = (k1 - k0) * plan_.streamed_width;
      if (plan_.kept_in_cache) {
        for (int64_t p = first; p < last; ++p) {
          PackStreamed(p, k0, k1, block);
          for (int64_t kept = 0; kept < plan_.kept_panels; ++kept) Tile(kept, p, k0, k1, block);
        }
      } else {
        for (int64_t p = first; p < last; ++p) {
          PackStreamed(p, k0, k1, block + (p - first) * stride);
        }
        for (int64_t kept = 0; kept < plan_.kept_panels; ++kept) {
          for (int64_t p = first; p < last; ++p) {
            Tile(kept, p, k0, k1, block + (p - first) * stride);
          }
        }
      }
      k0 = k1;
    } while (k0 < plan_.k);
  }

  /// The threads pack a block together, then share its tiles out.
  void Shared() const {
    for (int64_t first = 0; first < plan_.streamed_panels; first += plan_.block_panels) {
      const int64_t count = std::min(plan_.block_panels, plan_.streamed_panels - first);
      PackShared(first, count);
      const GemmSplit split = SplitTiles(plan_.kept_panels, plan_.kept_width, count,
                                         plan_.streamed_width, plan_.threads);
      ParallelPieces(plan_.threads, split.parts(), GrainsOf(problem_.size), [&](int piece) {
        const int kept = piece / split.streamed_parts, streamed = piece % split.streamed_parts;
        SharedTiles(first,
                    {PartBegin(plan_.kept_panels, split.kept_parts, kept),
                     PartBegin(plan_.kept_panels, split.kept_parts, kept + 1)},
                    {PartBegin(count, split.streamed_parts, streamed),
                     PartBegin(count, split.streamed_parts, streamed + 1)});
      });
    }
  }

  /// Few panels are cut along k too, so that every thread has some to pack.
  void PackShared(int64_t first, int64_t count) const {
    const int64_t width = plan_.streamed_width;
    const int64_t slices =
        std::clamp<int64_t>(4 * plan_.threads / count, 1, std::max<int64_t>(1, plan_.k / 64));
    const int64_t depth = CeilDivide(plan_.k, slices);
    const int64_t grain = GrainOf({.bytes = 8.0 * static_cast<double>(depth * width)});
    ParallelFor(plan_.threads, count * slices, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t p = i / slices, k0 = std::min(plan_.k, i % slices * depth);
        PackStreamed(first + p, k0, std::min(plan_.k, k0 + depth),
                     blocks_ + (p * plan_.k + k0) * width);
      }
    });
  }

  struct Range {
    int64_t begin, end;
  };

  /// A rectangle of tiles, in strips whose part of the block stays in one thread's L2 cache.
  void SharedTiles(int64_t first, Range kept, Range streamed) const {
    const int64_t width = plan_.streamed_width;
    const int64_t strip = std::max<int64_t>(1, kPrivateBlock / (plan_.k_step * width));
    int64_t k0 = 0;
    do {
      const int64_t k1 = std::min(plan_.k, k0 + plan_.k_step);
      for (int64_t begin = streamed.begin; begin < streamed.end; begin += strip) {
        const int64_t end = std::min(streamed.end, begin + strip);
        for (int64_t i = kept.begin; i < kept.end; ++i) {
          for (int64_t p = begin; p < end; ++p) {
            Tile(i, first + p, k0, k1, blocks_ + (p * plan_.k + k0) * width);
          }
        }
      }
      k0 = k1;
    } while (k0 < plan_.k);
  }

  void PackStreamed(int64_t p, int64_t k0, int64_t k1, float* panel) const {
    const int64_t begin = p * plan_.streamed_width;
    const int64_t end = std::min(plan_.streamed_extent, begin + plan_.streamed_width);
    streamed_->Pack(k0, k1, begin, end, plan_.streamed_width, panel);
  }

  void Tile(int64_t kept, int64_t streamed, int64_t k0, int64_t k1, const float* panel) const {
    const float* kept_panel = kept_ + (kept * plan_.k + k0) * plan_.kept_width;
    const int64_t row = (a_kept_ ? kept : streamed) * kernels_.rows;
    const int64_t column = (a_kept_ ? streamed : kept) * kernels_.columns;
    GemmTile tile;
    tile.k = k1 - k0;
    tile.a = a_kept_ ? kept_panel : panel;
    tile.b = a_kept_ ? panel : kept_panel;
    tile.c = problem_.c + row * problem_.ldc + column;
    tile.ldc = problem_.ldc;
    tile.rows = static_cast<int>(std::min<int64_t>(kernels_.rows, problem_.size.m - row));
    tile.columns = static_cast<int>(std::min<int64_t>(kernels_.columns, problem_.size.n - column));
    if (problem_.row_bias != nullptr) tile.row_bias = problem_.row_bias + row;
    if (problem_.column_bias != nullptr) tile.column_bias = problem_.column_bias + column;
    tile.accumulate = k0 > 0;
    if (k1 == plan_.k) {
      tile.activation = problem_.activation;
      tile.addend_stride = problem_.addend_stride;
      if (problem_.addend != nullptr) {
        tile.addend = problem_.addend + row * problem_.addend_stride + column;
      }
    }
    kernels_.tile(tile);
  }

  /// The streamed side is one vector: each panel of the kept side is read once.
  void Vector() const {
    streamed_->Pack(0, plan_.k, 0, 1, 1, blocks_);
    const auto gemv = a_kept_ ? kernels_.gemv_rows : kernels_.gemv_columns;
    const float* kept_bias = a_kept_ ? problem_.row_bias : problem_.column_bias;
    const float* other_bias = a_kept_ ? problem_.column_bias : problem_.row_bias;
    const int64_t grain = GrainOf({.bytes = 4.0 * static_cast<double>(plan_.k) * plan_.kept_width});
    ParallelFor(plan_.threads, plan_.kept_panels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t first = p * plan_.kept_width;
        float common[64];
        GemvPanel panel;
        panel.k = plan_.k;
        panel.panel = kept_ + p * plan_.k * plan_.kept_width;
        panel.x = blocks_;
        panel.y_stride = a_kept_ ? problem_.ldc : 1;
        panel.y = problem_.c + first * panel.y_stride;
        panel.count =
            static_cast<int>(std::min<int64_t>(plan_.kept_width, plan_.kept_extent - first));
        if (kept_bias != nullptr) panel.bias = kept_bias + first;
        if (other_bias != nullptr) {
          std::fill_n(common, panel.count, *other_bias);
          panel.bias = common;
        }
        panel.addend_stride = a_kept_ ? problem_.addend_stride : 1;
        if (problem_.addend != nullptr)
          panel.addend = problem_.addend + first * panel.addend_stride;
        panel.activation = problem_.activation;
        gemv(panel);
      }
    });
  }

  const GemmKernels& kernels_;
  const GemmProblem& problem_;
  const Plan& plan_;
  bool a_kept_ = true;
  const PanelSource* streamed_ = nullptr;
  const float* kept_ = nullptr;
  float* blocks_ = nullptr;
};

/// Whether a batch is better spread product by product than by splitting each one.
bool SpreadBatch(const GemmSize& size, int64_t count, int threads) {
  if (threads <= 1 || count <= 1) return false;
  return count % threads == 0 || count >= 4 * threads || UsefulThreads(size, threads) == 1;
}

int BatchThreads(const GemmSize& size, int64_t count, int threads) {
  GemmSize all = size;
  all.m = static_cast<int64_t>(
      std::min(static_cast<double>(size.m) * static_cast<double>(count), 1e18));
  return static_cast<int>(std::min<int64_t>(count, UsefulThreads(all, threads)));
}

}  // namespace

int64_t PackedSize(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k) {
  const int64_t width = PanelWidth(kernels, side);
  const int64_t padded = CheckedMultiply(CeilDivide(extent, width), width);
  return AlignFloats(CheckedMultiply(padded, k));
}

void PackMatrix(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k,
                const PanelSource& source, int threads, float* panels) {
  const int64_t width = PanelWidth(kernels, side);
  const int64_t count = CeilDivide(extent, width);
  const int64_t grain =
      GrainOf({.bytes = 8.0 * static_cast<double>(k) * static_cast<double>(width)});
  ParallelFor(threads, count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      source.Pack(0, k, p * width, std::min(extent, (p + 1) * width), static_cast<int>(width),
                  panels + p * k * width);
    }
  });
}

void UnpackMatrix(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k_extent,
                  const float* panels, float* matrix) {
  const int64_t width = PanelWidth(kernels, side);
  for (int64_t i = 0; i < extent; ++i) {
    const float* from = panels + i / width * width * k_extent + i % width;
    for (int64_t k = 0; k < k_extent; ++k) matrix[i * k_extent + k] = from[k * width];
  }
}

PackedMatrix::PackedMatrix(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k,
                           const PanelSource& source) {
  const int64_t floats = PackedSize(kernels, side, extent, k);
  buffer_ = AllocatePages(CheckedMultiply(static_cast<size_t>(floats), sizeof(float)));
  PackMatrix(kernels, side, extent, k, source, AvailableThreads(),
             reinterpret_cast<float*>(buffer_->data()));
}

int64_t GemmWorkspace(const GemmKernels& kernels, const GemmSize& size, int threads) {
  if (size.m == 0 || size.n == 0) return 0;
  return MakePlan(kernels, size, threads).workspace;
}

void Gemm(const GemmKernels& kernels, const GemmProblem& problem, int threads, float* workspace) {
  if (problem.size.m == 0 || problem.size.n == 0) return;
  const Plan plan = MakePlan(kernels, problem.size, threads);
  Run(kernels, problem, plan, workspace).Go();
}

int64_t GemmBatchWorkspace(const GemmKernels& kernels, const GemmSize& size, int64_t count,
                           int threads) {
  if (count == 0) return 0;
  if (!SpreadBatch(size, count, threads)) return GemmWorkspace(kernels, size, threads);
  return CheckedMultiply<int64_t>(GemmWorkspace(kernels, size, 1),
                                  BatchThreads(size, count, threads));
}

void GemmBatch(const GemmKernels& kernels, const GemmSize& size, int64_t count, int threads,
               float* workspace, GemmRun run) {
  if (!SpreadBatch(size, count, threads)) {
    for (int64_t i = 0; i < count; ++i) run(i, threads, workspace);
    return;
  }
  const int64_t floats = GemmWorkspace(kernels, size, 1);
  const int pieces = BatchThreads(size, count, threads);
  const double grains = GrainsOf(size) * static_cast<double>(count);
  ParallelPieces(threads, pieces, grains, [&](int t) {
    const int64_t end = PartBegin(count, pieces, t + 1);
    for (int64_t i = PartBegin(count, pieces, t); i < end; ++i) {
      run(i, 1, workspace + t * floats);
    }
  });
}

}  // namespace oort
