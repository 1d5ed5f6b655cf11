// SPDX-License-Identifier: MIT
#include "quantize/correct.h"

#include <algorithm>
#include <array>

#include "core/parallel.h"
#include "graph/passes/rewrite.h"
#include "quantize/calibration.h"

namespace oort::quantize {
namespace {

/// Both elements of a parameter that is a number or a pair; `fallback` where it is absent.
std::array<int64_t, 2> Pair(const Operator& op, const char* name, int64_t fallback) {
  const Value value = ParameterValue(op, name);
  if (value.IsNone()) return {fallback, fallback};
  const std::vector<int64_t> list = value.AsInts();
  return {list.front(), list.back()};
}

const CalibrationKernels& SummingKernels() {
  static const CalibrationKernels& kernels = CalibrationKernelsFor(DefaultIsa());
  return kernels;
}

/// As Grid::Round.
void Round(std::span<const float> values, const Grid& grid, float* rounded) {
  SummingKernels().round(values.data(), rounded, static_cast<int64_t>(values.size()),
                         1 / grid.scale, static_cast<float>(-grid.zero_point),
                         static_cast<float>(255 - grid.zero_point), grid.scale);
}

/// Adds to each of `taps` sums what it meets on a line whose margins are zeros. Sums of several
/// taps grow side by side: each is added up in one order, whose steps wait for each other.
template <int kTaps>
void AddLine(const double* line, int64_t windows, int64_t stride, int64_t dilation, double* sums) {
  std::array<double, kTaps> sum;
  std::copy(sums, sums + kTaps, sum.begin());
  for (int64_t window = 0; window < windows; ++window) {
    for (int tap = 0; tap < kTaps; ++tap) {
      sum[static_cast<size_t>(tap)] += line[window * stride + tap * dilation];
    }
  }
  std::copy(sum.begin(), sum.end(), sums);
}

void AddLine(const double* line, int64_t windows, int64_t stride, int64_t dilation, int64_t taps,
             double* sums) {
  while (taps > 0) {
    const int64_t done = taps >= 3 ? 3 : 1;
    const auto add = done == 3 ? AddLine<3> : AddLine<1>;
    add(line, windows, stride, dilation, sums);
    line += done * dilation;
    sums += done;
    taps -= done;
  }
}

}  // namespace

/// What a thread needs for one channel after another.
struct InputSums::Scratch {
  std::vector<float> rounded;  // a plane
  std::vector<double> line;    // columns that are added up, between margins of zeros
};

InputSums::InputSums(const Operator& layer, size_t ways) : convolution_(layer.type == "nn.Conv2d") {
  const Tensor& weight = layer.attributes.at("weight");
  if (!convolution_) {
    channels_ = weight.dim(1);
  } else {
    const Value groups = ParameterValue(layer, "groups");
    groups_ = groups.IsNone() ? 1 : groups.AsInt();
    channels_ = weight.dim(1) * groups_;
    const auto stride = Pair(layer, "stride", 1), dilation = Pair(layer, "dilation", 1);
    const Value padding = ParameterValue(layer, "padding");
    const bool same = padding.IsString() && padding.AsString() == "same";
    const auto pad = padding.IsString() ? std::array<int64_t, 2>{0, 0} : Pair(layer, "padding", 0);
    rows_ = {stride[0], pad[0], dilation[0], weight.dim(2), same};
    columns_ = {stride[1], pad[1], dilation[1], weight.dim(3), same};
  }
  const auto taps = static_cast<size_t>(rows_.kernel * columns_.kernel);
  exact_.assign(static_cast<size_t>(channels_) * taps, 0);
  rounded_.assign(ways, exact_);
}

int64_t InputSums::Axis::Begin() const { return same ? dilation * (kernel - 1) / 2 : pad; }

int64_t InputSums::Axis::Out(int64_t extent) const {
  if (same) return extent;
  return std::max<int64_t>(0, (extent + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1);
}

void InputSums::AddPlane(std::span<const float> plane, double* sums, Scratch& scratch) const {
  const int64_t down = rows_.Out(height_), across = columns_.Out(width_);
  const int64_t begin = columns_.Begin();
  for (int64_t ky = 0; ky < rows_.kernel; ++ky, sums += columns_.kernel) {
    // The windows whose row ky is no padding: first <= window < last.
    const int64_t above = rows_.Begin() - ky * rows_.dilation;
    const int64_t first = std::max<int64_t>(0, (above + rows_.stride - 1) / rows_.stride);
    const int64_t last = std::min(down, (height_ - 1 + above) / rows_.stride + 1);
    if (height_ - 1 + above < 0 || first >= last) continue;
    std::fill(scratch.line.begin(), scratch.line.end(), 0);
    SummingKernels().add_rows(plane.data() + (first * rows_.stride - above) * width_,
                              rows_.stride * width_, last - first, scratch.line.data() + begin,
                              width_);
    AddLine(scratch.line.data(), across, columns_.stride, columns_.dilation, columns_.kernel, sums);
  }
}

/// Of a linear layer: each channel is a plane of one pixel.
void InputSums::AddPixels(std::span<const float> values, std::span<const Grid> grids, int64_t begin,
                          int64_t end) {
  const auto first = static_cast<size_t>(begin), count = static_cast<size_t>(end - begin);
  const auto step = static_cast<size_t>(channels_);
  std::vector<float> rounded(count);
  const auto add = [&](const float* pixels, std::vector<double>& sums) {
    SummingKernels().add_rows(pixels, 0, 1, sums.data() + begin, end - begin);
  };
  for (size_t at = first; at + count <= values.size(); at += step) {
    add(values.data() + at, exact_);
    for (size_t way = 0; way < grids.size(); ++way) {
      Round(values.subspan(at, count), grids[way], rounded.data());
      add(rounded.data(), rounded_[way]);
    }
  }
}

void InputSums::AddPlanes(std::span<const float> values, std::span<const Grid> grids, int64_t begin,
                          int64_t end) {
  const auto plane = static_cast<size_t>(height_ * width_);
  const size_t image = static_cast<size_t>(channels_) * plane;
  const auto taps = static_cast<size_t>(rows_.kernel * columns_.kernel);
  const int64_t last =
      (columns_.Out(width_) - 1) * columns_.stride + (columns_.kernel - 1) * columns_.dilation;
  Scratch scratch;
  scratch.rounded.resize(plane);
  scratch.line.resize(static_cast<size_t>(std::max(columns_.Begin() + width_, last + 1)));
  for (size_t at = 0; at + image <= values.size(); at += image) {
    for (auto channel = static_cast<size_t>(begin); channel < static_cast<size_t>(end); ++channel) {
      const std::span<const float> exact = values.subspan(at + channel * plane, plane);
      AddPlane(exact, exact_.data() + channel * taps, scratch);
      for (size_t way = 0; way < grids.size(); ++way) {
        Round(exact, grids[way], scratch.rounded.data());
        AddPlane(scratch.rounded, rounded_[way].data() + channel * taps, scratch);
      }
    }
  }
}

void InputSums::Add(const Tensor& input, std::span<const Grid> grids, int threads) {
  const std::span<const float> values = input.span<float>();
  // A linear layer is a convolution of images of one pixel.
  height_ = convolution_ ? input.dim(-2) : 1;
  width_ = convolution_ ? input.dim(-1) : 1;
  const int64_t image = channels_ * height_ * width_;
  const int64_t windows = rows_.Out(height_) * columns_.Out(width_);
  if (image == 0 || windows == 0) return;
  const int64_t images = input.elements() / image;
  windows_ += images * windows;
  const double sums = static_cast<double>(1 + grids.size()) * static_cast<double>(rows_.kernel);
  const double adds = sums * static_cast<double>(images * height_ * width_);
  ParallelFor(threads, channels_, GrainOf({.bytes = 4 * adds, .flops = 4 * adds}),
              [&](int64_t begin, int64_t end) {
                if (convolution_) return AddPlanes(values, grids, begin, end);
                AddPixels(values, grids, begin, end);
              });
}

std::vector<float> InputSums::Correction(const Tensor& weight, const QuantizedWeights& rounded,
                                         size_t way) const {
  const std::span<const float> values = weight.span<float>();
  const auto rows = rounded.scales.size();
  const size_t columns = rows == 0 ? 0 : values.size() / rows;
  std::vector<float> correction(rows, 0);
  if (windows_ == 0) return correction;
  const size_t rows_per_group = rows / static_cast<size_t>(groups_);
  for (size_t row = 0; row < rows; ++row) {
    // The input channels of a group follow each other, and so do their sums.
    const size_t first = row / rows_per_group * columns;
    double sum = 0;
    for (size_t k = 0; k < columns; ++k) {
      const double exact = static_cast<double>(values[row * columns + k]);
      const double rough =
          static_cast<double>(rounded.scales[row]) * rounded.values[row * columns + k];
      sum += exact * exact_[first + k] - rough * rounded_[way][first + k];
    }
    correction[row] = static_cast<float>(sum / static_cast<double>(windows_));
  }
  return correction;
}

}  // namespace oort::quantize
