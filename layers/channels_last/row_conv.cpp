// SPDX-License-Identifier: MIT
#include "layers/channels_last/row_conv.h"

#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "layers/channels_last/copy_run.h"

namespace oort {
namespace {

constexpr int64_t kRowFewChannels = 8;          // below, windows are copied into rows
constexpr int64_t kRowMoreTiles = 2;            // that kernels may read of
constexpr int64_t kRowSlackFloats = 16;         // kernels may read behind the last panel
constexpr double kRowThreadWork = 64 * 1024;    // multiplications that pay for one more thread
constexpr int64_t kRowBlockBytes = 512 * 1024;  // half an L2 cache
constexpr int64_t kRowCopyBytes = 32 * 1024;    // half an L1 cache

std::shared_ptr<Buffer> AllocateRowFloats(int64_t count) {
  return AllocateHost(CheckedMultiply(static_cast<size_t>(count), sizeof(float)));
}

float* RowFloatsOf(const std::shared_ptr<Buffer>& buffer) {
  return reinterpret_cast<float*>(buffer->data());
}

}  // namespace

/// How a call is cut: blocks of pixels, each multiplied with all panels of a part of the filters.
struct RowConv::Plan {
  int64_t pixels = 0, tiles = 0;  // of the whole batch
  int64_t block_tiles = 1;
  int pixel_pieces = 1, panel_pieces = 1;
  size_t pointer_bytes = 0, thread_bytes = 0;
};

RowConv::RowConv(Isa isa, const Tensor& weight, const Tensor& bias, int64_t groups)
    : kernels_(RowConvKernelsFor(isa)),
      groups_(groups),
      columns_(weight.dim(0) / groups),
      channels_(weight.dim(1)),
      taps_(weight.shape().Product(2, 4)),
      panels_(CeilDivide(columns_, kernels_.columns)),
      padded_((panels_ - 1) * kernels_.columns +
              kernels_.PanelWidth(columns_ - (panels_ - 1) * kernels_.columns)),
      copies_(taps_ > 1 && channels_ < kRowFewChannels),
      tile_taps_(copies_ ? 1 : taps_),
      // Whole fours, since kernels like these best.
      depth_(copies_ ? CeilDivide(CheckedMultiply(taps_, channels_), 4) * 4 : channels_),
      zeros_(Tensor::Zeros(DType::kF32, {channels_})) {
  Pack(weight, bias);
}

void RowConv::Pack(const Tensor& weight, const Tensor& bias) {
  const int64_t k = taps_ * channels_, padded = CheckedMultiply(groups_, padded_);
  const int64_t rows = CheckedMultiply(tile_taps_, depth_);
  weights_ = AllocateRowFloats(CheckedAdd(CheckedMultiply(padded, rows), kRowSlackFloats));
  bias_ = AllocateRowFloats(padded);
  const float* from = weight.data<float>();
  float *to = RowFloatsOf(weights_), *bias_to = RowFloatsOf(bias_);
  for (int64_t panel = 0; panel < groups_ * panels_; ++panel) {
    const int64_t first = panel % panels_ * kernels_.columns, group = panel / panels_;
    const int64_t width = kernels_.PanelWidth(columns_ - first);
    const int64_t used = std::min(width, columns_ - first);
    const int64_t out = group * columns_ + first;
    for (int64_t c = 0; c < width; ++c) {
      *bias_to++ = bias.defined() && c < used ? bias.data<float>()[out + c] : 0.0f;
    }
    for (int64_t tap = 0; tap < taps_; ++tap) {
      for (int64_t channel = 0; channel < channels_; ++channel) {
        const float* filter = from + out * k + channel * taps_ + tap;
        for (int64_t c = 0; c < width; ++c) *to++ = c < used ? filter[c * k] : 0.0f;
      }
    }
    to = std::fill_n(to, (rows - k) * width, 0.0f);
  }
  std::fill_n(to, kRowSlackFloats, 0.0f);
}

RowConv::Plan RowConv::MakePlan(const ConvGeometry& g, int threads) const {
  Plan plan;
  plan.pixels = CheckedMultiply(g.batch, g.out_plane());
  plan.tiles = CeilDivide(plan.pixels, kernels_.rows);
  if (plan.tiles == 0) return plan;
  const ConvAxis &h = g.axes[1], &w = g.axes[2];
  // Pixels of a block stay in the L2 cache while all panels pass by. Neighbours share inputs.
  const int64_t own = std::min(h.kernel, h.stride) * std::min(w.kernel, w.stride);
  const int64_t row_bytes = std::max<int64_t>(4, copies_ ? depth_ * 4 : channels_ * own * 4);
  const int64_t block_bytes = copies_ ? kRowCopyBytes : kRowBlockBytes;
  plan.block_tiles = std::clamp<int64_t>(block_bytes / (row_bytes * kernels_.rows), 2, 64);
  const int useful = static_cast<int>(
      std::clamp(g.multiplications() / kRowThreadWork, 1.0, static_cast<double>(threads)));
  // Few pixels and many filters are split by filters, so that each is read by one thread only.
  const bool by_pixels = plan.tiles >= 8 * useful || panels_ * groups_ < 2 * useful;
  plan.pixel_pieces = by_pixels ? static_cast<int>(std::min<int64_t>(useful, plan.tiles)) : 1;
  plan.panel_pieces = by_pixels ? 1 : useful;
  plan.block_tiles = std::min(plan.block_tiles, CeilDivide(plan.tiles, plan.pixel_pieces));
  const int64_t rows = plan.block_tiles * kernels_.rows;
  const size_t pointers = CheckedMultiply(
      static_cast<size_t>((rows + kRowMoreTiles * kernels_.rows) * tile_taps_), sizeof(float*));
  plan.pointer_bytes = AlignUp(pointers, 64);
  const size_t copied =
      copies_ ? CheckedMultiply(static_cast<size_t>(rows * depth_), sizeof(float)) : 0;
  plan.thread_bytes = AlignUp(CheckedAdd(plan.pointer_bytes, copied), 64);
  return plan;
}

size_t RowConv::Workspace(const ConvGeometry& geometry, int threads) const {
  const Plan plan = MakePlan(geometry, threads);
  return CheckedMultiply(plan.thread_bytes,
                         static_cast<size_t>(plan.pixel_pieces * plan.panel_pieces));
}

class RowConv::Job {
 public:
  Job(const RowConv& conv, const ConvGeometry& g, const Operands& operands, const Plan& plan)
      : conv_(conv), kernels_(conv.kernels_), g_(g), operands_(operands), plan_(plan) {}

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
    int64_t first, tiles;    // of pixels
    const float** pointers;  // by tile, tap and row
    float* copies;
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
    block.pointers = reinterpret_cast<const float**>(scratch);
    block.copies = reinterpret_cast<float*>(scratch + plan_.pointer_bytes);
    for (int64_t tile = begin; tile < end; tile += plan_.block_tiles) {
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
    const int rows = kernels_.rows;
    const float* in = operands_.in + group * conv_.channels_;
    const int64_t last = plan_.pixels - 1, first = block.first * rows;
    const ConvAxis &h = g_.axes[1], &w = g_.axes[2];
    const int64_t image = h.in * w.in * g_.in_channels;
    int64_t x = first % w.out, y = first / w.out % h.out, n = first / w.out / h.out;
    const float** to = block.pointers;
    float* copy = block.copies;
    for (int64_t i = 0, r = 0; i < block.tiles * rows; ++i) {
      const int64_t top = y * h.stride - h.pad, left = x * w.stride - w.pad;
      if (conv_.copies_) {
        CopyWindow(in + n * image, top, left, copy);
        *to = copy;
        copy += conv_.depth_;
      } else {
        FindTaps(in + n * image, top, left, to);
      }
      ++to;
      if (++r == rows) {  // the other taps of a tile follow the first
        to += (conv_.tile_taps_ - 1) * rows;
        r = 0;
      }
      if (first + i >= last) continue;  // rows behind the last pixel repeat it
      if (++x < w.out) continue;
      x = 0;
      if (++y < h.out) continue;
      y = 0;
      ++n;
    }
    const int64_t pointers = conv_.tile_taps_ * rows;
    std::fill_n(block.pointers + block.tiles * pointers, kRowMoreTiles * pointers,
                block.pointers[0]);
  }

  void FindTaps(const float* in, int64_t top, int64_t left, const float** to) const {
    const ConvAxis &h = g_.axes[1], &w = g_.axes[2];
    const float* zeros = conv_.zeros_.data<float>();
    for (int64_t kh = 0; kh < h.kernel; ++kh) {
      const int64_t y = top + kh * h.dilation;
      const bool in_rows = y >= 0 && y < h.in;
      for (int64_t kw = 0; kw < w.kernel; ++kw, to += kernels_.rows) {
        const int64_t x = left + kw * w.dilation;
        *to = in_rows && x >= 0 && x < w.in ? in + (y * w.in + x) * g_.in_channels : zeros;
      }
    }
  }

  /// Few channels: all that a window reads, as one row. What is not at the border comes in runs.
  void CopyWindow(const float* in, int64_t top, int64_t left, float* row) const {
    const ConvAxis &h = g_.axes[1], &w = g_.axes[2];
    const int64_t run = w.kernel * conv_.channels_, step = w.in * g_.in_channels;
    const bool runs = conv_.groups_ == 1 && w.dilation == 1 && left >= 0 && left + w.kernel <= w.in;
    if (runs && top >= 0 && top + h.reach() <= h.in) {
      const float* from = in + top * step + left * g_.in_channels;
      // The kernels of 3 x 3 and 7 x 7 over three channels, with which networks begin.
      if (run == 9) return CopyRuns<9>(from, h.dilation * step, row);
      if (run == 21) return CopyRuns<21>(from, h.dilation * step, row);
    }
    float* end = row + conv_.depth_;
    for (int64_t kh = 0; kh < h.kernel; ++kh, row += run) {
      const int64_t y = top + kh * h.dilation;
      if (y < 0 || y >= h.in) {
        std::fill_n(row, run, 0.0f);
      } else if (runs) {
        CopyRun(in + y * step + left * g_.in_channels, run, row);
      } else {
        CopyPixels(in + y * step, left, row);
      }
    }
    std::fill(row, end, 0.0f);
  }

  /// All rows of a window.
  template <int run>
  void CopyRuns(const float* from, int64_t step, float* row) const {
    std::memset(row + conv_.depth_ - 4, 0, 4 * sizeof(float));  // what is behind the last row
    for (int64_t kh = 0; kh < g_.axes[1].kernel; ++kh, from += step, row += run) {
      CopyRunOf<run>(from, row);
    }
  }

  void CopyPixels(const float* in, int64_t left, float* row) const {
    const ConvAxis& w = g_.axes[2];
    for (int64_t kw = 0; kw < w.kernel; ++kw) {
      const int64_t x = left + kw * w.dilation;
      const bool inside = x >= 0 && x < w.in;
      for (int64_t c = 0; c < conv_.channels_; ++c) {
        *row++ = inside ? in[x * g_.in_channels + c] : 0.0f;
      }
    }
  }

  /// All pixels of a block times `panels` panels of a group from `panel` on.
  void Multiply(const Block& block, int64_t group, int64_t panel, int64_t panels) const {
    const int64_t column = panel * kernels_.columns;
    const int64_t padded = group * conv_.padded_ + column;
    const int64_t pixel = block.first * kernels_.rows;
    const int64_t offset = pixel * g_.out_channels + group * conv_.columns_ + column;
    RowBlock part;
    part.rows = block.pointers;
    part.pixels = std::min(block.tiles * kernels_.rows, plan_.pixels - pixel);
    part.taps = conv_.tile_taps_;
    part.depth = conv_.depth_;
    part.weights = RowFloatsOf(conv_.weights_) + padded * conv_.tile_taps_ * conv_.depth_;
    part.bias = RowFloatsOf(conv_.bias_) + padded;
    part.columns = std::min(panels * kernels_.columns, conv_.columns_ - column);
    part.addend = operands_.addend == nullptr ? nullptr : operands_.addend + offset;
    part.out = operands_.out + offset;
    part.stride = g_.out_channels;
    part.activation = operands_.activation;
    kernels_.block(part);
  }

  const RowConv& conv_;
  const RowConvKernels& kernels_;
  const ConvGeometry& g_;
  const Operands& operands_;
  const Plan& plan_;
};

void RowConv::Run(const Context& context, const ConvGeometry& geometry,
                  const Operands& operands) const {
  const Plan plan = MakePlan(geometry, context.threads());
  Job(*this, geometry, operands, plan).Go(context);
}

}  // namespace oort
