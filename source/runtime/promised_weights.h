// SPDX-License-Identifier: MIT
// Weights that are made operator by operator while a model is built (parser/pnnx/promised.h): it is
// never in memory whole as it was.
#pragma once

#include <map>

#include "oort/graph.h"

namespace oort {

class PromisedWeights {
 public:
  explicit PromisedWeights(const Graph& graph);
  /// Puts tensors in the place of promises. Operators that share a promise share the tensor.
  void Fulfil(Operator& op);

 private:
  struct Shared {
    int readers = 0;  // still to come
    Tensor made;
  };
  std::map<const Buffer*, Shared> promises_;
};

}  // namespace oort
