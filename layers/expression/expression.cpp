// SPDX-License-Identifier: MIT
#include "layers/expression/engine_layer.h"

namespace oort {
namespace {

class ExpressionLayer final : public expression::EngineLayer {
 public:
  explicit ExpressionLayer(const LayerInit& init) : EngineLayer(init, Parse(init)) {}

 protected:
  OperandList Operands(const Args& args) const override {
    return {args.variadic().begin(), args.variadic().end()};
  }
  int ArgumentOf(const Args& args, int operand) const override { return args.size() + operand; }

 private:
  static expression::Program Parse(const LayerInit& init) {
    expression::Program program = expression::Parse(init.String("expr"));
    const int inputs = static_cast<int>(init.op().inputs.size());
    if (program.operands > inputs) {
      throw Error(ErrorCode::kInvalidModel,
                  "'@" + std::to_string(program.operands - 1) + "' is named, but there " +
                      (inputs == 1 ? "is 1 input" : "are " + std::to_string(inputs) + " inputs"));
    }
    return program;
  }
};

bool Mentions(const Operator& op, std::string_view word) {
  const auto expression = op.params.find("expr");
  return expression != op.params.end() && expression->second.text().find(word) != std::string::npos;
}

/// Whether an expression is one of elements, not of sizes, which depend on the layout.
bool IsOfElements(const Operator& op) { return !Mentions(op, "size"); }

/// The same, and none that casts, such as torch.float(@0).
bool KeepsDTypeOfElements(const Operator& op) {
  return IsOfElements(op) && !Mentions(op, "torch.");
}

}  // namespace
}  // namespace oort

OORT_LAYERS(expression) {
  using namespace oort;
  registry.Add(
      OperatorSchema({"pnnx.Expression"}, "arithmetic on tensors, sizes and lists, in one pass")
          .Tensors("inputs", kAllDTypes)
          .String("expr")
          .Elementwise(IsOfElements)
          .KeepsDType(KeepsDTypeOfElements)
          .F16OnCpu(),
      Create<ExpressionLayer>());
}
