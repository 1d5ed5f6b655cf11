// SPDX-License-Identifier: MIT
// Everything that decides what the matrices of a language model become, as one JSON file: written
// by the tool, edited by people, applied again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weights/weight_format.h"

namespace oort::llm_quantize {

/// What a matrix becomes; no format: it stays as it is.
struct MatrixType {
  std::optional<WeightFormat> format;
  int64_t group = 0;  ///< of Oort's own formats: weights that share a scale; 0: 32

  friend bool operator==(const MatrixType&, const MatrixType&) = default;
};

/// Something said of all matrices whose names match.
struct MatrixRule {
  std::string match;  ///< as "model.layers.0.*" or "*.down_proj.weight"
  MatrixType type;

  friend bool operator==(const MatrixRule&, const MatrixRule&) = default;
};

struct LanguageRecipe {
  std::string weights, method;  ///< as the options of the same names; "": nothing is said
  std::optional<int64_t> group, tokens, window;
  std::optional<double> budget, damping;
  std::optional<bool> asymmetric, file_order;
  std::vector<MatrixRule> rules;               ///< the first that matches counts
  std::map<std::string, MatrixType> matrices;  ///< what an earlier run picked, by name

  friend bool operator==(const LanguageRecipe&, const LanguageRecipe&) = default;
};

/// Throws kInvalidArgument that names a key that is unknown or has a wrong value.
LanguageRecipe ParseLanguageRecipe(std::string_view text);
std::string LanguageRecipeText(const LanguageRecipe& recipe);

}  // namespace oort::llm_quantize
