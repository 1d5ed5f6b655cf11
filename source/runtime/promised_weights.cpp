// SPDX-License-Identifier: MIT
#include "runtime/promised_weights.h"

#include "parser/pnnx/promised.h"

namespace oort {

PromisedWeights::PromisedWeights(const Graph& graph) {
  for (const Operator& op : graph.operators) {
    for (const auto& [name, tensor] : op.attributes) {
      if (PromisedBuffer::Of(tensor) != nullptr) ++promises_[tensor.buffer().get()].readers;
    }
  }
}

void PromisedWeights::Fulfil(Operator& op) {
  for (auto& [name, tensor] : op.attributes) {
    const PromisedBuffer* promised = PromisedBuffer::Of(tensor);
    if (promised == nullptr) continue;
    const auto found = promises_.find(promised);
    Shared& shared = found->second;
    if (!shared.made.defined()) shared.made = promised->Take();
    tensor = shared.made;
    if (--shared.readers == 0) promises_.erase(found);
  }
}

}  // namespace oort
