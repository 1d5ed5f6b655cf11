// SPDX-License-Identifier: MIT
// The container of safetensors: a JSON header, then the tensors without a gap.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "oort/source.h"
#include "weights/weight_format.h"

namespace oort::safetensors {

struct Entry {
  std::string name;
  std::string dtype;                   ///< as the file spells it: "BF16"
  std::optional<WeightFormat> format;  ///< none: its size is known, but it is no weight of ours
  std::vector<int64_t> shape;
  uint64_t offset = 0;  ///< from the start of the file
  uint64_t bytes = 0;
};

/// The tensors of a file in the order of their bytes. Throws kInvalidModel unless the header is
/// sound and the tensors fill the rest of the file exactly.
std::vector<Entry> ReadHeader(const ByteSource& source);

}  // namespace oort::safetensors
