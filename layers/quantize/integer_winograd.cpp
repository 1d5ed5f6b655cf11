// SPDX-License-Identifier: MIT
// Convolutions of bytes by Winograd's F(2 x 2, 3 x 3), on units whose products take 16 bits.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/checked.h"
#include "core/machine.h"
#include "core/scratch_bytes.h"
#include "layers/quantize/integer_product.h"

namespace oort {
namespace {

/// Twice what Winograd's rows say of three weights.
std::array<int, 4> Transformed(int a, int b, int c) { return {2 * a, a + b + c, a - b + c, 2 * c}; }

/// The 4 x 4 numbers of a filter of one channel, which are four times as large as they should be.
std::array<std::array<int, 4>, 4> TransformedFilter(const int8_t* w) {
  std::array<std::array<int, 4>, 3> rows;
  for (size_t y = 0; y < 3; ++y) rows[y] = Transformed(w[y * 3], w[y * 3 + 1], w[y * 3 + 2]);
  std::array<std::array<int, 4>, 4> points;
  for (size_t x = 0; x < 4; ++x) {
    const std::array<int, 4> column = Transformed(rows[0][x], rows[1][x], rows[2][x]);
    for (size_t y = 0; y < 4; ++y) points[y][x] = column[y];
  }
  return points;
}

/// Where the pixels under a tile of 2 x 2 outputs are, and where the outputs belong. What lies
/// beside the image is `beside`; the last tiles may have outputs beyond the end.
struct TileFinder {
  const ConvAxis &rows, &columns;
  const std::byte* image;
  const std::byte* beside;
  int64_t pixel;

  void Find(int64_t tile, const std::byte** pixels, int64_t* places) const {
    const int64_t across = CeilDivide(columns.out, 2);
    const int64_t y0 = tile / across * 2, x0 = tile % across * 2;
    for (int64_t i = 0; i < kWinogradPoints; ++i) {
      const int64_t y = y0 + i / 4 - rows.pad, x = x0 + i % 4 - columns.pad;
      const bool inside = y >= 0 && y < rows.in && x >= 0 && x < columns.in;
      pixels[i] = inside ? image + (y * columns.in + x) * pixel : beside;
    }
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t y = y0 + i / 2, x = x0 + i % 2;
      places[i] = y < rows.out && x < columns.out ? y * columns.out + x : -1;
    }
  }
};

}  // namespace

/// Panel by panel and point by point the pairs of neighbours of all channels of the panel.
void IntegerProduct::PackWinograd(const int8_t* weight) {
  for (int64_t first = 0; first < out_; first += kernels_.panel) {
    Panel panel{.channel = first, .padded = first, .count = 0, .weights = 0, .group = 0};
    panel.count = std::min<int64_t>(kernels_.panel, out_ - first);
    const int64_t wide = CeilDivide(panel.count, kernels_.lanes) * kernels_.lanes;
    panel.weights = AddWeights(CheckedMultiply(kWinogradPoints * group_in_, wide));
    std::byte* to = packing_.data() + panel.weights;
    for (int64_t c = 0; c < panel.count; ++c) {
      for (int64_t i = 0; i < group_in_; ++i) {
        const auto points = TransformedFilter(weight + ((first + c) * group_in_ + i) * 9);
        for (int64_t point = 0; point < kWinogradPoints; ++point) {
          const auto value = static_cast<int16_t>(
              points[static_cast<size_t>(point / 4)][static_cast<size_t>(point % 4)]);
          const int64_t at = (point * group_in_ + i / 2 * 2) * wide + c * 2 + i % 2;
          std::memcpy(to + at * 2, &value, sizeof value);
        }
      }
    }
    panels_.push_back(panel);
  }
}

/// Some tiles at a time: what they are transformed to stays in the second cache while all panels
/// are multiplied with it.
void IntegerProduct::RunWinograd(const Context& context, const ConvGeometry& g,
                                 const std::byte* from, const IntegerCall& call, int64_t n) const {
  constexpr int64_t kMostTiles = kFinishedWindows / 4, kTilesTogether = 6;
  const ConvAxis &rows = g.axes[1], &columns = g.axes[2];
  const int64_t all = CeilDivide(rows.out, 2) * CeilDivide(columns.out, 2);
  const int64_t fit = ThisMachine().l2 / 2 / (2 * kWinogradPoints * group_in_);
  const int64_t most =
      std::clamp(fit / kTilesTogether * kTilesTogether, kTilesTogether, kMostTiles);
  const int64_t blocks = CeilDivide(all, most);
  const auto panels = static_cast<int64_t>(panels_.size());
  const size_t transformed = static_cast<size_t>(kWinogradPoints * most * group_in_) * 2;
  const size_t products = static_cast<size_t>(kWinogradPoints * most * kernels_.panel) * 4;
  const int64_t work = kWinogradPoints * most * group_in_ * kernels_.panel;
  context.ParallelFor(panels * blocks, 200000 / (work + 1) + 1, [&](int64_t begin, int64_t end) {
    const std::byte* pixels[kMostTiles * kWinogradPoints];
    int64_t places[kMostTiles * 4];
    ScratchBytes memory(transformed + products);
    const std::vector<std::byte> beside(static_cast<size_t>(group_in_),
                                        static_cast<std::byte>(numbers_.input.zero_point));
    const TileFinder finder{rows, columns, from, beside.data(), g.in_channels};
    IntegerWinograd job{.pixels = pixels,
                        .is_signed = call.input_signed,
                        .tiles = 0,
                        .depth = group_in_,
                        .transformed = reinterpret_cast<int16_t*>(memory.data()),
                        .weights = nullptr,
                        .products = reinterpret_cast<int32_t*>(memory.data() + transformed),
                        .starts = nullptr,
                        .places = places,
                        .channels = 0,
                        .epilogue = {}};
    int64_t found = -1;
    for (int64_t task = begin; task < end; ++task) {
      const Panel& panel = panels_[static_cast<size_t>(task % panels)];
      if (const int64_t block = task / panels; block != found) {
        found = block;
        job.tiles = std::min(most, all - block * most);
        for (int64_t i = 0; i < job.tiles; ++i) {
          finder.Find(block * most + i, pixels + i * kWinogradPoints, places + i * 4);
        }
        kernels_.winograd_transform(job);
      }
      const int64_t place = n * g.out_plane() * out_ + panel.channel;
      job.weights = reinterpret_cast<const int16_t*>(packed_.raw() + panel.weights);
      job.starts = starts_[call.input_signed ? 1 : 0].data() + panel.padded;
      job.channels = panel.count;
      job.epilogue = Epilogue(call, place, panel.padded);
      MultiplyTiles(job, static_cast<std::byte*>(call.output) + place * result_bytes());
    }
  });
}

/// A panel of filters, and what is made of the sums: here where kernels leave that to Finish.
void IntegerProduct::MultiplyTiles(const IntegerWinograd& job, std::byte* output) const {
  if (direct()) return kernels_.winograd_product(job);
  alignas(64) float values[kFinishedWindows * kMostPanel];
  alignas(64) std::byte results[kFinishedWindows * kMostPanel * sizeof(float)];
  std::byte addends[kFinishedWindows * kMostPanel];
  int64_t order[kFinishedWindows];
  int64_t count = 0;
  IntegerWinograd inner = job;
  IntegerEpilogue& epilogue = inner.epilogue;
  for (int64_t i = 0; i < job.tiles * 4; ++i) {
    order[i] = job.places[i] < 0 ? -1 : count++;
    if (order[i] < 0 || epilogue.addend == nullptr) continue;
    const auto* addend = static_cast<const std::byte*>(epilogue.addend);
    std::memcpy(addends + order[i] * job.channels, addend + job.places[i] * epilogue.addend_stride,
                static_cast<size_t>(job.channels));
  }
  inner.places = order;
  epilogue.out = values;
  epilogue.stride = epilogue.addend_stride = job.channels;
  if (epilogue.addend != nullptr) epilogue.addend = addends;
  kernels_.winograd_product(inner);
  Finish(values, count * job.channels, results);
  const int64_t bytes = job.channels * result_bytes(), stride = out_ * result_bytes();
  for (int64_t i = 0; i < job.tiles * 4; ++i) {
    if (job.places[i] < 0) continue;
    std::memcpy(output + job.places[i] * stride, results + order[i] * bytes,
                static_cast<size_t>(bytes));
  }
}

}  // namespace oort
