// SPDX-License-Identifier: MIT
// An operator that another one calls while the model runs.
#pragma once

#include <memory>
#include <vector>

#include "oort/layer.h"

namespace oort {

/// The arguments of one call, and what they point to.
class CallArgs {
 public:
  CallArgs(const BoundArgs& bound, const std::vector<Value>& values);
  Args args() const { return Args(args_, variadic_, inputs_); }

 private:
  std::vector<const Value*> args_, variadic_, inputs_;
};

/// Tensors without their elements, which may be on a GPU.
Value WithoutElements(const Value& value);
bool IsOnHost(const Value& value);

/// One operator inside of another, with its layer. On the GPU it has a layer of the GPU, or it
/// throws kUnsupported when it is made.
class InnerOperator {
 public:
  /// What is known when it is made.
  struct Known {
    std::vector<Value> constants;  ///< inputs, deferred where they are not known
    std::vector<Value> traced;     ///< inputs as they are expected, or empty
    int outputs = 1;
    bool weights_stay = true;  ///< whether it holds weights that its layer has packed
  };
  InnerOperator(Operator op, Known known, Isa isa, Device device);

  std::vector<Value> Infer(const std::vector<Value>& inputs) const;
  std::vector<Value> Run(const Context& context, const std::vector<Value>& inputs) const;

  /// Throws kUnsupported unless the GPU has a layer for inputs of these dtypes and shapes.
  void TryOnDevice(const std::vector<Value>& inputs) const;

 private:
  std::unique_ptr<Layer> MakeLayer(const std::vector<Value>& traced) const;
  void LetPackedGo();
  void CheckDTypes(const Args& args) const;
  std::vector<Value> Infer(const Args& args) const;
  /// The inputs where the layer runs, and their shapes where the host reads these.
  std::vector<Value> Run(const Context& context, const std::vector<Value>& inputs,
                         const std::vector<Value>& shapes) const;

  Operator op_;
  std::shared_ptr<const OperatorSchema> schema_;
  BoundArgs bound_;
  std::vector<Operand> outputs_;
  std::vector<Value> constants_;
  Isa isa_;
  Device device_;
  std::unique_ptr<Layer> layer_;
};

}  // namespace oort
