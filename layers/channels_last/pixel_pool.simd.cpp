// SPDX-License-Identifier: MIT
#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/channels_last/pixel_pool_kernels.h"

namespace oort::OORT_ISA {
namespace {

struct PixelMax {
  static constexpr float kEmpty = -__builtin_huge_valf();
  static Vec Of(Vec a, Vec b) { return Max(a, b); }
};
struct PixelSum {
  static constexpr float kEmpty = 0;
  static Vec Of(Vec a, Vec b) { return a + b; }
};

/// Folds `vectors` whole vectors of channels. Rows are folded one by one and then with each other:
/// sums of many pixels lose less that way.
template <typename Op, int vectors>
[[gnu::always_inline]] inline void FoldWindow(const PixelWindows& w, const float* pixel,
                                              Vec (&total)[vectors]) {
  Unroll<vectors>([&](auto v) { total[v] = Vec(Op::kEmpty); });
  for (int64_t y = 0; y < w.height; ++y, pixel += w.row_step) {
    Vec row[vectors];
    Unroll<vectors>([&](auto v) { row[v] = Vec(Op::kEmpty); });
    const float* p = pixel;
    for (int64_t x = 0; x < w.width; ++x, p += w.column_step) {
      Unroll<vectors>([&](auto v) { row[v] = Op::Of(row[v], Vec::Load(p + v * Vec::kWidth)); });
    }
    Unroll<vectors>([&](auto v) { total[v] = Op::Of(total[v], row[v]); });
  }
}

/// The windows from channel `c` on in blocks of `vectors` vectors; returns the channel after them.
template <typename Op, int vectors, typename Finish>
int64_t FoldBlocks(const PixelWindows& w, int64_t window, int64_t c, Finish finish) {
  const float* first = w.first + window * w.step;
  float* out = w.out + window * w.out_step;
  for (; c + vectors * Vec::kWidth <= w.channels; c += vectors * Vec::kWidth) {
    Vec total[vectors];
    FoldWindow<Op, vectors>(w, first + c, total);
    Unroll<vectors>([&](auto v) { finish(total[v]).Store(out + c + v * Vec::kWidth); });
  }
  return c;
}

template <typename Op, typename Finish>
void FoldRest(const PixelWindows& w, int64_t window, int64_t c, Finish finish) {
  const int lanes = static_cast<int>(w.channels - c);
  const float* pixel = w.first + window * w.step + c;
  Vec total(Op::kEmpty);
  for (int64_t y = 0; y < w.height; ++y, pixel += w.row_step) {
    Vec row(Op::kEmpty);
    for (int64_t x = 0; x < w.width; ++x) {
      row = Op::Of(row, Vec::LoadPartial(pixel + x * w.column_step, lanes));
    }
    total = Op::Of(total, row);
  }
  finish(total).StorePartial(w.out + window * w.out_step + c, lanes);
}

template <typename Op, typename Finish>
void FoldWindows(const PixelWindows& w, Finish finish) {
  for (int64_t i = 0; i < w.count; ++i) {
    int64_t c = FoldBlocks<Op, 8>(w, i, 0, finish);
    c = FoldBlocks<Op, 4>(w, i, c, finish);
    c = FoldBlocks<Op, 1>(w, i, c, finish);
    if (c < w.channels) FoldRest<Op>(w, i, c, finish);
  }
}

void MaxPixels(const PixelWindows& windows) {
  FoldWindows<PixelMax>(windows, [](Vec v) { return v; });
}

void MeanPixels(const PixelWindows& windows, float divisor) {
  FoldWindows<PixelSum>(windows, [=](Vec v) { return v / Vec(divisor); });
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(PixelPoolKernels, {.max = MaxPixels, .mean = MeanPixels})
