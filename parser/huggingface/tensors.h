// SPDX-License-Identifier: MIT
#pragma once

#include "parser/checkpoint/contents.h"
#include "parser/huggingface/folder.h"

namespace oort::huggingface {

/// Fills the table from model.safetensors or from the files of its index; the config must be there.
void ReadTensors(const Folder& folder, CheckpointContents& contents);
/// The same from one safetensors file.
void ReadSingle(const std::shared_ptr<const ByteSource>& source, CheckpointContents& contents);

}  // namespace oort::huggingface
