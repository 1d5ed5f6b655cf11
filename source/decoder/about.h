// SPDX-License-Identifier: MIT
// What a converted model says of itself, as text.
#pragma once

#include <string>
#include <string_view>

#include "parser/checkpoint/checkpoint.h"
#include "parser/checkpoint/contents.h"

namespace oort {

/// JSON, but for the bytes of the tokenizer and its charsmap.
std::string AboutText(const Checkpoint& checkpoint);
/// Throws kInvalidModel for anything else than AboutText gives.
CheckpointContents ParseAbout(std::string_view text);

}  // namespace oort
