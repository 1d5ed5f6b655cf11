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

}  // namespace
}  // namespace oort

OORT_LAYERS(expression) {
  using namespace oort;
  registry.Add(
      OperatorSchema({"pnnx.Expression"}, "arithmetic on tensors, sizes and lists, in one pass")
          .Tensors("inputs", kAllDTypes)
          .String("expr"),
      Create<ExpressionLayer>());
}
