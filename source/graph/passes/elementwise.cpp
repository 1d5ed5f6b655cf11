// SPDX-License-Identifier: MIT
#include "graph/passes/elementwise.h"

#include <algorithm>

#include "cpu/activation.h"

namespace oort {
namespace {

constexpr std::string_view kUnaryFunctions[] = {
    "abs",        "ceil", "cos",   "erf",   "exp",     "expm1", "floor", "log",    "log1p", "neg",
    "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sin",   "sqrt",  "square", "tan",   "tanh"};
constexpr std::string_view kOtherFunctions[] = {
    "add",         "clamp",     "div",        "elu",     "gelu",    "gelu_tanh",
    "hardsigmoid", "hardswish", "leaky_relu", "maximum", "minimum", "mish",
    "mul",         "pow",       "relu6",      "silu",    "sub"};

template <size_t count>
bool Contains(const std::string_view (&names)[count], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool IsArithmetic(const Formula& formula, int inputs) {
  if (formula.args.empty()) {
    const int operand = formula.operand();
    return operand >= 0 ? operand < inputs : formula.number() || formula.name == "None";
  }
  if (!Contains(kUnaryFunctions, formula.name) && !Contains(kOtherFunctions, formula.name)) {
    return false;
  }
  return std::all_of(formula.args.begin(), formula.args.end(),
                     [&](const Formula& arg) { return IsArithmetic(arg, inputs); });
}

std::string TextOf(const Operator& op) {
  if (op.type == "pnnx.Expression") return ParameterText(op, "expr");
  if (const auto activation = ActivationOf(op)) return ActivationText(*activation);
  constexpr std::string_view kTorch = "torch.";
  if (!op.type.starts_with(kTorch) || op.inputs.size() != 1 || !op.params.empty()) return "";
  const std::string name = op.type.substr(kTorch.size());
  return Contains(kUnaryFunctions, name) ? name + "(@0)" : "";
}

}  // namespace

std::optional<Formula> ElementwiseFormula(const Operator& op) {
  if (op.outputs.size() != 1 || op.inputs.empty() || !op.attributes.empty()) return {};
  std::optional<Formula> formula = ParseFormula(TextOf(op));
  if (!formula || formula->args.empty()) return {};
  return IsArithmetic(*formula, static_cast<int>(op.inputs.size())) ? formula : std::nullopt;
}

int CountOperand(const Formula& formula, int operand) {
  if (formula.operand() == operand) return 1;
  int count = 0;
  for (const Formula& arg : formula.args) count += CountOperand(arg, operand);
  return count;
}

void SetFormula(Rewriter& rewriter, int index, const Formula& formula,
                const std::vector<int>& operands) {
  std::vector<int> inputs;
  std::vector<Formula> renamed;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool used = CountOperand(formula, static_cast<int>(i)) > 0;
    renamed.push_back({used ? "@" + std::to_string(inputs.size()) : "0", {}});
    if (used) inputs.push_back(operands[i]);
  }
  rewriter.SetInputs(index, std::move(inputs));
  rewriter.op(index).params["expr"] = Parameter(Substitute(formula, renamed).ToText());
}

}  // namespace oort
