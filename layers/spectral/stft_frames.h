// SPDX-License-Identifier: MIT
// What the short-time Fourier transforms share: their options, their windows and the forward
// transform itself.
#pragma once

#include <optional>

#include "layers/pad/pad_copy.h"
#include "layers/spectral/fft_lines.h"

namespace oort {

inline constexpr DTypeSet kStftWindows = kFloats | kIntegers;

/// How a signal is cut into frames; read and checked when the layer is made.
struct StftOptions {
  int64_t n_fft = 1;
  int64_t hop = 1;
  int64_t win = 1;  ///< the window stands in the middle of a frame of n_fft
  bool center = true;
  std::optional<bool> onesided;

  /// From the parameters n_fft, hop_length, win_length, onesided and center; an operator that has
  /// no `center` takes the default.
  StftOptions(const LayerInit& init, bool default_center);
  int64_t window_start() const { return (n_fft - win) / 2; }
};

/// Throws unless there is no window or one of `win` numbers.
void CheckStftWindow(const StftOptions& options, const Value& window);

/// f64 where either is of double precision.
bool IsStftDouble(const Tensor& input, const Value& window);

/// Writes the window, zeros around it, as n_fft numbers; ones where there is none.
template <typename T>
void FillStftWindow(const StftOptions& options, const Value& window, T* to);

/// Σ w² of a window.
double WindowPower(const StftOptions& options, const Value& window);

/// torchaudio's `normalized`: "window" (or True) divides by the root of Σ w², "frame_length" by
/// that of n_fft.
bool StftScaledByWindow(const LayerInit& init);
bool StftScaledByLength(const LayerInit& init);

/// What is added to a signal before it is cut into frames.
struct StftPadding {
  int64_t zeros_before = 0, zeros_after = 0;
  int64_t mirrored = 0;  ///< on both sides, after the zeros
  PadMode mode = PadMode::kReflect;
};

/// One forward transform: of a signal (…, length) to (…, frequencies, frames).
class StftCall {
 public:
  StftCall(const StftOptions& options, const StftPadding& padding, const Tensor& signal,
           const Value& window);

  /// The transformed points, as complex numbers.
  const Shape& shape() const { return shape_; }
  DType dtype() const { return wide_ ? DType::kC128 : DType::kC64; }
  size_t Workspace(Isa isa, int threads) const;
  double Flops() const;
  /// `target` is of dtype() (or pairs of its parts).
  void Run(const Context& context, Isa isa, double scale, const Tensor& signal, const Value& window,
           std::byte* target, std::byte* workspace) const;

 private:
  template <typename T>
  FftRunner<T> Runner(Isa isa, int threads) const;
  template <typename T>
  size_t WorkspaceOf(Isa isa, int threads) const;
  template <typename T>
  void RunAs(const Context& context, Isa isa, double scale, const Tensor& signal,
             const Value& window, T* target, std::byte* workspace) const;
  /// The dtype of the signal that is transformed.
  DType signal_dtype() const;
  size_t SignalBytes(const Shape& shape) const;
  Padding LastAxis(int64_t before, int64_t after, PadMode mode) const;

  StftOptions options_;
  StftPadding padding_;
  bool wide_, complex_, convert_;
  FftKind kind_;
  Shape input_, filled_, padded_;  // of the signal: as it came, with zeros, with mirrored ends
  int64_t frames_ = 0;
  Shape shape_;
};

}  // namespace oort
