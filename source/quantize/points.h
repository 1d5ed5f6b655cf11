// SPDX-License-Identifier: MIT
// Which operands of a network are held in bytes, which of them share a scale, and who reads them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "oort/graph.h"

namespace oort::quantize {

/// A convolution, a linear operator or, of dynamic networks, another with weights of its own.
struct Layer {
  int op = -1;            ///< index into Graph::operators
  int input = -1;         ///< the operand that it multiplies
  int output = -1;        ///< what the last operator makes that runs with it: a sum, an activation
  std::string why_float;  ///< empty where it is quantized

  bool quantized() const { return why_float.empty(); }
};

/// An input of an operator.
struct Use {
  int op = -1;
  size_t at = 0;
};

/// Thread contract: plain data.
struct Points {
  std::vector<Layer> layers;  ///< in topological order
  /// By operand: the class whose scale and zero point it has; -1 where it stays float.
  std::vector<int> class_of;
  /// The operands of each class. Passive operators (pooling by maxima, reshaping, …) give what
  /// they are given, so that their results are of the class of their inputs; so are all that
  /// torch.cat joins.
  std::vector<std::vector<int>> classes;
  /// Whether values of an operand say something new of its class: no passive operator made it.
  std::vector<bool> source;
  std::vector<Use> uses;  ///< who reads bytes

  size_t QuantizedLayers() const;
};

/// What is decided from outside of one layer: nothing, or whether it stays float, and why.
struct Decision {
  bool keep_float = false;
  std::string reason;
};
using Decide = std::function<std::optional<Decision>(const Operator& op)>;

/// Layers about which nothing is decided are quantized unless they make factors of the channels of
/// an image (squeeze-and-excite: the image itself stays bytes) or are isolated: neither what they
/// read nor what they give is in bytes.
Points FindPoints(const Graph& graph, const Decide& decide);

/// The same for layers whose inputs get scales while the network runs, each by itself: nn.Linear,
/// and layers with several matrices (see row_layers.h), which make bytes of their rows themselves.
Points FindDynamicPoints(const Graph& graph, const Decide& decide);

}  // namespace oort::quantize
