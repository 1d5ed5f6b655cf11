// SPDX-License-Identifier: MIT
// Operators that are declared by a Decomposition (graph/decomposition.h) instead of a layer.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/decomposition.h"
#include "oort/layer.h"

namespace oort {

/// Declares an operator by its parts. The pass decompose puts them into the graph in its place;
/// where they depend on more than constants, a layer calls them while the model runs.
void AddDecomposition(LayerRegistry& registry, OperatorSchema schema, Decomposition decomposition);

/// A creator of layers that call the parts while the model runs. On the GPU it refuses what was
/// traced if a part of it has no layer there.
LayerCreator CreateDecomposed(Decomposition decomposition);

/// A schema from the names of its arguments: `*name` is a tensor, `?name` one that may be None, and
/// any other a value that may be None or computed.
OperatorSchema DecompositionSchema(std::vector<std::string> types, std::string doc,
                                   const std::string& arguments, DTypeSet dtypes = kAllDTypes);

/// An argument, or what counts where it is None.
inline Value ValueOr(const Args& args, int index, Value fallback) {
  return args.Has(index) ? args[index] : std::move(fallback);
}

/// A parameter that was an operand: a tensor of one element is its number. Deferred where that is
/// not known yet.
Value ParameterOf(const Value& value);

/// A layer that calls the parts of a decomposition. A part is made when it is first called and
/// kept.
class DecompositionLayer final : public Layer {
 public:
  /// The arguments `packed` are read by no call: the decomposition got them when it was made.
  DecompositionLayer(const LayerInit& init, Decomposition decomposition,
                     std::vector<int> packed = {});
  ~DecompositionLayer() override;

  LayerTraits Traits() const override { return {.either_device = true, .unrecordable = true}; }
  std::vector<Value> Infer(const Args& args) const override;
  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override;
  bool Packs(int argument) const override;

 private:
  class Parts;
  class Caller;
  class KnownArgs;
  void Prepare(const LayerInit& init) const;
  void PrepareOnDevice(const LayerInit& init) const;

  Decomposition decomposition_;
  std::vector<int> packed_;
  std::vector<Value> constants_;  // the arguments that are constant, deferred elsewhere
  bool free_inputs_;
  std::unique_ptr<Parts> parts_;
};

/// What a fused operator does for arguments that its own kernel does not take: its decomposition,
/// made when it is first needed and kept.
/// Thread contract: Get runs concurrently.
class Fallback {
 public:
  Fallback(const LayerInit& init, Decomposition decomposition);
  /// `attributes` gives the weights, which the operator may have packed away.
  const Layer& Get(FunctionRef<std::map<std::string, Tensor>()> attributes) const;

 private:
  Operator op_;  // without attributes
  OperatorSchema schema_;
  Isa isa_;
  Decomposition decomposition_;
  mutable std::once_flag made_;
  mutable std::unique_ptr<DecompositionLayer> layer_;
};

}  // namespace oort
