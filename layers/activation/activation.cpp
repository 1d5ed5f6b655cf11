// SPDX-License-Identifier: MIT
// Activations without weights: those without parameters are rows of the table of functions
// (parser/expression/functions.inc), the others a line each here. The arithmetic is in
// layers/expression.
#include "layers/expression/engine_layer.h"

namespace oort {
namespace {

constexpr DTypeSet kFloatsAndIntegers = kFloats | kIntegers;

struct NamedFloat {
  std::string name;
  std::optional<double> fallback;
};

void Add(LayerRegistry& registry, std::vector<std::string> types, std::string doc,
         std::string formula, const std::vector<NamedFloat>& parameters = {},
         DTypeSet dtypes = kFloats) {
  OperatorSchema schema(std::move(types), std::move(doc));
  schema.Tensor("input", dtypes);
  for (const auto& [name, fallback] : parameters) schema.Float(name, fallback);
  schema.Elementwise().KeepsDType().F16OnCpu();
  registry.Add(std::move(schema), expression::CreateFromText(std::move(formula)));
}

LayerCreator CreateGelu() {
  return [exact = expression::CreateFromText("gelu(@0)"),
          tanh = expression::CreateFromText("gelu_tanh(@0)")](const LayerInit& init) {
    return (init.String("approximate") == "tanh" ? tanh : exact)(init);
  };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(activation) {
  using namespace oort;
  expression::AddFunctionOperators(registry, expression::FunctionKind::kActivations);
  Add(registry, {"nn.Hardtanh", "F.hardtanh"}, "min(max(x, min_val), max_val)",
      "hardtanh(@0,@1,@2)", {{"min_val", -1}, {"max_val", 1}}, kFloatsAndIntegers);
  Add(registry, {"nn.ELU", "F.elu"}, "x if x > 0 else alpha * (exp(x) - 1)", "elu(@0,@1)",
      {{"alpha", 1}});
  Add(registry, {"nn.CELU", "F.celu"}, "max(0, x) + min(0, alpha * (exp(x / alpha) - 1))",
      "celu(@0,@1)", {{"alpha", 1}});
  Add(registry, {"nn.LeakyReLU", "F.leaky_relu"}, "x if x > 0 else negative_slope * x",
      "leaky_relu(@0,@1)", {{"negative_slope", 0.01}});
  Add(registry, {"nn.RReLU", "F.rrelu"}, "leaky_relu with the mean of lower and upper as slope",
      "leaky_relu(@0,div(add(@1,@2),2))", {{"lower", 1.0 / 8}, {"upper", 1.0 / 3}});
  Add(registry, {"nn.Softplus", "F.softplus"},
      "log(1 + exp(beta * x)) / beta, and x above the threshold", "softplus(@0,@1,@2)",
      {{"beta", 1}, {"threshold", 20}});
  Add(registry, {"nn.Hardshrink", "F.hardshrink"}, "0 within lambd of 0, else x",
      "hardshrink(@0,@1)", {{"lambd", 0.5}});
  Add(registry, {"nn.Softshrink", "F.softshrink"}, "x moved towards 0 by lambd",
      "softshrink(@0,@1)", {{"lambd", 0.5}});
  Add(registry, {"nn.Threshold", "F.threshold"}, "x above the threshold, else value",
      "threshold(@0,@1,@2)", {{"threshold", {}}, {"value", {}}}, kFloatsAndIntegers);
  registry.Add(OperatorSchema({"nn.GELU", "F.gelu"}, "x * P(X <= x) for a normal X")
                   .Tensor("input", kFloats)
                   .String("approximate", "none")
                   .OneOf({"none", "tanh"})
                   .Elementwise()
                   .KeepsDType()
                   .F16OnCpu(),
               CreateGelu());
}
