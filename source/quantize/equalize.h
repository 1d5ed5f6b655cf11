// SPDX-License-Identifier: MIT
// Channels between two layers get ranges of one size: the first layer is divided by a factor for
// each of its channels, by which the second multiplies again. The float network answers the same.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "quantize/calibrate.h"

namespace oort::quantize {

/// Factors by the name of the layer whose output channels are divided by them.
using Equalization = std::map<std::string, std::vector<float>>;

/// Two layers, by their operators, and nothing between them that factors above 0 would not pass.
struct EqualPair {
  int first = -1, second = -1;
};
/// Of a graph whose layers are nn.Conv2d and nn.Linear.
std::vector<EqualPair> FindEqualPairs(const Graph& graph);

/// The factors of channels whose largest magnitudes are `maxima`, in front of weights of this shape
/// (out, in, …), or (channels, 1, …) where each channel is multiplied alone. They make ranges of
/// channels and of what they are multiplied with alike: sqrt(maxima / weights), or, since weights
/// of single channels have scales of their own, all maxima alike.
std::vector<float> EqualFactors(std::span<const double> maxima, const Tensor& weight,
                                bool depthwise);

/// The factors of all pairs whose second layer reads a point, from what the samples show.
Equalization FindEqualization(Session& session, const Points& points, const Samples& samples,
                              const std::vector<size_t>& numbers, const Watcher& watcher);

/// The graph with weights divided and multiplied. Throws kInvalidArgument for factors of layers
/// that cannot have them.
Graph Equalized(Graph graph, const Equalization& factors);

}  // namespace oort::quantize
