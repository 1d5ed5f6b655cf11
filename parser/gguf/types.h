// SPDX-License-Identifier: MIT
// The types of tensors that a GGUF can hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "weights/weight_format.h"

namespace oort::gguf {

struct TensorType {
  int32_t id = 0;
  std::string_view name;
  int elements = 1;                    ///< of a block; rows are whole blocks
  int bytes = 0;                       ///< of a block
  std::optional<WeightFormat> format;  ///< none: its size is known, but it cannot be read
};

/// Null for numbers that stand for nothing, or for types that were taken back.
const TensorType* FindTensorType(int32_t id);
/// Null for Oort's own formats.
const TensorType* TensorTypeOf(WeightFormat format);

}  // namespace oort::gguf
