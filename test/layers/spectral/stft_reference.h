// SPDX-License-Identifier: MIT
#pragma once

#include "spectral_reference.h"

namespace oort::testing {

/// Parameters of a short-time transform, as a model writes them.
struct StftParams {
  int64_t n_fft = 16, hop = 4, win = 16;
  bool center = true;
  std::string pad_mode = "reflect";
  bool normalized = false, onesided = true, align = false;

  void Write(OperatorCase& op) const {
    op.Param("n_fft", std::to_string(n_fft))
        .Param("hop_length", std::to_string(hop))
        .Param("win_length", std::to_string(win))
        .Param("center", center ? "True" : "False")
        .Param("normalized", normalized ? "True" : "False")
        .Param("onesided", onesided ? "True" : "False");
  }
  double Scale() const { return normalized ? 1 / std::sqrt(static_cast<double>(n_fft)) : 1; }
  int64_t Bins() const { return onesided ? n_fft / 2 + 1 : n_fft; }
  /// The window in the middle of a frame.
  std::vector<double> Window(const Tensor* window) const {
    std::vector<double> frame(static_cast<size_t>(n_fft));
    const Tensor wide = window != nullptr ? window->To(DType::kF64) : Tensor();
    for (int64_t i = 0; i < win; ++i) {
      frame[static_cast<size_t>((n_fft - win) / 2 + i)] =
          window != nullptr ? wide.data<double>()[i] : 1;
    }
    return frame;
  }
};

/// Number i of a padded line.
inline DftNumber StftPadded(const std::vector<DftNumber>& line, int64_t i,
                            const std::string& mode) {
  const auto n = static_cast<int64_t>(line.size());
  if (i < 0 || i >= n) {
    if (mode == "constant") return 0;
    if (mode == "reflect") i = i < 0 ? -i : 2 * (n - 1) - i;
    if (mode == "replicate") i = i < 0 ? 0 : n - 1;
    if (mode == "circular") i = (i + n) % n;
  }
  return line[static_cast<size_t>(i)];
}

/// (batch, time) to (batch, bins, frames).
inline DftArray StftExpected(const DftArray& x, const StftParams& p, const Tensor* window) {
  const int64_t batch = x.shape[0], length = x.shape[1], bins = p.Bins();
  const int64_t shift = p.align ? (p.n_fft - p.win) / 2 : p.center ? p.n_fft / 2 : 0;
  const int64_t added = p.align ? p.n_fft - p.win : 2 * shift;
  const int64_t frames = 1 + (length + added - p.n_fft) / p.hop;
  const std::vector<double> factors = p.Window(window);
  DftArray y(Shape{batch, bins, frames});
  for (int64_t b = 0; b < batch; ++b) {
    const auto first = x.values.begin() + b * length;
    const std::vector<DftNumber> line(first, first + length);
    for (int64_t f = 0; f < frames; ++f) {
      std::vector<DftNumber> frame;
      for (int64_t i = 0; i < p.n_fft; ++i) {
        frame.push_back(StftPadded(line, f * p.hop + i - shift, p.align ? "constant" : p.pad_mode) *
                        factors[static_cast<size_t>(i)] * p.Scale());
      }
      frame = DftLine(std::move(frame), p.n_fft, -1);
      for (int64_t k = 0; k < bins; ++k) {
        y.values[static_cast<size_t>((b * bins + k) * frames + f)] = frame[static_cast<size_t>(k)];
      }
    }
  }
  return y;
}

/// (batch, bins, frames) to (batch, whole signal), divided by the sum of the windows.
inline DftArray IstftWhole(const DftArray& x, const StftParams& p, const Tensor* window,
                           bool complex) {
  const int64_t batch = x.shape[0], frames = x.shape[2];
  const int64_t whole = p.n_fft + p.hop * (frames - 1);
  const double scale = p.normalized ? p.Scale() : 1 / static_cast<double>(p.n_fft);
  const DftArray lines =
      complex ? Dft(x, 1, p.n_fft, 1).Scaled(scale) : DftOfHalf(x, 1, p.n_fft, 1).Scaled(scale);
  const std::vector<double> factors = p.Window(window);
  DftArray y(Shape{batch, whole});
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<double> sum(static_cast<size_t>(whole));
    for (int64_t f = 0; f < frames; ++f) {
      for (int64_t i = 0; i < p.n_fft; ++i) {
        const double factor = factors[static_cast<size_t>(i)];
        sum[static_cast<size_t>(f * p.hop + i)] += factor * factor;
        y.values[static_cast<size_t>(b * whole + f * p.hop + i)] +=
            factor * lines.values[static_cast<size_t>((b * p.n_fft + i) * frames + f)];
      }
    }
    for (int64_t i = 0; i < whole; ++i) {
      y.values[static_cast<size_t>(b * whole + i)] /= sum[static_cast<size_t>(i)];
    }
  }
  return y;
}

/// `length` numbers of each line from `begin` on; zeros beyond the end.
inline DftArray CutOut(const DftArray& x, int64_t begin, int64_t length) {
  return MapLines(x, 1, length, [&](const std::vector<DftNumber>& line) {
    std::vector<DftNumber> part(static_cast<size_t>(length));
    for (size_t i = 0; i < part.size(); ++i) {
      const size_t at = static_cast<size_t>(begin) + i;
      if (at < line.size()) part[i] = line[at];
    }
    return part;
  });
}

inline constexpr Tolerance kStftTolerance = {2e-5, 1e-5};

}  // namespace oort::testing
