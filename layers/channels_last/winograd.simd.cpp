// SPDX-License-Identifier: MIT
#include "cpu/activation_epilogue.h"
#include "layers/channels_last/winograd_kernels.h"
#include "layers/channels_last/winograd_tile.h"
#include "layers/channels_last/winograd_transform.h"

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

/// The rows of the vertical transform are made pair by pair from the image itself: loading
/// pixels more than once costs less than keeping a tile that has no room in the registers.
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
    Vec plus[kIn], minus[kIn];
    Unroll<kIn>([&](auto j) { plus[j] = Form::First(column(j)); });
    StoreCoefficients<out>(plus, v, stride);
    Unroll<Form::kPairs>([&](auto pair) {
      Unroll<kIn>([&](auto j) { Form::template Pair<pair>(column(j), plus[j], minus[j]); });
      StoreCoefficients<out>(plus, v + (2 * pair + 1) * kIn * stride, stride);
      StoreCoefficients<out>(minus, v + (2 * pair + 2) * kIn * stride, stride);
    });
    Unroll<kIn>([&](auto j) { plus[j] = Form::Last(column(j)); });
    StoreCoefficients<out>(plus, v + (out + 1) * kIn * stride, stride);
  }
}

/// Writes pixels of one vector of channels. Activations that are limits are applied on the way.
template <bool whole, Activation limits>
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
    if (!whole && (row >= output.rows || column >= output.columns)) return;
    y = y + bias;
    if (output.add != nullptr) {
      const float* add =
          output.add + row * output.add_row_stride + column * output.add_pixel_stride + channel;
      y = y + (whole ? Vec::Load(add) : Vec::LoadPartial(add, lanes));
    }
    y = Activate<limits>(y, Vec(output.activation.a), Vec(output.activation.b));
    float* out = output.out + row * output.row_stride + column * output.pixel_stride + channel;
    if constexpr (whole) {
      y.Store(out);
    } else {
      y.StorePartial(out, lanes);
    }
  }
};

template <int out, typename Pixels>
[[gnu::always_inline]] inline void StorePixels(const Vec* t, int row, const Pixels& pixels) {
  using Form = WinogradForm<out>;
  const auto at = [&](auto i) { return t[i]; };
  Vec y[out / 2];
  Form::Even(at, y);
  Unroll<out / 2>([&](auto i) { pixels.Put(row, 2 * i, y[i]); });
  Form::Odd(at, y);
  Unroll<out / 2>([&](auto i) { pixels.Put(row, 2 * i + 1, y[i]); });
}

/// Even rows of the tile first, then the odd ones: each half fits the registers.
template <int out, bool whole, Activation limits>
[[gnu::always_inline]] inline void OutputVector(const WinogradOutput& output, int64_t c) {
  using Form = WinogradForm<out>;
  constexpr int kIn = out + 2;
  const WinogradPixels<whole, limits> pixels(output, c);
  const float* m = output.m + c;
  const int64_t stride = output.m_stride;
  const auto column = [&](auto j) {
    return [m, stride, j](auto i) { return Vec::Load(m + (i * kIn + j) * stride); };
  };
  Vec t[out / 2][kIn];
  const auto store = [&](int first) {
    Unroll<out / 2>([&](auto i) { StorePixels<out>(t[i], first + 2 * i, pixels); });
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
  int64_t c = 0;
  if (output.rows == out && output.columns == out) {
    for (; c + Vec::kWidth <= output.channels; c += Vec::kWidth) {
      OutputVector<out, true, limits>(output, c);
    }
  }
  for (; c < output.channels; c += Vec::kWidth) OutputVector<out, false, limits>(output, c);
}

template <int out>
void TransformOutput(const WinogradOutput& output) {
  switch (output.activation.kind) {
    case Activation::kRelu: return TransformOutputAs<out, Activation::kRelu>(output);
    case Activation::kClamp: return TransformOutputAs<out, Activation::kClamp>(output);
    default: break;
  }
  TransformOutputAs<out, Activation::kNone>(output);
  if (output.activation.kind == Activation::kNone) return;
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
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t begin = p.tiles * i / pieces, end = p.tiles * (i + 1) / pieces;
    MultiplyRows(static_cast<int>(end - begin), p.v + begin * p.v_row, p.v_row, p.k, p.u,
                 p.m + begin * p.m_row, p.m_row);
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(WinogradKernels,
                    {.width = Vec::kWidth,
                     .columns = kWinogradColumns,
                     .input = {TransformInput<2>, TransformInput<4>, TransformInput<6>},
                     .output = {TransformOutput<2>, TransformOutput<4>, TransformOutput<6>},
                     .product = Product})
