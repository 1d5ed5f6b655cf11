// SPDX-License-Identifier: MIT
// Weights that GPTQ and AWQ left in a folder of Hugging Face: several codes in each int32, with
// zero points and scales beside them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "parser/checkpoint/tensor_table.h"
#include "parser/safetensors/safetensors.h"
#include "text/json.h"

namespace oort::huggingface {

struct Quantization {
  enum class Kind : unsigned char { kNone, kGptq, kAwq };
  Kind kind = Kind::kNone;
  int bits = 4;
  int64_t group = 128;  ///< inputs that share a scale; 0: all of them
  /// Zero points are stored less by one, as by the first format of GPTQ.
  bool zero_less_one = false;
};

/// What quantization_config of a config.json says. Throws kUnsupported for other methods and
/// widths, and says which can be read.
Quantization ReadQuantization(const json::Object& config);

/// Collects the parts of packed matrices from all files.
class PackedWeights {
 public:
  explicit PackedWeights(const Quantization& quantization) : quantization_(quantization) {}

  /// Whether the entry is a part of one.
  bool Take(const std::shared_ptr<const ByteSource>& source, const safetensors::Entry& entry);
  struct Part {
    std::shared_ptr<const ByteSource> source;
    safetensors::Entry entry;
  };
  /// By name, without the part's own ending: qweight, qzeros, scales, g_idx.
  using Parts = std::map<std::string, Part>;
  const std::map<std::string, Parts>& matrices() const { return matrices_; }
  /// Checks shapes, dtypes and groups; throws kInvalidModel.
  PlacedTensor Place(const std::string& name) const;

 private:
  Quantization quantization_;
  std::map<std::string, Parts> matrices_;
};

}  // namespace oort::huggingface
