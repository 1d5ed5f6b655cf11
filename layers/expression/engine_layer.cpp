// SPDX-License-Identifier: MIT
#include "layers/expression/engine_layer.h"

#include <iterator>
#include <sstream>

namespace oort::expression {
namespace {

std::vector<std::string> Words(std::string_view text) {
  std::istringstream words{std::string(text)};
  return std::vector<std::string>(std::istream_iterator<std::string>(words), {});
}

}  // namespace

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

void AddFunctionOperators(LayerRegistry& registry, FunctionKind kind) {
  for (int i = 0; i < kFunctionCount; ++i) {
    const FunctionInfo& info = Info(static_cast<Function>(i));
    const FunctionOperators& operators = info.operators;
    const bool activation = operators.types.starts_with("nn.");
    if (operators.types.empty() || activation != (kind == FunctionKind::kActivations)) continue;
    const std::vector<std::string> names = Words(operators.arguments);
    OperatorSchema schema(Words(operators.types), std::string(operators.doc));
    std::string text = std::string(info.name) + "(@0";
    for (int arg = 0; arg < info.arity; ++arg) {
      schema.Tensor(names[static_cast<size_t>(arg)], operators.dtypes);
      if (arg > 0) text += ",@" + std::to_string(arg);
    }
    schema.Elementwise();
    // Activations give nothing larger than what they get, so f16 has room for their results.
    if (activation) schema.KeepsDType().F16OnCpu();
    registry.Add(std::move(schema), CreateFromText(text + ")"));
  }
}

}  // namespace oort::expression
