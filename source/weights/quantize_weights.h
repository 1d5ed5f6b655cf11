// SPDX-License-Identifier: MIT
// Weights in fewer bits, row by row: what a conversion stores.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "weights/weight_format.h"

namespace oort {

struct QuantizeOptions {
  WeightFormat format = WeightFormat::kInt8;
  int64_t group = 32;          ///< elements that share a scale; blocks of GGUF have their own
  DType scales = DType::kF16;  ///< or f32; blocks of GGUF have f16
};

/// A matrix of that format whose elements are still to be written.
StoredMatrix AllocateStored(const QuantizeOptions& options, int64_t rows, int64_t columns);

/// The options with which AllocateStored makes such a matrix.
QuantizeOptions OptionsOf(const StoredMatrix& matrix);

/// Writes rows [begin, end) of `to` from f32. Numbers of less than 8 bits get the scale (and
/// minimum) that, of those tried, makes the squared error smallest; `importance`, where it is not
/// empty, says what an error in each column weighs. Throws kInvalidArgument for numbers that are
/// not finite or that the format cannot hold. Rows may be written by several threads.
void QuantizeRows(const float* values, int64_t begin, int64_t end, StoredMatrix& to,
                  std::span<const float> importance = {});

/// How `from` is stored in `options.format` or one that is as small, without another loss: for
/// example Q4_1 as kUint4 where kInt4 was asked for. Nothing where its numbers do not fit.
std::optional<QuantizeOptions> LosslessOptions(const StoredMatrix& from,
                                               const QuantizeOptions& options);

/// Rows [begin, end) of `from`, exactly; `to` was made with what LosslessOptions gave.
void CopyGroups(const StoredMatrix& from, int64_t begin, int64_t end, StoredMatrix& to);

}  // namespace oort
