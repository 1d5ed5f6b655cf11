// SPDX-License-Identifier: MIT
#include "cpu/gemm.h"

#include <algorithm>
#include <array>

#include "core/checked.h"
#include "core/host_memory.h"
#include "core/machine.h"
#include "core/parallel.h"
#include "cpu/gemm_split.h"

namespace oort {
namespace {

constexpr int64_t kAlign = 64;      // bytes
constexpr int64_t kSlack = 64;      // kernels may read a vector past a panel
constexpr int64_t kFewPanels = 12;  // for one thread: splitting them is uneven
constexpr int64_t kPiece = 4096;    // floats that are converted at a time
constexpr int64_t kMostWidth = 64;  // of a panel

/// Bytes of one thread's block.
int64_t PrivateBytes() { return CacheBlock(512 * 1024, ThisMachine().l2, 0.5); }
/// Bytes of a block that all threads share.
int64_t SharedBytes() { return CacheBlock(8 * 1024 * 1024, ThisMachine().l3, 0.5); }

int PanelWidth(const GemmKernels& kernels, GemmSide side) {
  return side == GemmSide::kA ? kernels.rows : kernels.columns;
}

/// How a product is cut into blocks, in the manner of Goto and van de Geijn (2008) and BLIS. The
/// kept side is the one whose panels exist as a whole. Blocks of the other side, the streamed one,
/// are packed as they are needed.
struct Plan {
  GemmSide kept = GemmSide::kA;
  int64_t kept_extent = 0, streamed_extent = 0;
  int64_t k = 0;         // steps that the panels have
  int64_t source_k = 0;  // steps that the sources have: the rest is zeros
  int kept_width = 0, streamed_width = 0;
  int64_t kept_panels = 0, streamed_panels = 0;
  int threads = 1;
  bool gemv = false;
  /// All threads work on one block of the streamed side, instead of each on its own.
  bool shared = false;
  int64_t k_step = 1;  // of one pass over the tiles
  /// Whether the part of the kept side for one step of k stays in the L2 cache: then each streamed
  /// panel, which is in the L1 cache, is multiplied by all of it.
  bool kept_in_cache = false;
  int64_t block_panels = 1;  // of the streamed side
  int64_t kept_bytes = 0;    // scratch for the kept side, if it is not packed yet
  int64_t block_bytes = 0;   // scratch for one block
  int64_t workspace = 0;     // bytes
};

/// Steps are equal, so that no short one is left over.
int64_t StepOf(const PanelFormat& format, int64_t k, int64_t most) {
  const int64_t steps = std::max<int64_t>(1, CeilDivide(k, most));
  return format.Padded(std::max<int64_t>(1, CeilDivide(k, steps)));
}

int64_t AlignBytes(int64_t bytes) {
  return CheckedAdd<int64_t>(bytes, 2 * kSlack) / kAlign * kAlign;
}

/// Bytes of k steps of a panel.
int64_t PanelBytes(const GemmKernels& kernels, int64_t k, int64_t width) {
  return CheckedMultiply<int64_t>(CheckedMultiply(k, width), kernels.format.element);
}

/// The steps of k that panels have for k steps.
int64_t PanelSteps(const GemmKernels& kernels, int64_t k) {
  CheckedAdd<int64_t>(k, kernels.format.k_multiple);
  return kernels.format.Padded(k);
}

/// What a thread does around its tiles.
class TileScope {
 public:
  explicit TileScope(const GemmKernels& kernels) : kernels_(kernels) {
    if (kernels_.begin != nullptr) kernels_.begin();
  }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
  ~TileScope() {
    if (kernels_.end != nullptr) kernels_.end();
  }

 private:
  const GemmKernels& kernels_;
};

double GrainsOf(const GemmSize& size) {
  return static_cast<double>(size.m) * static_cast<double>(size.n) * static_cast<double>(size.k) /
         GrainProducts();
}

/// The result must depend on the arguments alone, because the workspace is sized by it.
int UsefulThreads(const GemmSize& size, int threads) {
  return ChoosePieces(threads, GrainsOf(size), true);
}

void PlanBlocks(const GemmKernels& kernels, Plan& plan) {
  // A streamed side of few panels stays in the L2 cache, and long steps of k read more of a kept
  // panel in one go.
  const int64_t deep = 2 * int64_t{kernels.depth};
  const bool few =
      plan.streamed_panels <= kFewPanels &&
      PanelBytes(kernels, deep, plan.streamed_width) * plan.streamed_panels <= PrivateBytes();
  plan.k_step = StepOf(kernels.format, plan.k, few ? deep : kernels.depth);
  plan.shared = plan.threads > 1 && plan.streamed_panels < kFewPanels * plan.threads;
  const int64_t depth = plan.shared ? plan.k : plan.k_step;
  const int64_t panel =
      std::max<int64_t>(kernels.format.element, PanelBytes(kernels, depth, plan.streamed_width));
  const int64_t most = std::max<int64_t>(1, (plan.shared ? SharedBytes() : PrivateBytes()) / panel);
  plan.kept_in_cache =
      !plan.shared && PanelBytes(kernels, plan.k_step, plan.kept_extent) <= PrivateBytes();
  const int64_t mine =
      plan.shared ? plan.streamed_panels : CeilDivide(plan.streamed_panels, plan.threads);
  plan.block_panels = std::clamp<int64_t>(mine, 1, most);
  plan.block_bytes = AlignBytes(CheckedMultiply(panel, plan.block_panels));
}

Plan MakePlan(const GemmKernels& kernels, const GemmSize& size, int threads) {
  Plan plan;
  const bool none = !size.a_packed && !size.b_packed;
  plan.kept = size.b_packed || (none && size.n < size.m) ? GemmSide::kB : GemmSide::kA;
  const bool a_kept = plan.kept == GemmSide::kA;
  plan.source_k = size.k;
  plan.k = PanelSteps(kernels, size.k);
  plan.kept_extent = a_kept ? size.m : size.n;
  plan.streamed_extent = a_kept ? size.n : size.m;
  plan.kept_width = a_kept ? kernels.rows : kernels.columns;
  plan.streamed_width = a_kept ? kernels.columns : kernels.rows;
  plan.kept_panels = CeilDivide(plan.kept_extent, plan.kept_width);
  plan.streamed_panels = CeilDivide(plan.streamed_extent, plan.streamed_width);
  if (!a_kept && kernels.any_width && plan.streamed_panels > 0) {
    // Panels are equal, because a last panel with few rows would take almost as long as a whole
    // one.
    plan.streamed_width = static_cast<int>(CeilDivide(plan.streamed_extent, plan.streamed_panels));
  }
  plan.threads = UsefulThreads(size, threads);
  if (none) {
    plan.kept_bytes = PackedBytes(kernels, plan.kept, plan.kept_extent, size.k);
  }
  plan.gemv = plan.streamed_extent == 1;
  if (plan.gemv) {
    plan.block_bytes = AlignBytes(CheckedMultiply<int64_t>(plan.k, sizeof(float)));
    plan.workspace = CheckedAdd(plan.kept_bytes, plan.block_bytes);
    return plan;
  }
  PlanBlocks(kernels, plan);
  const int64_t blocks = plan.shared ? 1 : plan.threads;
  plan.workspace = CheckedAdd(plan.kept_bytes, CheckedMultiply<int64_t>(plan.block_bytes, blocks));
  return plan;
}

/// Memory that is to be prefetched.
struct Fetch {
  const std::byte* from = nullptr;
  int64_t bytes = 0;
};

/// One product being computed.
class Run {
 public:
  Run(const GemmKernels& kernels, const GemmProblem& problem, const Plan& plan,
      std::byte* workspace)
      : kernels_(kernels), problem_(problem), plan_(plan) {
    a_kept_ = plan.kept == GemmSide::kA;
    streamed_ = a_kept_ ? problem.b : problem.a;
    kept_ = static_cast<const std::byte*>(problem.packed);
    if (kept_ == nullptr) {
      PackMatrix(kernels, plan.kept, plan.kept_extent, plan.source_k,
                 a_kept_ ? *problem.a : *problem.b, plan.threads, workspace);
      kept_ = workspace;
    }
    blocks_ = workspace + plan.kept_bytes;
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
      const TileScope scope(kernels_);
      std::byte* block = blocks_ + t * plan_.block_bytes;
      const int64_t last = PartBegin(plan_.streamed_panels, plan_.threads, t + 1);
      for (int64_t p = PartBegin(plan_.streamed_panels, plan_.threads, t);
           p < last && !IsCancelled(); p += plan_.block_panels) {
        PrivateBlock(block, p, std::min(last, p + plan_.block_panels));
      }
    });
  }

  void PrivateBlock(std::byte* block, int64_t first, int64_t last) const {
    int64_t k0 = 0;
    do {
      const int64_t k1 = std::min(plan_.k, k0 + plan_.k_step);
      const int64_t stride = Bytes(k1 - k0, plan_.streamed_width);
      if (plan_.kept_in_cache) {
        for (int64_t p = first; p < last; ++p) {
          PackStreamed(p, k0, k1, block);
          TilesOf(p, k0, k1, block);
        }
      } else {
        for (int64_t p = first; p < last; ++p) {
          PackStreamed(p, k0, k1, block + (p - first) * stride);
        }
        for (int64_t kept = 0; kept < plan_.kept_panels; ++kept) {
          for (int64_t p = first; p < last; ++p) {
            Tile(kept, p, k0, k1, block + (p - first) * stride,
                 Soon(kept + 1, k0, k1, p - first, last - first));
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
        const TileScope scope(kernels_);
        const int kept = piece / split.streamed_parts, streamed = piece % split.streamed_parts;
        SharedTiles(first,
                    {PartBegin(plan_.kept_panels, split.kept_parts, kept),
                     PartBegin(plan_.kept_panels, split.kept_parts, kept + 1)},
                    {PartBegin(count, split.streamed_parts, streamed),
                     PartBegin(count, split.streamed_parts, streamed + 1)});
      });
    }
  }

  /// Where there are few panels they are cut along k, too, so that every thread has some to pack.
  void PackShared(int64_t first, int64_t count) const {
    const int64_t width = plan_.streamed_width;
    const int64_t slices =
        std::clamp<int64_t>(4 * plan_.threads / count, 1, std::max<int64_t>(1, plan_.k / 64));
    const int64_t depth = kernels_.format.Padded(CeilDivide(plan_.k, slices));
    const int64_t grain = GrainOf({.bytes = 8.0 * static_cast<double>(depth * width)});
    ParallelFor(plan_.threads, count * slices, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t p = i / slices, k0 = std::min(plan_.k, i % slices * depth);
        PackStreamed(first + p, k0, std::min(plan_.k, k0 + depth),
                     blocks_ + Bytes(p * plan_.k + k0, width));
      }
    });
  }

  struct Range {
    int64_t begin, end;
  };

  /// A rectangle of tiles, in strips whose part of the block stays in one thread's L2 cache.
  void SharedTiles(int64_t first, Range kept, Range streamed) const {
    const int64_t width = plan_.streamed_width;
    const int64_t strip = std::max<int64_t>(1, PrivateBytes() / Bytes(plan_.k_step, width));
    int64_t k0 = 0;
    do {
      const int64_t k1 = std::min(plan_.k, k0 + plan_.k_step);
      for (int64_t begin = streamed.begin; begin < streamed.end && !IsCancelled(); begin += strip) {
        const int64_t end = std::min(streamed.end, begin + strip);
        for (int64_t i = kept.begin; i < kept.end; ++i) {
          for (int64_t p = begin; p < end; ++p) {
            Tile(i, first + p, k0, k1, blocks_ + Bytes(p * plan_.k + k0, width),
                 Soon(i + 1, k0, k1, p - begin, end - begin));
          }
        }
      }
      k0 = k1;
    } while (k0 < plan_.k);
  }

  /// Of k steps of a panel.
  int64_t Bytes(int64_t k, int64_t width) const { return k * width * kernels_.format.element; }

  void PackStreamed(int64_t p, int64_t k0, int64_t k1, std::byte* panel) const {
    if (k0 >= plan_.source_k) return;
    const int64_t begin = p * plan_.streamed_width;
    const int64_t end = std::min(plan_.streamed_extent, begin + plan_.streamed_width);
    const GemmSide side = a_kept_ ? GemmSide::kB : GemmSide::kA;
    streamed_->PackFor(kernels_, k0, std::min(k1, plan_.source_k), begin, end,
                       {side, plan_.streamed_width, panel});
  }

  /// Part `i` of `parts` of a kept panel, for the tiles with the panel before it to fetch.
  Fetch Soon(int64_t kept, int64_t k0, int64_t k1, int64_t i, int64_t parts) const {
    if (kept >= plan_.kept_panels) return {};
    const int64_t bytes = Bytes(k1 - k0, plan_.kept_width) / parts;
    return {kept_ + Bytes(kept * plan_.k + k0, plan_.kept_width) + i * bytes, bytes};
  }

  /// A streamed panel with all kept ones, which are near.
  void TilesOf(int64_t streamed, int64_t k0, int64_t k1, const std::byte* panel) const {
    GemmTile tile = Begin(k0, k1);
    if (problem_.parts.empty()) {
      TilesOf(0, plan_.kept_panels, problem_.size.n, streamed, k0, panel, tile);
      return;
    }
    for (const GemmColumns& part : problem_.parts) {
      const int64_t first = part.begin / kernels_.columns;
      TilesOf(first, first + CeilDivide(part.count, kernels_.columns), part.count, streamed, k0,
              panel, tile);
    }
  }

  /// With the kept panels from `kept` to `end`, which have `columns` of one place.
  void TilesOf(int64_t kept, int64_t end, int64_t columns, int64_t streamed, int64_t k0,
               const std::byte* panel, GemmTile& tile) const {
    const int64_t whole = a_kept_ ? 0 : columns / kernels_.columns;
    if (kernels_.tiles != nullptr && whole > 0) {
      Place(kept, streamed, k0, panel, tile);
      if (kernels_.tiles(tile, whole, Bytes(plan_.k, plan_.kept_width))) kept += whole;
    }
    for (; kept < end; ++kept) {
      Place(kept, streamed, k0, panel, tile);
      kernels_.tile(tile);
    }
  }

  void Tile(int64_t kept, int64_t streamed, int64_t k0, int64_t k1, const std::byte* panel,
            const Fetch& soon) const {
    GemmTile tile = Begin(k0, k1);
    Place(kept, streamed, k0, panel, tile);
    tile.soon = soon.from;
    tile.soon_bytes = soon.bytes;
    kernels_.tile(tile);
  }

  /// What all tiles of these steps of k have in common.
  GemmTile Begin(int64_t k0, int64_t k1) const {
    GemmTile tile;
    tile.k = k1 - k0;
    tile.ldc = problem_.ldc;
    tile.accumulate = k0 > 0;
    tile.addend_stride = problem_.addend_stride;
    if (k1 == plan_.k) {
      tile.activation = problem_.activation;
      tile.addend = problem_.addend;
    }
    return tile;
  }

  /// Sets what each tile has of its own. tile.addend is null unless these steps of k are the last.
  void Place(int64_t kept, int64_t streamed, int64_t k0, const std::byte* panel,
             GemmTile& tile) const {
    const std::byte* kept_panel = kept_ + Bytes(kept * plan_.k + k0, plan_.kept_width);
    const int64_t height = a_kept_ ? plan_.kept_width : plan_.streamed_width;
    const int64_t row = (a_kept_ ? kept : streamed) * height;
    const int64_t column = (a_kept_ ? streamed : kept) * kernels_.columns;
    tile.a = a_kept_ ? kept_panel : panel;
    tile.b = a_kept_ ? panel : kept_panel;
    tile.a_width = static_cast<int>(height);
    tile.rows = static_cast<int>(std::min<int64_t>(height, problem_.size.m - row));
    tile.columns = static_cast<int>(std::min<int64_t>(kernels_.columns, problem_.size.n - column));
    if (problem_.row_bias != nullptr) tile.row_bias = problem_.row_bias + row;
    if (problem_.column_bias != nullptr) tile.column_bias = problem_.column_bias + column;
    if (tile.addend != nullptr) {
      tile.addend = problem_.addend + row * problem_.addend_stride + column;
    }
    if (problem_.parts.empty()) {
      tile.c = problem_.c + row * problem_.ldc + column;
      return;
    }
    const GemmColumns& part = PartAt(column);
    tile.ldc = part.ldc;
    tile.c = part.c + row * part.ldc + (column - part.begin);
    tile.columns = ColumnsLeft(part, column, kernels_.columns);
  }

  const GemmColumns& PartAt(int64_t column) const {
    size_t i = problem_.parts.size() - 1;
    while (i > 0 && problem_.parts[i].begin > column) --i;
    return problem_.parts[i];
  }
  static int ColumnsLeft(const GemmColumns& part, int64_t column, int width) {
    return static_cast<int>(std::clamp<int64_t>(part.begin + part.count - column, 0, width));
  }

  /// The streamed side is one vector: each panel of the kept side is read once.
  void Vector() const {
    float* x = reinterpret_cast<float*>(blocks_);
    streamed_->Pack(0, plan_.source_k, 0, 1, 1, x);
    std::fill_n(x + plan_.source_k, plan_.k - plan_.source_k, 0.0f);
    const auto gemv = a_kept_ ? kernels_.gemv_rows : kernels_.gemv_columns;
    const float* kept_bias = a_kept_ ? problem_.row_bias : problem_.column_bias;
    const float* other_bias = a_kept_ ? problem_.column_bias : problem_.row_bias;
    const int64_t grain = GrainOf({.bytes = 4.0 * static_cast<double>(plan_.k) * plan_.kept_width});
    ParallelFor(plan_.threads, plan_.kept_panels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t first = p * plan_.kept_width;
        float common[kMostWidth];
        GemvPanel panel;
        panel.k = plan_.k;
        panel.panel = kept_ + Bytes(p * plan_.k, plan_.kept_width);
        panel.x = x;
        panel.y_stride = a_kept_ ? problem_.ldc : 1;
        panel.count =
            static_cast<int>(std::min<int64_t>(plan_.kept_width, plan_.kept_extent - first));
        if (problem_.parts.empty()) {
          panel.y = problem_.c + first * panel.y_stride;
        } else {
          const GemmColumns& part = PartAt(first);
          panel.y = part.c + (first - part.begin);
          panel.count = ColumnsLeft(part, first, plan_.kept_width);
        }
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
  const std::byte* kept_ = nullptr;
  std::byte* blocks_ = nullptr;
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

void PanelSource::PackFor(const GemmKernels& kernels, int64_t k0, int64_t k1, int64_t i0,
                          int64_t i1, const PanelPart& part) const {
  if (kernels.convert == nullptr) {
    return Pack(k0, k1, i0, i1, part.width, static_cast<float*>(part.panel));
  }
  alignas(64) float piece[kPiece];
  const int64_t multiple = kernels.format.k_multiple;
  const int64_t step = std::max<int64_t>(1, kPiece / part.width / multiple) * multiple;
  PanelPart rest = part;
  for (int64_t k = k0; k < k1; k += step) {
    const int64_t end = std::min(k1, k + step);
    Pack(k, end, i0, i1, part.width, piece);
    kernels.convert(piece, end - k, rest);
    rest.panel = static_cast<std::byte*>(rest.panel) + PanelBytes(kernels, step, part.width);
  }
}

void MatrixSource::PackFor(const GemmKernels& kernels, int64_t k0, int64_t k1, int64_t i0,
                           int64_t i1, const PanelPart& part) const {
  if (kernels.pack_rows == nullptr || matrix_.k_stride != 1) {
    return PanelSource::PackFor(kernels, k0, k1, i0, i1, part);
  }
  std::array<const float*, kMostWidth> rows;
  for (int64_t i = i0; i < i1; ++i) {
    rows[static_cast<size_t>(i - i0)] = matrix_.data + i * matrix_.i_stride + k0;
  }
  PanelPart scaled = part;
  if (scale_ != nullptr) scaled.scale = scale_ + k0;
  ZeroLastSteps(kernels, k1 - k0, part);
  kernels.pack_rows(rows.data(), static_cast<int>(i1 - i0), 0, k1 - k0, scaled);
}

void ZeroLastSteps(const GemmKernels& kernels, int64_t k, const PanelPart& part) {
  const int64_t multiple = kernels.format.k_multiple;
  if (k % multiple == 0) return;
  std::byte* last = static_cast<std::byte*>(part.panel) +
                    PanelBytes(kernels, k / multiple * multiple, part.width);
  std::fill_n(last, PanelBytes(kernels, multiple, part.width), std::byte{0});
}

int64_t PackedBytes(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k) {
  const int64_t width = PanelWidth(kernels, side);
  const int64_t padded = CheckedMultiply(CeilDivide(extent, width), width);
  return AlignBytes(PanelBytes(kernels, PanelSteps(kernels, k), padded));
}

void PackMatrix(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k,
                const PanelSource& source, int threads, void* panels) {
  const int64_t width = PanelWidth(kernels, side);
  const int64_t count = CeilDivide(extent, width);
  const int64_t bytes = PanelBytes(kernels, PanelSteps(kernels, k), width);
  const int64_t grain =
      GrainOf({.bytes = 8.0 * static_cast<double>(k) * static_cast<double>(width)});
  ParallelFor(threads, count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      std::byte* panel = static_cast<std::byte*>(panels) + p * bytes;
      source.PackFor(kernels, 0, k, p * width, std::min(extent, (p + 1) * width),
                     {side, static_cast<int>(width), panel});
    }
  });
}

void UnpackMatrix(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k_extent,
                  const void* panels, float* matrix) {
  const int64_t width = PanelWidth(kernels, side), group = kernels.format.group(side);
  const int64_t steps = PanelSteps(kernels, k_extent);
  for (int64_t i = 0; i < extent; ++i) {
    const int64_t first = i / width * width * steps + i % width * group;
    for (int64_t k = 0; k < k_extent; ++k) {
      const int64_t at = first + k / group * group * width + k % group;
      matrix[i * k_extent + k] = kernels.format.element == sizeof(float)
                                     ? static_cast<const float*>(panels)[at]
                                     : static_cast<float>(static_cast<const BFloat16*>(panels)[at]);
    }
  }
}

PackedMatrix::PackedMatrix(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k,
                           const PanelSource& source) {
  buffer_ = AllocatePages(static_cast<size_t>(PackedBytes(kernels, side, extent, k)));
  PackMatrix(kernels, side, extent, k, source, AvailableThreads(), buffer_->data());
}

int64_t GemmWorkspace(const GemmKernels& kernels, const GemmSize& size, int threads) {
  if (size.m == 0 || size.n == 0) return 0;
  return MakePlan(kernels, size, threads).workspace / static_cast<int64_t>(sizeof(float));
}

void Gemm(const GemmKernels& kernels, const GemmProblem& problem, int threads, float* workspace) {
  if (problem.size.m == 0 || problem.size.n == 0) return;
  const Plan plan = MakePlan(kernels, problem.size, threads);
  Run(kernels, problem, plan, reinterpret_cast<std::byte*>(workspace)).Go();
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
    for (int64_t i = PartBegin(count, pieces, t); i < end && !IsCancelled(); ++i) {
      run(i, 1, workspace + t * floats);
    }
  });
}

}  // namespace oort
