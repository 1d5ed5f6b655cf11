// SPDX-License-Identifier: MIT
#include "decoder/altup.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "cpu/activation.h"

namespace oort {

int AltUp::Linear(const std::string& name, int x) {
  return parts_.graph().AddOne(parts_.LinearOf(name, {name}), {x});
}

/// Of (tokens, streams, width): (tokens, width).
int AltUp::Select(const std::string& name, int x, int64_t index) {
  Written select{"Tensor.select", name};
  select.Set("dim", Value(int64_t{1})).Set("index", Value(index));
  return parts_.graph().AddOne(std::move(select), {x});
}

/// What is at `index`, with an axis of 1.
int AltUp::Column(const std::string& name, int x, int64_t dim, int64_t index) {
  Written narrow{"torch.narrow", name + std::to_string(index)};
  narrow.Set("dim", Value(dim)).Set("start", Value(index)).Set("length", Value(int64_t{1}));
  return parts_.graph().AddOne(std::move(narrow), {x});
}

/// What coefficients of the streams are made of. These are few, and all that follows depends on
/// them: they are not rounded.
int AltUp::Coefficients(const std::string& name, const std::string& kind, int x) {
  const std::string place = name + "." + kind;
  Written norm = parts_.NormOf(name + ".router_norm", parts_.config().norm_epsilon);
  norm.name = place + ".norm";
  Written route = parts_.LinearOf(place + ".router", {name + ".modality_router"});
  Written linear = parts_.LinearOf(place, {place});
  for (Written* const exact : {&route, &linear}) {
    exact->Set("precision", Value(std::string("f32")));
  }
  GraphWriter& graph = parts_.graph();
  const int normed = graph.AddOne(std::move(norm), {x});
  const std::string scale = DecoderParts::Number(1 / static_cast<float>(parts_.config().hidden));
  const int routed = parts_.Expression(place + ".router", "tanh(mul(@0," + scale + "))",
                                       {graph.AddOne(std::move(route), {normed})});
  return graph.AddOne(std::move(linear), {routed});
}

int AltUp::MeanSquare(const std::string& name, int x) {
  return parts_.Mean(name + ".mean", parts_.Expression(name, "mul(@0,@0)", {x}));
}

/// x, scaled so that its numbers are as large as those of another vector.
int AltUp::OfSize(const std::string& name, int x, int mean_square) {
  const std::string least = DecoderParts::Number(1e-5F);
  return parts_.Expression(name + ".scaled",
                           "div(mul(@0,sqrt(@1)),sqrt(maximum(@2," + least + ")))",
                           {x, mean_square, MeanSquare(name + ".square", x)});
}

int AltUp::Begin(int tokens, int x) {
  const DecoderConfig& config = parts_.config();
  const int64_t width = config_.per_layer;
  int known = tokens;
  if (config_.vocabulary < config.vocabulary) {  // tokens of pictures and sounds have no row
    known = parts_.Expression("per_layer_tokens",
                              "where(lt(@0," + std::to_string(config_.vocabulary) + "),@0,0)",
                              {tokens});
  }
  Written table = parts_.Table("model.embed_tokens_per_layer");
  table.Set("factor", Value(std::sqrt(static_cast<double>(width))));
  const int embedded = parts_.graph().AddOne(std::move(table), {known});
  const int projected = parts_.Expression(
      "per_layer_projection",
      "mul(@0," +
          DecoderParts::Number(
              static_cast<float>(1 / std::sqrt(static_cast<double>(config.hidden)))) +
          ")",
      {Linear("model.per_layer_model_projection", x)});
  const std::vector<int64_t> split = {-1, config.layers, width};
  const int normed = parts_.Norm("model.per_layer_projection_norm",
                                 parts_.Reshape("per_layer_projection.split", projected, split));
  const int joined =
      parts_.Reshape("per_layer_projection.join", normed, {-1, config.layers * width});
  const std::string half = DecoderParts::Number(1 / std::numbers::sqrt2_v<float>);
  const int sum =
      parts_.Expression("per_layer_sum", "mul(add(@0,@1)," + half + ")", {joined, embedded});
  per_layer_ = parts_.Reshape("per_layer_inputs", sum, split);

  std::vector<float> follows(static_cast<size_t>(config_.streams), 1);
  follows[0] = 0;
  follows_ = parts_.Constant(
      "altup.follows", Tensor::From(std::span<const float>(follows), Shape{config_.streams, 1}));
  const int size = MeanSquare("altup.embeddings", x);
  std::vector<int> streams = {x};
  for (int64_t i = 1; i < config_.streams; ++i) {
    const std::string name = "model.altup_projections." + std::to_string(i - 1);
    streams.push_back(OfSize(name, Linear(name, x), size));
  }
  Written stack{"torch.stack", "altup.streams"};
  stack.Set("dim", Value(int64_t{1}));
  return parts_.graph().AddOne(std::move(stack), streams);
}

int AltUp::Predict(const std::string& layer, int streams) {
  const std::string name = layer + ".altup";
  const int64_t count = config_.streams;
  const int before = Active(name + ".before", streams);
  const int shares = parts_.Reshape(
      name + ".shares", Coefficients(name, "prediction_coefs", before), {-1, count, count});
  // Each stream gains a share of each: a product of two small matrices for every token.
  std::string sum;
  std::vector<int> inputs = {streams};
  for (int64_t i = 0; i < count; ++i) {
    inputs.push_back(Column(name + ".stream", streams, 1, i));
    inputs.push_back(Column(name + ".share", shares, 2, i));
    const std::string term =
        "mul(@" + std::to_string(2 * i + 1) + ",@" + std::to_string(2 * i + 2) + ")";
    sum = i == 0 ? term : "add(" + sum + "," + term + ")";
  }
  return parts_.Expression(name + ".predict", "add(" + sum + ",@0)", inputs);
}

int AltUp::Active(const std::string& layer, int streams) {
  return Select(layer + ".active", streams, config_.active);
}

int AltUp::AddLaurel(const std::string& layer, int in, int x) {
  const std::string name = layer + ".laurel";
  const int low = Linear(name + ".linear_left", in);
  const int normed = parts_.Norm(name + ".post_laurel_norm", Linear(name + ".linear_right", low));
  const std::string root = DecoderParts::Number(std::numbers::sqrt2_v<float>);
  return parts_.Expression(name, "div(add(@0,add(@1,@2))," + root + ")", {x, in, normed});
}

int AltUp::Correct(const std::string& layer, int64_t index, int predicted, int active, int made) {
  const std::string name = layer + ".altup";
  const int64_t hidden = parts_.config().hidden;
  const int shares = Coefficients(name, "correction_coefs", made);
  const int difference = parts_.Expression(name + ".difference", "sub(@0,@1)", {made, active});
  const int corrected = parts_.Expression(
      name + ".correct", "add(mul(@1,add(@2,1)),@0)",
      {predicted, parts_.Reshape(name + ".difference.row", difference, {-1, 1, hidden}),
       parts_.Reshape(name + ".share.column", shares, {-1, config_.streams, 1})});
  int first = Active(name + ".corrected", corrected);
  if (config_.scaled) {
    const std::string scale = name + ".correct_output_scale";
    first = parts_.Expression(
        scale, "mul(@0,@1)",
        {first, parts_.Constant(scale, parts_.checkpoint().Vector(scale + ".weight"))});
  }
  const int gate = Linear(layer + ".per_layer_input_gate", first);
  const int own = Select(layer + ".per_layer_input", per_layer_, index);
  const int let = parts_.Expression(layer + ".per_layer_input",
                                    "mul(" + ActivationText({parts_.config().activation}) + ",@1)",
                                    {gate, own});
  const int added = parts_.Norm(layer + ".post_per_layer_input_norm",
                                Linear(layer + ".per_layer_projection", let));
  return parts_.Expression(
      layer + ".streams", "add(@0,mul(@1,@2))",
      {corrected, parts_.Reshape(layer + ".per_layer_row", added, {-1, 1, hidden}), follows_});
}

int AltUp::Merge(int streams) {
  const int first = Select("altup.first", streams, 0);
  const int size = MeanSquare("altup.first", first);
  std::vector<int> all = {first};
  std::string sum = "@0";
  for (int64_t i = 1; i < config_.streams; ++i) {
    const std::string number = std::to_string(i - 1);
    const std::string name = "model.altup_unembed_projections." + number;
    all.push_back(OfSize(name, Linear(name, Select(name + ".stream", streams, i)), size));
    sum = "add(" + sum + ",@" + std::to_string(i) + ")";
  }
  const std::string count = std::to_string(config_.streams);
  return parts_.Expression("altup.mean", "div(" + sum + "," + count + ")", all);
}

}  // namespace oort
