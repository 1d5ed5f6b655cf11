// SPDX-License-Identifier: MIT
// What the quantization_config of a config.json says of how weights are stored.
#pragma once

#include <cstdint>

#include "text/json.h"

namespace oort::huggingface {

struct Quantization {
  enum class Kind : unsigned char {
    kNone,
    kGptq,
    kAwq,
    kCompressed,  ///< compressed-tensors: dtypes and shapes of the parts tell the rest
    kFp8,         ///< e4m3 with scales of the matrix, of rows or of blocks
    kMxfp4,       ///< blocks of 32 with a power of two each, as gpt-oss has them
  };
  Kind kind = Kind::kNone;
  int bits = 4;         ///< of GPTQ and AWQ
  int64_t group = 128;  ///< of these: inputs that share a scale; 0: all of them
  /// Zero points are stored less by one, as by the first format of GPTQ.
  bool zero_less_one = false;
  /// Rows and columns of the blocks that share a scale; 0: there are no such blocks.
  int64_t block_rows = 0, block_columns = 0;
};

/// Throws kUnsupported for other methods and widths, and says which can be read.
Quantization ReadQuantization(const json::Object& config);

}  // namespace oort::huggingface
