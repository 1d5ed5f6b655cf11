// SPDX-License-Identifier: MIT
#include "weights/weight_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "weights/weight_blocks.h"
#include "weights/write_blocks.h"

namespace oort {
namespace {

constexpr int kMostSteps = 63;    // that a scale or minimum of Q4_K and Q5_K counts
constexpr int kLeastStep = -128;  // that a scale of Q6_K counts

bool IsFour(WeightFormat format) {
  return format == WeightFormat::kInt4 || format == WeightFormat::kUint4;
}

CodeRange CodesFor(WeightFormat format) {
  switch (format) {
    case WeightFormat::kInt8:
    case WeightFormat::kQ8_0: return {-127, 127, 0};
    case WeightFormat::kUint8: return {0, 255, 0};
    case WeightFormat::kInt4: return {-8, 7, 8};
    case WeightFormat::kQ4_0: return {-8, 7, 0};
    case WeightFormat::kQ5_0: return {-16, 15, 0};
    case WeightFormat::kQ5_1:
    case WeightFormat::kQ5K: return {0, 31, 0};
    case WeightFormat::kQ6K: return {-32, 31, 0};
    default: return {0, 15, 0};
  }
}

bool HasMinimums(WeightFormat format) {
  if (const BlockFormat* block = BlockFormatOf(format)) return block->layout.has_minimum;
  return format == WeightFormat::kUint8 || format == WeightFormat::kUint4;
}

float HalfOf(float x) { return static_cast<float>(Half(x)); }

void RequireHalf(float x) {
  if (std::isfinite(HalfOf(x))) return;
  throw Error(ErrorCode::kInvalidArgument,
              "the weights are too large for f16 scales: store the scales as f32");
}

/// A fit that was rounded to what is stored may be infinite.
GroupFit RequireStorable(const GroupFit& fit) {
  RequireHalf(std::isfinite(fit.scale) ? 0 : fit.scale);
  RequireHalf(std::isfinite(fit.minimum) ? 0 : fit.minimum);
  return fit;
}

void StoreFloat(Tensor& to, int64_t at, float value) {
  if (to.dtype() == DType::kF32) {
    to.data<float>()[at] = value;
    return;
  }
  RequireHalf(value);
  to.data<Half>()[at] = Half(value);
}

}  // namespace

bool CanWriteFormat(WeightFormat format) {
  return BlockFormatOf(format) == nullptr || CanWriteBlocks(format);
}

WeightGrid::WeightGrid(const QuantizeOptions& options, int64_t columns)
    : format_(options.format), columns_(columns), group_(options.group) {
  const BlockFormat* block = BlockFormatOf(format_);
  if (format_ <= WeightFormat::kBf16 || (block != nullptr && !CanWriteBlocks(format_))) {
    throw Error(ErrorCode::kUnsupported,
                "weights cannot be written as " + std::string(Name(format_)));
  }
  RowBytes(format_, columns);  // throws unless it is whole blocks
  if (block != nullptr) {
    group_ = block->layout.group;
    span_ = block->layout.span;
  }
  if (group_ < 1 || columns % group_ != 0) {
    throw Error(ErrorCode::kInvalidArgument, "rows of " + std::to_string(columns) +
                                                 " weights are no whole groups of " +
                                                 std::to_string(group_));
  }
  rules_.codes = CodesFor(format_);
  rules_.symmetric = !HasMinimums(format_);
  rules_.search = rules_.codes.most - rules_.codes.least < 128;
  rules_.falling_minimum = span_ != 0;
  if (span_ == 0) rules_.stored = block != nullptr ? DType::kF16 : options.scales;
}

RowGrid WeightGrid::Fit(std::span<const float> row, std::span<const float> importance) const {
  RowGrid grid;
  const auto part = [](std::span<const float> all, int64_t at, int64_t count) {
    if (all.empty()) return all;
    return all.subspan(static_cast<size_t>(at), static_cast<size_t>(count));
  };
  if (span_ != 0) {
    for (int64_t at = 0; at < columns_; at += span_) {
      FitSpan(part(row, at, span_), part(importance, at, span_), grid);
    }
    return grid;
  }
  for (int64_t at = 0; at < columns_; at += group_) {
    grid.groups.push_back(
        RequireStorable(FitGroup(part(row, at, group_), part(importance, at, group_), rules_)));
  }
  return grid;
}

/// First each group for itself, then the steps that all of them count, then how many each counts.
void WeightGrid::FitSpan(std::span<const float> x, std::span<const float> importance,
                         RowGrid& grid) const {
  const auto count = static_cast<size_t>(span_ / group_), size = static_cast<size_t>(group_);
  const auto part = [&](std::span<const float> all, size_t g) {
    return all.empty() ? all : all.subspan(g * size, size);
  };
  std::vector<GroupFit> fits;
  float most = 0, most_minimum = 0;
  for (size_t g = 0; g < count; ++g) {
    fits.push_back(RequireStorable(FitGroup(part(x, g), part(importance, g), rules_)));
    if (std::abs(fits[g].scale) > std::abs(most)) most = fits[g].scale;
    most_minimum = std::max(most_minimum, -fits[g].minimum);
  }
  const int least_count = rules_.symmetric ? kLeastStep : 0;
  const int most_count = rules_.symmetric ? -kLeastStep - 1 : kMostSteps;
  // A signed count reaches one step farther below zero than above.
  const float step = HalfOf(most / static_cast<float>(rules_.symmetric ? kLeastStep : kMostSteps));
  const float minimum_step = HalfOf(most_minimum / static_cast<float>(kMostSteps));
  RequireHalf(step);
  RequireHalf(minimum_step);
  grid.step.push_back(step);
  grid.minimum_step.push_back(minimum_step);
  const auto nearest = [](float value, float unit, int least, int top) {
    if (unit == 0) return 0;
    return static_cast<int>(std::clamp(std::nearbyint(value / unit), static_cast<float>(least),
                                       static_cast<float>(top)));
  };
  for (size_t g = 0; g < count; ++g) {
    const int scale = nearest(fits[g].scale, step, least_count, most_count);
    const int minimum = nearest(-fits[g].minimum, minimum_step, 0, kMostSteps);
    double error = std::numeric_limits<double>::infinity();
    GroupFit best;
    int best_scale = 0, best_minimum = 0;
    for (int s = std::max(least_count, scale - 1); s <= std::min(most_count, scale + 1); ++s) {
      const int last = rules_.symmetric ? minimum : std::min(kMostSteps, minimum + 1);
      for (int m = std::max(0, minimum - 1); m <= last; ++m) {
        const GroupFit fit{step * static_cast<float>(s), -(minimum_step * static_cast<float>(m))};
        const double here = FitError(part(x, g), part(importance, g), fit, rules_.codes);
        if (here >= error) continue;
        error = here;
        best = fit;
        best_scale = s;
        best_minimum = m;
      }
    }
    if (rules_.symmetric) best.minimum = 0;
    grid.groups.push_back(best);
    grid.scale_count.push_back(best_scale);
    grid.minimum_count.push_back(best_minimum);
  }
}

void WeightGrid::Round(std::span<const float> row, const RowGrid& grid,
                       std::span<int8_t> codes) const {
  for (size_t i = 0; i < row.size(); ++i) {
    const GroupFit& fit = grid.groups[i / static_cast<size_t>(group_)];
    codes[i] = static_cast<int8_t>(NearestCode(row[i], fit, rules_.codes));
  }
}

void WeightGrid::StoreGroups(const RowGrid& grid, std::span<const int8_t> codes, int64_t row,
                             StoredMatrix& to) const {
  const auto groups = static_cast<int64_t>(grid.groups.size());
  for (int64_t g = 0; g < groups; ++g) {
    const GroupFit& fit = grid.groups[static_cast<size_t>(g)];
    StoreFloat(to.scale, row * groups + g, fit.scale);
    if (to.minimum.defined()) StoreFloat(to.minimum, row * groups + g, fit.minimum);
  }
  const int64_t bytes = RowBytes(format_, columns_);
  auto* out = reinterpret_cast<uint8_t*>(to.data.raw()) + row * bytes;
  const auto stored = [&](int64_t i) {
    return static_cast<uint8_t>(codes[static_cast<size_t>(i)] + rules_.codes.offset);
  };
  for (int64_t i = 0; i < bytes; ++i) {
    out[i] =
        IsFour(format_) ? static_cast<uint8_t>(stored(2 * i) | stored(2 * i + 1) << 4) : stored(i);
  }
}

void WeightGrid::Store(const RowGrid& grid, std::span<const int8_t> codes, int64_t row,
                       StoredMatrix& to) const {
  const BlockFormat* block = BlockFormatOf(format_);
  if (block == nullptr) return StoreGroups(grid, codes, row, to);
  std::byte* out = to.data.raw() + row * RowBytes(format_, columns_);
  const auto blocks = static_cast<size_t>(columns_ / block->elements);
  const auto elements = static_cast<size_t>(block->elements);
  const size_t groups = elements / static_cast<size_t>(group_);
  for (size_t b = 0; b < blocks; ++b) {
    BlockParts parts;
    parts.codes = codes.data() + b * elements;
    if (span_ != 0) {
      parts.scale = grid.step[b];
      parts.minimum = grid.minimum_step[b];
      parts.scale_counts = grid.scale_count.data() + b * groups;
      parts.minimum_counts = grid.minimum_count.data() + b * groups;
    } else {
      parts.scale = grid.groups[b].scale;
      parts.minimum = grid.groups[b].minimum;
      RequireHalf(parts.scale);
      RequireHalf(parts.minimum);
    }
    WriteBlock(format_, parts, out + b * static_cast<size_t>(block->bytes));
  }
}

}  // namespace oort
