// SPDX-License-Identifier: MIT
// The graph of the part of a vision-language model that reads pictures.
#pragma once

#include "oort/graph.h"
#include "parser/huggingface/vision.h"

namespace oort {

/// One tile (1, 3, tile, tile) in, a row of embeddings for each of its tokens out. Throws
/// kInvalidModel where tensors are missing or have another shape, and kUnsupported for others that
/// have no place.
Graph BuildVision(const VisionFiles& files);

}  // namespace oort
