// SPDX-License-Identifier: MIT
// The tensors of a folder that make one packed matrix together: codes, scales, zero points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parser/safetensors/safetensors.h"

namespace oort::huggingface {

struct PackedPart {
  std::shared_ptr<const ByteSource> source;
  safetensors::Entry entry;
};
/// By the last part of their names: qweight, weight_scale, …
using PackedParts = std::map<std::string, PackedPart>;

/// Throws kInvalidModel with the name of the matrix.
[[noreturn]] void FailPacked(const std::string& name, const std::string& message);
const PackedPart& RequirePart(const std::string& name, const PackedParts& parts,
                              const std::string& part);
/// Null where there is none.
const PackedPart* FindPart(const PackedParts& parts, const std::string& part);
/// "(4,8) of BF16", for messages.
std::string ShapeOf(const safetensors::Entry& entry);

std::vector<std::byte> ReadBytes(const PackedPart& part);
std::vector<uint32_t> ReadWords(const PackedPart& part);
/// Numbers of F32, F16, BF16 or F8_E4M3; throws where one is not finite, or for others.
std::vector<float> ReadFinite(const std::string& name, const PackedPart& part);

}  // namespace oort::huggingface
