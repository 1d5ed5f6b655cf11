// SPDX-License-Identifier: MIT
// Where the axes of an image lie when its channels are moved behind its pixels: (…, C, H, W) is
// held as (…, H, W, C). Operators of such images keep torch's numbers of axes, those of (…, C, H,
// W), and convert them by the rank that comes.
#pragma once

#include "oort/shape.h"

namespace oort {

/// The axis of the NHWC tensor that is axis `axis` of the NCHW one. The negative
/// ones count from the end; throws where there is no such axis. Below rank 3 nothing moves.
inline int NhwcAxis(int64_t axis, int rank) {
  const int normalized = NormalizeAxis(axis, rank);
  if (rank < 3 || normalized < rank - 3) return normalized;
  return normalized == rank - 3 ? rank - 1 : normalized - 1;
}

/// The shape of the same image in NHWC; one of a rank below 3 is first padded with
/// ones on the left, as broadcasting does.
inline Shape ToNhwc(Shape shape) {
  while (shape.rank() < 3) shape.Insert(0, 1);
  Shape last = shape;
  for (int i = 0; i < shape.rank(); ++i) last[NhwcAxis(i, shape.rank())] = shape[i];
  return last;
}

/// And back; one of a rank below 3 is no image and stays.
inline Shape ToNchw(const Shape& shape) {
  Shape first = shape;
  for (int i = 0; i < shape.rank(); ++i) first[i] = shape[NhwcAxis(i, shape.rank())];
  return first;
}

/// An image in NHWC, as extents. Only for ranks of at least 3.
struct NhwcImage {
  int64_t batch, height, width, channels;
  explicit NhwcImage(const Shape& shape)
      : batch(shape.Product(0, shape.rank() - 3)),
        height(shape[shape.rank() - 3]),
        width(shape[shape.rank() - 2]),
        channels(shape[shape.rank() - 1]) {}
  int64_t pixels() const { return height * width; }
};

}  // namespace oort
