// SPDX-License-Identifier: MIT
// Channels between layers get ranges of one size: the layers that make them are divided by a factor
// for each channel, by which those that read them multiply again. The float network answers the
// same.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "quantize/calibrate.h"

namespace oort::quantize {

/// Factors by the name of the first layer whose output channels are divided by them.
using Equalization = std::map<std::string, std::vector<float>>;

/// Layers, by their operators, with nothing between them that factors above 0 would not pass: one
/// after another, or all those around the sums of a residual stream.
struct EqualGroup {
  std::vector<int> makers, readers;  ///< in the order in which they run; neither is empty
  std::vector<int> operands;         ///< that hold the channels
};
/// Of a graph whose layers are nn.Conv2d and nn.Linear, in the order of their first makers.
std::vector<EqualGroup> FindEqualGroups(const Graph& graph);

/// A layer that reads channels, as its weight of shape (out, in, …), or (channels, 1, …) where each
/// channel is multiplied alone.
struct EqualReader {
  const Tensor* weight;
  bool depthwise;
};
/// The factors of channels whose largest magnitudes are `maxima`. They make ranges of channels and
/// of what they are multiplied with alike: sqrt(maxima / weights), or, where all weights are of
/// single channels, which have scales of their own, all maxima alike.
std::vector<float> EqualFactors(std::span<const double> maxima,
                                std::span<const EqualReader> readers);

/// The factors of all groups of which a point holds the channels, from what the samples show.
Equalization FindEqualization(Session& session, const Points& points, const Samples& samples,
                              const std::vector<size_t>& numbers, const Watcher& watcher);

/// The graph with weights divided and multiplied. Throws kInvalidArgument for factors of layers
/// that cannot have them.
Graph Equalized(Graph graph, const Equalization& factors);

}  // namespace oort::quantize
