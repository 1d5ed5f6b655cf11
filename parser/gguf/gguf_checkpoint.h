// SPDX-License-Identifier: MIT
// From the tensors of a GGUF to those of the llama layout.
#pragma once

#include <string>
#include <vector>

#include "parser/checkpoint/contents.h"
#include "parser/gguf/gguf.h"

namespace oort::gguf {

/// All parts of one model.
CheckpointContents ReadContents(const std::vector<File>& files);

/// What a tensor of a file is in the llama layout: several names where it holds several, one behind
/// the other; none where it is no weight.
std::vector<std::string> NamesOf(const DecoderConfig& config, const File& file,
                                 const TensorEntry& entry);

}  // namespace oort::gguf
