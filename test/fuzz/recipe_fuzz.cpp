// SPDX-License-Identifier: MIT
// Bytes as a recipe of a network and as one of a language model: an Error, or a recipe that is
// written and read again alike. That of a network also quantizes a small one or says why not.
#include <string_view>

#include "harness.h"
#include "llm_quantize/language_recipe.h"
#include "oort/error.h"
#include "quantize/quantize.h"

namespace oort::fuzz {
namespace {

/// Two linear layers with an activation between.
Graph SmallNetwork() {
  Graph graph;
  const auto operand = [&](const char* name) {
    const int index = graph.AddOperand(name);
    Operand& made = graph.operands[static_cast<size_t>(index)];
    made.dtype = DType::kF32;
    made.has_shape = true;
    made.shape = Shape{1, 2};
    return index;
  };
  const auto add = [&](const char* type, const char* name, std::vector<int> inputs,
                       std::vector<int> outputs) {
    Operator op;
    op.type = type;
    op.name = name;
    op.inputs = std::move(inputs);
    op.outputs = std::move(outputs);
    if (op.type == "nn.Linear") {
      op.params["bias"] = Parameter("False");
      op.attributes["weight"] = Tensor::From<float>({1, 2, -3, 4}, Shape{2, 2});
    }
    graph.AddOperator(std::move(op));
  };
  const int x = operand("x"), a = operand("a"), b = operand("b"), c = operand("c");
  add("pnnx.Input", "pnnx_input_0", {}, {x});
  add("nn.Linear", "first", {x}, {a});
  add("nn.ReLU", "act", {a}, {b});
  add("nn.Linear", "second", {b}, {c});
  add("pnnx.Output", "pnnx_output_0", {c}, {});
  return graph;
}

quantize::Samples OneSample() {
  quantize::Samples samples;
  samples.count = 1;
  samples.read = [](size_t) {
    return std::vector<Tensor>{Tensor::From<float>({0.5f, -1}, Shape{1, 2})};
  };
  samples.name = [](size_t) { return std::string("sample"); };
  return samples;
}

}  // namespace

Target MakeTarget() { return {}; }

}  // namespace oort::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace oort;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    quantize::QuantizeOptions options;
    options.recipe = quantize::ParseRecipe(input);
    const std::string text = quantize::RecipeText(options.recipe);
    if (quantize::RecipeText(quantize::ParseRecipe(text)) != text) __builtin_trap();
    options.samples = fuzz::OneSample();
    options.threads = 1;
    quantize::Quantize(fuzz::SmallNetwork(), options);
    fuzz::CountWhole();
  } catch (const Error&) {
  }
  try {
    const llm_quantize::LanguageRecipe recipe = llm_quantize::ParseLanguageRecipe(input);
    const std::string text = llm_quantize::LanguageRecipeText(recipe);
    if (llm_quantize::ParseLanguageRecipe(text) != recipe) __builtin_trap();
    fuzz::CountWhole();
  } catch (const Error&) {
  }
  return 0;
}
