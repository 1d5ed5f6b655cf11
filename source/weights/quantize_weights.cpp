// SPDX-License-Identifier: MIT
#include "weights/quantize_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "weights/weight_blocks.h"
#include "weights/weight_grid.h"

namespace oort {
namespace {

constexpr float kLargestHalf = 65504;

int OffsetOf(WeightFormat format) { return format == WeightFormat::kInt4 ? 8 : 0; }

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
  if (!CanWriteFormat(options.format)) {
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
  } else if (BlockFormatOf(options.format) != nullptr) {
    to.data = Tensor(DType::kU8, {rows, bytes});
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

void QuantizeRows(const float* values, int64_t begin, int64_t end, StoredMatrix& to,
                  std::span<const float> importance) {
  if (begin < 0 || begin > end || end > to.rows) {
    throw Error(ErrorCode::kInvalidArgument, "rows outside of the matrix");
  }
  const auto all = static_cast<size_t>((end - begin) * to.columns);
  const bool is_half = to.format == WeightFormat::kF16;
  RequireFinite({values, all}, is_half ? kLargestHalf : std::numeric_limits<float>::max());
  if (IsPlain(to.format)) return StorePlain(values, begin, end, to);
  const WeightGrid grid(OptionsOf(to), to.columns);
  const auto columns = static_cast<size_t>(to.columns);
  std::vector<int8_t> codes(columns);
  for (int64_t row = begin; row < end; ++row) {
    const std::span<const float> from(values + (row - begin) * to.columns, columns);
    const RowGrid fitted = grid.Fit(from, importance);
    grid.Round(from, fitted, codes);
    grid.Store(fitted, codes, row, to);
  }
}

QuantizeOptions OptionsOf(const StoredMatrix& matrix) {
  QuantizeOptions options{matrix.format, 1, DType::kF16};
  if (!matrix.scale.defined()) return options;
  options.group = matrix.columns / std::max<int64_t>(1, matrix.scale.dim(1));
  options.scales = matrix.scale.dtype();
  return options;
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
  const int offset = OffsetOf(to.format);
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
