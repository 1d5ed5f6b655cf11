// SPDX-License-Identifier: MIT
// How the weights of a matrix lie in a file, in 32 to 1.6 bits, and how to read them without loss.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "oort/tensor.h"

namespace oort {

/// The first seven are Oort's own, plain arrays; the rest are the blocks of GGUF.
enum class WeightFormat : unsigned char {
  kF32,
  kF16,
  kBf16,
  kInt8,   ///< scale * q, q in -128..127
  kUint8,  ///< scale * q + minimum, q in 0..255
  kInt4,   ///< scale * (q - 8), q in 0..15; element 2j in the low half of byte j, 2j+1 in the high
  kUint4,  ///< scale * q + minimum
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIq4Nl,
  kIq4Xs,
  kMxfp4,
  kTq1_0,
  kTq2_0,
  kIq1S,
  kIq1M,
  kIq2Xxs,
  kIq2Xs,
  kIq2S,
  kIq3Xxs,
  kIq3S,
};

/// "f32", "int4", "q4_1", "q4_k": the parameter `format` of operators with such weights.
std::string_view Name(WeightFormat format);
std::optional<WeightFormat> WeightFormatNamed(std::string_view name);

/// How a format reads as groups along a row: value = scale * q + minimum.
struct GroupLayout {
  int bits = 0;  ///< 0: plain floating point, not in groups. 4: q in 0..15 or -8..7; 8: int8
  /// Of 8: how many q needs: 5 are 0..31 with minimums and -16..15 without, 6 are -32..31.
  int used_bits = 8;
  int group = 0;  ///< elements that share a scale; divides the columns
  bool has_minimum = false;
  bool is_signed = true;    ///< of 4 bits: q in -8..7, else 0..15
  bool f16_scales = false;  ///< scales and minimums are f16 numbers: nothing is lost if stored so
  /// Elements of a row whose scales and minimums are small whole numbers of steps, see ReadSteps;
  /// 0 where there are none.
  int span = 0;
  /// Of spans: minimums count steps once this many scales are added to them.
  int middle = 0;
};

/// A matrix of weights (rows: outputs, columns: inputs) as it lies in a file.
struct StoredMatrix {
  WeightFormat format = WeightFormat::kF32;
  int64_t rows = 0;
  int64_t columns = 0;
  /// Elements in (rows, columns) of the format's dtype; u8 (rows, columns / 2) of 4 bits; u8
  /// (rows, bytes of a row) of blocks.
  Tensor data;
  Tensor scale;    ///< f16 or f32 (rows, groups); Oort's own quantized formats only
  Tensor minimum;  ///< like scale; kUint8 and kUint4 only
};

/// Bytes of one row of `columns` elements in `data`; throws if they do not make whole blocks.
int64_t RowBytes(WeightFormat format, int64_t columns);

/// Throws an Error unless shapes and dtypes of the parts agree with format, rows and columns.
void Check(const StoredMatrix& matrix);

GroupLayout LayoutOf(const StoredMatrix& matrix);

/// Rows [begin, end) of a matrix in groups, exactly as the format defines them. q gets
/// (end - begin) * columns, scale and minimum (end - begin) * columns / group elements; minimum may
/// be null where the layout has none. (kUint8 reads as q - 128 with minimum + 128 * scale.)
void ReadGroups(const StoredMatrix& matrix, int64_t begin, int64_t end, int8_t* q, float* scale,
                float* minimum);

/// Of a layout with spans: the steps, of which scales are -128 to 127 times one, and minimums 0 to
/// 255 times another; with minimums scales are 0 to 255 times theirs, too. 256 times a step is an
/// f16 number or too large for one. Each gets (end - begin) * columns / span elements; minimum may
/// be null where the layout has none.
void ReadSteps(const StoredMatrix& matrix, int64_t begin, int64_t end, float* scale,
               float* minimum);

/// Rows [begin, end) as f32, of any format.
void ReadRows(const StoredMatrix& matrix, int64_t begin, int64_t end, float* values);

}  // namespace oort
