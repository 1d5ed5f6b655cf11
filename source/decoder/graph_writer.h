// SPDX-License-Identifier: MIT
// A graph written down operator by operator.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "oort/graph.h"
#include "weights/weight_format.h"

namespace oort {

/// An operator with its parameters and attributes, before it has its place in the graph.
struct Written {
  std::string type;
  std::string name;
  std::map<std::string, Parameter> params = {};
  std::map<std::string, Tensor> attributes = {};

  Written& Set(const std::string& key, const Value& value) {
    params[key] = Parameter::FromValue(value);
    return *this;
  }
  Written& Attach(const std::string& key, const Tensor& tensor) {
    if (tensor.defined()) attributes[key] = tensor;
    return *this;
  }
  /// `suffix` is "", "_1" or "_2": see layers/quantized_linear/stored_weight.h.
  Written& AttachWeight(const StoredMatrix& matrix, const std::string& suffix = "") {
    Attach("weight" + suffix, matrix.data);
    Attach("scale" + suffix, matrix.scale);
    Attach("minimum" + suffix, matrix.minimum);
    return Set("format" + suffix, Value(std::string(Name(matrix.format))));
  }
};

class GraphWriter {
 public:
  /// Adds an operator and returns its outputs.
  std::vector<int> Add(Written written, const std::vector<int>& inputs, int outputs = 1) {
    Operator op;
    op.type = std::move(written.type);
    op.name = std::move(written.name);
    op.params = std::move(written.params);
    op.attributes = std::move(written.attributes);
    op.inputs = inputs;
    op.input_names.resize(inputs.size());
    for (int i = 0; i < outputs; ++i) {
      op.outputs.push_back(graph_.AddOperand(std::to_string(graph_.operands.size())));
    }
    std::vector<int> made = op.outputs;
    graph_.AddOperator(std::move(op));
    return made;
  }
  int AddOne(Written written, const std::vector<int>& inputs) {
    return Add(std::move(written), inputs)[0];
  }
  int AddInput(const std::string& name, DType dtype, Shape shape) {
    const int operand = AddOne({"pnnx.Input", name}, {});
    SetHint(operand, dtype, shape);
    return operand;
  }
  /// What the operand is known to be, for `oort info` and for passes.
  void SetHint(int operand, DType dtype, Shape shape) {
    Operand& edge = graph_.operands[static_cast<size_t>(operand)];
    edge.dtype = dtype;
    edge.has_shape = true;
    edge.shape = shape;
  }
  Graph Take() { return std::move(graph_); }

 private:
  Graph graph_;
};

}  // namespace oort
