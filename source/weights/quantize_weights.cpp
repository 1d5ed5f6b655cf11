// SPDX-License-Identifier: MIT
#include "weights/quantize_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "weights/weight_blocks.h"

namespace oort {
namespace {

constexpr int kTrials = 9;          // to either side of the first guess
constexpr float kTrialStep = 0.1F;  // of the largest number that is stored
constexpr float kLargestHalf = 65504;

/// The numbers q that a format stores: [least, most], and what is added when they are written.
struct CodeRange {
  int least, most, offset;
};
CodeRange CodesOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kInt8: return {-127, 127, 0};
    case WeightFormat::kUint8: return {0, 255, 0};
    case WeightFormat::kInt4: return {-8, 7, 8};
    default: return {0, 15, 0};
  }
}

/// A group as scale * q + minimum.
struct GroupFit {
  float scale = 0, minimum = 0;
};

float RoundTo(DType dtype, float x) {
  return dtype == DType::kF16 ? static_cast<float>(Half(x)) : x;
}

int CodeOf(float x, const GroupFit& fit, const CodeRange& codes) {
  if (fit.scale == 0) return std::clamp(0, codes.least, codes.most);
  const float q = std::nearbyint((x - fit.minimum) / fit.scale);
  return static_cast<int>(
      std::clamp(q, static_cast<float>(codes.least), static_cast<float>(codes.most)));
}

/// Finds the scale of one group after the other.
class GroupFitter {
 public:
  GroupFitter(WeightFormat format, DType scales)
      : codes_(CodesOf(format)),
        scales_(scales),
        symmetric_(format == WeightFormat::kInt8 || format == WeightFormat::kInt4),
        search_(codes_.most <= 15) {}

  GroupFit Fit(std::span<const float> x) const {
    const auto [low, high] = std::minmax_element(x.begin(), x.end());
    return symmetric_ ? FitScale(x, *low, *high) : FitBoth(x, *low, *high);
  }
  const CodeRange& codes() const { return codes_; }

 private:
  GroupFit Rounded(GroupFit fit) const {
    return {RoundTo(scales_, fit.scale), RoundTo(scales_, fit.minimum)};
  }

  double ErrorOf(std::span<const float> x, const GroupFit& fit) const {
    double error = 0;
    for (const float value : x) {
      const auto q = static_cast<float>(CodeOf(value, fit, codes_));
      const double difference = static_cast<double>(value - (fit.scale * q + fit.minimum));
      error += difference * difference;
    }
    return error;
  }

  void Try(std::span<const float> x, const GroupFit& candidate, GroupFit& best,
           double& error) const {
    const GroupFit fit = Rounded(candidate);
    if (!std::isfinite(fit.scale) || !std::isfinite(fit.minimum)) return;
    const double candidate_error = ErrorOf(x, fit);
    if (candidate_error >= error) return;
    error = candidate_error;
    best = fit;
  }

  /// The number that is farthest from zero is stored as the one that is, or nearly so.
  GroupFit FitScale(std::span<const float> x, float low, float high) const {
    const float far = -low > high ? low : high;
    if (far == 0) return {};
    if (!search_) return Rounded({std::abs(far) / static_cast<float>(codes_.most), 0});
    GroupFit best;
    double error = ErrorOf(x, best);
    for (const int extreme : {codes_.least, codes_.most}) {
      for (int trial = -kTrials; trial <= kTrials; ++trial) {
        const float code = static_cast<float>(extreme) + kTrialStep * static_cast<float>(trial);
        const GroupFit guess{far / code, 0};
        Try(x, guess, best, error);
        Try(x, Refined(x, guess), best, error);
      }
    }
    return best;
  }

  GroupFit FitBoth(std::span<const float> x, float low, float high) const {
    if (low == high) return Rounded({0, low});
    const auto most = static_cast<float>(codes_.most);
    const GroupFit plain{(high - low) / most, low};
    if (!search_) return Rounded(plain);
    GroupFit best = Rounded(plain);
    double error = ErrorOf(x, best);
    for (int trial = -kTrials; trial <= kTrials; ++trial) {
      const GroupFit guess{(high - low) / (most + kTrialStep * static_cast<float>(trial)), low};
      Try(x, guess, best, error);
      Try(x, Refined(x, guess), best, error);
    }
    return best;
  }

  /// The best scale (and minimum) for the numbers that a guess gives: least squares.
  GroupFit Refined(std::span<const float> x, const GroupFit& guess) const {
    double n = 0, sum_q = 0, sum_qq = 0, sum_x = 0, sum_xq = 0;
    for (const float value : x) {
      const double q = CodeOf(value, guess, codes_);
      n += 1;
      sum_q += q;
      sum_qq += q * q;
      sum_x += static_cast<double>(value);
      sum_xq += static_cast<double>(value) * q;
    }
    if (symmetric_) {
      return sum_qq == 0 ? guess : GroupFit{static_cast<float>(sum_xq / sum_qq), 0};
    }
    const double determinant = n * sum_qq - sum_q * sum_q;
    if (determinant == 0) return guess;
    const double scale = (n * sum_xq - sum_q * sum_x) / determinant;
    return {static_cast<float>(scale), static_cast<float>((sum_x - scale * sum_q) / n)};
  }

  CodeRange codes_;
  DType scales_;
  bool symmetric_, search_;
};

bool IsPlain(WeightFormat format) { return format <= WeightFormat::kBf16; }

void RequireFinite(std::span<const float> values, float most) {
  for (const float x : values) {
    if (std::abs(x) <= most) continue;  // false for NaN
    throw Error(ErrorCode::kInvalidArgument,
                "a weight is " + std::to_string(x) + ", which the format cannot hold");
  }
}

void StoreScale(Tensor& scales, int64_t at, float value) {
  if (scales.dtype() == DType::kF32) {
    scales.data<float>()[at] = value;
    return;
  }
  scales.data<Half>()[at] = Half(value);
  if (std::isfinite(static_cast<float>(scales.data<Half>()[at]))) return;
  throw Error(ErrorCode::kInvalidArgument,
              "the weights are too large for f16 scales: store the scales as f32");
}

/// One number of 4 or 8 bits; two of 4 share a byte, which must be 0 before.
void StoreCode(StoredMatrix& to, int64_t at, int code) {
  const bool four = to.format == WeightFormat::kInt4 || to.format == WeightFormat::kUint4;
  auto* bytes = reinterpret_cast<uint8_t*>(to.data.raw());
  if (four) {
    bytes[at / 2] = static_cast<uint8_t>(bytes[at / 2] | code << (4 * (at % 2)));
  } else {
    bytes[at] = static_cast<uint8_t>(code);
  }
}

void ClearRow(StoredMatrix& to, int64_t row) {
  const int64_t bytes = RowBytes(to.format, to.columns);
  std::fill_n(to.data.raw() + row * bytes, bytes, std::byte{0});
}

void StorePlain(const float* values, int64_t begin, int64_t end, StoredMatrix& to) {
  const int64_t first = begin * to.columns, count = (end - begin) * to.columns;
  for (int64_t i = 0; i < count; ++i) {
    if (to.format == WeightFormat::kF32) {
      to.data.data<float>()[first + i] = values[i];
    } else if (to.format == WeightFormat::kF16) {
      to.data.data<Half>()[first + i] = Half(values[i]);
    } else {
      to.data.data<BFloat16>()[first + i] = BFloat16(values[i]);
    }
  }
}

}  // namespace

StoredMatrix AllocateStored(const QuantizeOptions& options, int64_t rows, int64_t columns) {
  if (BlockFormatOf(options.format) != nullptr) {
    throw Error(ErrorCode::kUnsupported,
                "weights cannot be written as " + std::string(Name(options.format)));
  }
  StoredMatrix to{options.format, rows, columns, {}, {}, {}};
  const int64_t bytes = RowBytes(options.format, columns);
  if (IsPlain(options.format)) {
    const DType dtype = options.format == WeightFormat::kF32   ? DType::kF32
                        : options.format == WeightFormat::kF16 ? DType::kF16
                                                               : DType::kBF16;
    to.data = Tensor(dtype, {rows, columns});
  } else {
    if (options.group < 1 || columns % options.group != 0) {
      throw Error(ErrorCode::kInvalidArgument, "rows of " + std::to_string(columns) +
                                                   " weights are no whole groups of " +
                                                   std::to_string(options.group));
    }
    const DType dtype = options.format == WeightFormat::kInt8 ? DType::kI8 : DType::kU8;
    const Shape groups{rows, columns / options.group};
    to.data = Tensor(dtype, {rows, bytes});
    to.scale = Tensor(options.scales, groups);
    const bool both =
        options.format == WeightFormat::kUint8 || options.format == WeightFormat::kUint4;
    if (both) to.minimum = Tensor(options.scales, groups);
  }
  Check(to);
  return to;
}

void QuantizeRows(const float* values, int64_t begin, int64_t end, StoredMatrix& to) {
  if (begin < 0 || begin > end || end > to.rows) {
    throw Error(ErrorCode::kInvalidArgument, "rows outside of the matrix");
  }
  const auto all = static_cast<size_t>((end - begin) * to.columns);
  const bool is_half = to.format == WeightFormat::kF16;
  RequireFinite({values, all}, is_half ? kLargestHalf : std::numeric_limits<float>::max());
  if (IsPlain(to.format)) return StorePlain(values, begin, end, to);
  const GroupFitter fitter(to.format, to.scale.dtype());
  const int64_t groups = to.scale.dim(1), group = to.columns / groups;
  for (int64_t row = begin; row < end; ++row) {
    ClearRow(to, row);
    for (int64_t g = 0; g < groups; ++g) {
      const float* from = values + (row - begin) * to.columns + g * group;
      const GroupFit fit = fitter.Fit({from, static_cast<size_t>(group)});
      StoreScale(to.scale, row * groups + g, fit.scale);
      if (to.minimum.defined()) StoreScale(to.minimum, row * groups + g, fit.minimum);
      for (int64_t i = 0; i < group; ++i) {
        StoreCode(to, row * to.columns + g * group + i,
                  CodeOf(from[i], fit, fitter.codes()) + fitter.codes().offset);
      }
    }
  }
}

std::optional<QuantizeOptions> LosslessOptions(const StoredMatrix& from,
                                               const QuantizeOptions& options) {
  const GroupLayout layout = LayoutOf(from);
  if (layout.bits == 0 || from.format == WeightFormat::kUint8) return std::nullopt;
  if (options.group < 1 || layout.group % options.group != 0) return std::nullopt;
  const bool four = options.format == WeightFormat::kInt4 || options.format == WeightFormat::kUint4;
  const bool eight =
      options.format == WeightFormat::kInt8 || options.format == WeightFormat::kUint8;
  if ((!four && !eight) || (four && layout.bits == 8)) return std::nullopt;
  QuantizeOptions exact = options;
  if (four) {
    exact.format = layout.has_minimum ? WeightFormat::kUint4 : WeightFormat::kInt4;
  } else {
    exact.format = layout.has_minimum ? WeightFormat::kUint8 : WeightFormat::kInt8;
  }
  if (!layout.f16_scales) exact.scales = DType::kF32;
  return exact;
}

void CopyGroups(const StoredMatrix& from, int64_t begin, int64_t end, StoredMatrix& to) {
  const GroupLayout layout = LayoutOf(from);
  const int64_t from_groups = from.columns / layout.group, groups = to.scale.dim(1);
  const int64_t repeat = groups / std::max<int64_t>(1, from_groups);
  std::vector<int8_t> q(static_cast<size_t>(from.columns));
  std::vector<float> scale(static_cast<size_t>(from_groups)), minimum(scale.size());
  const int offset = CodesOf(to.format).offset;
  for (int64_t row = begin; row < end; ++row) {
    ReadGroups(from, row, row + 1, q.data(), scale.data(), minimum.data());
    ClearRow(to, row);
    for (int64_t i = 0; i < from.columns; ++i) {
      StoreCode(to, row * to.columns + i, q[static_cast<size_t>(i)] + offset);
    }
    for (int64_t g = 0; g < groups; ++g) {
      const auto source = static_cast<size_t>(g / repeat);
      StoreScale(to.scale, row * groups + g, scale[source]);
      if (to.minimum.defined()) StoreScale(to.minimum, row * groups + g, minimum[source]);
    }
  }
}

}  // namespace oort
