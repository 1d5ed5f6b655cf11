// SPDX-License-Identifier: MIT
// Elementwise functions that pnnx writes as operators of their own, from the table of functions
// (parser/expression/functions.inc), those whose arguments need more than a row of it, and the
// identities. The arithmetic is in layers/expression.
#include "layers/expression/engine_layer.h"

namespace oort {
namespace {

using expression::CreateFromText;

void AddSelections(LayerRegistry& registry) {
  registry.Add(OperatorSchema({"torch.clamp", "aten::clamp"}, "min(max(x, min), max)")
                   .Tensor("input", kReals)
                   .OptionalTensor("min", kReals)
                   .OptionalTensor("max", kReals)
                   .Elementwise()
                   .KeepsDType()
                   .F16OnCpu(),
               CreateFromText("clamp(@0,@1,@2)"));
  registry.Add(OperatorSchema({"aten::clamp_min"}, "max(x, min)")
                   .Tensor("input", kReals)
                   .Tensor("min", kReals),
               CreateFromText("clamp(@0,@1,None)"));
  registry.Add(OperatorSchema({"aten::clamp_max"}, "min(x, max)")
                   .Tensor("input", kReals)
                   .Tensor("max", kReals),
               CreateFromText("clamp(@0,None,@1)"));
  registry.Add(OperatorSchema({"torch.where"}, "input where the condition holds, else other")
                   .Tensor("condition", DType::kBool | DType::kU8)
                   .Tensor("input", kAllDTypes)
                   .Tensor("other", kAllDTypes),
               CreateFromText("where(@0,@1,@2)"));
  registry.Add(OperatorSchema({"Tensor.masked_fill"}, "value where the mask holds, else input")
                   .Tensor("input", kAllDTypes)
                   .Tensor("mask", DType::kBool | DType::kU8)
                   .Tensor("value", kAllDTypes),
               CreateFromText("masked_fill(@0,@1,@2)"));
}

LayerCreator CreateCast() {
  return [](const LayerInit& init) {
    const Value& dtype = init.Constant("dtype");
    const std::string text = dtype.IsNone() ? "@0" : "torch." + dtype.AsString() + "(@0)";
    return CreateFromText(text)(init);
  };
}

void AddCast(LayerRegistry& registry) {
  registry.Add(OperatorSchema({"Tensor.to"}, "converts to another dtype")
                   .Tensor("input", kAllDTypes)
                   .DTypeName("dtype")
                   .Nullable()
                   .Ignored("copy")
                   .Ignored("memory_format")
                   .Ignored("device")
                   .Ignored("non_blocking"),
               CreateCast());
}

void AddIdentities(LayerRegistry& registry) {
  registry.Add(OperatorSchema({"torch.clone", "Tensor.clone"}, "the input itself")
                   .Tensor("input", kAllDTypes)
                   .Ignored("memory_format"),
               CreateFromText("@0"));
  registry.Add(
      OperatorSchema({"nn.Dropout", "nn.Dropout1d", "nn.Dropout2d", "nn.Dropout3d",
                      "nn.AlphaDropout", "nn.FeatureAlphaDropout", "F.dropout", "F.dropout1d",
                      "F.dropout2d", "F.dropout3d", "F.alpha_dropout", "F.feature_alpha_dropout"},
                     "the input itself: nothing is dropped outside of training")
          .Tensor("input", kAllDTypes)
          .Ignored("p")
          .Ignored("training")
          .Ignored("inplace")
          .Elementwise()
          .KeepsDType()
          .F16OnCpu(),
      CreateFromText("@0"));
}

}  // namespace
}  // namespace oort

OORT_LAYERS(elementwise) {
  using namespace oort;
  expression::AddFunctionOperators(registry, expression::FunctionKind::kOthers);
  AddSelections(registry);
  AddCast(registry);
  AddIdentities(registry);
}
