// SPDX-License-Identifier: MIT
// The operators of a layer with a selective state space (Mamba-2) or a delta rule (Qwen3-Next),
// below the name of its mixer.
#pragma once

#include <string>

#include "decoder/graph_writer.h"
#include "parser/checkpoint/checkpoint.h"

namespace oort {

/// Of what conv_proj gives; the layer's state is that of `index`.
Written ShortConvolution(const Checkpoint& checkpoint, const std::string& name, int64_t index);
/// Of what that gives, and step_proj; a delta rule reads beta_proj, too.
Written StateScan(const Checkpoint& checkpoint, const std::string& name, int64_t index);

}  // namespace oort
