// SPDX-License-Identifier: MIT
// Language models as .pnnx.param and .pnnx.bin: a graph that knows its tokenizer and templates.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "oort/graph.h"
#include "oort/language_model.h"
#include "oort/pnnx.h"
#include "parser/checkpoint/contents.h"

namespace oort {

struct ConvertedModel {
  Graph graph;
  /// Sizes of the config, tokenizer, templates and end tokens; no table of tensors.
  CheckpointContents about;
};

void WriteConverted(const Checkpoint& checkpoint, const std::filesystem::path& param,
                    const std::filesystem::path& bin, const ConvertOptions& options);

/// Puts into a graph what AboutText says of its model, and the bytes of its tokenizer.
void AddDescription(Graph& graph, std::string_view about, const TokenizerSource& tokenizer);
/// Takes it out again; nothing where there is none. Throws kInvalidModel where it makes no sense.
std::optional<CheckpointContents> TakeDescription(Graph& graph);

/// Whether the file is a .param.
bool LooksConverted(const std::filesystem::path& path);
/// A graph that says nothing of itself is taken for a decoder that pnnx traced (traced.h); its
/// tokenizer may lie beside it as in a folder of Hugging Face. Throws kInvalidModel for graphs that
/// contradict what they say of themselves.
ConvertedModel ReadConverted(const std::filesystem::path& param, const ReadOptions& options);

}  // namespace oort
