// SPDX-License-Identifier: MIT
#include "layers/channels_last/unit_conv.h"

#include <algorithm>
#include <atomic>

#include "core/checked.h"
#include "core/parallel.h"
#include "cpu/gemm_split.h"

namespace oort {
namespace {

constexpr int64_t kUnitStep = GemmWindowKernels::kStep, kUnitHalf = GemmWindowKernels::kHalfRows;
constexpr double kUnitThreadWork = 1024 * 1024;    // multiplications that pay for one more thread
constexpr int64_t kUnitNearBytes = 768 * 1024;     // of an image: with its filters in an L2 cache
constexpr size_t kUnitElement = sizeof(uint16_t);  // a bf16

}  // namespace

/// The image with its border, and tiles of 16 neighbouring pixels of a row, two at a time.
struct UnitConv::Plan {
  int64_t rows = 0, pixels = 0;    // of the image with its border
  int64_t row_size = 0, size = 0;  // elements; beyond the end tiles may read
  int64_t row_halves = 0, tiles = 0;
};

bool UnitConv::Fits(const GemmKernels& kernels, const Shape& weight, int64_t groups) {
  return kernels.windows != nullptr && groups == 1 && weight[1] > 0 && weight.Product(2, 4) > 1;
}

UnitConv::UnitConv(const GemmKernels& kernels, const Tensor& weight)
    : kernels_(kernels),
      columns_(weight.dim(0)),
      channels_(weight.dim(1)),
      height_(weight.dim(2)),
      width_(weight.dim(3)),
      runs_(channels_ % kUnitStep != 0),
      run_steps_(CeilDivide(runs_ ? CheckedMultiply(width_, channels_) : channels_, kUnitStep)),
      steps_(CheckedMultiply(runs_ ? height_ : height_ * width_, run_steps_)) {
  const int64_t taps = height_ * width_, k = CheckedMultiply(steps_, kUnitStep);
  // By row of the window, by column, then by channel; a run has zeros behind it.
  const int64_t row = k / height_;
  Tensor moved = Tensor::Zeros(DType::kF32, {columns_, k});
  const float* from = weight.data<float>();
  float* to = moved.data<float>();
  for (int64_t out = 0; out < columns_; ++out, from += channels_ * taps, to += k) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      float* at = to + tap / width_ * row + tap % width_ * channels_;
      for (int64_t c = 0; c < channels_; ++c) at[c] = from[c * taps + tap];
    }
  }
  const MatrixSource source(kernels, {moved.data<float>(), 1, k});
  packed_ = PackedMatrix(kernels, GemmSide::kB, columns_, k, source);
}

UnitConv::Plan UnitConv::MakePlan(const ConvGeometry& g) const {
  const ConvAxis &h = g.axes[1], &w = g.axes[2];
  Plan plan;
  plan.rows = std::max(CheckedAdd(h.in, h.pad), (h.out - 1) * h.stride + h.reach());
  plan.pixels = std::max(CheckedAdd(w.in, w.pad), (w.out - 1) * w.stride + w.reach());
  plan.row_size = CheckedMultiply(plan.pixels, channels_);
  // Tiles end behind the last pixel of a row, and steps behind the last channel of a window's row.
  const int64_t behind = CheckedMultiply(kUnitHalf * w.stride, channels_) + kUnitStep;
  plan.size = CheckedAdd(CheckedMultiply(plan.rows, plan.row_size), behind);
  plan.row_halves = CeilDivide(w.out, kUnitHalf);
  plan.tiles = CeilDivide(CheckedMultiply(plan.row_halves, h.out), int64_t{2});
  return plan;
}

size_t UnitConv::Workspace(const ConvGeometry& geometry) const {
  const Plan plan = MakePlan(geometry);
  const size_t image = CheckedMultiply(static_cast<size_t>(plan.size), kUnitElement);
  const size_t offsets = CheckedMultiply(static_cast<size_t>(steps_), sizeof(int64_t));
  return CheckedAdd(AlignUp(image, 64), offsets);
}

class UnitConv::Job {
 public:
  Job(const UnitConv& conv, const Context& context, const ConvGeometry& g, const Operands& operands)
      : conv_(conv),
        context_(context),
        g_(g),
        operands_(operands),
        plan_(conv.MakePlan(g)),
        image_(context.workspace<uint16_t>()),
        offsets_(reinterpret_cast<int64_t*>(
            context.workspace() + AlignUp(static_cast<size_t>(plan_.size) * kUnitElement, 64))) {
    FindOffsets();
  }

  /// One image of the batch.
  bool Go(int64_t image) const {
    if (!Round(image) && conv_.runs_) return false;
    const int useful = static_cast<int>(
        std::clamp(g_.multiplications() / static_cast<double>(g_.batch) / kUnitThreadWork, 1.0,
                   static_cast<double>(context_.threads())));
    const GemmSplit split = SplitTiles(panels(), conv_.kernels_.columns, plan_.tiles, 2 * kUnitHalf,
                                       useful, conv_.columns_);
    context_.ParallelFor(split.parts(), 1, [&](int64_t begin, int64_t end) {
      if (conv_.kernels_.begin != nullptr) conv_.kernels_.begin();
      for (int64_t piece = begin; piece < end; ++piece) {
        const int kept = static_cast<int>(piece / split.streamed_parts);
        const int streamed = static_cast<int>(piece % split.streamed_parts);
        Multiply(image, PartBegin(panels(), split.kept_parts, kept),
                 PartBegin(panels(), split.kept_parts, kept + 1),
                 PartBegin(plan_.tiles, split.streamed_parts, streamed),
                 PartBegin(plan_.tiles, split.streamed_parts, streamed + 1));
      }
      if (conv_.kernels_.end != nullptr) conv_.kernels_.end();
    });
    return true;
  }

 private:
  int64_t panels() const { return CeilDivide(conv_.columns_, int64_t{conv_.kernels_.columns}); }

  void FindOffsets() const {
    constexpr int64_t kItem = kUnitElement;
    const int64_t columns = conv_.runs_ ? 1 : conv_.width_;
    int64_t* to = offsets_;
    for (int64_t kh = 0; kh < conv_.height_; ++kh) {
      for (int64_t kw = 0; kw < columns; ++kw) {
        const int64_t tap =
            kh * g_.axes[1].dilation * plan_.row_size + kw * g_.axes[2].dilation * conv_.channels_;
        for (int64_t i = 0; i < conv_.run_steps_; ++i) *to++ = (tap + i * kUnitStep) * kItem;
      }
    }
  }

  /// The image with zeros around it; returns whether all of it is finite.
  bool Round(int64_t image) const {
    const ConvAxis &h = g_.axes[1], &w = g_.axes[2];
    const int64_t channels = conv_.channels_;
    std::atomic<bool> finite = true;
    const int64_t grain =
        GrainOf({.bytes = 6.0 * static_cast<double>(std::max<int64_t>(1, plan_.row_size))});
    context_.ParallelFor(plan_.rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        uint16_t* to = image_ + row * plan_.row_size;
        const int64_t y = row - h.pad;
        if (y < 0 || y >= h.in) {
          std::fill_n(to, plan_.row_size, uint16_t{0});
          continue;
        }
        const float* from = operands_.in + (image * h.in + y) * w.in * operands_.in_pixel;
        std::fill_n(to, w.pad * channels, uint16_t{0});
        to += w.pad * channels;
        if (!RoundRow(from, to)) finite = false;
        const int64_t after = plan_.pixels - w.pad - w.in;
        std::fill_n(to + w.in * channels, after * channels, uint16_t{0});
      }
    });
    // What tiles read behind the end must be numbers, too.
    const int64_t used = plan_.rows * plan_.row_size;
    std::fill_n(image_ + used, plan_.size - used, uint16_t{0});
    return finite;
  }

  bool RoundRow(const float* from, uint16_t* to) const {
    const auto round = conv_.kernels_.windows->round;
    const int64_t pixels = g_.axes[2].in, channels = conv_.channels_;
    if (operands_.in_pixel == channels) return round(from, pixels * channels, to);
    bool finite = true;
    for (int64_t x = 0; x < pixels; ++x, from += operands_.in_pixel, to += channels) {
      finite = round(from, channels, to) && finite;
    }
    return finite;
  }

  /// Some tiles times some panels, in blocks of tiles whose pixels stay near.
  void Multiply(int64_t image, int64_t first_panel, int64_t last_panel, int64_t first_tile,
                int64_t last_tile) const {
    const int64_t step = std::max<int64_t>(
        1, kUnitNearBytes / (2 * kUnitHalf * g_.axes[1].stride * g_.axes[2].stride *
                             conv_.channels_ * static_cast<int64_t>(kUnitElement)));
    for (int64_t begin = first_tile; begin < last_tile; begin += step) {
      const int64_t end = std::min(last_tile, begin + step);
      for (int64_t panel = first_panel; panel < last_panel; ++panel) {
        MultiplyPanel(image, panel, begin, end);
      }
    }
  }

  void MultiplyPanel(int64_t image, int64_t panel, int64_t begin, int64_t end) const {
    const int64_t panel_bytes =
        conv_.steps_ * kUnitStep * conv_.kernels_.columns * static_cast<int64_t>(kUnitElement);
    const int64_t column = panel * conv_.kernels_.columns;
    const std::byte* filters =
        static_cast<const std::byte*>(conv_.packed_.panels()) + panel * panel_bytes;
    GemmWindowTile tile;
    tile.steps = conv_.steps_;
    tile.offsets = offsets_;
    tile.a_stride = g_.axes[2].stride * conv_.channels_ * static_cast<int64_t>(kUnitElement);
    tile.b = filters;
    tile.columns =
        static_cast<int>(std::min<int64_t>(conv_.kernels_.columns, conv_.columns_ - column));
    tile.ldc = operands_.out_pixel;
    tile.addend_stride = operands_.addend_pixel;
    if (operands_.bias != nullptr) tile.bias = operands_.bias + column;
    tile.activation = operands_.activation;
    tile.soon_bytes = panel_bytes / (end - begin);
    for (int64_t i = begin; i < end; ++i) {
      if (panel + 1 < panels()) tile.soon = filters + panel_bytes + (i - begin) * tile.soon_bytes;
      tile.halves[0] = HalfAt(image, 2 * i, column);
      tile.halves[1] = HalfAt(image, 2 * i + 1, column);
      conv_.kernels_.windows->tile(tile);
    }
  }

  GemmWindowHalf HalfAt(int64_t image, int64_t half, int64_t column) const {
    const ConvAxis &h = g_.axes[1], &w = g_.axes[2];
    const int64_t y = half / plan_.row_halves, x = half % plan_.row_halves * kUnitHalf;
    if (y >= h.out) return {};
    const int64_t pixel = (image * h.out + y) * w.out + x;
    GemmWindowHalf result;
    result.a = image_ + y * h.stride * plan_.row_size + x * w.stride * conv_.channels_;
    result.rows = static_cast<int>(std::min(kUnitHalf, w.out - x));
    result.c = operands_.out + pixel * operands_.out_pixel + column;
    if (operands_.addend != nullptr) {
      result.addend = operands_.addend + pixel * operands_.addend_pixel + column;
    }
    return result;
  }

  const UnitConv& conv_;
  const Context& context_;
  const ConvGeometry& g_;
  const Operands& operands_;
  const Plan plan_;
  uint16_t* image_;
  int64_t* offsets_;
};

bool UnitConv::Run(const Context& context, const ConvGeometry& geometry,
                   const Operands& operands) const {
  if (runs_ && geometry.axes[2].dilation != 1) return false;
  const Job job(*this, context, geometry, operands);
  for (int64_t image = 0; image < geometry.batch; ++image) {
    if (!job.Go(image)) return false;
  }
  return true;
}

}  // namespace oort
