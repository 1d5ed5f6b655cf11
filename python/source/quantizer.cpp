// SPDX-License-Identifier: MIT
#include "quantizer.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "load.h"
#include "oort/pnnx.h"
#include "options.h"
#include "quantize/quantize.h"
#include "unlocked.h"

namespace oort::python {
namespace {

/// Samples of Python, which keeps their memory while they are read.
class ArraySamples {
 public:
  explicit ArraySamples(const nb::list& samples) {
    for (nb::handle sample : samples) {
      std::vector<Tensor> tensors;
      for (nb::handle array : sample) {
        ArrayInput input = InputOf(array, "sample " + std::to_string(tensors_.size()) + ", input " +
                                              std::to_string(tensors.size()));
        held_.push_back(std::move(input.array));
        tensors.push_back(std::move(input.tensor));
      }
      tensors_.push_back(std::move(tensors));
    }
  }

  quantize::Samples Get() const {
    quantize::Samples samples;
    samples.count = tensors_.size();
    samples.read = [this](size_t index) { return tensors_.at(index); };
    samples.name = [](size_t index) { return "sample " + std::to_string(index); };
    return samples;
  }

 private:
  std::vector<nb::ndarray<nb::ro>> held_;
  std::vector<std::vector<Tensor>> tensors_;
};

quantize::Recipe RecipeOf(const nb::dict& options) {
  quantize::Recipe recipe;
  std::string text, method = "auto";
  Set(text, options, "recipe");
  if (!text.empty()) recipe = quantize::ParseRecipe(text);
  Set(method, options, "method");
  if (method != "auto") {
    recipe.method = quantize::MethodOf(method);
    if (!recipe.method) {
      throw Error(
          ErrorCode::kInvalidArgument,
          "method '" + method + "' is not auto, minmax, moving-average, percentile, kl or mse");
    }
  }
  // What a recipe turns on stays on.
  const auto turn_on = [&](bool& member, const char* key) {
    bool on = false;
    Set(on, options, key);
    member |= on;
  };
  turn_on(recipe.dynamic, "dynamic");
  turn_on(recipe.equalize, "equalize");
  turn_on(recipe.adaround, "adaround");
  turn_on(recipe.symmetric, "symmetric");
  turn_on(recipe.one_scale, "one_scale");
  return recipe;
}

nb::dict DictOf(const quantize::QuantizeReport& report) {
  nb::dict dict;
  dict["method"] = report.method;
  dict["samples"] = report.samples;
  dict["judged"] = report.judged;
  dict["float_bytes"] = report.float_weights;
  dict["bytes"] = report.weights;
  const bool judged = !report.result.error.empty();
  dict["sqnr_db"] = judged ? nb::cast(report.result.error.Sqnr()) : nb::object(nb::none());
  dict["cosine"] = judged ? nb::cast(report.result.error.Cosine()) : nb::object(nb::none());
  const bool classes = report.result.agreement.rows > 0;
  dict["agreement"] = classes ? nb::cast(report.result.agreement.share()) : nb::object(nb::none());
  nb::list layers;
  for (const quantize::LayerReport& layer : report.layers) {
    nb::dict row;
    row["name"] = layer.name;
    row["type"] = layer.type;
    row["quantized"] = layer.quantized;
    row["why_float"] = layer.why_float;
    row["weight_sqnr_db"] = layer.weight_sqnr;
    layers.append(row);
  }
  dict["layers"] = layers;
  dict["warnings"] = report.warnings;
  return dict;
}

nb::tuple Quantize(nb::handle param, nb::handle bin, const nb::list& samples, const nb::list& test,
                   const std::string& to_param, const std::string& to_bin,
                   const nb::dict& options) {
  Graph graph = ReadNetwork(param, bin);
  const ArraySamples calibrate(samples), judge(test);
  quantize::QuantizeOptions work;
  work.recipe = RecipeOf(options);
  work.samples = calibrate.Get();
  work.test = judge.Get();
  Set(work.labels, options, "labels");
  Set(work.budget, options, "budget");
  Set(work.threads, options, "threads");
  work.watcher.progress = ProgressOf(options["progress"]);
  std::optional<quantize::QuantizeResult> result;
  RunUnlocked(true, [&](const std::stop_token& stop) {
    work.watcher.stop = stop;
    result = quantize::Quantize(std::move(graph), work);
    WritePnnx(result->graph, to_param, to_bin);
  });
  return nb::make_tuple(DictOf(result->report), quantize::RecipeText(result->recipe));
}

}  // namespace

void BindQuantizer(nb::module_& module) {
  module.def("quantize", &Quantize, nb::arg("param"), nb::arg("bin").none(), nb::arg("samples"),
             nb::arg("test"), nb::arg("to_param"), nb::arg("to_bin"), nb::arg("options"));
}

}  // namespace oort::python
