// SPDX-License-Identifier: MIT
#include "cpu/lanes.h"
#include "layers/convolution/winograd/winograd_kernels.h"
#include "layers/convolution/winograd/winograd_tile.h"
#include "layers/convolution/winograd/winograd_transform.h"

#define OORT_INLINE __attribute__((always_inline))

namespace oort::OORT_ISA {
namespace {

using WinogradInput = WinogradInputOf<Element>;
using WinogradOutput = WinogradOutputOf<Element>;

/// One row of coefficients from the vertical transform of all columns.
template <int out>
[[gnu::always_inline]] inline void StoreCoefficients(const Lanes* t, Element* v,
                                                     const int64_t (&places)[out + 2]) {
  using Form = WinogradForm<out>;
  const auto at = [&](auto i) { return t[i]; };
  Form::First(at).Store(v);
  Unroll<Form::kPairs>([&](auto pair) {
    Lanes plus, minus;
    Form::template Pair<pair>(at, plus, minus);
    plus.Store(v + places[2 * pair + 1]);
    minus.Store(v + places[2 * pair + 2]);
  });
  Form::Last(at).Store(v + places[out + 1]);
}

/// The first, the middle and the last rows of the vertical transform are computed one after another
/// from the image itself. Loading pixels more than once costs less than spilling a tile that does
/// not fit the registers.
template <int out>
void TransformInput(const WinogradInput& given) {
  using Form = WinogradForm<out>;
  constexpr int kIn = out + 2, kAtOnce = Form::kPairs <= 2 ? Form::kPairs : 1;
  const WinogradInput input = given;  // a copy: what is stored cannot change it
  const int64_t pixel = input.pixel_stride, row = kIn * input.v_stride;
  const Element* rows[kIn];
  int64_t places[kIn];
  Unroll<kIn>([&](auto i) {
    rows[i] = input.patch + i * input.row_stride;
    places[i] = i * input.v_stride;
  });
  for (int64_t c = 0; c < input.channels; c += Lanes::kWidth) {
    Element* v = input.v + c;
    int64_t x = c;
    const auto column = [&](auto i) OORT_INLINE { return Lanes::Load(rows[i] + x); };
    const auto next = [&]() OORT_INLINE {
      x += pixel;
      Forget(x);
    };
    const auto store = [&](const Lanes* t) OORT_INLINE {
      StoreCoefficients<out>(t, v, places);
      v += row;
      Forget(v);
    };
    Lanes t[kIn];
    Unroll<kIn>([&](auto j) OORT_INLINE {
      t[j] = Form::First(column);
      next();
    });
    store(t);
    Unroll<Form::kPairs / kAtOnce>([&](auto first) OORT_INLINE {
      Lanes pairs[2 * kAtOnce][kIn];
      x = c;
      Unroll<kIn>([&](auto j) OORT_INLINE {
        Lanes d[kIn];
        Unroll<out>([&](auto i) OORT_INLINE { d[i + 1] = column(Index<i + 1>()); });
        const auto at = [&](auto i) { return d[i]; };
        Unroll<kAtOnce>([&](auto pair) OORT_INLINE {
          Form::template Pair<first * kAtOnce + pair>(at, pairs[2 * pair][j],
                                                      pairs[2 * pair + 1][j]);
        });
        next();
      });
      Unroll<2 * kAtOnce>([&](auto i) OORT_INLINE { store(pairs[i]); });
    });
    x = c;
    Unroll<kIn>([&](auto j) OORT_INLINE {
      t[j] = Form::Last(column);
      next();
    });
    store(t);
  }
}

/// Computed row by row: two of the five rows are only copied, so that few registers are needed.
void TransformStridedInput(const WinogradInput& given) {
  using Form = WinogradForm<kStridedForm>;
  constexpr int kIn = Form::kIn;
  const WinogradInput input = given;
  const Element* rows[kIn];
  int64_t places[kIn];
  Unroll<kIn>([&](auto i) {
    rows[i] = input.patch + i * input.row_stride;
    places[i] = i * input.v_stride;
  });
  for (int64_t c = 0; c < input.channels; c += Lanes::kWidth) {
    Lanes t[kIn][kIn];  // by row of coefficients and column of pixels
    int64_t x = c;
    Unroll<kIn>([&](auto j) OORT_INLINE {
      Lanes column[kIn];
      Form::All([&](auto i) OORT_INLINE { return Lanes::Load(rows[i] + x); }, column);
      Unroll<kIn>([&](auto i) OORT_INLINE { t[i][j] = column[i]; });
      x += input.pixel_stride;
      Forget(x);
    });
    Element* v = input.v + c;
    Unroll<kIn>([&](auto i) OORT_INLINE {
      Lanes row[kIn];
      Form::All([&](auto j) OORT_INLINE { return t[i][j]; }, row);
      Unroll<kIn>([&](auto j) OORT_INLINE { row[j].Store(v + places[j]); });
      v += kIn * input.v_stride;
      Forget(v);
    });
  }
}

/// Of a tile; the last has too few channels as well.
enum class Extent { kWhole, kEdge, kPartial };

/// Where the pixels of a tile lie, in elements from the first.
template <int form>
struct WinogradPlaces {
  static constexpr int out = WinogradForm<form>::kOut;
  explicit WinogradPlaces(const WinogradOutput& o) {
    Unroll<out>([&](auto i) {
      row[i] = i * o.row_stride;
      column[i] = i * o.pixel_stride;
      add_column[i] = i * o.add_pixel_stride;
    });
  }
  int64_t row[out], column[out], add_column[out];
};

/// Row `row` of the pixels from its coefficients.
template <int form, Extent extent, Activation limits>
[[gnu::always_inline]] inline void StorePixels(const WinogradOutput& o,
                                               const WinogradPlaces<form>& places, int64_t c,
                                               const Lanes* t, int row, Lanes bias) {
  using Form = WinogradForm<form>;
  constexpr int out = Form::kOut;
  if (extent != Extent::kWhole && row >= o.rows) return;
  const int lanes =
      static_cast<int>(o.channels - c < Lanes::kWidth ? o.channels - c : Lanes::kWidth);
  const auto wanted = [&](int j) { return extent == Extent::kWhole || j < o.columns; };
  const auto at = [&](auto i) { return t[i]; };
  Lanes halves[2][out / 2];
  Form::Even(at, halves[0]);
  Form::Odd(at, halves[1]);
  Lanes y[out];
  Unroll<out>([&](auto j) OORT_INLINE { y[j] = halves[j % 2][j / 2] + bias; });
  if (o.add != nullptr) {
    const Element* add = o.add + row * o.add_row_stride + c;
    Unroll<out>([&](auto j) OORT_INLINE {
      const Element* from = add + places.add_column[j];
      if (!wanted(j)) return;
      y[j] =
          y[j] + (extent == Extent::kPartial ? Lanes::LoadPartial(from, lanes) : Lanes::Load(from));
    });
  }
  Element* to = o.out + places.row[row] + c;
  Unroll<out>([&](auto j) OORT_INLINE {
    if (!wanted(j)) return;
    const Lanes limited = Activate<limits>(y[j], Lanes(o.activation.a), Lanes(o.activation.b));
    if constexpr (extent == Extent::kPartial) {
      limited.StorePartial(to + places.column[j], lanes);
    } else {
      limited.Store(to + places.column[j]);
    }
  });
}

/// Even rows of the tile first, then the odd ones: each half fits the registers.
template <int form, Extent extent, Activation limits>
[[gnu::always_inline]] inline void OutputVector(
    const WinogradOutput& o, const WinogradPlaces<form>& places,
    const Element* const (&rows)[WinogradForm<form>::kIn], int64_t c) {
  using Form = WinogradForm<form>;
  constexpr int kIn = Form::kIn, out = Form::kOut;
  const Lanes bias = Lanes::Load(o.bias + c);
  Unroll<2>([&](auto odd) OORT_INLINE {
    int64_t x = c;
    const auto column = [&](auto i) OORT_INLINE { return Lanes::Load(rows[i] + x); };
    Lanes t[out / 2][kIn];
    Unroll<kIn>([&](auto j) OORT_INLINE {
      Lanes y[out / 2];
      if constexpr (decltype(odd)::value == 0) {
        Form::Even(column, y);
      } else {
        Form::Odd(column, y);
      }
      Unroll<out / 2>([&](auto i) OORT_INLINE { t[i][j] = y[i]; });
      x += o.m_stride;
      Forget(x);
    });
    Unroll<out / 2>([&](auto i) OORT_INLINE {
      StorePixels<form, extent, limits>(o, places, c, t[i], 2 * i + odd, bias);
    });
  });
}

template <int form, Activation limits>
void TransformOutputAs(const WinogradOutput& given) {
  constexpr int kIn = WinogradForm<form>::kIn, out = WinogradForm<form>::kOut;
  const WinogradOutput o = given;  // a copy: what is stored cannot change it
  const WinogradPlaces<form> places(o);
  const Element* rows[kIn];
  Unroll<kIn>([&](auto i) { rows[i] = o.m + i * kIn * o.m_stride; });
  const int64_t whole = o.channels / Lanes::kWidth * Lanes::kWidth;
  if (o.rows == out && o.columns == out) {
    for (int64_t c = 0; c < whole; c += Lanes::kWidth) {
      OutputVector<form, Extent::kWhole, limits>(o, places, rows, c);
    }
  } else {
    for (int64_t c = 0; c < whole; c += Lanes::kWidth) {
      OutputVector<form, Extent::kEdge, limits>(o, places, rows, c);
    }
  }
  if (whole < o.channels) {
    OutputVector<form, Extent::kPartial, limits>(o, places, rows, whole);
  }
}

template <int form>
void TransformOutput(const WinogradOutput& output) {
  const Activation kind = output.activation.kind;
  if (kind == Activation::kRelu) return TransformOutputAs<form, Activation::kRelu>(output);
  if (kind == Activation::kClamp) return TransformOutputAs<form, Activation::kClamp>(output);
  // The others get infinite limits, which saves one copy of the code.
  WinogradOutput plain = output;
  plain.activation = {Activation::kClamp, -__builtin_inff(), __builtin_inff()};
  TransformOutputAs<form, Activation::kClamp>(plain);
  if (kind == Activation::kNone) return;
  for (int row = 0; row < output.rows; ++row) {
    for (int column = 0; column < output.columns; ++column) {
      ActivateInPlace(output.activation,
                      output.out + row * output.row_stride + column * output.pixel_stride,
                      output.channels);
    }
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_LANES_KERNELS(WinogradKernels,
                          {.width = Lanes::kWidth,
                           .columns = kWinogradColumns,
                           .rows = kWinogradRows,
                           .input = {TransformInput<2>, TransformInput<4>, TransformInput<6>,
                                     TransformStridedInput},
                           .output = {TransformOutput<2>, TransformOutput<4>, TransformOutput<6>,
                                      TransformOutput<kStridedForm>},
                           .product = MultiplyTiles})
