// SPDX-License-Identifier: MIT
// The families of decoders that can be read, and what all members of one have in common.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "parser/checkpoint/decoder_config.h"

namespace oort {

/// What a family's name alone says: kinds of norm and activation, gates, extra norms.
std::optional<DecoderConfig> BeginFamily(std::string_view family);
/// "gemma, gemma2, … and qwen3", for messages.
std::string SupportedFamilies();
/// BeginFamily, or an Error that says which families there are.
DecoderConfig RequireFamily(std::string_view family);

/// Sets what follows from the rest (attention_scale, windows), then throws kInvalidModel unless all
/// numbers can be worked with: positive, not absurdly large, divisible where they must be.
void FinishConfig(DecoderConfig& config);

}  // namespace oort
