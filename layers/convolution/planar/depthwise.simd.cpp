// SPDX-License-Identifier: MIT
#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/convolution/planar/conv_kernels.h"

namespace oort::OORT_ISA {
namespace {

Vec Clamp(Vec x, const DepthwisePlane& p) { return Min(Max(x, Vec(p.low)), Vec(p.high)); }

void StoreSome(Vec x, float* to, int64_t count) {
  if (count >= Vec::kWidth) {
    x.Store(to);
  } else {
    x.StorePartial(to, static_cast<int>(count));
  }
}

template <int stride>
Vec LoadStep(const float* p) {
  if constexpr (stride == 1) {
    return Vec::Load(p);
  } else {
    return Vec::LoadEven(p);
  }
}

/// A block of outputs, `rows` by `vectors`: inputs that the rows have in common are loaded once,
/// and there are enough independent sums to keep the multipliers busy.
template <int kernel, int stride, int rows, int vectors>
[[gnu::always_inline]] inline void Block(const DepthwisePlane& p,
                                         const Vec (&weight)[kernel][kernel], int64_t h,
                                         int64_t w) {
  constexpr int kInputs = (rows - 1) * stride + kernel;
  Vec sums[rows][vectors];
  Unroll<rows>([&](auto r) { Unroll<vectors>([&](auto v) { sums[r][v] = Vec(p.bias); }); });
  const float* x = p.plane + h * stride * p.row + w * stride;
  Unroll<kInputs>([&](auto i) {
    Unroll<kernel>([&](auto j) {
      Vec inputs[vectors];
      Unroll<vectors>([&](auto v) {
        inputs[v] = LoadStep<stride>(x + i * p.row + j + v * Vec::kWidth * stride);
      });
      Unroll<rows>([&](auto r) {
        constexpr int kTap = decltype(i)::value - decltype(r)::value * stride;
        if constexpr (kTap >= 0 && kTap < kernel) {
          Unroll<vectors>(
              [&](auto v) { sums[r][v] = Fma(inputs[v], weight[kTap][j], sums[r][v]); });
        }
      });
    });
  });
  Unroll<rows>([&](auto r) {
    Unroll<vectors>([&](auto v) {
      const int64_t at = w + v * Vec::kWidth;
      StoreSome(Clamp(sums[r][v], p), p.out + (h + r) * p.out_w + at, p.out_w - at);
    });
  });
}

template <int kernel, int stride, int rows>
void SquareRows(const DepthwisePlane& p, const Vec (&weight)[kernel][kernel], int64_t h) {
  constexpr int kWidth = Vec::kWidth;
  int64_t w = 0;
  for (; w + 4 * kWidth <= p.out_w; w += 4 * kWidth)
    Block<kernel, stride, rows, 4>(p, weight, h, w);
  for (; w + 2 * kWidth <= p.out_w; w += 2 * kWidth)
    Block<kernel, stride, rows, 2>(p, weight, h, w);
  for (; w + kWidth <= p.out_w; w += kWidth) Block<kernel, stride, rows, 1>(p, weight, h, w);
  if (w == p.out_w) return;
  // The last vector overlaps outputs that are computed already, so that it is whole.
  Block<kernel, stride, rows, 1>(p, weight, h, p.out_w < kWidth ? 0 : p.out_w - kWidth);
}

template <int kernel, int stride>
void SquarePlane(const DepthwisePlane& plane) {
  const DepthwisePlane p = plane;  // a copy of its own: what is stored cannot change it
  Vec weight[kernel][kernel];
  Unroll<kernel>([&](auto i) {
    Unroll<kernel>([&](auto j) { weight[i][j] = Vec(p.weight[i * kernel + j]); });
  });
  int64_t h = 0;
  for (; h + 2 <= p.out_h; h += 2) SquareRows<kernel, stride, 2>(p, weight, h);
  if (h < p.out_h) SquareRows<kernel, stride, 1>(p, weight, h);
}

Vec LoadAny(const float* p, int64_t stride, int64_t count) {
  if (stride == 1) return Vec::Load(p);
  if (stride == 2) return Vec::LoadEven(p);
  float lanes[Vec::kWidth] = {};
  for (int i = 0; i < Vec::kWidth && i < count; ++i) lanes[i] = p[i * stride];
  return Vec::Load(lanes);
}

void AnyPlane(const DepthwisePlane& p) {
  for (int64_t h = 0; h < p.out_h; ++h) {
    for (int64_t w = 0; w < p.out_w; w += Vec::kWidth) {
      Vec sum = Vec(p.bias);
      for (int64_t i = 0; i < p.kernel_h; ++i) {
        const float* x = p.plane + (h * p.stride_h + i * p.dilation_h) * p.row + w * p.stride_w;
        for (int64_t j = 0; j < p.kernel_w; ++j) {
          const Vec input = LoadAny(x + j * p.dilation_w, p.stride_w, p.out_w - w);
          sum = Fma(input, Vec(p.weight[i * p.kernel_w + j]), sum);
        }
      }
      StoreSome(Clamp(sum, p), p.out + h * p.out_w + w, p.out_w - w);
    }
  }
}

void Plane(const DepthwisePlane& p) {
  const bool square = p.kernel_h == p.kernel_w && p.stride_h == p.stride_w && p.dilation_h == 1 &&
                      p.dilation_w == 1;
  if (square && p.kernel_h == 3 && p.stride_h == 1) return SquarePlane<3, 1>(p);
  if (square && p.kernel_h == 3 && p.stride_h == 2) return SquarePlane<3, 2>(p);
  if (square && p.kernel_h == 5 && p.stride_h == 1) return SquarePlane<5, 1>(p);
  if (square && p.kernel_h == 5 && p.stride_h == 2) return SquarePlane<5, 2>(p);
  AnyPlane(p);
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(DepthwiseKernels, {.slack = 2 * Vec::kWidth, .plane = Plane})
