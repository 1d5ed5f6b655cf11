// SPDX-License-Identifier: MIT
// Weights of a folder of Hugging Face that lie there in fewer bits, each matrix in several tensors.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "parser/checkpoint/tensor_table.h"
#include "parser/huggingface/packed_parts.h"
#include "parser/huggingface/quantization.h"

namespace oort::huggingface {

/// Collects the parts of packed matrices from all files.
class PackedWeights {
 public:
  explicit PackedWeights(const Quantization& quantization) : quantization_(quantization) {}

  /// Whether the entry is a part of one, or says how activations were rounded, which nobody reads.
  bool Take(const std::shared_ptr<const ByteSource>& source, const safetensors::Entry& entry);
  const std::map<std::string, PackedParts>& matrices() const { return matrices_; }
  /// Checks shapes, dtypes and groups; throws kInvalidModel.
  PlacedTensor Place(const std::string& name) const;

 private:
  Quantization quantization_;
  std::map<std::string, PackedParts> matrices_;
};

}  // namespace oort::huggingface
