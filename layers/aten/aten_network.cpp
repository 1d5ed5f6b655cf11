// SPDX-License-Identifier: MIT
// Convolutions, norms, samplers and recurrent layers in the forms that ATen has beside those that
// pnnx names: with a flag for the transposed one, numbers for modes, weights in a list.
#include <cmath>

#include "layers/composite/decomposition.h"

namespace oort {
namespace {

[[noreturn]] void FailOnArgument(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

std::string SpatialRank(const Tensor& weight) {
  if (weight.rank() < 3 || weight.rank() > 5) {
    FailOnArgument("expected a weight of rank 3 to 5, got " + weight.ToString());
  }
  return std::to_string(weight.rank() - 2) + "d";
}

/// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
std::vector<Value> AnyConvolution(const Decomposer& call, const Args& args) {
  const bool transposed = args[6].AsBool();
  std::vector<Decomposer::Argument> arguments{
      {"input", args[0]},   {"weight", args[1]},   {"bias", args[2]},  {"stride", args[3]},
      {"padding", args[4]}, {"dilation", args[5]}, {"groups", args[8]}};
  if (transposed) arguments.emplace_back("output_padding", args[7]);
  return {
      call((transposed ? "F.conv_transpose" : "F.conv") + SpatialRank(args.tensor(1)), arguments)};
}

/// The padding is a word here.
std::vector<Value> ConvolutionMode(const Decomposer& call, const Args& args) {
  return {call("F.conv" + SpatialRank(args.tensor(1)), {{"input", args[0]},
                                                        {"weight", args[1]},
                                                        {"bias", args[2]},
                                                        {"stride", args[3]},
                                                        {"padding", args[4]},
                                                        {"dilation", args[5]},
                                                        {"groups", args[6]}})};
}

Value Permuted(const Decomposer& call, const Value& x, const char* dims) {
  return call("torch.permute", {{"input", x}, {"dims", Parameter(dims).value()}});
}

/// Time, batch and channels in this order.
std::vector<Value> ConvolutionOverTime(const Decomposer& call, const Args& args) {
  const Value y = call("F.conv1d", {{"input", Permuted(call, args[0], "(1,2,0)")},
                                    {"weight", Permuted(call, args[1], "(2,1,0)")},
                                    {"bias", args[2]},
                                    {"padding", ValueOr(args, 3, 0)}});
  return {Permuted(call, y, "(2,0,1)")};
}

const char* ModeName(const Value& number, std::initializer_list<const char*> names) {
  const int64_t index = number.AsInt();
  if (index < 0 || index >= static_cast<int64_t>(names.size())) {
    FailOnArgument("expected a mode below " + std::to_string(names.size()) + ", got " +
                   number.ToString());
  }
  return names.begin()[index];
}

std::vector<Value> GridSampler(const Decomposer& call, const Args& args) {
  return {
      call("F.grid_sample", {{"input", args[0]},
                             {"grid", args[1]},
                             {"mode", ModeName(args[2], {"bilinear", "nearest", "bicubic"})},
                             {"padding_mode", ModeName(args[3], {"zeros", "border", "reflection"})},
                             {"align_corners", args[4]}})};
}

/// Sizes, and beside them perhaps the factors that they came from: in one list or one by one.
Decomposition Upsample(const char* mode, int axes) {
  return [mode, axes](const Decomposer& call, const Args& args) -> std::vector<Value> {
    Value::List factors;
    if (args.Has(3) && args[3].IsList()) {
      factors = args[3].AsList();
    } else {
      for (int i = 3; i < args.size() && args.Has(i); ++i) factors.push_back(args[i]);
    }
    bool scaled = static_cast<int>(factors.size()) == axes;
    if (scaled && args.Has(1)) {
      const std::vector<int64_t> sizes = args[1].AsInts();
      for (size_t i = 0; scaled && i < sizes.size() && i < factors.size(); ++i) {
        const double extent = static_cast<double>(args.shape(0)[static_cast<int>(i) + 2]);
        scaled = std::floor(extent * factors[i].AsFloat()) == static_cast<double>(sizes[i]);
      }
    }
    return {call("F.interpolate",
                 {{"input", args[0]},
                  {scaled ? "scale_factor" : "size", scaled ? Value(std::move(factors)) : args[1]},
                  {"mode", mode},
                  {"align_corners", args[2]}})};
  };
}

/// Mean and 1 / sqrt(variance + eps) over `dims`, all axes kept.
std::vector<Value> Statistics(const Decomposer& call, const Value& x, const Value& dims,
                              const Value& eps) {
  const std::vector<Value> both = call.All(
      "torch.var_mean", {{"input", x}, {"dim", dims}, {"correction", 0}, {"keepdim", true}}, 2);
  return {both[1], call.Formula("rsqrt(add(@0,@1))", {both[0], eps})};
}

std::vector<Value> NativeLayerNorm(const Decomposer& call, const Args& args) {
  const Value y = call("F.layer_norm", {{"input", args[0]},
                                        {"normalized_shape", args[1]},
                                        {"weight", args[2]},
                                        {"bias", args[3]},
                                        {"eps", args[4]}});
  Value::List dims;
  for (size_t i = args[1].AsInts().size(); i > 0; --i) dims.emplace_back(-static_cast<int64_t>(i));
  const std::vector<Value> of = Statistics(call, args[0], Value(std::move(dims)), args[4]);
  return {y, of[0], of[1]};
}

/// input, weight, bias, N, C, HxW, group, eps
std::vector<Value> NativeGroupNorm(const Decomposer& call, const Args& args) {
  const int64_t batch = args[3].AsInt(), groups = args[6].AsInt();
  const int64_t count = args.tensor(0).elements();
  if (batch < 1 || groups < 1 || count % batch != 0 || count / batch % groups != 0) {
    FailOnArgument("expected N and group that divide the input, got " + args[3].ToString() +
                   " and " + args[6].ToString());
  }
  const Value y = call("F.group_norm", {{"input", args[0]},
                                        {"num_groups", args[6]},
                                        {"weight", args[1]},
                                        {"bias", args[2]},
                                        {"eps", args[7]}});
  const Value rows = call.Reshape(args[0], {batch, groups, count / batch / groups});
  const std::vector<Value> of = Statistics(call, rows, Value(Value::List{2}), args[7]);
  const Shape shape{batch, groups};
  return {y, call.Reshape(of[0], shape), call.Reshape(of[1], shape)};
}

/// With the statistics of the batch, or with those given; then there is nothing more to tell.
std::vector<Value> BatchNormOf(const Decomposer& call, const Args& args, bool training, int eps) {
  const Value y = call("F.batch_norm", {{"input", args[0]},
                                        {"running_mean", training ? Value() : args[3]},
                                        {"running_var", training ? Value() : args[4]},
                                        {"weight", args[1]},
                                        {"bias", args[2]},
                                        {"training", training},
                                        {"eps", args[eps]}});
  if (!training) {
    const Value none = Tensor(args.tensor(0).dtype(), Shape{0});
    return {y, none, none};
  }
  Value::List dims{0};
  for (int i = 2; i < args.tensor(0).rank(); ++i) dims.emplace_back(i);
  const std::vector<Value> of = Statistics(call, args[0], Value(std::move(dims)), args[eps]);
  const Shape channels{args.tensor(0).dim(1)};
  return {y, call.Reshape(of[0], channels), call.Reshape(of[1], channels)};
}

std::vector<Value> NativeBatchNorm(const Decomposer& call, const Args& args) {
  return BatchNormOf(call, args, args[5].AsBool(), 7);
}

std::vector<Value> NativeBatchNormInference(const Decomposer& call, const Args& args) {
  return BatchNormOf(call, args, false, 6);
}

/// v · g / ‖v‖, the norm over all axes but one.
std::vector<Value> WeightNorm(const Decomposer& call, const Args& args) {
  const int rank = args.tensor(0).rank();
  const int kept = NormalizeAxis(ValueOr(args, 2, 0).AsInt(), rank);
  Value::List dims;
  for (int i = 0; i < rank; ++i) {
    if (i != kept) dims.emplace_back(i);
  }
  const Value norm =
      call("torch.norm",
           {{"input", args[0]}, {"p", 2}, {"dim", Value(std::move(dims))}, {"keepdim", true}});
  return {call.Formula("mul(@0,div(@1,@2))", {args[0], args[1], norm})};
}

/// Rows without anything to attend to become 0.
std::vector<Value> SafeSoftmax(const Decomposer& call, const Args& args) {
  const Value y = call("F.softmax", {{"input", args[0]}, {"dim", args[1]}, {"dtype", args[2]}});
  const Value most = call("torch.amax", {{"input", args[0]}, {"dim", args[1]}, {"keepdim", true}});
  return {call.Formula("where(eq(@1,-inf),0.0,@0)", {y, most})};
}

std::vector<Value> MaskedSoftmax(const Decomposer& call, const Args& args) {
  const Value x = call.Formula("where(@1,-inf,@0)", {args[0], args[1]});
  return {call("F.softmax", {{"input", x}, {"dim", ValueOr(args, 2, -1)}})};
}

/// The weights of layer after layer, direction after direction, under the names of nn.LSTM.
std::map<std::string, Tensor> RecurrentWeights(const Value::List& weights, bool biases,
                                               int64_t layers, int64_t directions) {
  const auto count = static_cast<int64_t>(weights.size());
  std::vector<const char*> names{"weight_ih", "weight_hh"};
  if (biases) names.insert(names.end(), {"bias_ih", "bias_hh"});
  const int64_t parts = layers > 0 ? count / layers / directions : 0;
  if (parts == static_cast<int64_t>(names.size()) + 1) names.push_back("weight_hr");
  if (parts != static_cast<int64_t>(names.size()) || count != parts * layers * directions) {
    FailOnArgument("expected the weights of " + std::to_string(layers) + " layers, got " +
                   std::to_string(count));
  }
  std::map<std::string, Tensor> named;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t cell = i / parts;
    named[names[static_cast<size_t>(i % parts)] + ("_l" + std::to_string(cell / directions)) +
          (cell % directions == 1 ? "_reverse" : "")] = weights[static_cast<size_t>(i)].AsTensor();
  }
  return named;
}

/// input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
Decomposition Recurrent(const char* type, int64_t gates, const char* nonlinearity) {
  return [=](const Decomposer& call, const Args& args) -> std::vector<Value> {
    if (!args[2].IsList()) {
      throw Error(ErrorCode::kUnsupported, "takes no packed sequences; pass padded ones");
    }
    const bool lstm = gates == 4;
    if (!args[2].IsConcrete()) return std::vector<Value>(lstm ? 3 : 2, Value::Deferred());
    const bool both = args[7].AsBool();
    std::map<std::string, Tensor> weights =
        RecurrentWeights(args[2].AsList(), args[3].AsBool(), args[4].AsInt(), both ? 2 : 1);
    const Shape in = weights["weight_ih_l0"].shape(), hidden = weights["weight_hh_l0"].shape();
    if (in.rank() != 2 || hidden.rank() != 2) FailOnArgument("expected weights that are matrices");
    std::vector<Decomposer::Argument> arguments{
        {"input", args[0]},        {"input_size", in[1]}, {"hidden_size", in[0] / gates},
        {"num_layers", args[4]},   {"bias", args[3]},     {"batch_first", args[8]},
        {"bidirectional", args[7]}};
    if (nonlinearity != nullptr) arguments.emplace_back("nonlinearity", nonlinearity);
    if (hidden[1] != in[0] / gates) arguments.emplace_back("proj_size", hidden[1]);
    if (lstm) {
      if (args[1].AsList().size() != 2) FailOnArgument("expected hx with two tensors");
      arguments.emplace_back("h0", args[1].AsList()[0]);
      arguments.emplace_back("c0", args[1].AsList()[1]);
    } else {
      arguments.emplace_back("h0", args[1]);
    }
    return call.Module(type, arguments, std::move(weights), lstm ? 3 : 2);
  };
}

void AddConvolutions(LayerRegistry& registry) {
  const std::string convolution =
      "*input *weight ?bias stride padding dilation transposed output_padding groups";
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::convolution", "aten::_convolution"},
                          "A convolution in 1 to 3 dimensions, or a transposed one",
                          convolution + " benchmark deterministic cudnn_enabled allow_tf32"),
      AnyConvolution);
  AddDecomposition(registry,
                   DecompositionSchema({"aten::_convolution_mode"},
                                       "A convolution with padding `same` or `valid`",
                                       "*input *weight ?bias stride padding dilation groups"),
                   ConvolutionMode);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::conv_tbc"}, "A convolution over time, batch and channels",
                          "*input *weight *bias pad"),
      ConvolutionOverTime);
}

void AddSamplers(LayerRegistry& registry) {
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d"},
                          "`F.grid_sample`, its modes as numbers",
                          "*input *grid interpolation_mode padding_mode align_corners"),
      GridSampler);
  const auto upsample = [&](const char* name, const char* mode, int axes, const char* scales) {
    AddDecomposition(registry,
                     DecompositionSchema({std::string("aten::upsample_") + name}, "`F.interpolate`",
                                         std::string("*input output_size align_corners ") + scales),
                     Upsample(mode, axes));
  };
  upsample("linear1d", "linear", 1, "scales");
  upsample("bilinear2d", "bilinear", 2, "scales_h scales_w");
  upsample("bicubic2d", "bicubic", 2, "scales_h scales_w");
  upsample("trilinear3d", "trilinear", 3, "scales_d scales_h scales_w");
}

void AddNativeNorms(LayerRegistry& registry) {
  AddDecomposition(registry,
                   DecompositionSchema({"aten::native_layer_norm"},
                                       "`F.layer_norm`, the means and 1 / the deviations",
                                       "*input normalized_shape ?weight ?bias eps", kFloats)
                       .Outputs(3),
                   NativeLayerNorm);
  AddDecomposition(registry,
                   DecompositionSchema({"aten::native_group_norm"},
                                       "`F.group_norm`, the means and 1 / the deviations",
                                       "*input ?weight ?bias N C HxW group eps", kFloats)
                       .Outputs(3),
                   NativeGroupNorm);
  const std::string stored = "*input ?weight ?bias ?running_mean ?running_var ";
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::native_batch_norm", "aten::_native_batch_norm_legit"},
                          "`F.batch_norm`, and what it took from the batch",
                          stored + "training momentum eps", kFloats)
          .Outputs(3),
      NativeBatchNorm);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::_native_batch_norm_legit_no_training"},
                          "`F.batch_norm` with stored statistics", stored + "momentum eps", kFloats)
          .Outputs(3),
      NativeBatchNormInference);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::_weight_norm"}, "v · g / ‖v‖, the norm over all axes but `dim`",
                          "*v *g dim", kFloats),
      WeightNorm);
}

void AddRecurrent(LayerRegistry& registry) {
  const char* arguments =
      "*input hx params has_biases num_layers dropout train bidirectional batch_first";
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::lstm"}, "`nn.LSTM` with weights given as a list", arguments)
          .Outputs(3),
      Recurrent("nn.LSTM", 4, nullptr));
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::gru"}, "`nn.GRU` with weights given as a list", arguments)
          .Outputs(2),
      Recurrent("nn.GRU", 3, nullptr));
  for (const char* name : {"tanh", "relu"}) {
    AddDecomposition(registry,
                     DecompositionSchema({std::string("aten::rnn_") + name},
                                         "`nn.RNN` with weights given as a list", arguments)
                         .Outputs(2),
                     Recurrent("nn.RNN", 1, name));
  }
}

}  // namespace
}  // namespace oort

OORT_LAYERS(aten_network) {
  using namespace oort;
  AddConvolutions(registry);
  AddSamplers(registry);
  AddNativeNorms(registry);
  AddRecurrent(registry);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::_safe_softmax"}, "`F.softmax`; 0 where everything is -inf",
                          "*input dim dtype", kFloats),
      SafeSoftmax);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::_masked_softmax"}, "`F.softmax` of what the mask leaves",
                          "*input *mask dim mask_type"),
      MaskedSoftmax);
}
