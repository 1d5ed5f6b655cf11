// SPDX-License-Identifier: MIT
// Which format each matrix of a language model gets.
#pragma once

#include <optional>
#include <string_view>

#include "llm_quantize/quantize_language.h"
#include "weights/quantize_weights.h"

namespace oort::llm_quantize {

class Targets {
 public:
  /// Throws kInvalidArgument for weights that there are not, and for groups that they cannot have.
  Targets(const LanguageQuantizeOptions& options, bool as_gguf);

  /// Nothing where the matrix stays as it is: a table of positions, what has these bits already,
  /// and embeddings and head that have 8 or less; these get 8 bits, since they are little of the
  /// work and much of the answer; and rows that make no whole groups, unless somebody asked for
  /// groups of that size. Rows that make no whole blocks of a K type get the type that llama.cpp
  /// takes then.
  std::optional<QuantizeOptions> For(std::string_view name, const StoredMatrix& from) const;

 private:
  QuantizeOptions layers_, tables_;
  bool group_is_given_;
};

}  // namespace oort::llm_quantize
