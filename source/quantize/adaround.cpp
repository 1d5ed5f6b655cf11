// SPDX-License-Identifier: MIT
#include "quantize/adaround.h"

#include <algorithm>
#include <cmath>

#include "graph/passes/rewrite.h"

namespace oort::quantize {
namespace {

/// Windows of all inputs together, and how often all weights are gone through.
constexpr size_t kSeenWindows = 512;
constexpr int kSweeps = 8;
/// What keeps weights near where they were in directions that no input has shown.
constexpr double kDamping = 0.01;

int64_t PartOf(const Operator& op, const char* name, bool last, int64_t fallback) {
  const Value value = ParameterValue(op, name);
  if (value.IsInt()) return value.AsInt();
  if (!value.IsList() || value.AsList().empty()) return fallback;
  const std::vector<int64_t> list = value.AsInts();
  return last ? list.back() : list.front();
}

/// Where weight w lies between two integers: the one that `q` is not. 0 steps away where w is
/// beyond the grid.
int OtherNeighbour(double w, double scale, int q) {
  const double error = q * scale - w;
  if (std::abs(error) >= scale) return q;
  const int other = error > 0 ? q - 1 : q + 1;
  return std::abs(other) > 127 ? q : other;
}

/// Means of the products of all pairs of a window's numbers.
std::vector<double> PairMeans(const SeenInputs& inputs, int64_t group) {
  const int64_t terms = inputs.terms();
  std::vector<double> means(static_cast<size_t>(terms * terms), 0);
  for (int64_t w = 0; w < inputs.windows(); ++w) {
    const float* x = inputs.values().data() + (w * inputs.groups() + group) * terms;
    for (int64_t i = 0; i < terms; ++i) {
      if (x[i] == 0) continue;
      const double factor = static_cast<double>(x[i]);
      double* row = means.data() + i * terms;
      for (int64_t k = 0; k < terms; ++k) row[k] += factor * static_cast<double>(x[k]);
    }
  }
  double trace = 0;
  for (double& mean : means) mean /= static_cast<double>(inputs.windows());
  for (int64_t i = 0; i < terms; ++i) trace += means[static_cast<size_t>(i * terms + i)];
  const double damping = kDamping * trace / static_cast<double>(terms);
  for (int64_t i = 0; i < terms; ++i) means[static_cast<size_t>(i * terms + i)] += damping;
  return means;
}

/// One row of weights: `values` moves, and `moved` says which did.
class RowRounder {
 public:
  RowRounder(std::span<const float> weight, double scale, std::span<int8_t> values,
             const std::vector<double>& means)
      : weight_(weight), scale_(scale), values_(values), means_(means), slope_(weight.size(), 0) {
    for (size_t k = 0; k < weight.size(); ++k) AddError(k, values[k] * scale - Exact(k));
  }

  void Run() {
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      bool any = false;
      for (size_t k = 0; k < weight_.size(); ++k) any = Try(k) || any;
      if (!any) return;
    }
  }

 private:
  double Exact(size_t k) const { return static_cast<double>(weight_[k]); }

  void AddError(size_t k, double step) {
    const double* row = means_.data() + k * weight_.size();
    for (size_t i = 0; i < weight_.size(); ++i) slope_[i] += step * row[i];
  }

  bool Try(size_t k) {
    const int other = OtherNeighbour(Exact(k), scale_, values_[k]);
    const double step = (other - values_[k]) * scale_;
    const double own = means_[k * weight_.size() + k];
    if (!(2 * step * slope_[k] + step * step * own < 0)) return false;
    values_[k] = static_cast<int8_t>(other);
    AddError(k, step);
    return true;
  }

  std::span<const float> weight_;
  double scale_;
  std::span<int8_t> values_;
  const std::vector<double>& means_;
  std::vector<double> slope_;  // of the squared error, halved, by weight
};

}  // namespace

int64_t SeenInputs::Axis::Out(int64_t extent) const {
  return std::max<int64_t>(0, (extent + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1);
}

SeenInputs::SeenInputs(const Operator& layer, size_t samples)
    : convolution_(layer.type == "nn.Conv2d"),
      most_windows_(
          static_cast<int64_t>(std::max<size_t>(1, kSeenWindows / std::max<size_t>(1, samples)))) {
  const Tensor& weight = layer.attributes.at("weight");
  terms_ = weight.elements() / weight.dim(0);
  channels_ = weight.dim(1);
  if (!convolution_) return;
  groups_ = PartOf(layer, "groups", false, 1);
  channels_ *= groups_;
  for (const bool last : {false, true}) {
    Axis& axis = last ? columns_ : rows_;
    axis.kernel = weight.dim(last ? 3 : 2);
    axis.stride = PartOf(layer, "stride", last, 1);
    axis.dilation = PartOf(layer, "dilation", last, 1);
    // "same" and "valid" have no number; what is seen at the border then is a little moved.
    const bool same = ParameterText(layer, "padding") == "same";
    axis.pad = same ? axis.dilation * (axis.kernel - 1) / 2 : PartOf(layer, "padding", last, 0);
  }
}

void SeenInputs::AddWindow(const float* image, int64_t height, int64_t width, int64_t y,
                           int64_t x) {
  for (int64_t c = 0; c < channels_; ++c) {
    for (int64_t ky = 0; ky < rows_.kernel; ++ky) {
      for (int64_t kx = 0; kx < columns_.kernel; ++kx) {
        const int64_t row = y * rows_.stride + ky * rows_.dilation - rows_.pad;
        const int64_t column = x * columns_.stride + kx * columns_.dilation - columns_.pad;
        const bool inside = row >= 0 && row < height && column >= 0 && column < width;
        values_.push_back(inside ? image[(c * height + row) * width + column] : 0.0f);
      }
    }
  }
  ++windows_;
}

void SeenInputs::Add(const Tensor& input) {
  // A linear layer is a convolution of images of one pixel.
  const int64_t height = convolution_ ? input.dim(-2) : 1, width = convolution_ ? input.dim(-1) : 1;
  const int64_t image = channels_ * height * width;
  if (image == 0) return;
  const int64_t out_rows = convolution_ ? rows_.Out(height) : 1;
  const int64_t out_columns = convolution_ ? columns_.Out(width) : 1;
  const int64_t all = input.elements() / image * out_rows * out_columns;
  const int64_t taken = std::min(all, most_windows_);
  for (int64_t i = 0; i < taken; ++i) {
    // Half a distance from either end, so that corners are not seen more often than the rest.
    const int64_t place = (2 * i + 1) * all / (2 * taken);
    const int64_t pixel = place % (out_rows * out_columns);
    const float* from = input.data<float>() + place / (out_rows * out_columns) * image;
    AddWindow(from, height, width, pixel / out_columns, pixel % out_columns);
  }
}

std::vector<bool> RoundToOutputs(const Tensor& weight, const SeenInputs& inputs,
                                 QuantizedWeights& rounded) {
  const auto terms = static_cast<size_t>(inputs.terms());
  const size_t rows = rounded.scales.size(), groups = static_cast<size_t>(inputs.groups());
  std::vector<bool> moved(rounded.values.size(), false);
  if (inputs.windows() == 0 || inputs.terms() > kMostRoundedTerms) return moved;
  const std::vector<int8_t> before = rounded.values;
  for (size_t group = 0; group < groups; ++group) {
    const std::vector<double> means = PairMeans(inputs, static_cast<int64_t>(group));
    for (size_t row = group * rows / groups; row < (group + 1) * rows / groups; ++row) {
      RowRounder(weight.span<float>().subspan(row * terms, terms),
                 static_cast<double>(rounded.scales[row]),
                 std::span(rounded.values).subspan(row * terms, terms), means)
          .Run();
    }
  }
  for (size_t i = 0; i < before.size(); ++i) moved[i] = before[i] != rounded.values[i];
  return moved;
}

void MoveToOther(const Tensor& weight, const std::vector<bool>& moved, QuantizedWeights& rounded) {
  const std::span<const float> values = weight.span<float>();
  if (moved.size() != values.size()) {
    throw Error(ErrorCode::kInvalidArgument, "expected an entry for each of " +
                                                 std::to_string(values.size()) + " weights, got " +
                                                 std::to_string(moved.size()));
  }
  const size_t terms = values.size() / rounded.scales.size();
  for (size_t i = 0; i < moved.size(); ++i) {
    if (!moved[i]) continue;
    rounded.values[i] = static_cast<int8_t>(
        OtherNeighbour(static_cast<double>(values[i]),
                       static_cast<double>(rounded.scales[i / terms]), rounded.values[i]));
  }
}

std::string HexOf(const std::vector<bool>& moved) {
  std::string hex((moved.size() + 3) / 4, '0');
  for (size_t i = 0; i < hex.size(); ++i) {
    unsigned digit = 0;
    for (size_t bit = 0; bit < 4 && i * 4 + bit < moved.size(); ++bit) {
      digit |= moved[i * 4 + bit] ? 1u << bit : 0u;
    }
    hex[i] = "0123456789abcdef"[digit];
  }
  return hex;
}

std::optional<std::vector<bool>> MovedOf(std::string_view hex, size_t count) {
  if (hex.size() != (count + 3) / 4) return {};
  std::vector<bool> moved(count, false);
  for (size_t i = 0; i < hex.size(); ++i) {
    const size_t digit = std::string_view("0123456789abcdef").find(hex[i]);
    if (digit == std::string_view::npos) return {};
    for (size_t bit = 0; bit < 4 && i * 4 + bit < count; ++bit) {
      moved[i * 4 + bit] = (digit >> bit & 1) != 0;
    }
  }
  return moved;
}

}  // namespace oort::quantize
