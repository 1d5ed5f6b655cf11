// SPDX-License-Identifier: MIT
// Fourier transforms of several lines at once: each line is a lane of the vectors, so that every
// butterfly of any radix is plain vector arithmetic. A block holds element j of all lanes at
// j * 2 * lanes: the real parts, then the imaginary parts.
#pragma once

#include "cpu/kernels.h"

namespace oort {

inline constexpr int kFftMaxLanes = 16;
/// Larger primes go through a convolution (Bluestein), which is faster from here on.
inline constexpr int kFftMaxRadix = 47;

/// Joins `radix` transforms of `span` elements into one, all over the block.
struct FftStage {
  int radix;
  int64_t span;
  int64_t twiddles;  ///< offset of its factors: for each j < span, those of elements 1 … radix-1
  int64_t roots;     ///< offset of the cosines and sines of k/radix turns, for odd radices
};

/// A complex transform in place. For a length with a large prime factor `inner` is set: then it is
/// a convolution with a chirp by transforms of a longer, convenient length.
template <typename T>
struct FftProgram {
  int64_t length = 0;
  const int32_t* order = nullptr;  ///< where element j must lie; [length] is `length` itself
  const FftStage* stages = nullptr;
  int stage_count = 0;
  const T* table = nullptr;
  const FftProgram* inner = nullptr;
  const T* chirp = nullptr;     ///< `length` pairs
  const T* spectrum = nullptr;  ///< `inner->length` pairs: the transform of the chirp
};

/// Where the elements of the lanes come from. Distances are counted in T.
template <typename T>
struct FftLoad {
  const T* lanes[kFftMaxLanes];  ///< all valid; those that nobody wants repeat another
  int64_t step = 1;              ///< from element to element
  int64_t im_offset = 0;         ///< of the imaginary part; 0: there is none
  int64_t re_count = 0;          ///< what exists of `total`; the rest is 0
  int64_t im_count = 0;
  int64_t total = 0;
  T im_sign = 1;
  int64_t lane_step = 0;      ///< from lane to lane, where it is the same between all; else 0
  int64_t hermitian = 0;      ///< if not 0: element hermitian-k becomes the conjugate of element k
  const T* window = nullptr;  ///< factors: of element j at j * window_step (+ window_im)
  int64_t window_step = 1;
  int64_t window_im = 0;
};

/// Where they go, in natural order.
template <typename T>
struct FftStore {
  T* lanes[kFftMaxLanes];
  int lane_count = 0;
  int64_t step = 1;
  int64_t im_offset = 0;  ///< 0: imaginary parts are dropped
  int64_t count = 0;
  T re_scale = 1;
  T im_scale = 1;
  int64_t lane_step = 0;
  int64_t hermitian = 0;  ///< as in FftLoad: the second half is written, too
};

/// Factors by which a block is multiplied: element k of lane l by (re, im)[k * step + l].
template <typename T>
struct FftRotation {
  const T* re;
  const T* im;
  int64_t step;
  int lane_count;
};

template <typename T>
struct FftLaneKernels {
  int lanes;
  /// Puts element j at order[j], or at j where there is no order.
  void (*load)(const FftLoad<T>& load, const int32_t* order, T* block);
  /// `scratch` holds two blocks of inner->length where there is an inner program.
  void (*transform)(const FftProgram<T>& program, T* block, T* scratch);
  /// Of z[j] = x[2j] + i x[2j+1] transformed (h elements) makes the h + 1 first of x. `turns` are
  /// cosine and sine of k/(2h) turns.
  void (*split_real)(T* block, int64_t h, const T* turns);
  /// The way back, before the transform, on elements as `load` put them; gives conjugates.
  void (*join_real)(T* block, int64_t h, const int32_t* order, const T* turns);
  void (*rotate)(T* block, int64_t count, const FftRotation<T>& rotation);
  void (*store)(const FftStore<T>& store, const T* block);
};

struct FftKernels {
  FftLaneKernels<float> f32;
  FftLaneKernels<double> f64;
};
OORT_DECLARE_KERNELS(FftKernels)
#if defined(OORT_NO_SCALAR)
OORT_DECLARE_KERNEL_GETTER(FftKernels, scalar)
#endif
/// One line at a time; every build has them.
inline const FftKernels& FftSingleLineKernels() { return scalar::FftKernelsGet(); }

template <typename T>
const FftLaneKernels<T>& LaneKernels(const FftKernels& kernels) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return kernels.f32;
  } else {
    return kernels.f64;
  }
}

}  // namespace oort
