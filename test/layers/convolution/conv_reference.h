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

/// `x` (N,C,D,H,W), `weight` (O,C/groups,KD,KH,KW), `bias` (O) or undefined.
inline Tensor ReferenceConv(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const ConvSpec& spec) {
  const Shape &xs = x.shape(), &ws = weight.shape();
  Shape out{xs[0], ws[0], 0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    const size_t a = static_cast<size_t>(i);
    const int64_t reach = spec.dilation[a] * (ws[i + 2] - 1) + 1;
    out[i + 2] = (xs[i + 2] + spec.before[a] + spec.after[a] - reach) / spec.stride[a] + 1;
  }
  Tensor y(DType::kF64, out);
  const int64_t group_out = ws[0] / spec.groups;
  double* target = y.data<double>();
  for (int64_t n = 0; n < out[0]; ++n)
    for (int64_t o = 0; o < out[1]; ++o)
      for (int64_t d = 0; d < out[2]; ++d)
        for (int64_t h = 0; h < out[3]; ++h)
          for (int64_t w = 0; w < out[4]; ++w) {
            double sum = bias.defined() ? Element(bias, o) : 0.0;
            for (int64_t c = 0; c < ws[1]; ++c)
              for (int64_t i = 0; i < ws[2]; ++i)
                for (int64_t j = 0; j < ws[3]; ++j)
                  for (int64_t k = 0; k < ws[4]; ++k)
                    sum += At(x, n, o / group_out * ws[1] + c,
                              d * spec.stride[0] - spec.before[0] + i * spec.dilation[0],
                              h * spec.stride[1] - spec.before[1] + j * spec.dilation[1],
                              w * spec.stride[2] - spec.before[2] + k * spec.dilation[2]) *
                           At(weight, o, c, i, j, k);
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
