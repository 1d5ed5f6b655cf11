// SPDX-License-Identifier: MIT
#pragma once

#include "parser/checkpoint/contents.h"
#include "parser/gguf/gguf.h"

namespace oort::gguf {

/// What the file says of its vocabulary alone, which may be all that it holds.
VocabularySpec ReadVocabulary(const Metadata& metadata);
/// Fills tokenizer, templates and end tokens; the config must be there.
void ReadTokenizer(const Metadata& metadata, CheckpointContents& contents);

}  // namespace oort::gguf
