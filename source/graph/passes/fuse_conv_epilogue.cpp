// SPDX-License-Identifier: MIT
#include "cpu/activation.h"
#include "graph/passes/passes.h"

namespace oort {
namespace {

class ConvEpiloguePass {
 public:
  explicit ConvEpiloguePass(Graph& graph) : graph_(graph), dead_(graph.operators.size(), false) {}

  void Run() {
    for (int index : graph_.TopologicalOrder()) {
      if (Op(index).type != "nhwc.Conv2d" || Op(index).inputs.size() != 1) continue;
      TakeSum(index);
      TakeActivation(index);
    }
    graph_.Remove(dead_);
  }

 private:
  Operator& Op(int index) { return graph_.operators[static_cast<size_t>(index)]; }
  Operand& At(int operand) { return graph_.operands[static_cast<size_t>(operand)]; }

  /// The only operator that reads what the convolution gives, or -1.
  int Reader(int conv) {
    const Operand& output = At(Op(conv).outputs[0]);
    return output.consumers.size() == 1 ? output.consumers[0] : -1;
  }

  void TakeSum(int conv) {
    const int reader = Reader(conv);
    if (reader < 0 || !IsSum(Op(reader))) return;
    const Operator& sum = Op(reader);
    const int output = Op(conv).outputs[0];
    const int other = sum.inputs[0] == output ? sum.inputs[1] : sum.inputs[0];
    if (!SameShape(other, output)) return;
    Op(conv).input_names = {"input"};
    graph_.AddInput(conv, other, "addend");
    Absorb(conv, reader);
  }

  static bool IsSum(const Operator& op) {
    if (op.type != "pnnx.Expression" || op.inputs.size() != 2 || op.outputs.size() != 1) {
      return false;
    }
    const auto expression = op.params.find("expr");
    return expression != op.params.end() &&
           (expression->second.text() == "add(@0,@1)" || expression->second.text() == "add(@1,@0)");
  }

  /// Whether both have one shape in the trace: a smaller addend would have to be broadcast, which
  /// the convolution's epilogue does not do.
  bool SameShape(int a, int b) {
    const Operand &x = At(a), &y = At(b);
    return x.has_shape && y.has_shape && x.shape == y.shape && x.dtype == y.dtype;
  }

  void TakeActivation(int conv) {
    const int reader = Reader(conv);
    if (reader < 0) return;
    const auto activation = ActivationOf(Op(reader));
    if (!activation) return;
    SetActivation(Op(conv), *activation);
    Absorb(conv, reader);
  }

  /// The convolution gives what `reader` gave.
  void Absorb(int conv, int reader) {
    graph_.SetInputs(reader, {});
    graph_.MoveOutputs(reader, conv);
    dead_[static_cast<size_t>(reader)] = true;
  }

  Graph& graph_;
  std::vector<bool> dead_;
};

}  // namespace

void FuseConvEpilogue(Graph& graph, const PassContext&) { ConvEpiloguePass(graph).Run(); }

}  // namespace oort
