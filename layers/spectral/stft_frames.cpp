// SPDX-License-Identifier: MIT
#include "layers/spectral/stft_frames.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "layers/window_bounds.h"

namespace oort {
namespace {

int64_t StftIntOr(const LayerInit& init, const char* name, int64_t fallback) {
  const Value& value = init.Constant(name);
  return value.IsNone() ? fallback : value.AsInt();
}

[[noreturn]] void ThrowStft(const std::string& text) {
  throw Error(ErrorCode::kInvalidArgument, text);
}

}  // namespace

StftOptions::StftOptions(const LayerInit& init, bool default_center)
    : n_fft(init.Int("n_fft")),
      hop(StftIntOr(init, "hop_length", n_fft / 4)),
      win(StftIntOr(init, "win_length", n_fft)),
      center(init.Arg("center") < 0 ? default_center : init.Bool("center")) {
  CheckFftLength(n_fft);
  if (hop < 1) ThrowStft("expected a hop_length of at least 1, got " + std::to_string(hop));
  CheckWindowNumber("hop_length", hop, 1);
  if (win < 1 || win > n_fft) {
    ThrowStft("expected a win_length of 1 to n_fft=" + std::to_string(n_fft) + ", got " +
              std::to_string(win));
  }
  if (!init.Constant("onesided").IsNone()) onesided = init.Bool("onesided");
}

void CheckStftWindow(const StftOptions& options, const Value& window) {
  if (window.IsNone()) return;
  const Shape& shape = window.AsTensor().shape();
  if (shape != Shape{options.win}) {
    ThrowStft("expected a window of win_length=" + std::to_string(options.win) +
              " numbers, got shape " + shape.ToString());
  }
}

bool IsStftDouble(const Tensor& input, const Value& window) {
  return input.dtype() == DType::kF64 || input.dtype() == DType::kC128 ||
         (window.IsTensor() && window.AsTensor().dtype() == DType::kF64);
}

template <typename T>
void FillStftWindow(const StftOptions& options, const Value& window, T* to) {
  std::fill_n(to, options.n_fft, T(0));
  T* const middle = to + options.window_start();
  if (window.IsNone()) {
    std::fill_n(middle, options.win, T(1));
  } else {
    Tensor copy = Tensor::Borrow(middle, Shape{options.win});
    CopyElements(window.AsTensor(), copy);
  }
}
template void FillStftWindow(const StftOptions&, const Value&, float*);
template void FillStftWindow(const StftOptions&, const Value&, double*);

double WindowPower(const StftOptions& options, const Value& window) {
  if (window.IsNone()) return static_cast<double>(options.win);
  const Tensor exact = window.AsTensor().To(DType::kF64);
  double sum = 0;
  for (double value : exact.span<double>()) sum += value * value;
  return sum;
}

bool StftScaledByWindow(const LayerInit& init) {
  const Value& normalized = init.Constant("normalized");
  if (!normalized.IsString()) return normalized.AsBool();
  const std::string& name = normalized.AsString();
  if (name == "window" || name == "frame_length") return name == "window";
  ThrowStft("normalized=" + name + ": expected True, False, window or frame_length");
}

bool StftScaledByLength(const LayerInit& init) {
  return init.Constant("normalized").IsString() && !StftScaledByWindow(init);
}

StftCall::StftCall(const StftOptions& options, const StftPadding& padding, const Tensor& signal,
                   const Value& window)
    : options_(options),
      padding_(padding),
      wide_(IsStftDouble(signal, window)),
      complex_(IsComplex(signal.dtype())),
      input_(signal.shape()) {
  CheckStftWindow(options, window);
  convert_ = signal.dtype() != signal_dtype();
  if (input_.rank() == 0) ThrowStft("expected a signal of rank 1 at least, got rank 0");
  const bool onesided = options.onesided.value_or(!complex_);
  if (complex_ && onesided) ThrowStft("expected onesided=False for a complex signal, got True");
  kind_ = complex_ ? FftKind::kComplex : onesided ? FftKind::kRealToComplex : FftKind::kRealToFull;
  filled_ = LastAxis(padding.zeros_before, padding.zeros_after, PadMode::kConstant).Apply(input_);
  padded_ = LastAxis(padding.mirrored, padding.mirrored, padding.mode).Apply(filled_);
  shape_ = padded_;
  const int last = shape_.rank() - 1;
  if (shape_[last] < options.n_fft) {
    ThrowStft("expected a signal of n_fft=" + std::to_string(options.n_fft) +
              " points at least, got " + std::to_string(shape_[last]));
  }
  frames_ = 1 + (shape_[last] - options.n_fft) / options.hop;
  shape_[last] = kind_ == FftKind::kRealToComplex ? options.n_fft / 2 + 1 : options.n_fft;
  shape_.Append(frames_);
}

DType StftCall::signal_dtype() const {
  if (complex_) return dtype();
  return wide_ ? DType::kF64 : DType::kF32;
}

size_t StftCall::SignalBytes(const Shape& shape) const {
  const auto elements = static_cast<size_t>(shape.elements());
  return AlignUp(CheckedMultiply(elements, ItemSize(signal_dtype())), 64);
}

Padding StftCall::LastAxis(int64_t before, int64_t after, PadMode mode) const {
  Padding padding;
  const auto last = static_cast<size_t>(input_.rank() - 1);
  padding.before[last] = before;
  padding.after[last] = after;
  padding.mode = mode;
  return padding;
}

template <typename T>
FftRunner<T> StftCall::Runner(Isa isa, int threads) const {
  const int64_t lines = shape_.elements() / shape_[shape_.rank() - 2];
  return FftRunner<T>(isa, kind_, options_.n_fft, lines, threads);
}

template <typename T>
size_t StftCall::WorkspaceOf(Isa isa, int threads) const {
  size_t bytes = AlignUp(static_cast<size_t>(options_.n_fft) * sizeof(T), 64);
  if (convert_) bytes = CheckedAdd(bytes, SignalBytes(input_));
  if (filled_ != input_) bytes = CheckedAdd(bytes, SignalBytes(filled_));
  if (padded_ != filled_) bytes = CheckedAdd(bytes, SignalBytes(padded_));
  return CheckedAdd(bytes, Runner<T>(isa, threads).workspace());
}

size_t StftCall::Workspace(Isa isa, int threads) const {
  return wide_ ? WorkspaceOf<double>(isa, threads) : WorkspaceOf<float>(isa, threads);
}

double StftCall::Flops() const {
  return FftFlops(options_.n_fft, shape_.elements() / shape_[shape_.rank() - 2]);
}

void StftCall::Run(const Context& context, Isa isa, double scale, const Tensor& signal,
                   const Value& window, std::byte* target, std::byte* workspace) const {
  if (shape_.elements() == 0) return;
  if (wide_) {
    RunAs(context, isa, scale, signal, window, reinterpret_cast<double*>(target), workspace);
  } else {
    RunAs(context, isa, scale, signal, window, reinterpret_cast<float*>(target), workspace);
  }
}

template <typename T>
void StftCall::RunAs(const Context& context, Isa isa, double scale, const Tensor& signal,
                     const Value& window, T* target, std::byte* workspace) const {
  const auto take = [&](const Shape& shape) {
    Tensor tensor = Tensor::Borrow(workspace, signal_dtype(), shape);
    workspace += SignalBytes(shape);
    return tensor;
  };
  Tensor x = signal;
  if (convert_) {
    Tensor converted = take(input_);
    CopyElements(x, converted);
    x = converted;
  }
  if (filled_ != input_) {
    Tensor filled = take(filled_);
    PadCopy(context, x, LastAxis(padding_.zeros_before, padding_.zeros_after, PadMode::kConstant),
            Value(0), filled);
    x = filled;
  }
  if (padded_ != filled_) {
    Tensor padded = take(padded_);
    PadCopy(context, x, LastAxis(padding_.mirrored, padding_.mirrored, padding_.mode), Value(0),
            padded);
    x = padded;
  }
  T* const factors = reinterpret_cast<T*>(workspace);
  workspace += AlignUp(static_cast<size_t>(options_.n_fft) * sizeof(T), 64);
  FillStftWindow(options_, window, factors);

  const int64_t item = complex_ ? 2 : 1, length = padded_[padded_.rank() - 1];
  const int64_t points = shape_[shape_.rank() - 2], batch = padded_.elements() / length;
  FftJob<T> job;
  job.kind = kind_;
  job.n = options_.n_fft;
  job.scale = scale;
  job.source = reinterpret_cast<const T*>(x.raw());
  job.source_real = !complex_;
  job.source_step = item;
  job.source_count = options_.n_fft;
  job.window = window.IsNone() && options_.win == options_.n_fft ? nullptr : factors;
  job.target = target;
  job.target_step = 2 * frames_;
  job.axes[0] = {batch, batch, length * item, 2 * points * frames_};
  job.axes[1] = {frames_, frames_, options_.hop * item, 2};
  job.axis_count = 2;
  Runner<T>(isa, context.threads()).Run(job, reinterpret_cast<T*>(workspace));
}

}  // namespace oort
