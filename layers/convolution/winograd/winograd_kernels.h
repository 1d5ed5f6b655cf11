// SPDX-License-Identifier: MIT
// Kernels of Winograd's convolution (Lavin and Gray 2016) on NHWC images: U, V and M are the
// transformed weights, image and result. The channels are the lanes of the vectors, so that nothing
// is transposed.
#pragma once

#include <cstdint>

#include "cpu/activation.h"
#include "cpu/lanes_kernels.h"

namespace oort {

/// One tile of the image: its pixels become as many rows of V.
template <typename T>
struct WinogradInputOf {
  const T* patch = nullptr;
  int64_t row_stride = 0, pixel_stride = 0;
  int64_t channels = 0;  ///< a multiple of the kernels' width
  T* v = nullptr;
  int64_t v_stride = 0;  ///< between the coefficients
};

/// M = V U for one coefficient and one panel of output channels.
template <typename T>
struct WinogradProductOf {
  const T* v = nullptr;
  int64_t v_row = 0;  ///< between tiles
  int64_t tiles = 0;
  int64_t k = 0;            ///< a multiple of the kernels' width
  const T* u = nullptr;     ///< k rows of `columns`
  const T* soon = nullptr;  ///< what the next product reads as u
  T* m = nullptr;
  int64_t m_row = 0;
};

/// One tile of the result, back from M: with bias, residual and activation into the image.
template <typename T>
struct WinogradOutputOf {
  const T* m = nullptr;
  int64_t m_stride = 0;       ///< between the coefficients
  int64_t channels = 0;       ///< to be written; M and the bias hold whole vectors
  int rows = 0, columns = 0;  ///< pixels of the tile that exist
  const T* bias = nullptr;
  T* out = nullptr;
  int64_t row_stride = 0, pixel_stride = 0;
  const T* add = nullptr;  ///< added before the activation, or null
  int64_t add_row_stride = 0, add_pixel_stride = 0;
  ActivationSpec activation;
};

template <typename T>
struct WinogradKernelsOf {
  int width;    ///< of a vector
  int columns;  ///< of a panel of U
  int rows;     ///< tiles that the product takes at once
  // One for each of F(2,3), F(4,3), F(6,3) and stride 2.
  void (*input[4])(const WinogradInputOf<T>& input);
  void (*output[4])(const WinogradOutputOf<T>& output);
  void (*product)(const WinogradProductOf<T>& product);
};
OORT_DECLARE_LANES_KERNELS(WinogradKernels)

}  // namespace oort
