// SPDX-License-Identifier: MIT
// Convolutions whose image is padded with something else than zeros: it is padded first.
#pragma once

#include "layers/convolution/conv_geometry.h"
#include "layers/pad/pad_copy.h"

namespace oort {

inline PadMode ConvPadMode(const LayerInit& init) {
  if (init.Arg("padding_mode") < 0) return PadMode::kConstant;
  return ParsePadMode(init.String("padding_mode"));
}

/// What is added around an image of that rank before it is convolved.
inline Padding ConvPadding(const ConvGeometry& g, PadMode mode, int rank) {
  Padding padding;
  padding.mode = mode;
  for (size_t i = 0; i < 3; ++i) {
    const int axis = rank - 3 + static_cast<int>(i);
    if (axis < 0 || (g.axes[i].pad == 0 && g.axes[i].pad_after == 0)) continue;
    padding.before[static_cast<size_t>(axis)] = g.axes[i].pad;
    padding.after[static_cast<size_t>(axis)] = g.axes[i].pad_after;
  }
  return padding;
}

/// The convolution of the padded image.
inline ConvGeometry Unpadded(ConvGeometry g) {
  for (ConvAxis& axis : g.axes) {
    axis.in += axis.pad + axis.pad_after;
    axis.pad = axis.pad_after = 0;
  }
  return g;
}

}  // namespace oort
