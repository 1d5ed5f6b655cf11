// SPDX-License-Identifier: MIT
#include "layers/convolution/matrix_unit/matrix_unit_conv.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/checked.h"
#include "core/host_memory.h"
#include "core/machine.h"
#include "core/parallel.h"
#include "cpu/gemm_split.h"
#include "layers/expression/kernels.h"

namespace oort {
namespace {

constexpr int64_t kUnitStep = 32, kUnitHalf = 16, kUnitPanel = 32;
constexpr double kUnitThreadWork = 1024 * 1024;    // multiplications that pay for one more thread
constexpr size_t kUnitElement = sizeof(uint16_t);  // a bf16, or an f16
static_assert(kUnitStep == GemmWindowKernels::kStep && kUnitStep == TileKernelsF16::kStep);
static_assert(kUnitHalf == GemmWindowKernels::kHalfRows && kUnitHalf == TileKernelsF16::kHalfRows);

/// Bytes of an image that are in an L2 cache with its filters.
int64_t UnitNearBytes() { return CacheBlock(768 * 1024, ThisMachine().l2, 0.375); }

// What the kernels for both kinds of images do alike.
void BeginUnit(const GemmKernels& kernels, int64_t) {
  if (kernels.begin != nullptr) kernels.begin();
}
void BeginUnit(const TileKernelsF16& kernels, int64_t step) {
  kernels.begin(static_cast<int>(step));
}
void EndUnit(const GemmKernels& kernels) {
  if (kernels.end != nullptr) kernels.end();
}
void EndUnit(const TileKernelsF16& kernels) { kernels.end(); }
bool CopyPixels(const GemmKernels& kernels, const float* from, int64_t count, uint16_t* to) {
  return kernels.windows->round(from, count, to);
}
bool CopyPixels(const TileKernelsF16& kernels, const Half* from, int64_t count, uint16_t* to) {
  return kernels.copy(from, count, reinterpret_cast<Half*>(to));
}
void MultiplyUnitTile(const GemmKernels& kernels, const GemmWindowTile& tile) {
  kernels.windows->tile(tile);
}
void MultiplyUnitTile(const TileKernelsF16& kernels, const TileF16& tile) { kernels.tile(tile); }

/// The longest step of which so many channels are some.
int64_t LongestStep(int64_t channels) {
  for (int64_t step = kUnitStep; step > 0; step -= 2) {
    if (channels % step == 0) return step;
  }
  return 0;
}

/// All pixels of all images behind each other.
ConvGeometry InOneRow(const ConvGeometry& g) {
  ConvGeometry row = g;
  row.axes[2].in = row.axes[2].out = CheckedMultiply(g.batch, g.out_plane());
  row.axes[1].in = row.axes[1].out = 1;
  row.batch = 1;
  return row;
}

}  // namespace

/// Tiles of 16 neighbouring pixels of a row, two at a time, and the image they lie in: with its
/// border, or, where each pixel reads itself alone, as it is; then the last pixels are copied.
template <typename T>
struct MatrixUnitConvOf<T>::Plan {
  bool as_it_is = false;
  int64_t rows = 0, pixels = 0;     // of the image with its border
  int64_t pixel = 0, row_size = 0;  // elements from one to the next
  int64_t size = 0;                 // of the copy; beyond the end tiles may read
  int64_t row_halves = 0, tiles = 0;
};

template <typename T>
bool MatrixUnitConvOf<T>::Fits(const Kernels& kernels, const Shape& weight, int64_t groups) {
  const int64_t taps = weight.Product(2, 4);
  if (groups != 1 || weight[1] == 0 || taps == 0) return false;
  if constexpr (std::is_same_v<T, float>) return kernels.windows != nullptr && taps > 1;
  return taps > 1 || LongestStep(weight[1]) >= kUnitStep / 2;
}

template <typename T>
MatrixUnitConvOf<T>::MatrixUnitConvOf(const Kernels& kernels, const Tensor& weight,
                                      const Tensor& bias)
    : kernels_(kernels),
      columns_(weight.dim(0)),
      channels_(weight.dim(1)),
      height_(weight.dim(2)),
      width_(weight.dim(3)),
      runs_(channels_ % kUnitStep != 0 && height_ * width_ > 1),
      step_(height_ * width_ > 1 ? kUnitStep : LongestStep(channels_)),
      run_steps_(CeilDivide(runs_ ? CheckedMultiply(width_, channels_) : channels_, step_)),
      steps_(CheckedMultiply(runs_ ? height_ : height_ * width_, run_steps_)) {
  const int64_t padded = CeilDivide(columns_, kUnitPanel) * kUnitPanel;
  bias_ = Tensor::Zeros(DType::kF32, {padded});
  if (bias.defined()) std::copy_n(bias.data<float>(), columns_, bias_.template data<float>());
  Pack(weight);
}

/// Panel by panel: by row of the window, by column, then by channel, pairs of steps side by side;
/// a run has zeros behind it.
template <typename T>
void MatrixUnitConvOf<T>::Pack(const Tensor& weight) {
  const int64_t taps = height_ * width_, k = CheckedMultiply(steps_, step_);
  const int64_t panels = CeilDivide(columns_, kUnitPanel), row = k / height_;
  const int64_t elements = CheckedMultiply(CheckedMultiply(panels, kUnitPanel), k);
  panels_ = AllocatePages(CheckedMultiply(static_cast<size_t>(elements), kUnitElement));
  uint16_t* to = reinterpret_cast<uint16_t*>(panels_->data());
  std::fill_n(to, elements, uint16_t{0});
  const auto narrow =
      expression::FindConversion(DType::kF32, std::is_same_v<T, Half> ? DType::kF16 : DType::kBF16);
  std::vector<uint16_t> filter(static_cast<size_t>(CheckedMultiply(channels_, taps)));
  for (int64_t out = 0; out < columns_; ++out) {
    const void* const from[] = {weight.data<float>() + out * channels_ * taps};
    narrow(from, filter.data(), channels_ * taps);
    uint16_t* column = to + out / kUnitPanel * kUnitPanel * k + out % kUnitPanel * 2;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t first = tap / width_ * row + tap % width_ * channels_;
      for (int64_t c = 0; c < channels_; ++c) {
        const int64_t at = first + c;
        column[at / 2 * 2 * kUnitPanel + at % 2] = filter[static_cast<size_t>(c * taps + tap)];
      }
    }
  }
}

template <typename T>
typename MatrixUnitConvOf<T>::Plan MatrixUnitConvOf<T>::MakePlan(const ConvGeometry& g,
                                                                 int64_t in_pixel) const {
  const ConvAxis &h = g.axes[1], &w = g.axes[2];
  Plan plan;
  plan.as_it_is = std::is_same_v<T, Half> && g.IsEachPixel();
  plan.pixel = plan.as_it_is ? in_pixel : channels_;
  plan.rows = std::max(CheckedAdd(h.in, h.pad), (h.out - 1) * h.stride + h.reach());
  plan.pixels = std::max(CheckedAdd(w.in, w.pad), (w.out - 1) * w.stride + w.reach());
  plan.row_size = CheckedMultiply(plan.pixels, plan.pixel);
  // Tiles end behind the last pixel of a row, and steps behind the last channel of a window's row.
  const int64_t behind = CheckedMultiply(kUnitHalf * w.stride, plan.pixel) + kUnitStep;
  plan.size =
      plan.as_it_is ? behind : CheckedAdd(CheckedMultiply(plan.rows, plan.row_size), behind);
  plan.row_halves = CeilDivide(w.out, kUnitHalf);
  plan.tiles = CeilDivide(CheckedMultiply(plan.row_halves, h.out), int64_t{2});
  return plan;
}

template <typename T>
size_t MatrixUnitConvOf<T>::Workspace(const ConvGeometry& g, int64_t in_pixel) const {
  const Plan plan = MakePlan(g.IsEachPixel() ? InOneRow(g) : g, in_pixel);
  const size_t image = CheckedMultiply(static_cast<size_t>(plan.size), kUnitElement);
  const size_t offsets = CheckedMultiply(static_cast<size_t>(steps_), sizeof(int64_t));
  return CheckedAdd(AlignUp(image, 64), offsets);
}

template <typename T>
class MatrixUnitConvOf<T>::Job {
 public:
  Job(const MatrixUnitConvOf& conv, const Context& context, const ConvGeometry& g,
      const Operands& operands)
      : conv_(conv),
        context_(context),
        g_(g),
        operands_(operands),
        plan_(conv.MakePlan(g, operands.in_pixel)),
        copy_(context.workspace<uint16_t>()),
        image_(plan_.as_it_is ? reinterpret_cast<const uint16_t*>(operands.in) : copy_),
        offsets_(reinterpret_cast<int64_t*>(
            context.workspace() + AlignUp(static_cast<size_t>(plan_.size) * kUnitElement, 64))) {
    FindOffsets();
  }

  /// One image of the batch.
  bool Go(int64_t image) const {
    if (plan_.as_it_is) {
      CopyLastPixels();
    } else if (!CopyImage(image) && conv_.runs_) {
      return false;
    }
    const int useful = static_cast<int>(
        std::clamp(g_.multiplications() / static_cast<double>(g_.batch) / kUnitThreadWork, 1.0,
                   static_cast<double>(context_.threads())));
    const GemmSplit split =
        SplitTiles(panels(), kUnitPanel, plan_.tiles, 2 * kUnitHalf, useful, conv_.columns_);
    context_.ParallelFor(split.parts(), 1, [&](int64_t begin, int64_t end) {
      BeginUnit(conv_.kernels_, conv_.step_);
      for (int64_t piece = begin; piece < end; ++piece) {
        const int kept = static_cast<int>(piece / split.streamed_parts);
        const int streamed = static_cast<int>(piece % split.streamed_parts);
        Multiply(image, PartBegin(panels(), split.kept_parts, kept),
                 PartBegin(panels(), split.kept_parts, kept + 1),
                 PartBegin(plan_.tiles, split.streamed_parts, streamed),
                 PartBegin(plan_.tiles, split.streamed_parts, streamed + 1));
      }
      EndUnit(conv_.kernels_);
    });
    return true;
  }

 private:
  using Tile = typename UnitKernelsOf<T>::Tile;
  using Rows = typename UnitKernelsOf<T>::Rows;

  int64_t panels() const { return CeilDivide(conv_.columns_, kUnitPanel); }

  void FindOffsets() const {
    constexpr int64_t kItem = kUnitElement;
    const int64_t columns = conv_.runs_ ? 1 : conv_.width_;
    int64_t* to = offsets_;
    for (int64_t kh = 0; kh < conv_.height_; ++kh) {
      for (int64_t kw = 0; kw < columns; ++kw) {
        const int64_t tap =
            kh * g_.axes[1].dilation * plan_.row_size + kw * g_.axes[2].dilation * plan_.pixel;
        for (int64_t i = 0; i < conv_.run_steps_; ++i) *to++ = (tap + i * conv_.step_) * kItem;
      }
    }
  }

  /// Those of a last tile that is not whole: behind them nothing may be read.
  void CopyLastPixels() const {
    const int64_t pixels = g_.axes[2].out, whole = pixels / kUnitHalf * kUnitHalf;
    if (whole == pixels) return;
    std::fill_n(copy_, plan_.size, uint16_t{0});
    for (int64_t x = whole; x < pixels; ++x) {
      std::copy_n(image_ + x * plan_.pixel, conv_.channels_, copy_ + (x - whole) * plan_.pixel);
    }
  }

  /// The image with zeros around it; returns whether all of it is finite.
  bool CopyImage(int64_t image) const {
    const ConvAxis &h = g_.axes[1], &w = g_.axes[2];
    const int64_t channels = conv_.channels_;
    std::atomic<bool> finite = true;
    const int64_t grain =
        GrainOf({.bytes = 6.0 * static_cast<double>(std::max<int64_t>(1, plan_.row_size))});
    context_.ParallelFor(plan_.rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        uint16_t* to = copy_ + row * plan_.row_size;
        const int64_t y = row - h.pad;
        if (y < 0 || y >= h.in) {
          std::fill_n(to, plan_.row_size, uint16_t{0});
          continue;
        }
        const T* from = operands_.in + (image * h.in + y) * w.in * operands_.in_pixel;
        std::fill_n(to, w.pad * channels, uint16_t{0});
        to += w.pad * channels;
        if (!CopyRow(from, to)) finite = false;
        const int64_t after = plan_.pixels - w.pad - w.in;
        std::fill_n(to + w.in * channels, after * channels, uint16_t{0});
      }
    });
    // What tiles read behind the end must be numbers, too.
    const int64_t used = plan_.rows * plan_.row_size;
    std::fill_n(copy_ + used, plan_.size - used, uint16_t{0});
    return finite;
  }

  bool CopyRow(const T* from, uint16_t* to) const {
    const int64_t pixels = g_.axes[2].in, channels = conv_.channels_;
    if (operands_.in_pixel == channels) {
      return CopyPixels(conv_.kernels_, from, pixels * channels, to);
    }
    bool finite = true;
    for (int64_t x = 0; x < pixels; ++x, from += operands_.in_pixel, to += channels) {
      finite = CopyPixels(conv_.kernels_, from, channels, to) && finite;
    }
    return finite;
  }

  /// Some tiles times some panels, in blocks of tiles whose pixels stay near.
  void Multiply(int64_t image, int64_t first_panel, int64_t last_panel, int64_t first_tile,
                int64_t last_tile) const {
    const int64_t step = std::max<int64_t>(
        1, UnitNearBytes() / (2 * kUnitHalf * g_.axes[1].stride * g_.axes[2].stride *
                              conv_.channels_ * static_cast<int64_t>(kUnitElement)));
    for (int64_t begin = first_tile; begin < last_tile; begin += step) {
      const int64_t end = std::min(last_tile, begin + step);
      for (int64_t panel = first_panel; panel < last_panel; ++panel) {
        MultiplyPanel(image, panel, begin, end);
      }
    }
  }

  void MultiplyPanel(int64_t image, int64_t panel, int64_t begin, int64_t end) const {
    const int64_t step_bytes = conv_.step_ * kUnitPanel * static_cast<int64_t>(kUnitElement);
    const int64_t panel_bytes = conv_.steps_ * step_bytes, column = panel * kUnitPanel;
    const std::byte* filters = conv_.panels_->data() + panel * panel_bytes;
    Tile tile;
    tile.steps = conv_.steps_;
    tile.offsets = offsets_;
    tile.a_stride = g_.axes[2].stride * plan_.pixel * static_cast<int64_t>(kUnitElement);
    tile.b = filters;
    if constexpr (std::is_same_v<T, Half>) tile.b_step = step_bytes;
    tile.columns = static_cast<int>(std::min<int64_t>(kUnitPanel, conv_.columns_ - column));
    tile.ldc = operands_.out_pixel;
    tile.addend_stride = operands_.out_pixel;
    tile.bias = conv_.bias_.template data<float>() + column;
    tile.activation = operands_.activation;
    tile.soon_bytes = panel_bytes / (end - begin);
    for (int64_t i = begin; i < end; ++i) {
      if (panel + 1 < panels()) tile.soon = filters + panel_bytes + (i - begin) * tile.soon_bytes;
      tile.halves[0] = HalfAt(image, 2 * i, column);
      tile.halves[1] = HalfAt(image, 2 * i + 1, column);
      MultiplyUnitTile(conv_.kernels_, tile);
    }
  }

  Rows HalfAt(int64_t image, int64_t half, int64_t column) const {
    const ConvAxis &h = g_.axes[1], &w = g_.axes[2];
    const int64_t y = half / plan_.row_halves, x = half % plan_.row_halves * kUnitHalf;
    if (y >= h.out) return {};
    const int64_t pixel = (image * h.out + y) * w.out + x;
    Rows result;
    result.a = image_ + y * h.stride * plan_.row_size + x * w.stride * plan_.pixel;
    result.rows = static_cast<int>(std::min(kUnitHalf, w.out - x));
    if (plan_.as_it_is && result.rows < kUnitHalf) result.a = copy_;
    const int64_t offset = pixel * operands_.out_pixel + column;
    result.c = operands_.out + offset;
    if (operands_.addend != nullptr) result.addend = operands_.addend + offset;
    return result;
  }

  const MatrixUnitConvOf& conv_;
  const Context& context_;
  const ConvGeometry& g_;
  const Operands& operands_;
  const Plan plan_;
  uint16_t* copy_;         // in the workspace
  const uint16_t* image_;  // the copy, or the image itself
  int64_t* offsets_;
};

template <typename T>
bool MatrixUnitConvOf<T>::Run(const Context& context, const ConvGeometry& given,
                              const Operands& operands) const {
  if (runs_ && given.axes[2].dilation != 1) return false;
  const ConvGeometry geometry = given.IsEachPixel() ? InOneRow(given) : given;
  const Job job(*this, context, geometry, operands);
  for (int64_t image = 0; image < geometry.batch; ++image) {
    if (!job.Go(image)) return false;
  }
  return true;
}

template class MatrixUnitConvOf<float>;
template class MatrixUnitConvOf<Half>;

}  // namespace oort
