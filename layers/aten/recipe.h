// SPDX-License-Identifier: MIT
// Rare operators that are a few calls of others, written down as such.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "layers/aten/spelling.h"

namespace oort {

/// Calls operators by their names while a model is planned or runs.
class Calls {
 public:
  /// The name of an argument and what is given for it; "" where the position decides.
  using Argument = std::pair<std::string, Value>;

  Calls(const Steps& steps, const PartMaker& make) : steps_(steps), make_(make) {}

  /// The first output. Tensors become operands, other values parameters; None is not given at all.
  Value operator()(const std::string& type, const std::vector<Argument>& arguments) const {
    return All(type, arguments, 1).front();
  }
  std::vector<Value> All(const std::string& type, const std::vector<Argument>& arguments,
                         int outputs) const;
  /// The same for a type with weights.
  std::vector<Value> Module(Part::Spec spec, const std::vector<Argument>& arguments) const;
  /// A pnnx.Expression of tensors and numbers.
  Value Formula(const std::string& text, const std::vector<Value>& operands) const;
  /// Whether tensors have elements.
  bool computes() const { return steps_.computes(); }

 private:
  const Steps& steps_;
  const PartMaker& make_;
};

using Recipe = std::function<std::vector<Value>(const Calls& call, const Args& args)>;

/// A schema from the names of its arguments: `*name` is a tensor, `?name` one that may be None, and
/// any other a value that may be None or computed.
OperatorSchema RecipeSchema(std::vector<std::string> types, std::string doc,
                            const std::string& arguments, DTypeSet dtypes = kAllDTypes);

/// A creator of layers that give what `recipe` does.
LayerCreator CreateFromRecipe(Recipe recipe);

/// Declares an operator whose outputs `recipe` gives.
void AddRecipe(LayerRegistry& registry, OperatorSchema schema, Recipe recipe);

/// The same for the GPU, of an operator that has a layer of its own on the CPU. It refuses what was
/// traced if a step of it has no layer there.
void AddDeviceRecipe(LayerRegistry& registry, const std::vector<std::string>& types, Recipe recipe);

/// An argument, or what counts where it is None.
inline Value ValueOr(const Args& args, int index, Value fallback) {
  return args.Has(index) ? args[index] : std::move(fallback);
}

}  // namespace oort
