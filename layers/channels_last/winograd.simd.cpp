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
[[gnu::always_inline]] inline void StoreCoefficients(const Vec* t, float* v,
                                                     const int64_t (&places)[out + 2]) {
  using Form = WinogradForm<out>;
  const auto at = [&](auto i) { return t[i]; };
  Form::First(at).Store(v);
  Unroll<Form::kPairs>([&](auto pair) {
    Vec plus, minus;
    Form::template Pair<pair>(at, plus, minus);
    plus.Store(v + places[2 * pair + 1]);
    minus.Store(v + places[2 * pair + 2]);
  });
  Form::Last(at).Store(v + places[out + 1]);
}

/// The first, the middle and the last rows of the vertical transform are made one after another
/// from the image itself: loading pixels more than once costs less than keeping a tile that has no
/// room in the registers.
template <int out>
void TransformInput(const WinogradInput& given) {
  using Form = WinogradForm<out>;
  constexpr int kIn = out + 2, kAtOnce = Form::kPairs <= 2 ? Form::kPairs : 1;
  const WinogradInput input = given;  // a copy: what is stored cannot change it
  const int64_t pixel = input.pixel_stride, row = kIn * input.v_stride;
  const float* rows[kIn];
  int64_t places[kIn];
  Unroll<kIn>([&](auto i) {
    rows[i] = input.patch + i * input.row_stride;
    places[i] = i * input.v_stride;
  });
  for (int64_t c = 0; c < input.channels; c += Vec::kWidth) {
    float* v = input.v + c;
    int64_t x = c;
    const auto column = [&](auto i) OORT_INLINE { return Vec::Load(rows[i] + x); };
    const auto next = [&]() OORT_INLINE {
      x += pixel;
      Forget(x);
    };
    const auto store = [&](const Vec* t) OORT_INLINE {
      StoreCoefficients<out>(t, v, places);
      v += row;
      Forget(v);
    };
    Vec t[kIn];
    Unroll<kIn>([&](auto j) OORT_INLINE {
      t[j] = Form::First(column);
      next();
    });
    store(t);
    Unroll<Form::kPairs / kAtOnce>([&](auto first) OORT_INLINE {
      Vec pairs[2 * kAtOnce][kIn];
      x = c;
      Unroll<kIn>([&](auto j) OORT_INLINE {
        Vec d[kIn];
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

/// Row by row: two of the five are only copied, so that little is kept.
void TransformStridedInput(const WinogradInput& given) {
  using Form = WinogradForm<kStridedForm>;
  constexpr int kIn = Form::kIn;
  const WinogradInput input = given;
  const float* rows[kIn];
  int64_t places[kIn];
  Unroll<kIn>([&](auto i) {
    rows[i] = input.patch + i * input.row_stride;
    places[i] = i * input.v_stride;
  });
  for (int64_t c = 0; c < input.channels; c += Vec::kWidth) {
    Vec t[kIn][kIn];  // by row of coefficients and column of pixels
    int64_t x = c;
    Unroll<kIn>([&](auto j) OORT_INLINE {
      Vec column[kIn];
      Form::All([&](auto i) OORT_INLINE { return Vec::Load(rows[i] + x); }, column);
      Unroll<kIn>([&](auto i) OORT_INLINE { t[i][j] = column[i]; });
      x += input.pixel_stride;
      Forget(x);
    });
    float* v = input.v + c;
    Unroll<kIn>([&](auto i) OORT_INLINE {
      Vec row[kIn];
      Form::All([&](auto j) OORT_INLINE { return t[i][j]; }, row);
      Unroll<kIn>([&](auto j) OORT_INLINE { row[j].Store(v + places[j]); });
      v += kIn * input.v_stride;
      Forget(v);
    });
  }
}

/// Of a tile; the last has too few channels as well.
enum class Extent { kWhole, kEdge, kPartial };

/// Where the pixels of a tile lie, in floats from the first.
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
                                               const Vec* t, int row, Vec bias) {
  using Form = WinogradForm<form>;
  constexpr int out = Form::kOut;
  if (extent != Extent::kWhole && row >= o.rows) return;
  const int lanes = static_cast<int>(o.channels - c < Vec::kWidth ? o.channels - c : Vec::kWidth);
  const auto wanted = [&](int j) { return extent == Extent::kWhole || j < o.columns; };
  const auto at = [&](auto i) { return t[i]; };
  Vec halves[2][out / 2];
  Form::Even(at, halves[0]);
  Form::Odd(at, halves[1]);
  Vec y[out];
  Unroll<out>([&](auto j) OORT_INLINE { y[j] = halves[j % 2][j / 2] + bias; });
  if (o.add != nullptr) {
    const float* add = o.add + row * o.add_row_stride + c;
    Unroll<out>([&](auto j) OORT_INLINE {
      const float* from = add + places.add_column[j];
      if (!wanted(j)) return;
      y[j] = y[j] + (extent == Extent::kPartial ? Vec::LoadPartial(from, lanes) : Vec::Load(from));
    });
  }
  float* to = o.out + places.row[row] + c;
  Unroll<out>([&](auto j) OORT_INLINE {
    if (!wanted(j)) return;
    const Vec limited = Activate<limits>(y[j], Vec(o.activation.a), Vec(o.activation.b));
    if constexpr (extent == Extent::kPartial) {
      limited.StorePartial(to + places.column[j], lanes);
    } else {
      limited.Store(to + places.column[j]);
    }
  });
}

/// Even rows of the tile first, then the odd ones: each half fits the registers.
template <int form, Extent extent, Activation limits>
[[gnu::always_inline]] inline void OutputVector(const WinogradOutput& o,
                                                const WinogradPlaces<form>& places,
                                                const float* const (&rows)[WinogradForm<form>::kIn],
                                                int64_t c) {
  using Form = WinogradForm<form>;
  constexpr int kIn = Form::kIn, out = Form::kOut;
  const Vec bias = Vec::Load(o.bias + c);
  Unroll<2>([&](auto odd) OORT_INLINE {
    int64_t x = c;
    const auto column = [&](auto i) OORT_INLINE { return Vec::Load(rows[i] + x); };
    Vec t[out / 2][kIn];
    Unroll<kIn>([&](auto j) OORT_INLINE {
      Vec y[out / 2];
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
  const float* rows[kIn];
  Unroll<kIn>([&](auto i) { rows[i] = o.m + i * kIn * o.m_stride; });
  const int64_t whole = o.channels / Vec::kWidth * Vec::kWidth;
  if (o.rows == out && o.columns == out) {
    for (int64_t c = 0; c < whole; c += Vec::kWidth) {
      OutputVector<form, Extent::kWhole, limits>(o, places, rows, c);
    }
  } else {
    for (int64_t c = 0; c < whole; c += Vec::kWidth) {
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
  // No limits for the others: one copy of the code less than with a case for them.
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

OORT_DEFINE_KERNELS(WinogradKernels, {.width = Vec::kWidth,
                                      .columns = kWinogradColumns,
                                      .rows = kWinogradRows,
                                      .input = {TransformInput<2>, TransformInput<4>,
                                                TransformInput<6>, TransformStridedInput},
                                      .output = {TransformOutput<2>, TransformOutput<4>,
                                                 TransformOutput<6>, TransformOutput<kStridedForm>},
                                      .product = Product})
