// SPDX-License-Identifier: MIT
// The part of a vision-language model that reads pictures: SmolVLM and Idefics3.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/activation.h"
#include "oort/picture.h"
#include "parser/checkpoint/tensor_table.h"
#include "parser/huggingface/folder.h"
#include "text/json.h"

namespace oort {

struct VisionConfig {
  int64_t hidden = 0, heads = 0, layers = 0, intermediate = 0;
  int64_t patch = 0;      ///< pixels of a patch's side
  int64_t positions = 0;  ///< learned ones along a side
  int64_t merged = 1;     ///< so many patches along a side become one token
  Activation activation = Activation::kGeluTanh;
  float epsilon = 1e-6F;
  int64_t output = 0;  ///< elements of a token's row: the hidden size of the language model
  PictureFormat format;

  int64_t patches() const { return format.tile / patch; }  ///< along a side
};

struct VisionFiles {
  VisionConfig config;
  TensorTable tensors;  ///< under the names of the file
};

namespace huggingface {

/// Whether a tensor of that name belongs to the part that reads pictures.
bool IsOfVision(std::string_view name);
/// The config of the language model in that of a vision-language model; others are what they are.
json::Json LanguageConfig(const json::Json& config);
/// What config.json and the processor's file say of pictures. Throws kNotFound where the latter is
/// missing, and kInvalidModel or kUnsupported for what cannot be computed.
VisionConfig ReadVisionConfig(const Folder& folder, const json::Object& config,
                              const DecoderConfig& language);

}  // namespace huggingface
}  // namespace oort
