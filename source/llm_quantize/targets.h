// SPDX-License-Identifier: MIT
// Which format each matrix of a language model gets.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "llm_quantize/quantize_language.h"
#include "parser/checkpoint/decoder_config.h"
#include "weights/quantize_weights.h"

namespace oort::llm_quantize {

class Targets {
 public:
  /// Throws kInvalidArgument for weights that there are not, and for groups that they cannot have.
  Targets(const LanguageQuantizeOptions& options, const DecoderConfig& config, bool as_gguf);

  /// Nothing where the matrix stays as it is: with kSmooth each; a table of positions, what has
  /// these bits already, and embeddings and head that have 8 or less; these get 8 bits, since they
  /// are little of the work and much of the answer; and rows that make no whole groups, unless
  /// somebody asked for groups of that size. Rows that make no whole blocks of a K type get the
  /// type that llama.cpp takes then. Rules and what was picked before come first.
  std::optional<QuantizeOptions> For(std::string_view name, const StoredMatrix& from) const;

  /// Throws kInvalidArgument for rules that match none of these names, and for matrices of a recipe
  /// that are none of them.
  void CheckNames(const std::vector<std::string>& names) const;
  /// The types that a matrix of so many columns may get within a budget, the smallest first.
  std::vector<QuantizeOptions> Ladder(int64_t columns) const;
  /// Whether a rule says what becomes of the matrix.
  bool HasRule(std::string_view name) const { return RuleFor(name) != nullptr; }
  void Pick(const std::string& name, const QuantizeOptions& options) {
    picked_[name] = {options.format, options.group};
  }

 private:
  const MatrixType* RuleFor(std::string_view name) const;
  std::optional<QuantizeOptions> Said(const MatrixType& type, const StoredMatrix& from) const;
  QuantizeOptions Usual(std::string_view name) const;

  std::vector<MatrixRule> rules_;
  std::map<std::string, MatrixType, std::less<>> picked_;
  int64_t layer_count_;
  bool tied_head_, as_gguf_;
  bool fused_values_;  ///< values lie in one tensor with queries and keys, and are of their type
  /// Of a mixture: what some matrices of the layers get instead; nothing where all get the same.
  std::optional<WeightFormat> better_;
  bool small_mixture_ = false;  ///< only the first layers get the better type
  QuantizeOptions layers_, tables_;
  bool group_is_given_;
  bool keeps_all_;  ///< nothing is rounded
};

}  // namespace oort::llm_quantize
