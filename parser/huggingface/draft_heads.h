// SPDX-License-Identifier: MIT
// Folders of heads that stand beside the one of a model and guess later tokens (Medusa, Cai et al.
// 2024): config.json with medusa_num_heads, and medusa_lm_head.safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "oort/source.h"
#include "parser/checkpoint/tensor_table.h"

namespace oort {

/// Head i says of what the model's own head reads, in layers and a matrix, which token stands
/// i + 1 places behind the one that is picked next.
struct DraftHeadsFiles {
  static constexpr int64_t kMostHeads = 15;

  int64_t heads = 0;
  int64_t layers = 0;     ///< of a head, before its matrix: each is x + silu(W x + b)
  TensorTable tensors{};  ///< "0.0.linear.weight", "0.0.linear.bias", …, "0.1.weight"
};

/// Whether a folder has such a config.json.
bool IsDraftHeads(const std::filesystem::path& folder);
/// Throws as Checkpoint::Open does. Shapes are checked by who knows the model.
DraftHeadsFiles ReadDraftHeads(const std::filesystem::path& folder);
DraftHeadsFiles ReadDraftHeads(std::string_view config,
                               const std::shared_ptr<const ByteSource>& weights);

}  // namespace oort
