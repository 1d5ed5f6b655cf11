// SPDX-License-Identifier: MIT
// What the readers of the file formats find, before it becomes a Checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "oort/source.h"
#include "parser/checkpoint/checkpoint.h"
#include "parser/checkpoint/tensor_table.h"
#include "parser/checkpoint/tokenizer_source.h"

namespace oort {

struct VisionFiles;  // parser/huggingface/vision.h

struct CheckpointContents {
  DecoderConfig config;
  TensorTable tensors;
  TokenizerSource tokenizer;
  std::vector<NamedTemplate> templates;
  std::vector<int32_t> end_tokens;
  uint64_t file_bytes = 0;
  std::shared_ptr<VisionFiles> vision;  ///< of models that read pictures
};

/// Adds a token that ends an answer, once. One that the vocabulary does not have ends nothing.
void AddEndToken(CheckpointContents& contents, int64_t token);

/// Throws kInvalidModel unless the text is UTF-8.
void RequireUtf8(std::string_view text, std::string_view what);

// One for each format, in the folder of its name.
CheckpointContents ReadGguf(const std::filesystem::path& path);
CheckpointContents ReadHuggingFace(const std::filesystem::path& folder);
/// What a folder of Hugging Face has beside the weights: tokenizer, templates, end tokens (below
/// contents.config.vocabulary), family and context (0 if unknown). All may be absent. Returns the
/// sliding window that config.json names, 0 for none.
int64_t ReadCompanions(const std::filesystem::path& folder, CheckpointContents& contents);
bool LooksLikeLlama2c(const ByteSource& source);
CheckpointContents ReadLlama2c(const std::filesystem::path& path);
CheckpointContents ReadLlama2c(const std::shared_ptr<const ByteSource>& source);

}  // namespace oort
