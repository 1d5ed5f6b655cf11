// SPDX-License-Identifier: MIT
// Activations that are spelled out: 0.5 x (1 + erf(x / sqrt 2)), its form with tanh, x sigmoid(x).
#include <cmath>

#include "graph/passes/elementwise.h"
#include "graph/passes/passes.h"

namespace oort {
namespace {

constexpr int kDeepestSpelling = 12;

bool IsAbout(double value, double expected) {
  return std::fabs(value - expected) <= 1e-5 * std::fabs(expected);
}

/// The formula of `operand` in terms of operands further up, as leaves "@operand".
Formula Spelling(Rewriter& rewriter, int operand, int depth) {
  const int producer = rewriter.ProducerOf(operand);
  const Formula leaf{"@" + std::to_string(operand), {}};
  if (producer < 0 || depth >= kDeepestSpelling) return leaf;
  const std::optional<Formula> formula = ElementwiseFormula(rewriter.op(producer));
  if (!formula) return leaf;
  std::vector<Formula> inputs;
  for (int input : rewriter.op(producer).inputs) {
    // What others read stays; the innermost is the argument itself.
    const bool once =
        rewriter.HasOneUse(input) && CountOperand(*formula, static_cast<int>(inputs.size())) == 1;
    inputs.push_back(once ? Spelling(rewriter, input, depth + 1)
                          : Formula{"@" + std::to_string(input), {}});
  }
  return Substitute(*formula, inputs);
}

/// A product as its factors: numbers multiplied out, everything else in a list.
struct Factors {
  double number = 1;
  std::vector<const Formula*> others;
};

void Collect(const Formula& formula, Factors& factors) {
  if (formula.IsCall("mul", 2)) {
    Collect(formula.args[0], factors);
    Collect(formula.args[1], factors);
  } else if (formula.IsCall("div", 2) && formula.args[1].number().value_or(0) != 0) {
    Collect(formula.args[0], factors);
    factors.number /= *formula.args[1].number();
  } else if (const auto number = formula.number()) {
    factors.number *= *number;
  } else if (formula.IsCall("square", 1) || formula.IsCall("pow", 2)) {
    const double power = formula.args.size() == 1 ? 2 : formula.args[1].number().value_or(0);
    if (power != 2 && power != 3) {
      factors.others.push_back(&formula);
      return;
    }
    for (int i = 0; i < static_cast<int>(power); ++i) Collect(formula.args[0], factors);
  } else {
    factors.others.push_back(&formula);
  }
}

Factors FactorsOf(const Formula& formula) {
  Factors factors;
  Collect(formula, factors);
  return factors;
}

/// number * x^power
bool IsPower(const Formula& formula, const Formula& x, double number, size_t power) {
  const Factors factors = FactorsOf(formula);
  if (!IsAbout(factors.number, number) || factors.others.size() != power) return false;
  for (const Formula* other : factors.others) {
    if (!(*other == x)) return false;
  }
  return true;
}

/// The other side of a sum with `known(side)`, or null.
template <typename Known>
const Formula* OtherSummand(const Formula& formula, const Known& known) {
  if (!formula.IsCall("add", 2)) return nullptr;
  for (size_t i = 0; i < 2; ++i) {
    if (known(formula.args[i])) return &formula.args[1 - i];
  }
  return nullptr;
}

const Formula* OnePlus(const Formula& formula) {
  return OtherSummand(formula, [](const Formula& side) { return side.number() == 1.0; });
}

/// sqrt(2/pi) (x + 0.044715 x^3), or with an x taken out
bool IsTanhArgument(const Formula& formula, const Formula& x) {
  const Factors factors = FactorsOf(formula);
  if (!IsAbout(factors.number, 0.7978845608)) return false;
  if (factors.others.size() == 1) {
    const Formula* cubic =
        OtherSummand(*factors.others[0], [&](const Formula& side) { return side == x; });
    return cubic != nullptr && IsPower(*cubic, x, 0.044715, 3);
  }
  if (factors.others.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    const Formula* square = OnePlus(*factors.others[1 - i]);
    if (*factors.others[i] == x && square != nullptr && IsPower(*square, x, 0.044715, 2)) {
      return true;
    }
  }
  return false;
}

/// What x is multiplied with in 0.5 x (1 + …) or x sigmoid(x) tells which activation it is.
std::string ActivationType(const Formula& formula, const Formula& x) {
  const Factors factors = FactorsOf(formula);
  if (factors.others.size() != 2) return "";
  for (size_t i = 0; i < 2; ++i) {
    if (!(*factors.others[i] == x)) continue;
    const Formula& gate = *factors.others[1 - i];
    if (factors.number == 1 && gate.IsCall("sigmoid", 1) && gate.args[0] == x) return "silu";
    const Formula* inner = OnePlus(gate);
    if (!IsAbout(factors.number, 0.5) || inner == nullptr) continue;
    if (inner->IsCall("erf", 1) && IsPower(inner->args[0], x, 0.7071067812, 1)) return "gelu";
    if (inner->IsCall("tanh", 1) && IsTanhArgument(inner->args[0], x)) return "gelu_tanh";
  }
  return "";
}

/// The only operand of a formula, or -1.
int OnlyOperand(const Formula& formula) {
  if (formula.args.empty()) return formula.operand();
  int only = -1;
  for (const Formula& arg : formula.args) {
    if (arg.number()) continue;
    const int operand = OnlyOperand(arg);
    if (operand < 0 || (only >= 0 && operand != only)) return -1;
    only = operand;
  }
  return only;
}

void MatchActivationAt(Rewriter& rewriter, int index) {
  const Operator& op = rewriter.op(index);
  if (op.type != "pnnx.Expression" || op.outputs.size() != 1) return;
  const Formula formula = Spelling(rewriter, op.outputs[0], 0);
  const int x = OnlyOperand(formula);
  if (x < 0 || !formula.IsCall("mul", 2)) return;
  const Operand &input = rewriter.operand(x), &output = rewriter.operand(op.outputs[0]);
  if (input.dtype != DType::kF32 || output.dtype != DType::kF32) return;
  const std::string type = ActivationType(formula, {"@" + std::to_string(x), {}});
  if (type.empty()) return;
  rewriter.SetInputs(index, {x});
  Operator& made = rewriter.op(index);
  made.type = type == "silu" ? "F.silu" : "F.gelu";
  made.params.clear();
  if (type == "gelu_tanh") made.params["approximate"] = Parameter("tanh");
}

}  // namespace

void MatchActivations(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  for (int index : graph.TopologicalOrder()) MatchActivationAt(rewriter, index);
  rewriter.Finish();
}

}  // namespace oort
