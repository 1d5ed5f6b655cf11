// SPDX-License-Identifier: MIT
// Pooling of NHWC images. A vector holds channels of one pixel, so that a window is folded without
// shuffles.
#pragma once

#include "cpu/lanes_kernels.h"

namespace oort {

/// `count` windows in a row, each of height by width pixels; all steps in elements.
template <typename T>
struct PixelWindowsOf {
  const T* first;              ///< the first pixel under the first window
  int64_t height, row_step;    ///< rows under a window
  int64_t width, column_step;  ///< pixels of a row under a window
  int64_t count, step;         ///< windows, and from one to the next
  int64_t channels;
  T* out;
  int64_t out_step;  ///< from one output pixel to the next
};

template <typename T>
struct NhwcPoolKernelsOf {
  /// The largest of each channel under each window; -inf where there is no pixel.
  void (*max)(const PixelWindowsOf<T>& windows);
  /// The sum of each channel under each window, divided by `divisor`.
  void (*mean)(const PixelWindowsOf<T>& windows, float divisor);
};
OORT_DECLARE_LANES_KERNELS(NhwcPoolKernels)

/// The tables of an instruction set; that for f16 is there if takes_f16().
class NhwcPoolTables {
 public:
  explicit NhwcPoolTables(Isa isa)
      : f32_(NhwcPoolKernelsFor<float>(isa)),
        f16_(HasF16Arithmetic(isa) ? &NhwcPoolKernelsFor<Half>(isa) : nullptr) {}
  bool takes_f16() const { return f16_ != nullptr; }
  template <typename T>
  const NhwcPoolKernelsOf<T>& For() const {
    if constexpr (std::is_same_v<T, Half>) {
      return *f16_;
    } else {
      return f32_;
    }
  }

 private:
  const NhwcPoolKernelsOf<float>& f32_;
  const NhwcPoolKernelsOf<Half>* f16_;
};

}  // namespace oort
