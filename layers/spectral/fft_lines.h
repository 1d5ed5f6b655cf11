// SPDX-License-Identifier: MIT
// Fourier transforms of all lines along one axis of an array.
#pragma once

#include <array>

#include "layers/spectral/fft_plan.h"
#include "oort/shape.h"

namespace oort {

enum class FftKind {
  kComplex,        ///< n complex points to n
  kRealToComplex,  ///< n real points to the n/2 + 1 first; the others are their conjugates
  kRealToFull,     ///< n real points to n
  kComplexToReal,  ///< the n/2 + 1 first points (whose mirror images are implied) to n real ones
};

/// One of the axes that are not transformed. Strides are counted in numbers: 2 a complex element.
struct FftAxis {
  int64_t extent = 1;
  int64_t source_extent = 1;  ///< what lies beyond is 0
  int64_t source_stride = 0;
  int64_t target_stride = 0;
};

template <typename T>
struct FftJob {
  FftKind kind = FftKind::kComplex;
  int64_t n = 1;
  bool inverse = false;  ///< the sign of the exponent; nothing is divided by n
  double scale = 1;      ///< of the results

  const T* source = nullptr;  ///< may be the target where the kind is kComplex
  bool source_real = false;   ///< imaginary parts are 0 and not stored
  int64_t source_step = 1;    ///< from point to point
  int64_t source_count = 0;   ///< points that are there; the transform cuts or adds zeros
  const T* window = nullptr;  ///< n factors of the points of a real or complex source

  T* target = nullptr;
  int64_t target_step = 1;

  std::array<FftAxis, Shape::kMaxRank> axes;
  int axis_count = 0;
  int64_t lines() const;
};

/// The usual count of operations for `lines` transforms of n points.
double FftFlops(int64_t n, int64_t lines);

/// Runs a job. It and its memory depend on the kind, n and the number of lines only.
template <typename T>
class FftRunner {
 public:
  FftRunner(Isa isa, FftKind kind, int64_t n, int64_t lines, int threads);
  size_t workspace() const;  ///< in bytes
  void Run(const FftJob<T>& job, T* workspace) const;

 private:
  struct Call;
  void RunBlocks(const FftJob<T>& job, T* workspace) const;
  void RunLong(const FftJob<T>& job, T* workspace) const;
  int64_t BlockItems() const;
  static void ZeroLine(const FftJob<T>& job, T* target, int64_t points);

  const FftLaneKernels<T>& kernels_;
  const FftLaneKernels<T>& single_;  // one lane: a block is a line of pairs
  FftKind kind_;
  int64_t n_;
  bool half_;       // an even number of reals, taken as half as many pairs
  int64_t points_;  // of the complex transform
  int threads_;
  int64_t pieces_;  // of the lines, one a thread
  std::shared_ptr<const FftPlan<T>> plan_;
  std::shared_ptr<const FftLongPlan<T>> long_plan_;
  std::shared_ptr<const FftTurns<T>> turns_;
};

}  // namespace oort
