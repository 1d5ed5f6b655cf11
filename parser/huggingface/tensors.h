// SPDX-License-Identifier: MIT
#pragma once

#include "parser/checkpoint/contents.h"
#include "parser/huggingface/config.h"
#include "parser/huggingface/folder.h"
#include "parser/huggingface/quantization.h"

namespace oort::huggingface {

/// Fills the table from model.safetensors or from the files of its index; the config must be there.
void ReadTensors(const Folder& folder, const Quantization& quantization,
                 CheckpointContents& contents);
/// The same from one safetensors file.
void ReadSingle(const std::shared_ptr<const ByteSource>& source, CheckpointContents& contents,
                const Quantization& quantization = {});
/// Throws an Error of all biases that the model should not have.
void CheckBiases(const Biases& biases, const TensorTable& table, const std::string& folder);

}  // namespace oort::huggingface
