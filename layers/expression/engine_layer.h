// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/small_vector.h"
#include "layers/expression/engine.h"
#include "oort/layer.h"

namespace oort::expression {

/// A layer that is an expression of its arguments.
class EngineLayer : public Layer {
 public:
  /// `@i` in the program is the i-th argument of the schema.
  EngineLayer(const LayerInit& init, Program program);

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override;
  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override;
  std::vector<Reuse> Reuses(const Args& args) const override;
  Cost Work(const Args& args, std::span<const Value> outputs) const override;

 protected:
  const Engine& engine() const { return engine_; }
  /// What `@0`, `@1`, … stand for.
  using OperandList = SmallVector<const Value*, 8>;
  virtual OperandList Operands(const Args& args) const;
  /// The argument that operand `operand` is, as Reuse counts them.
  virtual int ArgumentOf(const Args& args, int operand) const;

 private:
  Engine engine_;
  int operands_;
};

/// A creator of layers that compute `text` of their arguments.
LayerCreator CreateFromText(std::string text);

/// Which operators of the table of functions: those whose first type is one of nn, or all others.
enum class FunctionKind : unsigned char { kActivations, kOthers };
void AddFunctionOperators(LayerRegistry& registry, FunctionKind kind);

}  // namespace oort::expression
