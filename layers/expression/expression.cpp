// SPDX-License-Identifier: MIT
#include "layers/expression/engine.h"
#include "oort/layer.h"

namespace oort {
namespace {

class ExpressionLayer final : public Layer {
 public:
  explicit ExpressionLayer(const LayerInit& init)
      : engine_(Parse(init), init.isa()), first_(init.Arg("inputs")) {}

  std::vector<Value> Infer(const Args& args) const override {
    return {engine_.Infer(args.variadic())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    engine_.Forward(context, args.variadic(), outputs[0]);
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    if (outputs[0].IsTensor()) {
      cost.flops = engine_.OperationsPerElement(args.variadic()) *
                   static_cast<double>(outputs[0].AsTensor().elements());
    }
    return cost;
  }

 private:
  static expression::Program Parse(const LayerInit& init) {
    const expression::Program program = expression::Parse(init.String("expr"));
    const int inputs = static_cast<int>(init.op().inputs.size());
    if (program.operands > inputs) {
      throw Error(ErrorCode::kInvalidModel,
                  "'@" + std::to_string(program.operands - 1) + "' is named, but there " +
                      (inputs == 1 ? "is 1 input" : "are " + std::to_string(inputs) + " inputs"));
    }
    return program;
  }

  expression::Engine engine_;
  int first_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(expression) {
  using namespace oort;
  registry.Add(OperatorSchema({"pnnx.Expression"},
                              "arithmetic on tensors, sizes and lists, in one pass")
                   .Tensors("inputs", kAllDTypes)
                   .String("expr"),
               Create<ExpressionLayer>());
}
