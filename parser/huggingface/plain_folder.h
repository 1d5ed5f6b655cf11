// SPDX-License-Identifier: MIT
// What readers of models that are not decoders have in common: sizes and activations of
// config.json, and tensors under the names of the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/activation.h"
#include "oort/source.h"
#include "parser/checkpoint/tensor_table.h"
#include "parser/huggingface/folder.h"
#include "text/json.h"

namespace oort::huggingface {

/// The model_type of a folder's config.json; empty where there is none, or none that can be read.
std::string ModelTypeOf(const std::filesystem::path& folder);

/// A number from 1 to `most`; `otherwise` where the file leaves it out.
int64_t SizeIn(const json::Object& file, std::string_view key, std::optional<int64_t> otherwise,
               int64_t most = int64_t{1} << 20);
/// Throws kUnsupported for one that is not known.
Activation ActivationOf(const json::Object& file, std::string_view name);

/// All matrices and vectors of one safetensors file; those whose name ends with `without` are left
/// out.
void ReadPlainFile(const std::shared_ptr<const ByteSource>& source, TensorTable& table,
                   std::string_view without = {});
/// The same of model.safetensors, or of the files of its index.
void ReadPlainTensors(const Folder& folder, TensorTable& table, std::string_view without = {});

}  // namespace oort::huggingface
