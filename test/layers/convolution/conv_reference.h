// SPDX-License-Identifier: MIT
// Convolutions in double precision, written out as sums.
#pragma once

#include <array>
#include <vector>

#include "test/kit/every_float.h"

namespace oort::testing {

/// Parameters of a convolution over three spatial axes; use extents of 1 for those that are not
/// there.
struct ConvSpec {
  std::array<int64_t, 3> stride{1, 1, 1}, dilation{1, 1, 1}, before{0, 0, 0}, after{0, 0, 0};
  int64_t groups = 1;
};

/// Reads element (n, c, d, h, w) of a rank-5 tensor, zero outside of it.
inline double At(const Tensor& x, int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) {
  const Shape& s = x.shape();
  if (d < 0 || h < 0 || w < 0 || d >= s[2] || h >= s[3] || w >= s[4]) return 0;
  return Element(x, (((n * s[1] + c) * s[2] + d) * s[3] + h) * s[4] + w);
}

/// `x` (N,C,D,H,W), `weight` (O,C/groups,KD,KH,KW), `bias` (O) or undefined. The inner loops
/// read plain arrays, because tests are not optimized and some take half a billion steps.
inline Tensor ReferenceConv(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const ConvSpec& spec) {
  const Shape &xs = x.shape(), &ws = weight.shape();
  Shape out{xs[0], ws[0], 0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    const size_t a = static_cast<size_t>(i);
    const int64_t reach = spec.dilation[a] * (ws[i + 2] - 1) + 1;
    out[i + 2] = (xs[i + 2] + spec.before[a] + spec.after[a] - reach) / spec.stride[a] + 1;
  }
  const int64_t group_out = ws[0] / spec.groups, channels = ws[1];
  const int64_t depth = xs[2], height = xs[3], width = xs[4];
  const int64_t kernel_d = ws[2], kernel_h = ws[3], kernel_w = ws[4], step = spec.dilation[2];
  const Tensor inputs = x.To(DType::kF64), weights = weight.To(DType::kF64);
  Tensor y(DType::kF64, out);
  double* target = y.data<double>();
  for (int64_t n = 0; n < out[0]; ++n)
    for (int64_t o = 0; o < out[1]; ++o)
      for (int64_t d = 0; d < out[2]; ++d)
        for (int64_t h = 0; h < out[3]; ++h)
          for (int64_t w = 0; w < out[4]; ++w) {
            double sum = bias.defined() ? Element(bias, o) : 0.0;
            const int64_t left = w * spec.stride[2] - spec.before[2];
            const double* factor =
                weights.data<double>() + o * channels * kernel_d * kernel_h * kernel_w;
            for (int64_t c = 0; c < channels; ++c)
              for (int64_t i = 0; i < kernel_d; ++i)
                for (int64_t j = 0; j < kernel_h; ++j, factor += kernel_w) {
                  const int64_t at_d = d * spec.stride[0] - spec.before[0] + i * spec.dilation[0];
                  const int64_t at_h = h * spec.stride[1] - spec.before[1] + j * spec.dilation[1];
                  if (at_d < 0 || at_d >= depth || at_h < 0 || at_h >= height) continue;
                  const int64_t channel = n * xs[1] + o / group_out * channels + c;
                  const double* row =
                      inputs.data<double>() + ((channel * depth + at_d) * height + at_h) * width;
                  for (int64_t k = 0, at_w = left; k < kernel_w; ++k, at_w += step)
                    if (at_w >= 0 && at_w < width) sum += row[at_w] * factor[k];
                }
            *target++ = sum;
          }
  return y.To(x.dtype());
}

/// A tensor with `rank` spatial axes as one with three, and back.
inline Tensor ToVolume(const Tensor& x, int rank) {
  Shape shape = x.shape();
  for (int i = rank; i < 3; ++i) shape.Insert(2, 1);
  return x.Reshaped(shape);
}
inline Tensor FromVolume(const Tensor& x, int rank) {
  Shape shape = x.shape();
  for (int i = rank; i < 3; ++i) shape.Erase(2);
  return x.Reshaped(shape);
}

/// The last `rank` of three numbers as pnnx writes a tuple.
inline std::string TupleText(const std::array<int64_t, 3>& values, int rank) {
  std::string text;
  for (int i = 3 - rank; i < 3; ++i) {
    text += (text.empty() ? "(" : ",") + std::to_string(values[static_cast<size_t>(i)]);
  }
  return text + ")";
}

}  // namespace oort::testing
