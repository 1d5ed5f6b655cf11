// SPDX-License-Identifier: MIT
#pragma once

#include "parser/checkpoint/contents.h"
#include "parser/gguf/gguf.h"

namespace oort::gguf {

/// Fills tokenizer, templates and end tokens; the config must be there.
void ReadTokenizer(const Metadata& metadata, CheckpointContents& contents);

}  // namespace oort::gguf
