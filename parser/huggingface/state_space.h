// SPDX-License-Identifier: MIT
// What config.json says of layers with a state.
#pragma once

#include "parser/checkpoint/decoder_config.h"
#include "text/json.h"

namespace oort::huggingface {

/// Nothing of families without such layers. What else is read of the sizes is known by then.
void ReadStateSpace(const json::Object& file, DecoderConfig& config);

}  // namespace oort::huggingface
