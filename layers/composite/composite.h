// SPDX-License-Identifier: MIT
// Operators that are written in terms of others, as torch defines them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "layers/device_kernel.h"
#include "oort/layer.h"

namespace oort {

/// One operator inside a layer that is made of several. On the GPU it has a layer of the GPU, or it
/// throws kUnsupported when it is made.
class Part {
 public:
  struct Spec {
    std::string type;
    std::vector<std::string> inputs;  ///< their `$name`s, "" where position decides
    std::map<std::string, std::string> params{};
    /// Inputs that are known when the layer is made; deferred where they are not.
    std::vector<Value> constants{};
    std::map<std::string, Tensor> attributes{};
    int outputs = 1;
  };
  Part(const LayerInit& init, Spec spec);
  /// A pnnx.Expression of `inputs` inputs.
  static Part Expression(const LayerInit& init, std::string text, int inputs);

  std::vector<Value> Infer(const std::vector<Value>& inputs) const;
  std::vector<Value> Run(const Context& context, const std::vector<Value>& inputs) const;
  /// Throws kUnsupported unless the GPU has a layer for inputs of these dtypes and shapes.
  void TryOnDevice(const std::vector<Value>& inputs) const;

 private:
  struct Bound;
  void CheckDTypes(const Bound& bound) const;
  std::unique_ptr<Layer> MakeLayer(std::span<const Operand> inputs) const;
  std::vector<Value> RunOnDevice(const Context& context, const std::vector<Value>& inputs) const;
  static std::vector<bool> ShareOutputs(const Layer& layer, const Args& args,
                                        std::vector<Value>& outputs);

  Operator op_;
  std::shared_ptr<const OperatorSchema> schema_;
  BoundArgs args_;
  std::vector<Operand> outputs_;
  std::vector<Value> constants_;
  Isa isa_;
  Device device_;
  std::unique_ptr<Layer> layer_;
};

/// Runs parts, or only infers what they would give.
class Steps {
 public:
  /// Without a context nothing is computed: values are shapes and dtypes.
  explicit Steps(const Context* context) : context_(context) {}
  /// Nothing is computed, but all parts must be for the GPU.
  static Steps Trial() {
    Steps steps(nullptr);
    steps.trial_ = true;
    return steps;
  }
  /// Whether tensors have elements to look at. Asking that on the GPU throws kUnsupported.
  bool computes() const;
  const Context& context() const { return *context_; }

  /// All outputs of a part; deferred ones if an input is.
  std::vector<Value> All(const Part& part, const std::vector<Value>& inputs) const;
  /// The first one.
  Value operator()(const Part& part, const std::vector<Value>& inputs) const {
    return All(part, inputs).front();
  }
  /// The same elements under another shape.
  static Value Reshape(const Value& value, const Shape& shape);

 private:
  const Context* context_;
  bool trial_ = false;
};

/// A layer that is a sequence of steps. A deferred value among them makes the outputs deferred.
class CompositeLayer : public Layer, public AnyDevice, public Unrecorded {
 public:
  /// Throws kUnsupported unless all steps would run on the GPU for what was traced.
  void TryOnDevice(const LayerInit& init) const override;
  std::vector<Value> Infer(const Args& args) const override;
  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override;

 protected:
  virtual std::vector<Value> Compute(const Steps& steps, const Args& args) const = 0;
};

}  // namespace oort
