// SPDX-License-Identifier: MIT
#include "layers/aten/recipe.h"

#include <algorithm>
#include <sstream>

namespace oort {
namespace {

bool HoldsTensors(const Value& value) {
  if (!value.IsList()) return value.IsTensor() || value.IsDeferred();
  return std::any_of(value.AsList().begin(), value.AsList().end(), HoldsTensors);
}

class RecipeLayer final : public CompositeLayer {
 public:
  RecipeLayer(const LayerInit& init, Recipe recipe)
      : make_(init), recipe_(std::move(recipe)), outputs_(init.outputs().size()) {}

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    for (int i = 0; i < args.size(); ++i) {
      if (args[i].IsDeferred()) return std::vector<Value>(outputs_, Value::Deferred());
    }
    return recipe_(Calls(steps, make_), args);
  }

 private:
  PartMaker make_;
  Recipe recipe_;
  size_t outputs_;
};

}  // namespace

std::vector<Value> Calls::All(const std::string& type, const std::vector<Argument>& arguments,
                              int outputs) const {
  Part::Spec spec{.type = type, .inputs = {}};
  spec.outputs = outputs;
  return Module(std::move(spec), arguments);
}

std::vector<Value> Calls::Module(Part::Spec spec, const std::vector<Argument>& arguments) const {
  std::vector<Value> operands;
  for (const auto& [name, value] : arguments) {
    if (value.IsNone()) continue;
    if (HoldsTensors(value)) {
      spec.inputs.push_back(name);
      operands.push_back(value);
    } else {
      spec.params[name] = value.ToString();
    }
  }
  return steps_.All(make_(std::move(spec)), operands);
}

Value Calls::Formula(const std::string& text, const std::vector<Value>& operands) const {
  Part::Spec spec{.type = "pnnx.Expression",
                  .inputs = std::vector<std::string>(operands.size()),
                  .params = {{"expr", text}}};
  return steps_(make_(std::move(spec)), operands);
}

OperatorSchema RecipeSchema(std::vector<std::string> types, std::string doc,
                            const std::string& arguments, DTypeSet dtypes) {
  OperatorSchema schema(std::move(types), std::move(doc));
  std::istringstream words(arguments);
  for (std::string word; words >> word;) {
    if (word[0] == '*') {
      schema.Tensor(word.substr(1), dtypes);
    } else if (word[0] == '?') {
      schema.OptionalTensor(word.substr(1), dtypes);
    } else {
      schema.Any(word).Nullable().Dynamic();
    }
  }
  return schema;
}

LayerCreator CreateFromRecipe(Recipe recipe) {
  return [recipe = std::move(recipe)](const LayerInit& init) {
    return std::make_unique<RecipeLayer>(init, recipe);
  };
}

void AddRecipe(LayerRegistry& registry, OperatorSchema schema, Recipe recipe) {
  registry.Add(std::move(schema), CreateFromRecipe(std::move(recipe)));
}

void AddDeviceRecipe(LayerRegistry& registry, const std::vector<std::string>& types,
                     Recipe recipe) {
  registry.AddDevice(types, DeviceType::kCuda,
                     [recipe = std::move(recipe)](const LayerInit& init) -> std::unique_ptr<Layer> {
                       auto layer = std::make_unique<RecipeLayer>(init, recipe);
                       layer->TryOnDevice(init);
                       return layer;
                     });
}

}  // namespace oort
