// SPDX-License-Identifier: MIT
// From the tensors of a GGUF to those of the llama layout.
#pragma once

#include <vector>

#include "parser/checkpoint/contents.h"
#include "parser/gguf/gguf.h"

namespace oort::gguf {

/// All parts of one model.
CheckpointContents ReadContents(const std::vector<File>& files);

}  // namespace oort::gguf
