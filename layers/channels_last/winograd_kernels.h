// SPDX-License-Identifier: MIT
// Kernels of Winograd's convolution on channels-last images. In all of them the channels are the
// lanes of the vectors, so that nothing is ever transposed.
#pragma once

#include <cstdint>

#include "cpu/activation.h"
#include "cpu/kernels.h"

namespace oort {

/// One tile of the image: its pixels become as many rows of V.
struct WinogradInput {
  const float* patch = nullptr;
  int64_t row_stride = 0, pixel_stride = 0;
  int64_t channels = 0;  ///< a multiple of the kernels' width
  float* v = nullptr;
  int64_t v_stride = 0;  ///< between the coefficients
};

/// M = V U for one coefficient and one panel of output channels.
struct WinogradProduct {
  const float* v = nullptr;
  int64_t v_row = 0;  ///< between tiles
  int64_t tiles = 0;
  int64_t k = 0;                ///< a multiple of the kernels' width
  const float* u = nullptr;     ///< k rows of `columns`
  const float* soon = nullptr;  ///< what the next product reads as u
  float* m = nullptr;
  int64_t m_row = 0;
};

/// One tile of the result, back from M: with bias, residual and activation into the image.
struct WinogradOutput {
  const float* m = nullptr;
  int64_t m_stride = 0;       ///< between the coefficients
  int64_t channels = 0;       ///< to be written; M and the bias hold whole vectors
  int rows = 0, columns = 0;  ///< pixels of the tile that exist
  const float* bias = nullptr;
  float* out = nullptr;
  int64_t row_stride = 0, pixel_stride = 0;
  const float* add = nullptr;  ///< added before the activation, or null
  int64_t add_row_stride = 0, add_pixel_stride = 0;
  ActivationSpec activation;
};

struct WinogradKernels {
  int width;    ///< of a vector
  int columns;  ///< of a panel of U
  int rows;     ///< tiles that the product takes at once
  // One for each of F(2,3), F(4,3), F(6,3) and stride 2.
  void (*input[4])(const WinogradInput& input);
  void (*output[4])(const WinogradOutput& output);
  void (*product)(const WinogradProduct& product);
};
OORT_DECLARE_KERNELS(WinogradKernels)

}  // namespace oort
