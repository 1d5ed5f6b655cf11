// SPDX-License-Identifier: MIT
// nn.MultiheadAttention on the GPU: products and attention that are there, one after another.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "layers/attention/mha_inputs.h"
#include "layers/composite/decomposition.h"
#include "layers/weight_arg.h"

namespace oort {
namespace {

/// What does not change from call to call.
class DeviceMultihead {
 public:
  /// The arguments that it reads when it is made.
  static std::vector<int> Packed(const LayerInit& init) {
    std::vector<int> packed;
    for (const char* name : {"@in_proj_weight", "@in_proj_bias", "@q_proj_weight", "@k_proj_weight",
                             "@v_proj_weight", "@out_proj.weight", "@out_proj.bias"}) {
      packed.push_back(init.Arg(name));
    }
    return packed;
  }

  explicit DeviceMultihead(const LayerInit& init)
      : names_(init.op().input_names),
        heads_(init.Int("num_heads")),
        rank_(init.Int("rank")),
        batch_first_(init.Bool("batch_first")) {
    for (const Operand* input : init.inputs()) {
      if (input->dtype == DType::kF32 || input->dtype == DType::kBool) continue;
      throw Error(ErrorCode::kUnsupported, "is of " + std::string(Name(input->dtype)));
    }
    if (init.Bool("add_zero_attn") || ReadWeight<float>(init, "bias_k").defined()) {
      throw Error(ErrorCode::kUnsupported, "appends to the keys, which the GPU does not");
    }
    ReadWeights(init);
    wants_weights_ = init.outputs().size() > 1;
    if (wants_weights_ && init.outputs()[1]->has_shape) {
      traced_weights_rank_ = init.outputs()[1]->shape.rank();
    }
  }

  std::vector<Value> Call(const Decomposer& call, const Args& args) const {
    const MhaInputs match = MatchMhaInputs(args.inputs(), names_, batch_first_, rank_);
    const auto input = [&](int index) {
      return index < 0 ? Value() : *args.inputs()[static_cast<size_t>(index)];
    };
    const Value query = input(match.query);
    const bool batched = query.AsTensor().rank() == 3;
    const std::array<Value, 3> given = {query, input(match.key), input(match.value)};
    std::array<Value, 3> split;  // (batch, length, heads, width)
    for (size_t i = 0; i < 3; ++i) {
      const Value rows = BatchFirst(call, given[i], batched);
      split[i] = Split(call, projections_[i].Call(call, rows));
    }
    const int64_t batch = split[0].AsTensor().dim(0);
    const Value mask = MaskOf(call, input(match.attention_mask), input(match.padding_mask), batch);
    std::vector<Decomposer::Argument> arguments = {{"query", split[0]},
                                                   {"key", split[1]},
                                                   {"value", split[2]},
                                                   {"attn_mask", mask},
                                                   {"plain_softmax", Value(true)}};
    for (const char* flag :
         {"query_heads_last", "key_heads_last", "value_heads_last", "output_heads_last"}) {
      arguments.emplace_back(flag, Value(true));
    }
    Shape rows = split[0].AsTensor().shape();
    rows = Shape{rows[0], rows[1], embed_};
    const Value mixed = call.Reshape(call("oort.Attention", arguments), rows);
    Value output = out_.Call(call, mixed);
    output = batched && !batch_first_ ? Swapped(call, output)
                                      : call.Reshape(output, query.AsTensor().shape());
    std::vector<Value> results = {output};
    if (wants_weights_) results.push_back(Scores(call, split[0], split[1], mask, batched));
    return results;
  }

  /// Lets go of the weights, once the GPU has them.
  void Forget() {
    for (Projection& projection : projections_) projection.Forget();
    out_.Forget();
  }

 private:
  /// x W^T + b
  struct Projection {
    const char* name = "";
    std::map<std::string, Tensor> weights;

    Value Call(const Decomposer& call, const Value& x) const {
      const bool bias = weights.count("bias") != 0;
      return call.Module("nn.Linear", {{"", x}, {"bias", bias}}, weights, 1, name).front();
    }
    void Forget() {
      for (auto& [key, weight] : weights) weight = Tensor::Meta(weight.dtype(), weight.shape());
    }
  };

  static Projection MakeProjection(const char* name, const Tensor& weight, const Tensor& bias) {
    Projection projection{name, {{"weight", weight}}};
    if (bias.defined()) projection.weights.emplace("bias", bias);
    return projection;
  }

  /// The layer of the CPU has told what is wrong with a model: here it is only refused.
  static void Require(bool right) {
    if (!right) throw Error(ErrorCode::kUnsupported, "has weights that do not fit each other");
  }

  void ReadWeights(const LayerInit& init) {
    const Tensor out = ReadWeight<float>(init, "out_proj.weight");
    Require(out.defined() && out.rank() == 2 && out.dim(0) == out.dim(1) && out.dim(0) > 0);
    embed_ = out.dim(0);
    Require(embed_ % heads_ == 0);
    const Tensor joint = ReadWeight<float>(init, "in_proj_weight");
    const Tensor bias = ReadWeight<float>(init, "in_proj_bias");
    Require(!bias.defined() || bias.elements() == 3 * embed_);
    constexpr std::array<const char*, 3> kNames = {"q_proj_weight", "k_proj_weight",
                                                   "v_proj_weight"};
    for (size_t i = 0; i < 3; ++i) {
      const Tensor weight = joint.defined() ? joint : ReadWeight<float>(init, kNames[i]);
      Require(weight.defined() && weight.rank() == 2 &&
              weight.dim(0) == (joint.defined() ? 3 * embed_ : embed_));
      const int64_t first = static_cast<int64_t>(i) * embed_;
      projections_.push_back(MakeProjection(
          kNames[i], joint.defined() ? weight.Rows(first, first + embed_) : weight,
          bias.defined() ? bias.Reshaped({3 * embed_}).Rows(first, first + embed_) : Tensor()));
    }
    out_ = MakeProjection("out_proj.weight", out, ReadWeight<float>(init, "out_proj.bias"));
  }

  static Value Swapped(const Decomposer& call, const Value& x) {
    const std::array<int64_t, 3> order = {1, 0, 2};
    return call("Tensor.permute", {{"input", x}, {"dims", Value::Ints(order)}});
  }

  Value BatchFirst(const Decomposer& call, const Value& x, bool batched) const {
    const Shape& shape = x.AsTensor().shape();
    if (!batched) return call.Reshape(x, Shape{1, shape[0], shape[1]});
    return batch_first_ ? x : Swapped(call, x);
  }

  Value Split(const Decomposer& call, const Value& x) const {
    const Shape& shape = x.AsTensor().shape();
    return call.Reshape(x, Shape{shape[0], shape[1], heads_, embed_ / heads_});
  }

  /// Numbers that are added to the scores.
  static Value Added(const Decomposer& call, const Value& mask) {
    if (mask.AsTensor().dtype() != DType::kBool) return mask;
    return call.Formula("where(@0,@1,@2)",
                        {mask, Value(-std::numeric_limits<double>::infinity()), Value(0.0)});
  }

  Value MaskOf(const Decomposer& call, const Value& attention, const Value& padding,
               int64_t batch) const {
    Value first, second;
    if (!attention.IsNone()) {
      const Shape shape = attention.AsTensor().shape();
      first = Added(call, attention);
      if (shape.rank() == 3) {
        first = call.Reshape(first, Shape{batch, heads_, shape[1], shape[2]});
      }
    }
    if (!padding.IsNone()) {
      const Shape shape = padding.AsTensor().shape();
      second = call.Reshape(Added(call, padding), Shape{batch, 1, 1, shape[shape.rank() - 1]});
    }
    if (first.IsNone() || second.IsNone()) return first.IsNone() ? second : first;
    return call.Formula("add(@0,@1)", {first, second});
  }

  /// What each query makes of each key, of all heads or their mean.
  Value Scores(const Decomposer& call, const Value& query, const Value& key, const Value& mask,
               bool batched) const {
    const std::array<int64_t, 4> by_head = {0, 2, 1, 3}, across = {0, 2, 3, 1};
    const Value q = call("Tensor.permute", {{"input", query}, {"dims", Value::Ints(by_head)}});
    const Value k = call("Tensor.permute", {{"input", key}, {"dims", Value::Ints(across)}});
    const Value product = call("torch.matmul", {{"input", q}, {"other", k}});
    const Value scale(1 / std::sqrt(static_cast<double>(embed_ / heads_)));
    const Value scores = mask.IsNone() ? call.Formula("mul(@0,@1)", {product, scale})
                                       : call.Formula("add(mul(@0,@1),@2)", {product, scale, mask});
    Value weights = call("F.softmax", {{"input", scores}, {"dim", Value(-1)}});
    const bool per_head = traced_weights_rank_ == (batched ? 4 : 3);
    if (!per_head) {
      const std::array<int64_t, 1> heads = {1};
      weights = call("torch.mean", {{"input", weights}, {"dim", Value::Ints(heads)}});
    }
    if (batched) return weights;
    Shape shape = weights.AsTensor().shape();
    shape.Erase(0);
    return call.Reshape(weights, shape);
  }

  std::vector<std::string> names_;
  int64_t heads_, rank_, embed_ = 0;
  bool batch_first_, wants_weights_ = false;
  int traced_weights_rank_ = -1;
  std::vector<Projection> projections_;  // of queries, keys and values
  Projection out_;
};

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(device_multihead) {
  using namespace oort;
  registry.AddDevice({"nn.MultiheadAttention"}, DeviceType::kCuda, [](const LayerInit& init) {
    const auto multihead = std::make_shared<DeviceMultihead>(init);
    auto layer = std::make_unique<DecompositionLayer>(
        init,
        [multihead](const Decomposer& call, const Args& args) {
          return multihead->Call(call, args);
        },
        DeviceMultihead::Packed(init));
    // It has made all parts, unless nothing was traced.
    if (init.inputs().size() == init.op().inputs.size()) multihead->Forget();
    return layer;
  });
}
