// SPDX-License-Identifier: MIT
#include "cpu/activation_epilogue.h"
#include "layers/channels_last/winograd_kernels.h"
#include "layers/channels_last/winograd_tile.h"
#include "layers/channels_last/winograd_transform.h"

#define OORT_INLINE __attribute__((always_inline))

namespace oort::OORT_ISA {
namespace {

/// One row of coefficients from the vertical transform of all columns.
template <int out>
[[gnu::always_inline]] inline void StoreCoefficients(const Vec* t, float* v, int64_t stride) {
  using Form = WinogradForm<out>;
  const auto at = [&](auto i) { return t[i]; };
  Form::First(at).Store(v);
  Unroll<Form::kPairs>([&](auto pair) {
    Vec plus, minus;
    Form::template Pair<pair>(at, plus, minus);
    plus.Store(v + (2 * pair + 1) * stride);
    minus.Store(v + (2 * pair + 2) * stride);
  });
  Form::Last(at).Store(v + (out + 1) * stride);
}

/// The first, the middle and the last rows of the vertical transform are made one after another
/// from the image itself: loading pixels more than once costs less than keeping a tile that has no
/// room in the registers.
template <int out>
void TransformInput(const WinogradInput& input) {
  using Form = WinogradForm<out>;
  constexpr int kIn = out + 2;
  const int64_t row_stride = input.row_stride, pixel_stride = input.pixel_stride;
  const int64_t stride = input.v_stride;
  for (int64_t c = 0; c < input.channels; c += Vec::kWidth) {
    const float* patch = input.patch + c;
    float* v = input.v + c;
    const auto column = [&](auto j) {
      const float* top = patch + j * pixel_stride;
      return [top, row_stride](auto i) { return Vec::Load(top + i * row_stride); };
    };
    Vec plus[kIn];
    Unroll<kIn>([&](auto j) { plus[j] = Form::First(column(j)); });
    StoreCoefficients<out>(plus, v, stride);
    Vec pairs[2 * Form::kPairs][kIn];
    Unroll<kIn>([&](auto j) {
      Vec d[kIn];
      Unroll<out>([&](auto i) { d[i + 1] = column(j)(Index<i + 1>()); });
      const auto at = [&](auto i) { return d[i]; };
      Unroll<Form::kPairs>([&](auto pair) {
        Form::template Pair<pair>(at, pairs[2 * pair][j], pairs[2 * pair + 1][j]);
      });
    });
    Unroll<2 * Form::kPairs>(
        [&](auto i) { StoreCoefficients<out>(pairs[i], v + (i + 1) * kIn * stride, stride); });
    Unroll<kIn>([&](auto j) { plus[j] = Form::Last(column(j)); });
    StoreCoefficients<out>(plus, v + (out + 1) * kIn * stride, stride);
  }
}

/// Writes pixels of one vector of channels. Activations that are limits are applied on the way.
enum class Extent { kWhole, kEdge, kPartial };  // of a tile; the last has too few channels as well

template <Extent extent, Activation limits>
struct WinogradPixels {
  const WinogradOutput& output;
  int64_t channel;
  Vec bias;
  int lanes;
  WinogradPixels(const WinogradOutput& o, int64_t c)
      : output(o),
        channel(c),
        bias(Vec::Load(o.bias + c)),
        lanes(static_cast<int>(o.channels - c < Vec::kWidth ? o.channels - c : Vec::kWidth)) {}

  [[gnu::always_inline]] inline void Put(int row, int column, Vec y) const {
    if (extent != Extent::kWhole && (row >= output.rows || column >= output.columns)) return;
    y = y + bias;
    if (output.add != nullptr) {
      const float* add =
          output.add + row * output.add_row_stride + column * output.add_pixel_stride + channel;
      y = y + (extent == Extent::kPartial ? Vec::LoadPartial(add, lanes) : Vec::Load(add));
    }
    y = Activate<limits>(y, Vec(output.activation.a), Vec(output.activation.b));
    float* out = output.out + row * output.row_stride + column * output.pixel_stride + channel;
    if constexpr (extent == Extent::kPartial) {
      y.StorePartial(out, lanes);
    } else {
      y.Store(out);
    }
  }
};

template <int out, typename Pixels>
[[gnu::always_inline]] inline void StorePixels(const Vec* t, int row, const Pixels& pixels) {
  using Form = WinogradForm<out>;
  const auto at = [&](auto i) { return t[i]; };
  Vec y[out / 2];
  Form::Even(at, y);
  Unroll<out / 2>([&](auto i) OORT_INLINE { pixels.Put(row, 2 * i, y[i]); });
  Form::Odd(at, y);
  Unroll<out / 2>([&](auto i) OORT_INLINE { pixels.Put(row, 2 * i + 1, y[i]); });
}

/// Even rows of the tile first, then the odd ones: each half fits the registers.
template <int out, Extent extent, Activation limits>
[[gnu::always_inline]] inline void OutputVector(const WinogradOutput& output, int64_t c) {
  using Form = WinogradForm<out>;
  constexpr int kIn = out + 2;
  const WinogradPixels<extent, limits> pixels(output, c);
  const float* m = output.m + c;
  const int64_t stride = output.m_stride;
  const auto column = [&](auto j) {
    return [m, stride, j](auto i) { return Vec::Load(m + (i * kIn + j) * stride); };
  };
  Vec t[out / 2][kIn];
  const auto store = [&](int first) OORT_INLINE {
    Unroll<out / 2>([&](auto i) OORT_INLINE { StorePixels<out>(t[i], first + 2 * i, pixels); });
  };
  Unroll<kIn>([&](auto j) {
    Vec y[out / 2];
    Form::Even(column(j), y);
    Unroll<out / 2>([&](auto i) { t[i][j] = y[i]; });
  });
  store(0);
  Unroll<kIn>([&](auto j) {
    Vec y[out / 2];
    Form::Odd(column(j), y);
    Unroll<out / 2>([&](auto i) { t[i][j] = y[i]; });
  });
  store(1);
}

template <int out, Activation limits>
void TransformOutputAs(const WinogradOutput& output) {
  const int64_t whole = output.channels / Vec::kWidth * Vec::kWidth;
  if (output.rows == out && output.columns == out) {
    for (int64_t c = 0; c < whole; c += Vec::kWidth) {
      OutputVector<out, Extent::kWhole, limits>(output, c);
    }
  } else {
    for (int64_t c = 0; c < whole; c += Vec::kWidth) {
      OutputVector<out, Extent::kEdge, limits>(output, c);
    }
  }
  if (whole < output.channels) OutputVector<out, Extent::kPartial, limits>(output, whole);
}

template <int out>
void TransformOutput(const WinogradOutput& output) {
  const Activation kind = output.activation.kind;
  if (kind == Activation::kRelu) return TransformOutputAs<out, Activation::kRelu>(output);
  if (kind == Activation::kClamp) return TransformOutputAs<out, Activation::kClamp>(output);
  // No limits for the others: one copy of the code less than with a case for them.
  WinogradOutput plain = output;
  plain.activation = {Activation::kClamp, -__builtin_inff(), __builtin_inff()};
  TransformOutputAs<out, Activation::kClamp>(plain);
  if (kind == Activation::kNone) return;
  for (int row = 0; row < output.rows; ++row) {
    for (int column = 0; column < output.columns; ++column) {
      ActivateInPlace(output.activation,
                      output.out + row * output.row_stride + column * output.pixel_stride,
                      output.channels);
    }
  }
}

/// Tiles in equal portions of at most kWinogradRows: a short last one would waste registers.
void Product(const WinogradProduct& p) {
  const int64_t pieces = (p.tiles + kWinogradRows - 1) / kWinogradRows;
  const int64_t rows = p.tiles / pieces, longer = p.tiles - rows * pieces;
  const float* v = p.v;
  float* m = p.m;
  // A panel comes from far away while the one before is used; one that is used only once cannot
  // wait that long, so that its own rows are asked for.
  const float* soon = pieces == 1 ? p.u + 256 : p.soon;
  const int64_t soon_step = (kWinogradColumns * 4 + pieces - 1) / pieces;  // bytes a step of k
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t count = rows + (i < longer ? 1 : 0);
    MultiplyRows(static_cast<int>(count), v, p.v_row, p.k, p.u, m, p.m_row, soon, soon_step);
    soon += p.k * soon_step / 4;
    v += count * p.v_row;
    m += count * p.m_row;
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(WinogradKernels,
                    {.width = Vec::kWidth,
                     .columns = kWinogradColumns,
                     .rows = kWinogradRows,
                     .input = {TransformInput<2>, TransformInput<4>, TransformInput<6>},
                     .output = {TransformOutput<2>, TransformOutput<4>, TransformOutput<6>},
                     .product = Product})
