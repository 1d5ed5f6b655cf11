// SPDX-License-Identifier: MIT
#include "cpu/lanes.h"
#include "layers/convolution/depthwise/depthwise_kernels.h"

#define OORT_INLINE __attribute__((always_inline))

namespace oort::OORT_ISA {
namespace {

using NhwcDepthwiseRows = NhwcDepthwiseRowsOf<Element>;

/// With masks a partial vector costs what a whole one does; elsewhere the rest is a case of its
/// own.
constexpr bool kMasked = Lanes::kWidth >= 16;

inline Lanes LoadChannels(const Element* p, [[maybe_unused]] int lanes) {
  if constexpr (kMasked) return Lanes::LoadPartial(p, lanes);
  return Lanes::Load(p);
}
inline void StoreChannels(Lanes v, Element* p, [[maybe_unused]] int lanes) {
  if constexpr (kMasked) return v.StorePartial(p, lanes);
  v.Store(p);
}

/// The limits that are applied in registers. Other activations are applied to the finished row.
struct Limits {
  explicit Limits(const ActivationSpec& spec) : kind(spec.kind), low(spec.a), high(spec.b) {
    if (kind == Activation::kRelu) low = Lanes(0.0f);
  }
  bool IsAll() const {
    return kind == Activation::kNone || kind == Activation::kRelu || kind == Activation::kClamp;
  }
  template <int count>
  [[gnu::always_inline]] void Apply(Lanes (&x)[count]) const {
    if (kind == Activation::kRelu || kind == Activation::kClamp) {
      Unroll<count>([&](auto i) { x[i] = AtLeast(x[i], low); });
    }
    if (kind == Activation::kClamp) Unroll<count>([&](auto i) { x[i] = AtMost(x[i], high); });
  }
  Activation kind;
  Lanes low, high;
};

/// Neighbouring outputs of one row.
struct Tile {
  int64_t x;           ///< the first output
  int64_t left;        ///< the input column under its first tap; below 0 in the padding
  int64_t begin, end;  ///< columns from `left` on that are inputs
  int64_t count;       ///< outputs that are wanted
};

/// The rows of inputs under a row of outputs, and the weights of the first of them.
struct RowsUnder {
  const Element* in;
  const Element* weight;
  int64_t count;
};

/// Adds the products of one row of inputs to the outputs of a tile, for one vector of channels.
/// Each input is loaded once for all outputs that it contributes to. A clipped tile skips the
/// padding.
template <int kernel, int stride, bool clipped, int width, int columns>
[[gnu::always_inline]] inline void AddInputs(const Element* inputs, const Element* weight,
                                             const int64_t (&places)[columns], const Tile& tile,
                                             int lanes, Lanes (&sums)[width]) {
  Lanes taps[kernel];
  Unroll<kernel>([&](auto k) { taps[k] = Lanes::Load(weight + k * Lanes::kWidth); });
  Unroll<columns>([&](auto j) {
    constexpr int kColumn = j;
    if (clipped && (kColumn < tile.begin || kColumn >= tile.end)) return;
    const Lanes x = LoadChannels(inputs + places[j], lanes);
    Unroll<kernel>([&](auto k) {
      constexpr int kOffset = kColumn - decltype(k)::value;
      if constexpr (kOffset >= 0 && kOffset % stride == 0 && kOffset / stride < width) {
        sums[kOffset / stride] = Fma(x, taps[k], sums[kOffset / stride]);
      }
    });
  });
}

template <int kernel, int stride, bool clipped, int width>
void RunTile(const NhwcDepthwiseRows& r, const RowsUnder& rows, const Tile& tile,
             const Limits& limits) {
  constexpr int kStep = Lanes::kWidth, kColumns = (width - 1) * stride + kernel;
  // Everything that the stores below might alias, for all the compiler knows, is read before them.
  const int64_t channels = r.channels, in_row = r.in_row, row_count = rows.count;
  int64_t columns[kColumns], places[width];
  Unroll<kColumns>([&](auto j) { columns[j] = (tile.left + j) * r.in_pixel; });
  Unroll<width>([&](auto q) { places[q] = q * r.out_pixel; });
  const Element* bias = r.bias;
  const Element* weight = rows.weight;
  const Element* addend = r.addend == nullptr ? nullptr : r.addend + tile.x * r.out_pixel;
  Element* out = r.out + tile.x * r.out_pixel;
  const int64_t last = kMasked ? channels - 1 : channels - kStep;
  for (int64_t c = 0; c <= last; c += kStep, weight += kernel * kernel * kStep) {
    const int lanes = channels - c < kStep ? static_cast<int>(channels - c) : kStep;
    const Lanes start = bias == nullptr ? Lanes::Zero() : LoadChannels(bias + c, lanes);
    Lanes sums[width];
    Unroll<width>([&](auto q) { sums[q] = start; });
    const Element* inputs = rows.in + c;
    const Element* taps = weight;
    for (int64_t y = 0; y < row_count; ++y, inputs += in_row, taps += kernel * kStep) {
      AddInputs<kernel, stride, clipped>(inputs, taps, columns, tile, lanes, sums);
    }
    const auto wanted = [&](int q) { return !clipped || q < tile.count; };
    if (addend != nullptr) {
      Unroll<width>([&](auto q) {
        if (!wanted(q)) return;
        sums[q] = sums[q] + LoadChannels(addend + q * r.out_pixel + c, lanes);
      });
    }
    limits.Apply(sums);
    Unroll<width>([&](auto q) {
      if (wanted(q)) StoreChannels(sums[q], out + c + places[q], lanes);
    });
  }
}

/// Two rows of outputs take twice the registers, but hide the latency of the additions: with one
/// row each sum would wait for its own last addition. With too few registers one row is faster.
#if defined(OORT_ISA_neon) || defined(OORT_ISA_avx512)
constexpr bool kPairs = true;
#else
constexpr bool kPairs = false;
#endif

/// Padding of half a kernel, as networks have it: the columns that a tile lacks at the borders of
/// the image. With a stride of 2 an even image ends one column later.
template <int kernel, int stride>
constexpr int kLeftPad = kernel / 2;
template <int kernel, int stride>
constexpr int kRightPad = kernel / 2 + 1 - stride;

/// A tile of two rows of outputs; `first` and `last` say whether the image begins or ends in it.
template <int kernel_, int stride_, int width_, bool first, bool last>
struct PairTile {
  static constexpr int kernel = kernel_, stride = stride_, width = width_;
  static constexpr int kColumns = (width - 1) * stride + kernel;
  static constexpr int kBegin = first ? kLeftPad<kernel, stride> : 0;
  static constexpr int kEnd = kColumns - (last ? kRightPad<kernel, stride> : 0);
  static constexpr bool Exists(int column) { return column >= kBegin && column < kEnd; }
};

/// Adds what tap `tap` of row `row` of the inputs gives to row `out` of the outputs, from columns
/// x.
template <typename T, int row, int phase, int tap, int out, int loads>
[[gnu::always_inline]] inline void AddTap(const Lanes (&x)[loads], const Element* weight,
                                          Lanes (&sums)[2 * T::width]) {
  constexpr int kRow = row - out * T::stride;
  if constexpr (kRow >= 0 && kRow < T::kernel) {
    const int at = kRow * T::kernel + phase + tap * T::stride;
    const Lanes w = Lanes::Load(weight + at * Lanes::kWidth);
    Unroll<T::width>([&](auto q) OORT_INLINE {
      if constexpr (T::Exists(phase + (decltype(q)::value + tap) * T::stride)) {
        sums[out * T::width + q] = Fma(x[q + tap], w, sums[out * T::width + q]);
      }
    });
  }
}

/// The columns and taps that are `phase` behind a multiple of the stride: only these meet.
template <typename T, int row, int phase>
[[gnu::always_inline]] inline void AddPhase(const Element* inputs, int64_t pixel,
                                            const Element* weight, int lanes,
                                            Lanes (&sums)[2 * T::width]) {
  constexpr int kLoads = (T::kColumns - phase + T::stride - 1) / T::stride;
  Lanes x[kLoads];
  int64_t place = phase * pixel;
  Unroll<kLoads>([&](auto j) OORT_INLINE {
    if constexpr (T::Exists(phase + decltype(j)::value * T::stride)) {
      x[j] = LoadChannels(inputs + place, lanes);
    }
    place += T::stride * pixel;
    Forget(place);
  });
  Unroll<(T::kernel - phase + T::stride - 1) / T::stride>([&](auto tap) OORT_INLINE {
    AddTap<T, row, phase, decltype(tap)::value, 0>(x, weight, sums);
    AddTap<T, row, phase, decltype(tap)::value, 1>(x, weight, sums);
  });
}

/// Adds the products of row `row` of the inputs to both rows of outputs above it, tap by tap, so
/// that all other sums are updated between two additions to one.
template <typename T, int row>
[[gnu::always_inline]] inline void AddToPair(const Element* inputs, int64_t pixel,
                                             const Element* weight, int lanes,
                                             Lanes (&sums)[2 * T::width]) {
  AddPhase<T, row, 0>(inputs, pixel, weight, lanes, sums);
  if constexpr (T::stride > 1) AddPhase<T, row, 1>(inputs, pixel, weight, lanes, sums);
}

/// Limits two rows of outputs and stores them, with what is added to them.
template <int width>
[[gnu::always_inline]] inline void FinishPair(const NhwcDepthwiseRows& r, int64_t x, int64_t c,
                                              int lanes, const Limits& limits,
                                              Lanes (&sums)[2 * width]) {
  if (r.addend != nullptr) {
    Unroll<2 * width>([&](auto q) OORT_INLINE {
      const int64_t place = q / width * r.out_row + (x + q % width) * r.out_pixel + c;
      sums[q] = sums[q] + LoadChannels(r.addend + place, lanes);
    });
  }
  limits.Apply(sums);
  Unroll<2>([&](auto o) OORT_INLINE {
    int64_t place = o * r.out_row + x * r.out_pixel + c;
    Unroll<width>([&](auto q) OORT_INLINE {
      StoreChannels(sums[o * width + q], r.out + place, lanes);
      place += r.out_pixel;
      Forget(place);
    });
  });
}

/// Prefetches the next cache line of all columns of a row, because there are more streams than the
/// hardware prefetcher follows.
template <typename T>
[[gnu::always_inline]] inline void FetchRow(const Element* inputs, int64_t pixel) {
  constexpr int64_t kLine = 64 / sizeof(Element);
  const Element* line = inputs + kLine + T::kBegin * pixel;
  Unroll<T::kEnd - T::kBegin>([&](auto) OORT_INLINE {
    __builtin_prefetch(line);
    line += pixel;
    Forget(line);
  });
}

/// In how many turns a cache line is consumed. Each turn prefetches the next line of some rows.
constexpr int kTurnsOfLine =
    kPairs && sizeof(Lanes) < 64 ? static_cast<int>(64 / sizeof(Lanes)) : 1;

template <typename T>
void RunPairTile(const NhwcDepthwiseRows& given, int64_t x, const Limits& limits) {
  constexpr int kStep = Lanes::kWidth, kRows = T::kernel + T::stride;
  const NhwcDepthwiseRows r = given;  // a copy: what is stored cannot change it
  const Element *weight = r.weight, *in = r.in;
  const int64_t last = kMasked ? r.channels - 1 : r.channels - kStep;
  for (int64_t c = 0; c <= last; c += kStep, weight += T::kernel * T::kernel * kStep) {
    const int lanes = r.channels - c < kStep ? static_cast<int>(r.channels - c) : kStep;
    const Lanes start = r.bias == nullptr ? Lanes::Zero() : LoadChannels(r.bias + c, lanes);
    Lanes sums[2 * T::width];
    Unroll<2 * T::width>([&](auto q) OORT_INLINE { sums[q] = start; });
    int64_t place = r.top * r.in_row + (x * T::stride + r.left) * r.in_pixel + c;
    Unroll<kRows>([&](auto i) OORT_INLINE {
      if (r.top + i >= 0 && r.top + i < r.in_height) {
        AddToPair<T, decltype(i)::value>(in + place, r.in_pixel, weight, lanes, sums);
        if constexpr (kTurnsOfLine > 1) {
          constexpr int kTurn = decltype(i)::value % kTurnsOfLine;
          if (c / kStep % kTurnsOfLine == kTurn) FetchRow<T>(in + place, r.in_pixel);
        } else if constexpr (kPairs && decltype(i)::value >= kRows - 2 * T::stride) {
          // The pair of rows before has read the upper rows, so they are in the cache.
          FetchRow<T>(in + place, r.in_pixel);
        }
      }
      place += r.in_row;
      Forget(place);
    });
    FinishPair<T::width>(r, x, c, lanes, limits, sums);
  }
}

template <int kernel, int stride, int width>
void TiledPair(const NhwcDepthwiseRows& r, const Limits& limits) {
  constexpr bool kPadded = kRightPad < kernel, stride >> 0;
  for (int64_t x = 0; x < r.out_width; x += width) {
    // Without padding at its right end the last tile is one of those in the middle.
    const bool first = x == 0, last = kPadded && x + width == r.out_width;
    if (first && last) {
      RunPairTile<PairTile<kernel, stride, width, true, kPadded>>(r, x, limits);
    } else if (first) {
      RunPairTile<PairTile<kernel, stride, width, true, false>>(r, x, limits);
    } else if (last) {
      RunPairTile<PairTile<kernel, stride, width, false, kPadded>>(r, x, limits);
    } else {
      RunPairTile<PairTile<kernel, stride, width, false, false>>(r, x, limits);
    }
  }
}

/// Whether two rows can be done together, and then does it.
template <int kernel, int stride>
bool TryPair(const NhwcDepthwiseRows& r, const Limits& limits) {
  const int64_t end = r.left + (r.out_width - 1) * stride + kernel;  // behind the last input
  if (r.left != -kLeftPad<kernel, stride> || end != r.in_width + kRightPad<kernel, stride>) {
    return false;
  }
  if (r.out_width % 8 == 0) return TiledPair<kernel, stride, 8>(r, limits), true;
  if (r.out_width % 7 == 0) return TiledPair<kernel, stride, 7>(r, limits), true;
  return false;
}

/// All whole vectors of channels of two rows of outputs, if there are tiles for that.
[[maybe_unused]] bool TryPairs(const NhwcDepthwiseRows& r, const Limits& limits) {
  const PixelSteps &down = r.down, &along = r.along;
  const bool square = down.kernel == along.kernel && down.stride == along.stride;
  if (r.out_rows != 2 || !square || down.dilation != 1 || along.dilation != 1) return false;
  const bool one = along.stride == 1, two = along.stride == 2;
  if (along.kernel == 3 && one) return TryPair<3, 1>(r, limits);
  if (along.kernel == 3 && two) return TryPair<3, 2>(r, limits);
  if (along.kernel == 5 && one) return TryPair<5, 1>(r, limits);
  if (along.kernel == 5 && two) return TryPair<5, 2>(r, limits);
  return false;
}

/// The tile from output `x` on, at most `width` wide.
template <int kernel, int stride, int width>
void PlaceTile(const NhwcDepthwiseRows& r, const RowsUnder& rows, int64_t x, const Limits& limits) {
  constexpr int64_t kColumns = (width - 1) * stride + kernel;
  Tile tile;
  tile.x = x;
  tile.left = x * stride + r.left;
  tile.count = r.out_width - x < width ? r.out_width - x : width;
  tile.begin = tile.left < 0 ? -tile.left : 0;
  tile.end = r.in_width - tile.left < kColumns ? r.in_width - tile.left : kColumns;
  if (tile.begin == 0 && tile.end == kColumns && tile.count == width) {
    RunTile<kernel, stride, false, width>(r, rows, tile, limits);
  } else {
    RunTile<kernel, stride, true, width>(r, rows, tile, limits);
  }
}

/// One row of outputs.
template <int kernel, int stride>
void TiledRow(const NhwcDepthwiseRows& r, const Limits& limits) {
  const int64_t first = r.top < 0 ? -r.top : 0;
  const int64_t end = r.in_height - r.top < kernel ? r.in_height - r.top : kernel;
  RowsUnder rows = {r.in, r.weight, 0};
  if (first < end) {
    rows = {r.in + (r.top + first) * r.in_row, r.weight + first * kernel * Lanes::kWidth,
            end - first};
  }
  // Extents of networks for images of 224 are multiples of 7, some of 8.
  const bool sevens = r.out_width % 8 != 0 && r.out_width % 7 == 0;
  for (int64_t x = 0; x < r.out_width;) {
    if (sevens || r.out_width - x == 7) {
      PlaceTile<kernel, stride, 7>(r, rows, x, limits);
      x += 7;
    } else {
      PlaceTile<kernel, stride, 8>(r, rows, x, limits);
      x += 8;
    }
  }
}

/// One output of `vectors` vectors of channels by any kernel; the last may be partial.
template <int vectors>
void AnyOutput(const NhwcDepthwiseRows& r, int64_t x, int64_t c, int lanes, const Limits& limits) {
  const auto load = [&](const Element* p, int v) {
    return vectors == 1 ? Lanes::LoadPartial(p, lanes) : Lanes::Load(p + v * Lanes::kWidth);
  };
  const int64_t taps = r.down.kernel * r.along.kernel;
  const int64_t left = r.left + x * r.along.stride;
  Lanes sums[vectors];
  Unroll<vectors>(
      [&](auto v) { sums[v] = r.bias == nullptr ? Lanes::Zero() : load(r.bias + c, v); });
  for (int64_t i = 0; i < r.down.kernel; ++i) {
    const int64_t row = r.top + i * r.down.dilation;
    if (row < 0) continue;
    if (row >= r.in_height) break;
    const Element* weight =
        r.weight + (c / Lanes::kWidth * taps + i * r.along.kernel) * Lanes::kWidth;
    for (int64_t j = 0; j < r.along.kernel; ++j) {
      const int64_t column = left + j * r.along.dilation;
      if (column < 0) continue;
      if (column >= r.in_width) break;
      const Element* in = r.in + row * r.in_row + column * r.in_pixel + c;
      Unroll<vectors>([&](auto v) {
        const Lanes tap = Lanes::Load(weight + (v * taps + j) * Lanes::kWidth);
        sums[v] = Fma(load(in, v), tap, sums[v]);
      });
    }
  }
  if (r.addend != nullptr) {
    const Element* addend = r.addend + x * r.out_pixel + c;
    Unroll<vectors>([&](auto v) { sums[v] = sums[v] + load(addend, v); });
  }
  limits.Apply(sums);
  Element* out = r.out + x * r.out_pixel + c;
  if constexpr (vectors == 1) {
    sums[0].StorePartial(out, lanes);
  } else {
    Unroll<vectors>([&](auto v) { sums[v].Store(out + v * Lanes::kWidth); });
  }
}

/// Channels from `begin` on of one row.
void AnyRow(const NhwcDepthwiseRows& r, int64_t begin, const Limits& limits) {
  constexpr int kFour = 4;
  for (int64_t x = 0; x < r.out_width; ++x) {
    int64_t c = begin;
    for (; c + kFour * Lanes::kWidth <= r.channels; c += kFour * Lanes::kWidth) {
      AnyOutput<kFour>(r, x, c, Lanes::kWidth, limits);
    }
    for (; c < r.channels; c += Lanes::kWidth) {
      const int64_t left = r.channels - c;
      AnyOutput<1>(r, x, c, static_cast<int>(left < Lanes::kWidth ? left : Lanes::kWidth), limits);
    }
  }
}

/// Whether there are tiles for the kernel; then all whole vectors of channels are done.
bool TryTiles(const NhwcDepthwiseRows& r, const Limits& limits) {
  const PixelSteps &down = r.down, &along = r.along;
  if (down.kernel != along.kernel || down.dilation != 1 || along.dilation != 1) return false;
  const bool one = along.stride == 1, two = along.stride == 2;
  if (along.kernel == 3 && one) return TiledRow<3, 1>(r, limits), true;
  if (along.kernel == 3 && two) return TiledRow<3, 2>(r, limits), true;
  if (along.kernel == 5 && one) return TiledRow<5, 1>(r, limits), true;
  if (along.kernel == 5 && two) return TiledRow<5, 2>(r, limits), true;
  if (along.kernel == 7 && one) return TiledRow<7, 1>(r, limits), true;
  return false;
}

/// Contiguous rows are activated in one call, because a pixel of few channels would not hide the
/// latency of a formula.
void ActivateRow(const NhwcDepthwiseRows& r) {
  constexpr int64_t kMost = 1 << 24;  // elements: what is counted by an int
  const bool whole = r.out_pixel == r.channels && r.out_width * r.channels < kMost;
  const int64_t pieces = whole ? 1 : r.out_width;
  const int64_t count = whole ? r.out_width * r.channels : r.channels;
  for (int64_t i = 0; i < pieces; ++i) {
    ActivateInPlace(r.activation, r.out + i * r.out_pixel, static_cast<int>(count));
  }
}

void Depthwise(const NhwcDepthwiseRows& given) {
  NhwcDepthwiseRows r = given;  // a copy of its own: what is stored cannot change it
  const Limits limits(r.activation);
  const int64_t whole = kMasked ? r.channels : r.channels / Lanes::kWidth * Lanes::kWidth;
  bool pair = false;
  if constexpr (kPairs) pair = TryPairs(r, limits);
  for (int64_t o = 0; o < given.out_rows; ++o) {
    const int64_t done = pair || TryTiles(r, limits) ? whole : 0;
    if (done < r.channels) AnyRow(r, done, limits);
    if (!limits.IsAll()) ActivateRow(r);
    r.top += r.down.stride;
    if (r.addend != nullptr) r.addend += r.out_row;
    r.out += r.out_row;
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_LANES_KERNELS(NhwcDepthwiseKernels, {.lanes = Lanes::kWidth, .rows = Depthwise})
