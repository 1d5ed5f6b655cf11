// SPDX-License-Identifier: MIT
// LoRA adapters: matrices of low rank that change a model without a copy of its weights.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "oort/source.h"
#include "oort/tensor.h"

namespace oort {

/// What is added to a weight: up * down.
struct LoraMatrices {
  Tensor down;  ///< f32 (rank, inputs)
  Tensor up;    ///< f32 (outputs, rank), the adapter's scale in it
};

struct LoraAdapter {
  bool is_gguf = false;
  /// By the names of a Checkpoint without their ending: "model.layers.0.self_attn.q_proj".
  std::map<std::string, LoraMatrices, std::less<>> weights;
};

/// A folder of PEFT (adapter_config.json, adapter_model.safetensors), or a GGUF of the type
/// "adapter". Throws kInvalidModel for what is damaged, and kUnsupported for what would change more
/// than products with weights: nothing of it is passed over.
LoraAdapter ReadAdapter(const std::filesystem::path& path);
LoraAdapter ReadPeftAdapter(std::string_view config, const ByteSource& weights);
LoraAdapter ReadGgufAdapter(std::shared_ptr<const ByteSource> source);

}  // namespace oort
