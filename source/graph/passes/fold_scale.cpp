// SPDX-License-Identifier: MIT
// Constants that multiply, divide or move the result of a convolution or a linear operator go into
// its weights: the scale of a layer, of a query, of an output.
#include <algorithm>
#include <cmath>

#include "graph/passes/elementwise.h"
#include "graph/passes/fold_affine.h"
#include "graph/passes/passes.h"

namespace oort {
namespace {

class ScaleFolder {
 public:
  ScaleFolder(Rewriter& rewriter, int index) : rewriter_(rewriter), index_(index) {}

  void Run() {
    const Operator& op = rewriter_.op(index_);
    std::optional<Formula> formula =
        op.type == "pnnx.Expression" ? ElementwiseFormula(op) : std::optional<Formula>();
    if (!formula) return;
    whole_ = &*formula;
    bool any = false;
    while (Fold(*formula)) any = true;
    if (!any) return;
    if (formula->operand() >= 0) {
      const int producer = rewriter_.ProducerOf(op.inputs[static_cast<size_t>(formula->operand())]);
      rewriter_.GiveOutput(index_, producer);
    } else {
      SetFormula(rewriter_, index_, *formula, rewriter_.op(index_).inputs);
    }
  }

 private:
  /// Folds one constant somewhere in the formula; says whether there was one.
  bool Fold(Formula& formula) {
    if (formula.args.size() == 2) {
      for (size_t i = 0; i < 2; ++i) {
        if (!FoldArgument(formula, i)) continue;
        const Formula left = formula.args[i];
        formula = left;
        return true;
      }
    }
    return std::any_of(formula.args.begin(), formula.args.end(),
                       [&](Formula& arg) { return Fold(arg); });
  }

  bool FoldArgument(const Formula& formula, size_t which) {
    const int operand = formula.args[which].operand();
    if (operand < 0 || CountOperand(*whole_, operand) != 1) return false;
    const int value = rewriter_.op(index_).inputs[static_cast<size_t>(operand)];
    const int producer = rewriter_.ProducerOf(value);
    if (producer < 0 || !rewriter_.HasOneUse(value)) return false;
    const Operand& result = rewriter_.operand(value);
    const Operator& op = rewriter_.op(producer);
    const int64_t channels = FoldableChannels(op);
    if (channels == 0 || op.inputs.size() != 1 || op.outputs.size() != 1) return false;
    if (FindAttribute(op, "weight")->dtype() != DType::kF32 || result.dtype != DType::kF32 ||
        !result.has_shape) {
      return false;
    }
    const auto constants = Constants(formula.args[1 - which], op, result.shape.rank(), channels);
    if (constants.empty()) return false;
    const auto affine = AffineOf(formula.name, which == 0, constants);
    if (!affine) return false;
    FoldAffine(rewriter_.op(producer), *affine);
    return true;
  }

  /// One for each channel; none where it is no constant of channels.
  std::vector<double> Constants(const Formula& formula, const Operator& op, int rank,
                                int64_t channels) {
    const size_t count = static_cast<size_t>(channels);
    if (const auto number = formula.number()) return std::vector<double>(count, *number);
    if (formula.operand() < 0) return {};
    const int input = rewriter_.op(index_).inputs[static_cast<size_t>(formula.operand())];
    const Tensor* data = rewriter_.ConstantOf(input);
    if (data == nullptr || data->dtype() != DType::kF32 || data->rank() > rank) return {};
    const Tensor wide = data->To(DType::kF64);
    const double* values = wide.data<double>();
    if (data->elements() == 1) return std::vector<double>(count, values[0]);
    // The only axis that is not 1 must be that of the channels, counted from behind: the last for
    // nn.Linear, that before the pixels for a convolution.
    const int behind = op.type == "nn.Linear" ? 0 : op.type.back() == 'd' ? PixelAxes(op) : -1;
    const int axis = data->rank() - 1 - behind;
    if (behind < 0 || axis < 0 || data->elements() != channels || data->dim(axis) != channels) {
      return {};
    }
    return {values, values + channels};
  }

  static int PixelAxes(const Operator& op) { return op.type[op.type.size() - 2] - '0'; }

  /// x op constant, or constant op x.
  static std::optional<OutputAffine> AffineOf(const std::string& name, bool first,
                                              const std::vector<double>& constants) {
    OutputAffine affine;
    for (const double c : constants) {
      double scale = 1, shift = 0;
      if (name == "mul") {
        scale = c;
      } else if (name == "div" && first && c != 0) {
        scale = 1 / c;
      } else if (name == "add") {
        shift = c;
      } else if (name == "sub") {
        scale = first ? 1 : -1;
        shift = first ? -c : c;
      } else {
        return std::nullopt;
      }
      // What is not finite would make NaN of zeros that a weight holds.
      if (!std::isfinite(scale) || !std::isfinite(shift)) return std::nullopt;
      affine.scale.push_back(scale);
      affine.shift.push_back(shift);
    }
    return affine;
  }

  Rewriter& rewriter_;
  int index_;
  const Formula* whole_ = nullptr;
};

}  // namespace

void FoldScale(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  for (int index : graph.TopologicalOrder()) {
    if (!rewriter.dead(index)) ScaleFolder(rewriter, index).Run();
  }
  rewriter.Finish();
}

}  // namespace oort
