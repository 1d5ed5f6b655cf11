// SPDX-License-Identifier: MIT
// Matrices that were rounded already, kept in a folder beside the output until all are done, so
// that a run that was stopped goes on where it was.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "llm_quantize/gptq.h"

namespace oort::llm_quantize {

class PartialWork {
 public:
  /// Takes up the folder, or makes it. `key` says all that the results depend on. Throws
  /// kInvalidArgument where the folder was begun with another one.
  PartialWork(std::filesystem::path folder, const std::string& key);

  /// Nothing where that matrix is not there, or not whole, or other than asked for.
  std::optional<RoundedMatrix> Load(const std::string& name, const QuantizeOptions& target,
                                    int64_t rows, int64_t columns) const;
  void Save(const std::string& name, const RoundedMatrix& rounded) const;
  /// When all is written elsewhere.
  void Remove() const;

 private:
  std::filesystem::path folder_;
};

/// A number that differs where the bytes do, for keys.
uint64_t Fingerprint(const void* bytes, size_t count);

}  // namespace oort::llm_quantize
