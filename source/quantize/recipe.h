// SPDX-License-Identifier: MIT
// Everything that decides how a network is quantized, as one JSON file: written by the tool, edited
// by people, applied again to give the same bytes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quantize/points.h"
#include "quantize/ranges.h"

namespace oort::quantize {

/// Something said of all layers that match: a glob of their names, their type, or both.
struct Rule {
  std::string match, type;
  std::optional<bool> keep_float;
  std::string reason;
  std::optional<Method> method;  ///< of the ranges of what they read

  bool Matches(const Operator& op) const;
};

/// The results for one layer.
struct LayerResult {
  bool quantized = true;
  std::string reason;             ///< why it is float
  std::vector<float> correction;  ///< of its bias
  std::string rounding;           ///< which weights are not the nearest (see adaround.h)
};

/// The results for one operand.
struct TensorResult {
  Range range;
  Grid grid;
};

struct Recipe {
  /// Nothing: the better of percentile and squared error, by what the network answers.
  std::optional<Method> method;
  double percentile = kDefaultPercentile;
  WeightMethod weights = WeightMethod::kMse;
  /// All weights of a layer have one scale, instead of one for each output channel.
  bool one_scale = false;
  /// Ranges reach as far below zero as above, but those of operands without values below zero.
  bool symmetric = false;
  bool bias_correction = true;
  /// What layers read gets its scales row by row while the network runs: nothing is calibrated.
  bool dynamic = false;
  /// Ranges of channels between two layers are made alike (see equalize.h).
  bool equalize = false;
  /// Weights are rounded by what layers give (see adaround.h), if the answers gain by it.
  bool adaround = false;
  /// The factors, by layer; what is here is not found again.
  std::map<std::string, std::vector<float>> equalization;
  std::vector<Rule> rules;  ///< the first that matches and says something counts
  /// What is here is not calibrated again.
  std::map<std::string, TensorResult> tensors;  ///< by operand
  std::map<std::string, LayerResult> layers;    ///< by operator

  /// What rules and results say of a layer: first the rules.
  std::optional<Decision> Decide(const Operator& op) const;
  /// The method of the rules for a layer, if one says so.
  std::optional<Method> MethodFor(const Operator& op) const;
};

/// Throws kInvalidArgument that names a key that is unknown or has a wrong value.
Recipe ParseRecipe(std::string_view text);
std::string RecipeText(const Recipe& recipe);
/// Throws kInvalidArgument for rules that match no layer of `points`, and for results of layers and
/// operands that the graph does not have, all at once.
void CheckRecipe(const Recipe& recipe, const Graph& graph, const Points& points);

}  // namespace oort::quantize
