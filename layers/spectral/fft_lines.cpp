// SPDX-License-Identifier: MIT
#include "layers/spectral/fft_lines.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/machine.h"
#include "core/parallel.h"

namespace oort {
namespace {

constexpr int64_t kFftLongLine = 512;      // from here on it pays to split a lonely line
constexpr int64_t kFftPiecePoints = 4096;  // of a thread, at least

/// Walks over the lines in row-major order.
template <typename T>
class FftLineWalk {
 public:
  FftLineWalk(const FftJob<T>& job, int64_t first) : job_(job) {
    for (int a = job.axis_count - 1; a >= 0; --a) {
      const FftAxis& axis = job.axes[At(a)];
      index_[At(a)] = first % axis.extent;
      first /= axis.extent;
      source_ += index_[At(a)] * axis.source_stride;
      target_ += index_[At(a)] * axis.target_stride;
    }
  }

  const T* source() const { return job_.source + source_; }
  T* target() const { return job_.target + target_; }
  bool IsZero() const {
    for (int a = 0; a < job_.axis_count; ++a) {
      if (index_[At(a)] >= job_.axes[At(a)].source_extent) return true;
    }
    return false;
  }

  void Next() {
    for (int a = job_.axis_count - 1; a >= 0; --a) {
      const FftAxis& axis = job_.axes[At(a)];
      source_ += axis.source_stride;
      target_ += axis.target_stride;
      if (++index_[At(a)] < axis.extent) return;
      source_ -= axis.extent * axis.source_stride;
      target_ -= axis.extent * axis.target_stride;
      index_[At(a)] = 0;
    }
  }

 private:
  static size_t At(int axis) { return static_cast<size_t>(axis); }
  const FftJob<T>& job_;
  std::array<int64_t, Shape::kMaxRank> index_{};
  int64_t source_ = 0, target_ = 0;
};

/// The distance between all neighbours, or 0 where it differs.
template <typename T>
int64_t FftLaneStep(T* const* lanes, int count) {
  if (count < 2) return 0;
  const int64_t step = lanes[1] - lanes[0];
  for (int l = 2; l < count; ++l) {
    if (lanes[l] - lanes[l - 1] != step) return 0;
  }
  return step;
}

}  // namespace

double FftFlops(int64_t n, int64_t lines) {
  const auto points = static_cast<double>(n);
  return 5 * points * std::log2(points) * static_cast<double>(lines);
}

template <typename T>
int64_t FftJob<T>::lines() const {
  int64_t lines = 1;
  for (int a = 0; a < axis_count; ++a) lines *= axes[static_cast<size_t>(a)].extent;
  return lines;
}

/// How a job's lines are loaded and stored, whatever is done to the block in between.
template <typename T>
struct FftRunner<T>::Call {
  FftLoad<T> load;
  FftStore<T> store;
  int64_t stored;  // points of the target

  Call(const FftRunner& runner, const FftJob<T>& job) {
    const T scale = static_cast<T>(job.scale);
    const int64_t n = job.n, first_half = n / 2 + 1;
    const bool to_real = job.kind == FftKind::kComplexToReal;
    const bool from_real = job.kind == FftKind::kRealToComplex || job.kind == FftKind::kRealToFull;
    stored = job.kind == FftKind::kRealToComplex ? first_half : n;

    load.step = job.source_step;
    load.im_offset = job.source_real ? 0 : 1;
    load.total = to_real ? first_half : n;
    load.re_count = load.im_count = std::min(job.source_count, load.total);
    load.window = job.window;
    store.step = job.target_step;
    store.im_offset = 1;
    store.count = from_real ? first_half : n;
    store.re_scale = scale;
    store.im_scale = job.inverse ? -scale : scale;
    if (job.kind == FftKind::kComplex && job.inverse) load.im_sign = T(-1);
    if (job.kind == FftKind::kRealToFull) store.hermitian = n;
    if (from_real && runner.half_) {
      load.im_offset = load.step;
      load.step *= 2;
      load.im_count = load.re_count / 2;
      load.re_count -= load.im_count;
      load.total = n / 2;
      load.window_step = 2;
      load.window_im = 1;
    } else if (to_real && runner.half_) {
      load.im_sign = T(job.inverse ? 1 : -1);
      store.im_offset = store.step;
      store.step *= 2;
      store.count = n / 2;
      store.im_scale = -scale;
    } else if (to_real) {
      load.im_sign = T(job.inverse ? -1 : 1);
      load.hermitian = n;
      store.im_offset = 0;
    }
  }

  /// `transform` works on the block in place.
  template <typename Transform>
  void Execute(const FftRunner& runner, const FftLaneKernels<T>& kernels, const int32_t* order,
               T* block, const Transform& transform) const {
    kernels.load(load, order, block);
    const bool to_real = runner.kind_ == FftKind::kComplexToReal;
    if (to_real && runner.half_) {
      kernels.join_real(block, runner.points_, order, runner.turns_->data());
    }
    transform();
    if (!to_real && runner.half_) {
      kernels.split_real(block, runner.points_, runner.turns_->data());
    } else if (!to_real && runner.kind_ != FftKind::kComplex) {
      std::fill_n(block + kernels.lanes, kernels.lanes, T(0));  // the sum of reals is real
    }
    kernels.store(store, block);
  }
};

template <typename T>
FftRunner<T>::FftRunner(Isa isa, FftKind kind, int64_t n, int64_t lines, int threads)
    : kernels_(LaneKernels<T>(FftKernelsFor(isa))),
      single_(LaneKernels<T>(FftSingleLineKernels())),
      kind_(kind),
      n_(n),
      half_(kind != FftKind::kComplex && n % 2 == 0),
      points_(half_ ? n / 2 : n),
      threads_(std::max(1, threads)) {
  const int lanes = kernels_.lanes;
  const int64_t bytes = points_ * 2 * lanes * static_cast<int64_t>(sizeof(T));
  const bool large = bytes > CacheBlock(256 << 10, ThisMachine().l2, 0.25);
  if ((large || 2 * lines <= lanes) && points_ >= kFftLongLine) {
    long_plan_ = GetFftPlan<FftLongPlan<T>>(points_);
    pieces_ = threads_;
  } else {
    plan_ = GetFftPlan<FftPlan<T>>(points_);
    const int64_t useful = std::max<int64_t>(1, lines * points_ / kFftPiecePoints);
    pieces_ = std::min({int64_t{threads_}, CeilDivide(lines, lanes), useful});
  }
  if (half_) turns_ = GetFftPlan<FftTurns<T>>(n);
}

template <typename T>
int64_t FftRunner<T>::BlockItems() const {
  return long_plan_ ? long_plan_->block() : points_ + 1 + plan_->scratch();
}

template <typename T>
size_t FftRunner<T>::workspace() const {
  int64_t items = pieces_ * BlockItems() * kernels_.lanes;
  if (long_plan_) items += points_ + 1 + long_plan_->scratch();
  return static_cast<size_t>(2 * items) * sizeof(T);
}

template <typename T>
void FftRunner<T>::Run(const FftJob<T>& job, T* workspace) const {
  if (job.lines() == 0) return;
  if (long_plan_) {
    RunLong(job, workspace);
  } else {
    RunBlocks(job, workspace);
  }
}

template <typename T>
void FftRunner<T>::RunBlocks(const FftJob<T>& job, T* workspace) const {
  const int64_t lines = job.lines();
  const int lanes = kernels_.lanes;
  const auto run_piece = [&](int64_t piece) {
    T* const block = workspace + piece * 2 * lanes * BlockItems();
    T* const scratch = block + 2 * lanes * (points_ + 1);
    // Pieces end between groups of lanes.
    const int64_t groups = CeilDivide(lines, lanes);
    const int64_t begin = groups * piece / pieces_ * lanes;
    const int64_t end = std::min(lines, groups * (piece + 1) / pieces_ * lanes);
    Call call(*this, job);
    int& filled = call.store.lane_count;
    const auto flush = [&] {
      for (int l = filled; l < lanes; ++l) call.load.lanes[l] = call.load.lanes[filled - 1];
      const bool full = filled == lanes;
      call.load.lane_step = full ? FftLaneStep(call.load.lanes, lanes) : 0;
      call.store.lane_step = full ? FftLaneStep(call.store.lanes, lanes) : 0;
      call.Execute(*this, kernels_, plan_->program().order, block,
                   [&] { kernels_.transform(plan_->program(), block, scratch); });
      filled = 0;
    };
    FftLineWalk<T> walk(job, begin);
    for (int64_t line = begin; line < end; ++line, walk.Next()) {
      if (walk.IsZero()) {
        ZeroLine(job, walk.target(), call.stored);
        continue;
      }
      call.load.lanes[filled] = walk.source();
      call.store.lanes[filled] = walk.target();
      if (++filled == lanes) flush();
    }
    if (filled > 0) flush();
  };
  ParallelPieces(threads_, static_cast<int>(pieces_), kManyGrains, run_piece);
}

template <typename T>
void FftRunner<T>::RunLong(const FftJob<T>& job, T* workspace) const {
  T* const line = workspace;
  T* const scratch = line + 2 * (points_ + 1);
  T* const blocks = scratch + 2 * long_plan_->scratch();
  Call call(*this, job);
  call.store.lane_count = 1;
  FftLineWalk<T> walk(job, 0);
  for (int64_t i = 0; i < job.lines(); ++i, walk.Next()) {
    if (walk.IsZero()) {
      ZeroLine(job, walk.target(), call.stored);
      continue;
    }
    call.load.lanes[0] = walk.source();
    call.store.lanes[0] = walk.target();
    call.Execute(*this, single_, nullptr, line,
                 [&] { long_plan_->Run(kernels_, line, scratch, blocks, threads_); });
  }
}

template <typename T>
void FftRunner<T>::ZeroLine(const FftJob<T>& job, T* target, int64_t points) {
  for (int64_t i = 0; i < points; ++i) {
    target[i * job.target_step] = 0;
    if (job.kind != FftKind::kComplexToReal) target[i * job.target_step + 1] = 0;
  }
}

template struct FftJob<float>;
template struct FftJob<double>;
template class FftRunner<float>;
template class FftRunner<double>;

}  // namespace oort
