// SPDX-License-Identifier: MIT
#include "cpu/activation_epilogue.h"
#include "layers/channels_last/depthwise_kernels.h"

namespace oort::OORT_ISA {
namespace {

/// With masks a partial vector costs what a whole one does; elsewhere the rest is a case of its
/// own.
constexpr bool kMasked = Vec::kWidth >= 16;

inline Vec LoadChannels(const float* p, [[maybe_unused]] int lanes) {
  if constexpr (kMasked) return Vec::LoadPartial(p, lanes);
  return Vec::Load(p);
}
inline void StoreChannels(Vec v, float* p, [[maybe_unused]] int lanes) {
  if constexpr (kMasked) return v.StorePartial(p, lanes);
  v.Store(p);
}

/// How the results are limited in registers; other activations go over the finished row.
struct Limits {
  explicit Limits(const ActivationSpec& spec) : kind(spec.kind), low(spec.a), high(spec.b) {
    if (kind == Activation::kRelu) low = Vec(0.0f);
  }
  Vec Apply(Vec x) const {
    if (kind == Activation::kRelu) return Max(x, low);
    if (kind == Activation::kClamp) return Min(Max(x, low), high);
    return x;
  }
  Activation kind;
  Vec low, high;
};

/// Where a tile of outputs lies in its row.
struct Tile {
  int64_t x;                  ///< the first output
  int64_t left;               ///< the input column under its first tap; below 0 in the padding
  int64_t begin, end, count;  ///< columns from `left` on that are inputs; outputs that are wanted
};

/// `width` neighbouring outputs of one vector of channels: each input is loaded once for all that
/// it goes into. A clipped tile passes over padding and over outputs that are not wanted.
template <int kernel, int stride, int width, bool clipped>
[[gnu::always_inline]] inline void SumTile(const PixelDepthwiseRow& r, const Tile& tile, int64_t c,
                                           int lanes, Vec (&sums)[width]) {
  constexpr int kColumns = (width - 1) * stride + kernel;
  const float* in = r.in + r.top * r.in_row + c;
  const float* weight = r.weight + c;
  const int64_t in_step = r.row_dilation * r.in_row, weight_step = kernel * r.weight_tap;
  for (int64_t y = 0; y < r.rows; ++y, in += in_step, weight += weight_step) {
    Vec taps[kernel];
    Unroll<kernel>([&](auto k) { taps[k] = LoadChannels(weight + k * r.weight_tap, lanes); });
    Unroll<kColumns>([&](auto j) {
      constexpr int kColumn = j;
      if (clipped && (kColumn < tile.begin || kColumn >= tile.end)) return;
      const Vec x = LoadChannels(in + (tile.left + kColumn) * r.in_pixel, lanes);
      Unroll<kernel>([&](auto k) {
        constexpr int kOffset = kColumn - decltype(k)::value;
        if constexpr (kOffset >= 0 && kOffset % stride == 0 && kOffset / stride < width) {
          sums[kOffset / stride] = Fma(x, taps[k], sums[kOffset / stride]);
        }
      });
    });
  }
}

template <int kernel, int stride, int width, bool clipped>
void RunTile(const PixelDepthwiseRow& r, const Tile& tile, const Limits& limits) {
  constexpr int kStep = Vec::kWidth;
  float* out = r.out + tile.x * r.out_pixel;
  const float* addend = r.addend == nullptr ? nullptr : r.addend + tile.x * r.addend_pixel;
  const int64_t end = kMasked ? r.channels : r.channels / kStep * kStep;
  for (int64_t c = 0; c < end; c += kStep) {
    const int lanes = r.channels - c < kStep ? static_cast<int>(r.channels - c) : kStep;
    const Vec bias = r.bias == nullptr ? Vec::Zero() : LoadChannels(r.bias + c, lanes);
    Vec sums[width];
    Unroll<width>([&](auto q) { sums[q] = bias; });
    SumTile<kernel, stride, width, clipped>(r, tile, c, lanes, sums);
    if (addend != nullptr) {
      Unroll<width>([&](auto q) {
        if (clipped && q >= tile.count) return;
        sums[q] = sums[q] + LoadChannels(addend + q * r.addend_pixel + c, lanes);
      });
    }
    Unroll<width>([&](auto q) { sums[q] = limits.Apply(sums[q]); });
    Unroll<width>([&](auto q) {
      if (clipped && q >= tile.count) return;
      StoreChannels(sums[q], out + q * r.out_pixel + c, lanes);
    });
  }
}

/// The tile from output `x` on, at most `width` wide.
template <int kernel, int stride, int width>
void PlaceTile(const PixelDepthwiseRow& r, int64_t x, const Limits& limits) {
  constexpr int64_t kColumns = (width - 1) * stride + kernel;
  Tile tile;
  tile.x = x;
  tile.left = x * stride - r.pad;
  tile.count = r.out_width - x < width ? r.out_width - x : width;
  tile.begin = tile.left < 0 ? -tile.left : 0;
  tile.end = r.in_width - tile.left < kColumns ? r.in_width - tile.left : kColumns;
  if (tile.begin == 0 && tile.end == kColumns && tile.count == width) {
    RunTile<kernel, stride, width, false>(r, tile, limits);
  } else {
    RunTile<kernel, stride, width, true>(r, tile, limits);
  }
}

template <int kernel, int stride>
void TiledRow(const PixelDepthwiseRow& r, const Limits& limits) {
  // Extents of networks for images of 224 are multiples of 7, some of 8.
  const bool sevens = r.out_width % 8 != 0 && r.out_width % 7 == 0;
  for (int64_t x = 0; x < r.out_width;) {
    const int64_t left = r.out_width - x;
    if (sevens || left == 7) {
      PlaceTile<kernel, stride, 7>(r, x, limits);
      x += 7;
    } else if (left > 4) {
      PlaceTile<kernel, stride, 8>(r, x, limits);
      x += 8;
    } else {
      PlaceTile<kernel, stride, 4>(r, x, limits);
      x += 4;
    }
  }
}

/// One output of `vectors` vectors of channels by any kernel; the last may be partial.
template <int vectors>
void AnyOutput(const PixelDepthwiseRow& r, int64_t x, int64_t c, int lanes, const Limits& limits) {
  const auto load = [&](const float* p, int v) {
    return vectors == 1 ? Vec::LoadPartial(p, lanes) : Vec::Load(p + v * Vec::kWidth);
  };
  const int64_t start = x * r.stride - r.pad;
  const int64_t first = start < 0 ? (-start + r.dilation - 1) / r.dilation : 0;
  Vec sums[vectors];
  Unroll<vectors>([&](auto v) { sums[v] = r.bias == nullptr ? Vec::Zero() : load(r.bias + c, v); });
  for (int64_t y = 0; y < r.rows; ++y) {
    const float* in = r.in + (r.top + y * r.row_dilation) * r.in_row + c;
    const float* weight = r.weight + y * r.kernel * r.weight_tap + c;
    for (int64_t k = first; k < r.kernel; ++k) {
      const int64_t column = start + k * r.dilation;
      if (column >= r.in_width) break;
      Unroll<vectors>([&](auto v) {
        sums[v] =
            Fma(load(in + column * r.in_pixel, v), load(weight + k * r.weight_tap, v), sums[v]);
      });
    }
  }
  float* out = r.out + x * r.out_pixel + c;
  Unroll<vectors>([&](auto v) {
    if (r.addend != nullptr) sums[v] = sums[v] + load(r.addend + x * r.addend_pixel + c, v);
    const Vec result = limits.Apply(sums[v]);
    if constexpr (vectors == 1) {
      result.StorePartial(out, lanes);
    } else {
      result.Store(out + v * Vec::kWidth);
    }
  });
}

void AnyRow(const PixelDepthwiseRow& r, int64_t begin, const Limits& limits) {
  constexpr int kVectors = 4;
  for (int64_t x = 0; x < r.out_width; ++x) {
    int64_t c = begin;
    for (; c + kVectors * Vec::kWidth <= r.channels; c += kVectors * Vec::kWidth) {
      AnyOutput<kVectors>(r, x, c, Vec::kWidth, limits);
    }
    for (; c < r.channels; c += Vec::kWidth) {
      const int64_t left = r.channels - c;
      AnyOutput<1>(r, x, c, static_cast<int>(left < Vec::kWidth ? left : Vec::kWidth), limits);
    }
  }
}

/// Whether there are tiles for the kernel; then all whole vectors of channels are done.
bool TryTiles(const PixelDepthwiseRow& r, const Limits& limits) {
  if (r.dilation != 1 || r.stride > 2) return false;
  const bool one = r.stride == 1;
  switch (r.kernel) {
    case 3: one ? TiledRow<3, 1>(r, limits) : TiledRow<3, 2>(r, limits); return true;
    case 5: one ? TiledRow<5, 1>(r, limits) : TiledRow<5, 2>(r, limits); return true;
    case 7: one ? TiledRow<7, 1>(r, limits) : TiledRow<7, 2>(r, limits); return true;
    default: return false;
  }
}

void DepthwiseRow(const PixelDepthwiseRow& given) {
  const PixelDepthwiseRow r = given;  // a copy of its own: what is stored cannot change it
  const Limits limits(r.activation);
  if (!TryTiles(r, limits)) {
    AnyRow(r, 0, limits);
  } else if (!kMasked && r.channels % Vec::kWidth != 0) {
    AnyRow(r, r.channels / Vec::kWidth * Vec::kWidth, limits);
  }
  const Activation kind = r.activation.kind;
  if (kind == Activation::kNone || kind == Activation::kRelu || kind == Activation::kClamp) return;
  if (r.out_pixel == r.channels) {
    return ActivateInPlace(r.activation, r.out, r.out_width * r.channels);
  }
  for (int64_t x = 0; x < r.out_width; ++x) {
    ActivateInPlace(r.activation, r.out + x * r.out_pixel, r.channels);
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(PixelDepthwiseKernels, {.row = DepthwiseRow})
