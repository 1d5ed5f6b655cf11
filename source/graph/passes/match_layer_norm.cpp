// SPDX-License-Identifier: MIT
// Layer norms that are spelled out: (x - mean) / sqrt(mean of (x - mean)^2 + eps), over the last
// axis.
#include "graph/passes/elementwise.h"
#include "graph/passes/passes.h"

namespace oort {
namespace {

class LayerNormMatcher {
 public:
  LayerNormMatcher(Rewriter& rewriter, int index) : rewriter_(rewriter), index_(index) {}

  void Run() {
    const Operator& op = rewriter_.op(index_);
    if (op.type != "pnnx.Expression") return;
    std::optional<Formula> formula = ElementwiseFormula(op);
    if (!formula || !Replace(*formula) || !HasFixedExtent()) return;
    Split(*formula);
  }

 private:
  /// Whether a constant of as many elements stands in the formula: else the extent that was traced
  /// may be another one the next time, and the norm would refuse it.
  bool HasFixedExtent() {
    const Shape& shape = rewriter_.operand(x_).shape;
    const int64_t extent = shape[shape.rank() - 1];
    for (int input : rewriter_.op(index_).inputs) {
      const Tensor* constant = rewriter_.ConstantOf(input);
      if (constant != nullptr && constant->rank() > 0 && extent > 1 &&
          constant->dim(-1) == extent) {
        return true;
      }
    }
    return false;
  }

  /// Puts operand number inputs.size(), the norm, in place of the first one that is spelled out.
  bool Replace(Formula& formula) {
    if (IsNorm(formula)) {
      formula = {"@" + std::to_string(rewriter_.op(index_).inputs.size()), {}};
      return true;
    }
    for (Formula& arg : formula.args) {
      if (Replace(arg)) return true;
    }
    return false;
  }

  bool IsNorm(const Formula& formula) {
    if (formula.IsCall("div", 2) && formula.args[1].IsCall("sqrt", 1)) {
      return IsNormOf(formula.args[0], formula.args[1].args[0]);
    }
    if (!formula.IsCall("mul", 2)) return false;
    for (size_t i = 0; i < 2; ++i) {
      const Formula& root = formula.args[1 - i];
      if (root.IsCall("rsqrt", 1) && IsNormOf(formula.args[i], root.args[0])) return true;
    }
    return false;
  }

  /// Whether `centered` is x - mean and `moved` its variance plus eps.
  bool IsNormOf(const Formula& centered, const Formula& moved) {
    if (!centered.IsCall("sub", 2) || !moved.IsCall("add", 2)) return false;
    const size_t number = moved.args[1].number() ? 1 : 0;
    const auto eps = moved.args[number].number();
    const int x = InputOf(centered.args[0]), mean = InputOf(centered.args[1]);
    const int variance = InputOf(moved.args[1 - number]);
    if (!eps || *eps < 0 || x < 0 || mean < 0 || variance < 0 || MeanOf(mean) != x) return false;
    if (rewriter_.operand(x).dtype != DType::kF32 ||
        !IsSquareOfCentered(MeanOf(variance), x, mean)) {
      return false;
    }
    x_ = x;
    eps_ = moved.args[number].name;
    return true;
  }

  int InputOf(const Formula& leaf) {
    const int operand = leaf.operand();
    return operand < 0 ? -1 : rewriter_.op(index_).inputs[static_cast<size_t>(operand)];
  }

  /// What an operand is the mean of, over the last axis and keeping it; -1 if it is none.
  int MeanOf(int operand) {
    const Operator* mean = rewriter_.ProducerOf(operand, "torch.mean");
    if (mean == nullptr || mean->inputs.size() != 1 || ParameterText(*mean, "keepdim") != "True") {
      return -1;
    }
    const Operand& input = rewriter_.operand(mean->inputs[0]);
    const Value dims = ParameterValue(*mean, "dim");
    const bool whole = ParameterValue(*mean, "dtype").IsNone() && (dims.IsInt() || dims.IsList());
    if (!whole || !input.has_shape || input.shape.rank() < 1) return -1;
    if (dims.IsList() && (dims.AsList().size() != 1 || !dims.AsList()[0].IsInt())) return -1;
    return dims.AsInts()[0] == -1 ? mean->inputs[0] : -1;  // the last at every rank
  }

  bool IsSquareOfCentered(int operand, int x, int mean) {
    const int producer = operand < 0 ? -1 : rewriter_.ProducerOf(operand);
    if (producer < 0 || rewriter_.op(producer).type != "pnnx.Expression") return false;
    const std::optional<Formula> formula = ElementwiseFormula(rewriter_.op(producer));
    if (!formula) return false;
    const std::vector<int>& inputs = rewriter_.op(producer).inputs;
    const auto centered = [&](const Formula& f) {
      const auto is = [&](const Formula& leaf, int wanted) {
        return leaf.operand() >= 0 && inputs[static_cast<size_t>(leaf.operand())] == wanted;
      };
      return f.IsCall("sub", 2) && is(f.args[0], x) && is(f.args[1], mean);
    };
    if (formula->IsCall("square", 1)) return centered(formula->args[0]);
    if (formula->IsCall("pow", 2))
      return formula->args[1].number() == 2.0 && centered(formula->args[0]);
    return formula->IsCall("mul", 2) && centered(formula->args[0]) && centered(formula->args[1]);
  }

  void Become(Operator& op) {
    const Shape& shape = rewriter_.operand(x_).shape;
    op.type = "F.layer_norm";
    op.attributes.clear();
    op.params = {
        {"normalized_shape", Parameter("(" + std::to_string(shape[shape.rank() - 1]) + ")")},
        {"eps", Parameter(eps_)}};
  }

  /// A norm of its own, and the formula with it.
  void Split(const Formula& formula) {
    const std::string name = rewriter_.op(index_).name + "_norm";
    Operator norm;
    norm.name = name;
    Become(norm);
    const int result = rewriter_.graph().AddOperatorOn(x_, std::move(norm), name);
    std::vector<int> operands = rewriter_.op(index_).inputs;
    operands.push_back(result);
    SetFormula(rewriter_, index_, formula, operands);
  }

  Rewriter& rewriter_;
  int index_;
  int x_ = -1;
  std::string eps_;
};

}  // namespace

void MatchLayerNorm(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  for (int index : graph.TopologicalOrder()) LayerNormMatcher(rewriter, index).Run();
  rewriter.Finish();
}

}  // namespace oort
