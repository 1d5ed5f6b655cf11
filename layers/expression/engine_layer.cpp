// SPDX-License-Identifier: MIT
#include "layers/expression/engine_layer.h"

#include <iterator>
#include <sstream>

namespace oort::expression {

EngineLayer::EngineLayer(const LayerInit& init, Program program)
    : engine_(program, init.isa()), operands_(program.operands) {}

EngineLayer::OperandList EngineLayer::Operands(const Args& args) const {
  OperandList operands;
  for (int i = 0; i < operands_; ++i) operands.push_back(&args[i]);
  return operands;
}

int EngineLayer::ArgumentOf(const Args&, int operand) const { return operand; }

std::vector<Value> EngineLayer::Infer(const Args& args) const {
  return {engine_.Infer(Operands(args))};
}

void EngineLayer::Forward(const Context& context, const Args& args,
                          std::span<Value> outputs) const {
  engine_.Forward(context, Operands(args), outputs[0]);
}

std::vector<Reuse> EngineLayer::Reuses(const Args& args) const {
  const Engine::Sharing sharing = engine_.Share(Operands(args));
  std::vector<Reuse> reuses;
  if (sharing.view >= 0) reuses.push_back({Reuse::kView, ArgumentOf(args, sharing.view), 0, 0});
  for (int operand : sharing.in_place) {
    reuses.push_back({Reuse::kInPlace, ArgumentOf(args, operand), 0, 0});
  }
  return reuses;
}

Cost EngineLayer::Work(const Args& args, std::span<const Value> outputs) const {
  Cost cost = Layer::Work(args, outputs);
  if (outputs[0].IsTensor()) {
    cost.flops = engine_.OperationsPerElement(Operands(args)) *
                 static_cast<double>(outputs[0].AsTensor().elements());
  }
  return cost;
}

LayerCreator CreateFromText(std::string text) {
  return [program = Parse(text)](const LayerInit& init) {
    Program copy = program;
    // Columns mean nothing to who did not write the text.
    for (Step& step : copy.steps) step.column = 0;
    return std::make_unique<EngineLayer>(init, std::move(copy));
  };
}

void AddFunctionOperators(LayerRegistry& registry, std::string_view prefix) {
  constexpr const char* kInputs[] = {"input", "other"};
  for (int i = 0; i < kFunctionCount; ++i) {
    const FunctionInfo& info = Info(static_cast<Function>(i));
    if (!info.operators.types.starts_with(prefix)) continue;
    std::istringstream words{std::string(info.operators.types)};
    OperatorSchema schema(std::vector<std::string>(std::istream_iterator<std::string>(words), {}),
                          std::string(info.operators.doc));
    std::string text = std::string(info.name) + "(@0";
    for (int arg = 0; arg < info.arity; ++arg) {
      schema.Tensor(kInputs[arg], info.operators.dtypes);
      if (arg > 0) text += ",@" + std::to_string(arg);
    }
    schema.Elementwise();
    // Activations give nothing larger than what they get, so f16 has room for their results.
    if (prefix == "nn.") schema.KeepsDType().F16OnCpu();
    registry.Add(std::move(schema), CreateFromText(text + ")"));
  }
}

}  // namespace oort::expression
