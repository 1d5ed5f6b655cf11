// SPDX-License-Identifier: MIT
// Matrices of compressed-tensors, FP8 and MXFP4: what their parts are like says how they are read.
#pragma once

#include <string>

#include "parser/checkpoint/tensor_table.h"
#include "parser/huggingface/packed_parts.h"
#include "parser/huggingface/quantization.h"

namespace oort::huggingface {

/// Integers become int8 or int4 in groups, FP4 becomes blocks of MXFP4 or int8 in groups of 16; FP8
/// becomes f32, since there are no kernels for it. Checks shapes, dtypes and groups; throws
/// kInvalidModel.
PlacedTensor PlaceScaled(const std::string& name, const PackedParts& parts,
                         const Quantization& quantization);

}  // namespace oort::huggingface
