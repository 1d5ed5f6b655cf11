// SPDX-License-Identifier: MIT
// Where quantized weights go.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "llm_quantize/overlay.h"

namespace oort::llm_quantize {

class ModelOutput {
 public:
  virtual ~ModelOutput() = default;
  /// All matrices of that layer are in the overlay, in their final formats.
  virtual void FinishLayer(int64_t layer) = 0;
  /// All that is left; the files appear.
  virtual void Finish() = 0;
};

/// In which format a matrix will be.
using FormatOf = std::function<WeightFormat(const std::string& name)>;

/// llama.cpp's number for "mostly this type".
uint32_t GgufFileType(WeightFormat format);

/// A GGUF from a GGUF, of which it takes over what that says of itself and its tokenizer, or from a
/// folder of Hugging Face. Throws kUnsupported where `model` is neither. Layers leave the overlay
/// when they are written.
std::unique_ptr<ModelOutput> MakeGgufOutput(const std::filesystem::path& model,
                                            const std::filesystem::path& output,
                                            OverlayCheckpoint& weights, const FormatOf& format_of);
/// The same from a folder. Throws kUnsupported where a GGUF cannot say what the model is, or where
/// its tokenizer would give other tokens.
std::unique_ptr<ModelOutput> MakeHubGgufOutput(const std::filesystem::path& folder,
                                               const std::filesystem::path& output,
                                               OverlayCheckpoint& weights,
                                               const FormatOf& format_of);
/// A .param with its .bin.
std::unique_ptr<ModelOutput> MakeParamOutput(const std::filesystem::path& output,
                                             const OverlayCheckpoint& weights);

}  // namespace oort::llm_quantize
