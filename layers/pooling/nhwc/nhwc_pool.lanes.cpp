// SPDX-License-Identifier: MIT
#include "cpu/lanes.h"
#include "cpu/unroll.h"
#include "layers/pooling/nhwc/nhwc_pool_kernels.h"

namespace oort::OORT_ISA {
namespace {

using PixelWindows = PixelWindowsOf<Element>;

struct PixelMax {
  using Total = Lanes;
  static constexpr float kEmpty = -__builtin_huge_valf();
  static Lanes From(Lanes x) { return x; }
  static Lanes Of(Lanes a, Lanes b) { return Max(a, b); }
};
struct PixelSum {
  using Total = WideLanes;
  static constexpr float kEmpty = 0;
  static WideLanes From(Lanes x) { return Widen(x); }
  static WideLanes Of(WideLanes a, WideLanes b) { return a + b; }
};

/// Folds `vectors` whole vectors of channels. Each row is folded first, then the rows with each
/// other, because the rounding error of such a two-level sum is smaller.
template <typename Op, int vectors>
[[gnu::always_inline]] inline void FoldWindow(const PixelWindows& w, const Element* pixel,
                                              typename Op::Total (&total)[vectors]) {
  Unroll<vectors>([&](auto v) { total[v] = Op::kEmpty; });
  for (int64_t y = 0; y < w.height; ++y, pixel += w.row_step) {
    typename Op::Total row[vectors];
    Unroll<vectors>([&](auto v) { row[v] = Op::kEmpty; });
    const Element* p = pixel;
    for (int64_t x = 0; x < w.width; ++x, p += w.column_step) {
      Unroll<vectors>(
          [&](auto v) { row[v] = Op::Of(row[v], Op::From(Lanes::Load(p + v * Lanes::kWidth))); });
    }
    Unroll<vectors>([&](auto v) { total[v] = Op::Of(total[v], row[v]); });
  }
}

/// The windows from channel `c` on in blocks of `vectors` vectors; returns the channel after them.
template <typename Op, int vectors, typename Finish>
int64_t FoldBlocks(const PixelWindows& w, int64_t window, int64_t c, Finish finish) {
  const Element* first = w.first + window * w.step;
  Element* out = w.out + window * w.out_step;
  for (; c + vectors * Lanes::kWidth <= w.channels; c += vectors * Lanes::kWidth) {
    typename Op::Total total[vectors];
    FoldWindow<Op, vectors>(w, first + c, total);
    Unroll<vectors>([&](auto v) { finish(total[v]).Store(out + c + v * Lanes::kWidth); });
  }
  return c;
}

template <typename Op, typename Finish>
void FoldRest(const PixelWindows& w, int64_t window, int64_t c, Finish finish) {
  const int lanes = static_cast<int>(w.channels - c);
  const Element* pixel = w.first + window * w.step + c;
  typename Op::Total total(Op::kEmpty);
  for (int64_t y = 0; y < w.height; ++y, pixel += w.row_step) {
    typename Op::Total row(Op::kEmpty);
    for (int64_t x = 0; x < w.width; ++x) {
      row = Op::Of(row, Op::From(Lanes::LoadPartial(pixel + x * w.column_step, lanes)));
    }
    total = Op::Of(total, row);
  }
  finish(total).StorePartial(w.out + window * w.out_step + c, lanes);
}

template <typename Op, typename Finish>
void FoldWindows(const PixelWindows& w, Finish finish) {
  // The totals and the row sums of so many vectors fit the registers.
  constexpr int kMost = 8 * sizeof(Lanes) / sizeof(typename Op::Total);
  for (int64_t i = 0; i < w.count; ++i) {
    int64_t c = FoldBlocks<Op, kMost>(w, i, 0, finish);
    c = FoldBlocks<Op, kMost / 2>(w, i, c, finish);
    c = FoldBlocks<Op, 1>(w, i, c, finish);
    if (c < w.channels) FoldRest<Op>(w, i, c, finish);
  }
}

void MaxPixels(const PixelWindows& windows) {
  FoldWindows<PixelMax>(windows, [](Lanes v) { return v; });
}

void MeanPixels(const PixelWindows& windows, float divisor) {
  FoldWindows<PixelSum>(windows, [=](WideLanes v) { return Narrow(v / WideLanes(divisor)); });
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_LANES_KERNELS(NhwcPoolKernels, {.max = MaxPixels, .mean = MeanPixels})
