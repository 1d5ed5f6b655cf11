// SPDX-License-Identifier: MIT
#include "layers/convolution/implicit_gemm/windows.h"

#include <algorithm>
#include <array>

#include "layers/convolution/implicit_gemm/copy_run.h"

namespace oort {
namespace {

constexpr int kMostPixels = 64;       // of a panel
constexpr int64_t kFewChannels = 16;  // below, whole windows are copied before they are turned
constexpr int64_t kMostFloats = 16 * 1024;  // of such copies

}  // namespace

const float* NhwcSource::At(const Pixel& pixel, int64_t kh, int64_t kw) const {
  const NhwcWindows& w = windows_;
  const int64_t y = pixel.y + kh * w.height.dilation, x = pixel.x + kw * w.width.dilation;
  if (y < 0 || y >= w.height.in || x < 0 || x >= w.width.in) return w.zeros;
  return pixel.image + (y * w.width.in + x) * w.pixel;
}

template <typename PackRun>
void NhwcSource::Gather(int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width, int multiple,
                        const PackRun& pack) const {
  const NhwcWindows& w = windows_;
  const int count = static_cast<int>(i1 - i0);
  std::array<Pixel, kMostPixels> pixels;
  int64_t column = i0 % w.width.out, row = i0 / w.width.out % w.height.out;
  const float* image =
      w.image + i0 / w.width.out / w.height.out * w.height.in * w.width.in * w.pixel;
  for (int i = 0; i < count; ++i) {
    pixels[static_cast<size_t>(i)] = {image, row * w.height.stride - w.height.pad,
                                      column * w.width.stride - w.width.pad};
    if (++column < w.width.out) continue;
    column = 0;
    if (++row < w.height.out) continue;
    row = 0;
    image += w.height.in * w.width.in * w.pixel;
  }
  const int64_t taps = w.height.kernel * w.width.kernel, all = taps * w.channels;
  const int64_t padded = (all + multiple - 1) / multiple * multiple;
  const bool whole = k0 == 0 && k1 == all && padded * width <= kMostFloats;
  if (whole && taps > 1 && w.channels < kFewChannels) {
    GatherWindows(pixels.data(), count, padded, pack);
  } else {
    GatherTaps(pixels.data(), count, k0, k1, pack);
  }
}

template <typename PackRun>
void NhwcSource::GatherTaps(const Pixel* pixels, int count, int64_t k0, int64_t k1,
                            const PackRun& pack) const {
  const int64_t channels = windows_.channels;
  std::array<const float*, kMostPixels> rows;
  for (int64_t k = k0; k < k1;) {
    const int64_t tap = k / channels, first = k % channels;
    const int64_t depth = std::min(channels - first, k1 - k);
    const int64_t kh = tap / windows_.width.kernel, kw = tap % windows_.width.kernel;
    for (int i = 0; i < count; ++i) {
      rows[static_cast<size_t>(i)] = At(pixels[i], kh, kw) + first;
    }
    pack(rows.data(), count, k - k0, depth);
    k += depth;
  }
}

/// Few channels: a row of a window is one run of floats, unless it crosses the border.
void NhwcSource::CopyWindow(const Pixel& pixel, float* row) const {
  const NhwcWindows& w = windows_;
  const int64_t run = w.width.kernel * w.channels;
  const bool in_runs = w.pixel == w.channels && w.width.dilation == 1 && pixel.x >= 0 &&
                       pixel.x + w.width.kernel <= w.width.in;
  for (int64_t kh = 0; kh < w.height.kernel; ++kh, row += run) {
    const int64_t y = pixel.y + kh * w.height.dilation;
    if (y < 0 || y >= w.height.in) {
      std::fill_n(row, run, 0.0f);
    } else if (in_runs) {
      CopyRun(At(pixel, kh, 0), run, row);
    } else {
      for (int64_t kw = 0; kw < w.width.kernel; ++kw) {
        std::copy_n(At(pixel, kh, kw), w.channels, row + kw * w.channels);
      }
    }
  }
}

template <typename PackRun>
void NhwcSource::GatherWindows(const Pixel* pixels, int count, int64_t padded,
                               const PackRun& pack) const {
  alignas(64) float copies[kMostFloats];
  std::array<const float*, kMostPixels> rows;
  const int64_t depth = windows_.height.kernel * windows_.width.kernel * windows_.channels;
  for (int i = 0; i < count; ++i) {
    float* copy = copies + i * padded;
    rows[static_cast<size_t>(i)] = copy;
    CopyWindow(pixels[i], copy);
    std::fill(copy + depth, copy + padded, 0.0f);
  }
  pack(rows.data(), count, int64_t{0}, padded);
}

void NhwcSource::Pack(int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width,
                      float* panel) const {
  Gather(k0, k1, i0, i1, width, 1,
         [&](const float* const* rows, int count, int64_t first, int64_t depth) {
           kernels_.rows(rows, count, width, depth, panel + first * width);
         });
}

void NhwcSource::PackFor(const GemmKernels& kernels, int64_t k0, int64_t k1, int64_t i0, int64_t i1,
                         const PanelPart& part) const {
  if (kernels.pack_rows == nullptr) return PanelSource::PackFor(kernels, k0, k1, i0, i1, part);
  ZeroLastSteps(kernels, k1 - k0, part);
  Gather(k0, k1, i0, i1, part.width, kernels.format.k_multiple,
         [&](const float* const* rows, int count, int64_t first, int64_t depth) {
           kernels.pack_rows(rows, count, first, depth, part);
         });
}

}  // namespace oort
