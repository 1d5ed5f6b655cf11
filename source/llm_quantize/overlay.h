// SPDX-License-Identifier: MIT
// A checkpoint some of whose weights are others than in its files.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "parser/checkpoint/checkpoint.h"

namespace oort::llm_quantize {

/// The inner checkpoint must outlive it. Thread contract: one thread changes it, while no other
/// reads.
class OverlayCheckpoint final : public Checkpoint {
 public:
  explicit OverlayCheckpoint(const Checkpoint& inner) : inner_(inner) {}

  void SetMatrix(const std::string& name, StoredMatrix matrix) {
    matrices_[name] = std::move(matrix);
  }
  void SetVector(const std::string& name, Tensor vector) { vectors_[name] = std::move(vector); }
  /// Forgets the matrix that was set: memory is for one layer.
  void DropMatrix(std::string_view name) {
    if (const auto at = matrices_.find(name); at != matrices_.end()) matrices_.erase(at);
  }
  bool HasOwnVector(std::string_view name) const { return vectors_.contains(name); }

  const DecoderConfig& config() const override { return inner_.config(); }
  bool Has(std::string_view name) const override { return inner_.Has(name); }
  StoredMatrix Matrix(std::string_view name) const override {
    const auto at = matrices_.find(name);
    return at == matrices_.end() ? inner_.Matrix(name) : at->second;
  }
  Tensor Vector(std::string_view name) const override {
    const auto at = vectors_.find(name);
    return at == vectors_.end() ? inner_.Vector(name) : at->second;
  }
  size_t file_bytes() const override { return inner_.file_bytes(); }
  const TokenizerSource& tokenizer() const override { return inner_.tokenizer(); }
  const std::vector<NamedTemplate>& chat_templates() const override {
    return inner_.chat_templates();
  }
  const std::vector<int32_t>& end_tokens() const override { return inner_.end_tokens(); }

 private:
  const Checkpoint& inner_;
  std::map<std::string, StoredMatrix, std::less<>> matrices_;
  std::map<std::string, Tensor, std::less<>> vectors_;
};

}  // namespace oort::llm_quantize
