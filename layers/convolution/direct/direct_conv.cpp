// SPDX-License-Identifier: MIT
#include "layers/convolution/direct/direct_conv.h"

#include <algorithm>
#include <span>

#include "core/checked.h"
#include "core/host_memory.h"
#include "core/machine.h"
#include "core/parallel.h"
#include "cpu/gemm_split.h"

namespace oort {
namespace {

constexpr int64_t kRowFewChannels = 8;  // below, rows of windows are taps
constexpr int64_t kRowMoreTiles = 2;    // that kernels may read of
constexpr int64_t kRowSlack = 32;       // elements that kernels may read behind panels
constexpr int64_t kRowLastPixels = 3;   // behind which less may be readable than kernels read

size_t ScaledBytes(int64_t weights) {
  return AlignUp(static_cast<size_t>(weights + kRowSlack) * sizeof(float), 64);
}

/// What the kernels may read of a row.
template <typename T>
int64_t ReadableOf(int64_t depth) {
  return std::is_same_v<T, float> ? CeilDivide(depth, 4) * 4 : depth;
}

template <typename T>
std::shared_ptr<Buffer> AllocateRow(int64_t count) {
  return AllocatePages(CheckedMultiply(static_cast<size_t>(count), sizeof(T)));
}

template <typename T>
T* RowElementsOf(const std::shared_ptr<Buffer>& buffer) {
  return reinterpret_cast<T*>(buffer->data());
}

}  // namespace

/// How a call is cut: blocks of pixels, each multiplied with all panels of a part of the filters.
template <typename T>
struct DirectConvOf<T>::Plan {
  int64_t pixels = 0, tiles = 0;  // of the whole batch
  int64_t block_tiles = 1;
  int pixel_pieces = 1, panel_pieces = 1;
  int64_t readable = 0;  // elements from the first that is read on
  size_t pointer_bytes = 0, thread_bytes = 0;
};

template <typename T>
DirectConvOf<T>::DirectConvOf(Isa isa, const Tensor& weight, const Tensor& bias, int64_t groups)
    : kernels_(DirectConvKernelsFor<T>(isa)),
      groups_(groups),
      columns_(weight.dim(0) / groups),
      channels_(weight.dim(1)),
      taps_(weight.shape().Product(2, 4)),
      panels_(CeilDivide(columns_, kernels_.columns)),
      padded_((panels_ - 1) * kernels_.columns +
              kernels_.PanelWidth(columns_ - (panels_ - 1) * kernels_.columns)),
      runs_(taps_ > 1 && channels_ < kRowFewChannels),
      tile_taps_(runs_ ? weight.dim(2) : taps_),
      depth_(runs_ ? CheckedMultiply(weight.dim(3), channels_) : channels_),
      zeros_(Tensor::Zeros(kDTypeOf<T>, {ReadableOf<T>(depth_)})) {
  Pack(weight, bias);
}

template <typename T>
void DirectConvOf<T>::Pack(const Tensor& weight, const Tensor& bias) {
  const int64_t k = taps_ * channels_, padded = CheckedMultiply(groups_, padded_);
  const int64_t rows = CheckedMultiply(tile_taps_, depth_);  // k in all
  weights_ = AllocateRow<T>(CheckedAdd(CheckedMultiply(padded, rows), kRowSlack));
  bias_ = AllocateRow<T>(padded);
  const float* from = weight.data<float>();
  T *to = RowElementsOf<T>(weights_), *bias_to = RowElementsOf<T>(bias_);
  for (int64_t panel = 0; panel < groups_ * panels_; ++panel) {
    const int64_t first = panel % panels_ * kernels_.columns, group = panel / panels_;
    const int64_t width = kernels_.PanelWidth(columns_ - first);
    const int64_t used = std::min(width, columns_ - first);
    const int64_t out = group * columns_ + first;
    for (int64_t c = 0; c < width; ++c) {
      *bias_to++ = T(bias.defined() && c < used ? bias.data<float>()[out + c] : 0.0f);
    }
    for (int64_t tap = 0; tap < taps_; ++tap) {
      for (int64_t channel = 0; channel < channels_; ++channel) {
        const float* filter = from + out * k + channel * taps_ + tap;
        for (int64_t c = 0; c < width; ++c) *to++ = T(c < used ? filter[c * k] : 0.0f);
      }
    }
  }
  std::fill_n(to, kRowSlack, T(0.0f));
}

template <typename T>
typename DirectConvOf<T>::Plan DirectConvOf<T>::MakePlan(const ConvGeometry& g, int threads) const {
  Plan plan;
  plan.pixels = CheckedMultiply(g.batch, g.out_plane());
  plan.tiles = CeilDivide(plan.pixels, kernels_.rows);
  if (plan.tiles == 0) return plan;
  const ConvAxis &h = g.axes[1], &w = g.axes[2];
  // Pixels of a block stay in the L2 cache while all panels pass by. Neighbours share inputs.
  const int64_t own = std::min(h.kernel, h.stride) * std::min(w.kernel, w.stride);
  constexpr int64_t kItem = sizeof(T);
  const int64_t row_bytes = std::max(kItem, channels_ * own * kItem);
  const int64_t block_bytes = CacheBlock(512 * 1024, ThisMachine().l2, 0.5);
  plan.block_tiles = std::clamp<int64_t>(block_bytes / (row_bytes * kernels_.rows), 2, 64);
  const int useful = static_cast<int>(
      std::clamp(g.multiplications() / GrainProducts(), 1.0, static_cast<double>(threads)));
  // Each filter that several threads read comes from a cache that they share, and so do pixels.
  const GemmSplit split = SplitTiles(panels_ * groups_, kernels_.columns, plan.tiles, kernels_.rows,
                                     useful, CheckedMultiply(columns_, groups_));
  plan.pixel_pieces = split.streamed_parts;
  plan.panel_pieces = split.kept_parts;
  plan.block_tiles = std::min(plan.block_tiles, CeilDivide(plan.tiles, plan.pixel_pieces));
  const int64_t rows = plan.block_tiles * kernels_.rows;
  const size_t pointers = CheckedMultiply(
      static_cast<size_t>((rows + kRowMoreTiles * kernels_.rows) * tile_taps_), sizeof(T*));
  plan.pointer_bytes = AlignUp(pointers, 64);
  const int64_t copies = runs_ ? CheckedMultiply(rows, tile_taps_) : kRowLastPixels;
  const size_t copied = CheckedMultiply(
      static_cast<size_t>(CheckedMultiply(copies, ReadableOf<T>(depth_))), sizeof(T));
  plan.thread_bytes = AlignUp(CheckedAdd(plan.pointer_bytes, copied), 64);
  return plan;
}

template <typename T>
size_t DirectConvOf<T>::Workspace(const ConvGeometry& geometry, int threads, bool scaled) const {
  ConvGeometry one = geometry;
  if (scaled) one.batch = std::min<int64_t>(1, one.batch);
  const Plan plan = MakePlan(one, threads);
  const size_t bytes = CheckedMultiply(plan.thread_bytes,
                                       static_cast<size_t>(plan.pixel_pieces * plan.panel_pieces));
  return scaled ? CheckedAdd(bytes, ScaledBytes(WeightElements())) : bytes;
}

template <typename T>
class DirectConvOf<T>::Job {
 public:
  Job(const DirectConvOf& conv, const T* weights, const ConvGeometry& g, const Operands& operands,
      const Plan& plan)
      : conv_(conv),
        kernels_(conv.kernels_),
        weights_(weights),
        g_(g),
        operands_(operands),
        plan_(plan) {}

  void Go(const Context& context) const {
    const int64_t pieces = plan_.pixel_pieces * plan_.panel_pieces;
    context.ParallelFor(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        RunPiece(piece, context.workspace() + static_cast<size_t>(piece) * plan_.thread_bytes);
      }
    });
  }

 private:
  struct Block {
    int64_t first, tiles;  // of pixels
    const T** pointers;    // by tile, tap and row
    T* copies;
  };
  struct Panels {
    int64_t first, last;  // of one group
  };

  void RunPiece(int64_t piece, std::byte* scratch) const {
    const int64_t pixel_piece = piece % plan_.pixel_pieces,
                  panel_piece = piece / plan_.pixel_pieces;
    const int64_t begin = plan_.tiles * pixel_piece / plan_.pixel_pieces;
    const int64_t end = plan_.tiles * (pixel_piece + 1) / plan_.pixel_pieces;
    const int64_t all = conv_.panels_ * conv_.groups_;
    const int64_t first = all * panel_piece / plan_.panel_pieces;
    const int64_t last = all * (panel_piece + 1) / plan_.panel_pieces;
    Block block;
    block.pointers = reinterpret_cast<const T**>(scratch);
    block.copies = reinterpret_cast<T*>(scratch + plan_.pointer_bytes);
    for (int64_t tile = begin; tile < end && !IsCancelled(); tile += plan_.block_tiles) {
      block.first = tile;
      block.tiles = std::min(plan_.block_tiles, end - tile);
      for (int64_t panel = first; panel < last;) {
        const int64_t group = panel / conv_.panels_;
        const int64_t stop = std::min(last, (group + 1) * conv_.panels_);
        FindRows(block, group);
        Multiply(block, group, panel % conv_.panels_, stop - panel);
        panel = stop;
      }
    }
  }

  /// Fills in where the pixels of a block read their channels of a group.
  void FindRows(const Block& block, int64_t group) const {
    const int64_t pointers = conv_.tile_taps_ * kernels_.rows;
    const T* in = operands_.in + group * conv_.channels_;
    if (g_.IsEachPixel()) {
      FindPixels(block, in);
    } else {
      FindWindows(block, in);
    }
    std::fill_n(block.pointers + block.tiles * pointers, kRowMoreTiles * pointers,
                block.pointers[0]);
  }

  /// Behind the last pixel nothing may be read, so that rows near the end are copied.
  bool IsReadable(const T* row) const {
    return row + ReadableOf<T>(conv_.depth_) <= operands_.in + plan_.readable;
  }
  /// Each of these pixels has a place of its own in `copies`.
  const T* Copied(const T* row, T* copies) const {
    const int64_t behind = operands_.in + plan_.readable - row;
    const int64_t size = ReadableOf<T>(conv_.depth_);
    T* copy = copies + (behind - 1) / operands_.in_pixel * size;
    std::copy_n(row, conv_.depth_, copy);
    std::fill(copy + conv_.depth_, copy + size, T(0.0f));
    return copy;
  }

  void FindPixels(const Block& block, const T* in) const {
    const int64_t first = block.first * kernels_.rows, count = block.tiles * kernels_.rows;
    const int64_t here = std::min(count, plan_.pixels - first);
    const T* row = in + first * operands_.in_pixel;
    for (int64_t i = 0; i < here; ++i, row += operands_.in_pixel) block.pointers[i] = row;
    for (int64_t i = here - 1; i >= 0 && !IsReadable(block.pointers[i]); --i) {
      block.pointers[i] = Copied(block.pointers[i], block.copies);
    }
    std::fill(block.pointers + here, block.pointers + count, block.pointers[here - 1]);
  }

  /// Where the pointers of a pixel go: those of its other taps lie `rows` apart.
  struct Cursor {
    const T** to;
    int64_t row, rows, taps;
    /// Pixels that are left in this tile, of so many.
    int64_t Left(int64_t pixels) const { return std::min(pixels, rows - row); }
    void Advance(int64_t pixels = 1) {
      to += pixels;
      row += pixels;
      if (row < rows) return;
      to += (taps - 1) * rows;
      row = 0;
    }
  };

  void FindWindows(const Block& block, const T* in) const {
    const int rows = kernels_.rows;
    const int64_t first = block.first * rows, count = block.tiles * rows;
    const ConvAxis &h = g_.axes[1], &w = g_.axes[2];
    const int64_t copy_size = conv_.tile_taps_ * ReadableOf<T>(conv_.depth_);
    Cursor cursor = {block.pointers, 0, rows, conv_.tile_taps_};
    for (int64_t i = 0; i < count;) {
      const int64_t left_pixels = plan_.pixels - first - i;
      const int64_t pixel = left_pixels > 0 ? first + i : plan_.pixels - 1;  // it is repeated
      const int64_t x = pixel % w.out, y = pixel / w.out % h.out, n = pixel / w.out / h.out;
      const T* image = in + n * h.in * w.in * operands_.in_pixel;
      const int64_t top = y * h.stride - h.pad, left = x * w.stride - w.pad;
      int64_t found = left_pixels > 0 ? std::min({w.out - x, count - i, left_pixels}) : 1;
      if (!conv_.runs_) {
        FindTaps(image, top, left, found, block.copies, cursor);
      } else if (const int64_t inside = PixelsInside(image, top, x); inside > 0) {
        found = std::min(found, inside);
        FindInside(image + (top * w.in + left) * operands_.in_pixel, found, cursor);
      } else {
        found = 1;
        FindRuns(image, top, left, cursor.to, block.copies + i * copy_size);
        cursor.Advance();
      }
      i += found;
    }
  }

  /// Where the pixels of a tile read at one tap, the first of them in this column of the line.
  struct Tap {
    const T* line;   ///< null outside of the image
    const T* zeros;  ///< what is read there
    int64_t width, pixel, stride;
    void Find(int64_t column, const T** to, int64_t count) const {
      if (line == nullptr) {
        std::fill_n(to, count, zeros);
      } else if (column >= 0 && column + (count - 1) * stride < width) {
        const T* row = line + column * pixel;
        const int64_t step = stride * pixel;
        for (int64_t i = 0; i < count; ++i) to[i] = row + i * step;
      } else {
        for (int64_t i = 0; i < count; ++i, column += stride) {
          to[i] = column >= 0 && column < width ? line + column * pixel : zeros;
        }
      }
    }
  };

  /// Of pixels beside each other, whose first window begins at (top, left): tap by tap, since the
  /// pointers of a tile's pixels at a tap lie together.
  void FindTaps(const T* image, int64_t top, int64_t left, int64_t count, T* copies,
                Cursor& cursor) const {
    const ConvAxis h = g_.axes[1], w = g_.axes[2];
    const int64_t rows = cursor.rows;
    const bool all_readable = ReadableOf<T>(conv_.depth_) == conv_.depth_;
    Tap tap = {nullptr, conv_.zeros_.template data<T>(), w.in, operands_.in_pixel, w.stride};
    while (count > 0) {
      const int64_t pixels = cursor.Left(count);
      const T** to = cursor.to;
      for (int64_t kh = 0; kh < h.kernel; ++kh) {
        const int64_t y = top + kh * h.dilation;
        tap.line = y >= 0 && y < h.in ? image + y * w.in * tap.pixel : nullptr;
        for (int64_t kw = 0; kw < w.kernel; ++kw, to += rows) {
          tap.Find(left + kw * w.dilation, to, pixels);
          if (!all_readable) CopyUnreadable({to, static_cast<size_t>(pixels)}, copies);
        }
      }
      cursor.Advance(pixels);
      left += pixels * w.stride;
      count -= pixels;
    }
  }

  void CopyUnreadable(std::span<const T*> pointers, T* copies) const {
    const T* zeros = conv_.zeros_.template data<T>();
    for (const T*& pointer : pointers) {
      if (pointer != zeros && !IsReadable(pointer)) pointer = Copied(pointer, copies);
    }
  }

  /// How many pixels from x on have windows whose rows can all be read where they lie.
  int64_t PixelsInside(const T* image, int64_t top, int64_t x) const {
    const ConvAxis &h = g_.axes[1], &w = g_.axes[2];
    const bool lies = operands_.in_pixel == conv_.channels_ && w.dilation == 1;
    const int64_t room = w.in - w.reach() + w.pad;
    if (!lies || top < 0 || top + h.reach() > h.in || x * w.stride < w.pad || room < 0) return 0;
    int64_t end = std::min(w.out, room / w.stride + 1);
    const T* bottom = image + (top + h.reach() - 1) * w.in * operands_.in_pixel;
    const auto readable = [&](int64_t column) {
      return IsReadable(bottom + (column * w.stride - w.pad) * operands_.in_pixel);
    };
    while (end > x && !readable(end - 1)) --end;
    return std::max<int64_t>(0, end - x);
  }

  void FindInside(const T* window, int64_t count, Cursor& cursor) const {
    const ConvAxis &h = g_.axes[1], &w = g_.axes[2];
    const int64_t down = h.dilation * w.in * operands_.in_pixel;
    const int64_t step = w.stride * operands_.in_pixel;
    for (; count > 0; --count, window += step, cursor.Advance()) {
      const T** to = cursor.to;
      const T* line = window;
      for (int64_t kh = 0; kh < h.kernel; ++kh, line += down, to += cursor.rows) *to = line;
    }
  }

  /// Few channels: the rows of a window, as they lie where they do so one behind another.
  void FindRuns(const T* in, int64_t top, int64_t left, const T** to, T* copy) const {
    const ConvAxis &h = g_.axes[1], &w = g_.axes[2];
    const int64_t step = w.in * operands_.in_pixel, from = left * operands_.in_pixel;
    const bool whole = operands_.in_pixel == conv_.channels_ && w.dilation == 1 && left >= 0 &&
                       left + w.kernel <= w.in;
    for (int64_t kh = 0; kh < h.kernel; ++kh, to += kernels_.rows) {
      const int64_t y = top + kh * h.dilation;
      if (y < 0 || y >= h.in) {
        *to = conv_.zeros_.template data<T>();
      } else if (whole && IsReadable(in + y * step + from)) {
        *to = in + y * step + from;
      } else {
        *to = copy;
        CopyPixels(in + y * step, left, copy);
        copy += ReadableOf<T>(conv_.depth_);
      }
    }
  }

  void CopyPixels(const T* in, int64_t left, T* row) const {
    const ConvAxis& w = g_.axes[2];
    T* end = row + ReadableOf<T>(conv_.depth_);
    for (int64_t kw = 0; kw < w.kernel; ++kw) {
      const int64_t x = left + kw * w.dilation;
      const bool inside = x >= 0 && x < w.in;
      for (int64_t c = 0; c < conv_.channels_; ++c) {
        *row++ = inside ? in[x * operands_.in_pixel + c] : T(0.0f);
      }
    }
    std::fill(row, end, T(0.0f));
  }

  /// All pixels of a block times `panels` panels of a group from `panel` on.
  void Multiply(const Block& block, int64_t group, int64_t panel, int64_t panels) const {
    const int64_t column = panel * kernels_.columns;
    const int64_t padded = group * conv_.padded_ + column;
    const int64_t pixel = block.first * kernels_.rows;
    const int64_t offset = pixel * operands_.out_pixel + group * conv_.columns_ + column;
    RowBlockOf<T> part;
    part.rows = block.pointers;
    part.pixels = std::min(block.tiles * kernels_.rows, plan_.pixels - pixel);
    part.taps = conv_.tile_taps_;
    part.depth = conv_.depth_;
    part.weights = weights_ + padded * conv_.tile_taps_ * conv_.depth_;
    part.bias = RowElementsOf<T>(conv_.bias_) + padded;
    part.columns = std::min(panels * kernels_.columns, conv_.columns_ - column);
    part.addend = operands_.addend == nullptr ? nullptr : operands_.addend + offset;
    part.out = operands_.out + offset;
    part.stride = operands_.out_pixel;
    part.activation = operands_.activation;
    kernels_.block(part);
  }

  const DirectConvOf& conv_;
  const DirectConvKernelsOf<T>& kernels_;
  const T* weights_;
  const ConvGeometry& g_;
  const Operands& operands_;
  const Plan& plan_;
};

template <typename T>
void DirectConvOf<T>::Run(const Context& context, const ConvGeometry& geometry,
                          const Operands& operands) const {
  if constexpr (std::is_same_v<T, float>) {
    if (operands.scale != nullptr) return RunScaled(context, geometry, operands);
  }
  Plan plan = MakePlan(geometry, context.threads());
  plan.readable = geometry.batch * geometry.axes[1].in * geometry.axes[2].in * operands.in_pixel -
                  operands.in_first;
  Job(*this, RowElementsOf<T>(weights_), geometry, operands, plan).Go(context);
}

/// Image by image, with filters of its own for each: there are fewer of them than pixels. Of f32.
template <typename T>
void DirectConvOf<T>::RunScaled(const Context& context, const ConvGeometry& geometry,
                                const Operands& operands) const {
  if constexpr (std::is_same_v<T, float>) {
    ConvGeometry one = geometry;
    one.batch = 1;
    Plan plan = MakePlan(one, context.threads());
    const int64_t image_floats = one.axes[1].in * one.axes[2].in * operands.in_pixel;
    plan.readable = image_floats - operands.in_first;
    float* scaled = context.workspace<float>();
    const size_t used = ScaledBytes(WeightElements()),
                 rest = Workspace(geometry, context.threads());
    const Context inner(context.threads(), {context.workspace() + used, rest});
    const float* weights = RowElementsOf<T>(weights_);
    Operands image = operands;
    for (int64_t n = 0; n < geometry.batch; ++n) {
      for (int64_t panel = 0; panel < panels_; ++panel) {
        const int64_t first = panel * kernels_.columns;
        const int64_t width = kernels_.PanelWidth(columns_ - first);
        for (int64_t k = 0, at = first * depth_; k < depth_; ++k) {
          const float factor = operands.scale[n * channels_ + k];
          for (int64_t end = at + width; at < end; ++at) scaled[at] = weights[at] * factor;
        }
      }
      std::fill_n(scaled + WeightElements(), kRowSlack, 0.0f);
      Job(*this, scaled, one, image, plan).Go(inner);
      image.in += image_floats;
      const int64_t floats = one.out_plane() * operands.out_pixel;
      image.out += floats;
      if (image.addend != nullptr) image.addend += floats;
    }
  }
}

template class DirectConvOf<float>;
template class DirectConvOf<Half>;

}  // namespace oort
