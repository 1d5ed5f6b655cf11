// SPDX-License-Identifier: MIT
// A float network and the grids of its points become a network in which oort.Quantize and
// oort.Dequantize say what is held in bytes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quantize/points.h"
#include "quantize/ranges.h"

namespace oort::quantize {

/// What turns one layer into bytes.
struct LayerForm {
  QuantizedWeights weights;
  std::vector<float> correction;  ///< added to the bias; empty for nothing
  /// By attribute, of layers that have several (see row_layers.h): those have nothing else.
  std::map<std::string, QuantizedWeights> matrices;
};

/// Everything that the bytes of a network depend on besides itself.
struct Numbers {
  bool dynamic = false;            ///< points get their scales row by row while the network runs
  bool symmetric = false;          ///< these without zero points
  std::map<int, Grid> grids;       ///< by operand: all points have one unless they are dynamic
  std::map<int, LayerForm> forms;  ///< by operator: all quantized layers have one
};

/// An attribute with a scale for each output channel, or one for all. Throws kInvalidArgument,
/// naming the layer, where weights are not finite.
QuantizedWeights QuantizeWeights(const Operator& layer, const std::string& attribute,
                                 WeightMethod method, bool one_scale, int threads = 1);

/// The network with bytes, its operators in topological order. Operands keep their names; in front
/// of each use of a point stand oort.Quantize and oort.Dequantize, or oort.DynamicQuantize, and
/// layers become F.conv2d or F.linear behind an oort.Dequantize of their weights. Layers with
/// several matrices become those of a dynamic type, which have bytes as attributes.
Graph IntegerGraph(const Graph& graph, const Points& points, const Numbers& numbers);

}  // namespace oort::quantize
