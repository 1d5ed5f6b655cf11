// SPDX-License-Identifier: MIT
#include "weights/weight_format.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "core/checked.h"
#include "weights/weight_blocks.h"

namespace oort {
namespace {

constexpr std::string_view kFormatNames[] = {
    "f32",   "f16",   "bf16",  "int8",  "uint8",   "int4",   "uint4", "q4_0",    "q4_1",   "q5_0",
    "q5_1",  "q8_0",  "q2_k",  "q3_k",  "q4_k",    "q5_k",   "q6_k",  "iq4_nl",  "iq4_xs", "mxfp4",
    "tq1_0", "tq2_0", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s"};

constexpr int64_t kLargestGroup = int64_t{1} << 24;

bool IsPlainFloat(WeightFormat format) { return format <= WeightFormat::kBf16; }
bool HasMinimum(WeightFormat format) {
  return format == WeightFormat::kUint8 || format == WeightFormat::kUint4;
}
bool IsFourBits(WeightFormat format) {
  return format == WeightFormat::kInt4 || format == WeightFormat::kUint4;
}

/// The dtype of `data`.
DType DataType(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32: return DType::kF32;
    case WeightFormat::kF16: return DType::kF16;
    case WeightFormat::kBf16: return DType::kBF16;
    case WeightFormat::kInt8: return DType::kI8;
    default: return DType::kU8;
  }
}

void Expect(const Tensor& got, std::string_view what, DType dtype, const Shape& shape) {
  if (got.dtype() == dtype && got.shape() == shape) return;
  throw Error(ErrorCode::kInvalidArgument, "a matrix of weights needs " + std::string(what) +
                                               " of " + Tensor::Meta(dtype, shape).ToString() +
                                               ", but got " +
                                               (got.defined() ? got.ToString() : "none"));
}

void ExpectNone(const Tensor& got, std::string_view what, WeightFormat format) {
  if (!got.defined()) return;
  throw Error(ErrorCode::kInvalidArgument, "weights in " + std::string(Name(format)) + " have no " +
                                               std::string(what) + ", but got " + got.ToString());
}

void CheckScales(const StoredMatrix& matrix) {
  const Tensor& scale = matrix.scale;
  const int64_t groups = scale.rank() == 2 ? scale.dim(1) : 0;
  if (groups < 1 || matrix.columns % groups != 0 ||
      (scale.dtype() != DType::kF16 && scale.dtype() != DType::kF32)) {
    throw Error(ErrorCode::kInvalidArgument,
                "weights in " + std::string(Name(matrix.format)) + " with " +
                    std::to_string(matrix.columns) +
                    " columns need f16 or f32 scales of (rows, groups), with groups of the same "
                    "size, but got " +
                    (scale.defined() ? scale.ToString() : "none"));
  }
  if (matrix.columns / groups > kLargestGroup) {
    throw Error(ErrorCode::kInvalidArgument, "a group of weights has at most " +
                                                 std::to_string(kLargestGroup) + " elements, not " +
                                                 std::to_string(matrix.columns / groups));
  }
  Expect(scale, "scales", scale.dtype(), {matrix.rows, groups});
  if (HasMinimum(matrix.format)) {
    Expect(matrix.minimum, "minimums", scale.dtype(), scale.shape());
  } else {
    ExpectNone(matrix.minimum, "minimums", matrix.format);
  }
}

/// Elements [begin, end) of f16 or f32.
void CopyFloats(const Tensor& from, int64_t begin, int64_t end, float* to) {
  const int64_t count = end - begin;
  if (from.dtype() == DType::kF32) {
    std::copy_n(from.data<float>() + begin, count, to);
  } else {
    const Half* half = from.data<Half>() + begin;
    for (int64_t i = 0; i < count; ++i) to[i] = HalfBitsToFloat(half[i].bits);
  }
}

void ReadNibbles(const uint8_t* from, int64_t count, int offset, int8_t* q) {
  for (int64_t i = 0; i < count / 2; ++i) {
    q[2 * i] = static_cast<int8_t>((from[i] & 15) - offset);
    q[2 * i + 1] = static_cast<int8_t>((from[i] >> 4) - offset);
  }
}

/// The numbers of Oort's own formats, for which layout they are.
void ReadOwn(const StoredMatrix& matrix, int64_t begin, int64_t end, int8_t* q) {
  const int64_t first = begin * matrix.columns, count = (end - begin) * matrix.columns;
  switch (matrix.format) {
    case WeightFormat::kInt8: std::copy_n(matrix.data.data<int8_t>() + first, count, q); return;
    case WeightFormat::kUint8: {
      const uint8_t* from = matrix.data.data<uint8_t>() + first;
      for (int64_t i = 0; i < count; ++i) q[i] = static_cast<int8_t>(from[i] - 128);
      return;
    }
    default: {
      const int offset = matrix.format == WeightFormat::kInt4 ? 8 : 0;
      ReadNibbles(matrix.data.data<uint8_t>() + first / 2, count, offset, q);
    }
  }
}

void ReadFloats(const StoredMatrix& matrix, int64_t begin, int64_t end, float* values) {
  const int64_t first = begin * matrix.columns, last = end * matrix.columns;
  if (matrix.format != WeightFormat::kBf16) return CopyFloats(matrix.data, first, last, values);
  const BFloat16* from = matrix.data.data<BFloat16>() + first;
  for (int64_t i = 0; i < last - first; ++i) values[i] = static_cast<float>(from[i]);
}

void CheckRows(const StoredMatrix& matrix, int64_t begin, int64_t end) {
  if (begin >= 0 && begin <= end && end <= matrix.rows) return;
  throw Error(ErrorCode::kInvalidArgument, "rows [" + std::to_string(begin) + ", " +
                                               std::to_string(end) + ") of a matrix with " +
                                               std::to_string(matrix.rows));
}

}  // namespace

std::string_view Name(WeightFormat format) { return kFormatNames[static_cast<size_t>(format)]; }

std::optional<WeightFormat> WeightFormatNamed(std::string_view name) {
  const auto at = std::find(std::begin(kFormatNames), std::end(kFormatNames), name);
  if (at == std::end(kFormatNames)) return std::nullopt;
  return static_cast<WeightFormat>(at - std::begin(kFormatNames));
}

int64_t RowBytes(WeightFormat format, int64_t columns) {
  const BlockFormat* block = BlockFormatOf(format);
  const int64_t whole = block != nullptr ? block->elements : IsFourBits(format) ? 2 : 1;
  if (columns < 0 || columns % whole != 0) {
    throw Error(ErrorCode::kInvalidArgument, "a row of weights in " + std::string(Name(format)) +
                                                 " has a multiple of " + std::to_string(whole) +
                                                 " elements, not " + std::to_string(columns));
  }
  if (block != nullptr) return CheckedMultiply<int64_t>(columns / whole, block->bytes);
  if (IsFourBits(format)) return columns / 2;
  return CheckedMultiply<int64_t>(columns, static_cast<int64_t>(ItemSize(DataType(format))));
}

void Check(const StoredMatrix& matrix) {
  if (matrix.rows < 0 || matrix.columns < 1) {
    throw Error(ErrorCode::kInvalidArgument, "a matrix of weights has at least one column, not " +
                                                 std::to_string(matrix.rows) + " rows of " +
                                                 std::to_string(matrix.columns));
  }
  const DType dtype = DataType(matrix.format);
  const int64_t items =
      RowBytes(matrix.format, matrix.columns) / static_cast<int64_t>(ItemSize(dtype));
  Expect(matrix.data, "data", dtype, {matrix.rows, items});
  if (IsPlainFloat(matrix.format) || BlockFormatOf(matrix.format) != nullptr) {
    ExpectNone(matrix.scale, "scales", matrix.format);
    ExpectNone(matrix.minimum, "minimums", matrix.format);
  } else {
    CheckScales(matrix);
  }
}

GroupLayout LayoutOf(const StoredMatrix& matrix) {
  if (const BlockFormat* block = BlockFormatOf(matrix.format)) return block->layout;
  if (IsPlainFloat(matrix.format)) return {};
  GroupLayout layout;
  layout.bits = IsFourBits(matrix.format) ? 4 : 8;
  layout.group = static_cast<int>(matrix.columns / std::max<int64_t>(1, matrix.scale.dim(1)));
  layout.has_minimum = HasMinimum(matrix.format);
  layout.is_signed = matrix.format != WeightFormat::kUint4;
  // The minimum of kUint8 moves by 128 steps, and that sum is no f16 number.
  layout.f16_scales = matrix.scale.dtype() == DType::kF16 && matrix.format != WeightFormat::kUint8;
  return layout;
}

void ReadGroups(const StoredMatrix& matrix, int64_t begin, int64_t end, int8_t* q, float* scale,
                float* minimum) {
  CheckRows(matrix, begin, end);
  if (begin == end) return;
  if (const BlockFormat* block = BlockFormatOf(matrix.format)) {
    const int64_t row = RowBytes(matrix.format, matrix.columns);
    block->read(matrix.data.raw() + begin * row, (end - begin) * (matrix.columns / block->elements),
                q, scale, minimum);
    return;
  }
  if (IsPlainFloat(matrix.format)) {
    throw Error(ErrorCode::kInvalidArgument,
                "weights in " + std::string(Name(matrix.format)) + " are not in groups");
  }
  ReadOwn(matrix, begin, end, q);
  const int64_t groups = matrix.scale.dim(1);
  CopyFloats(matrix.scale, begin * groups, end * groups, scale);
  if (!HasMinimum(matrix.format)) return;
  CopyFloats(matrix.minimum, begin * groups, end * groups, minimum);
  if (matrix.format != WeightFormat::kUint8) return;
  for (int64_t i = 0; i < (end - begin) * groups; ++i) minimum[i] += 128 * scale[i];
}

void ReadSteps(const StoredMatrix& matrix, int64_t begin, int64_t end, float* scale,
               float* minimum) {
  CheckRows(matrix, begin, end);
  const BlockFormat* block = BlockFormatOf(matrix.format);
  if (block == nullptr || block->read_steps == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "scales of weights in " + std::string(Name(matrix.format)) + " do not count steps");
  }
  const int64_t row = RowBytes(matrix.format, matrix.columns);
  block->read_steps(matrix.data.raw() + begin * row,
                    (end - begin) * (matrix.columns / block->elements), scale, minimum);
}

void ReadRows(const StoredMatrix& matrix, int64_t begin, int64_t end, float* values) {
  CheckRows(matrix, begin, end);
  if (begin == end) return;
  if (IsPlainFloat(matrix.format)) return ReadFloats(matrix, begin, end, values);
  const GroupLayout layout = LayoutOf(matrix);
  const int64_t groups = matrix.columns / layout.group;
  std::vector<int8_t> q(static_cast<size_t>(matrix.columns));
  std::vector<float> scale(static_cast<size_t>(groups)), minimum(static_cast<size_t>(groups));
  // The numbers of kUint8 are used as they are stored, so that its minimum is not rounded.
  const bool direct = matrix.format == WeightFormat::kUint8;
  for (int64_t row = begin; row < end; ++row) {
    ReadGroups(matrix, row, row + 1, q.data(), scale.data(), minimum.data());
    if (direct) CopyFloats(matrix.minimum, row * groups, (row + 1) * groups, minimum.data());
    for (int64_t g = 0; g < groups; ++g) {
      const float s = scale[static_cast<size_t>(g)];
      const float m = layout.has_minimum ? minimum[static_cast<size_t>(g)] : 0;
      const int8_t* from = q.data() + g * layout.group;
      for (int64_t i = 0; i < layout.group; ++i) {
        const float product = s * static_cast<float>(from[i] + (direct ? 128 : 0));
        *values++ = layout.has_minimum ? product + m : product;
      }
    }
  }
}

}  // namespace oort
