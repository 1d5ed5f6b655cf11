// SPDX-License-Identifier: MIT
// What tracing an nn.TransformerEncoderLayer in inference mode leaves: one operator of 20 inputs.
#include <array>
#include <optional>

#include "layers/aten/recipe.h"

namespace oort {
namespace {

/// Which queries a mask is for: torch's mask_type.
enum class EncoderMask : int64_t { kQueryKey = 0, kPadding = 1, kFull = 2 };

class TransformerEncoderLayer final : public CompositeLayer {
 public:
  explicit TransformerEncoderLayer(const LayerInit& init)
      : input_(init.Arg("src")),
        mask_(init.Arg("mask")),
        mask_type_(init.Arg("mask_type")),
        heads_(init.Int("num_heads")),
        norm_first_(init.Bool("norm_first")),
        make_(init),
        add_(Part::Expression(init, "add(@0,@1)", 2)),
        is_set_(Part::Expression(init, "ne(@0,0)", 1)),
        act_(
            Part(init, {.type = init.Bool("use_gelu") ? "F.gelu" : "F.relu", .inputs = {"input"}})),
        norm1_(Norm(init, "norm_weight_1", "norm_bias_1")),
        norm2_(Norm(init, "norm_weight_2", "norm_bias_2")),
        linear1_(Linear(init, "ffn_weight_1", "ffn_bias_1")),
        linear2_(Linear(init, "ffn_weight_2", "ffn_bias_2")) {
    const Tensor weight = Constant(init, "qkv_weight");
    const int64_t embed = init.Int("embed_dim");
    if (weight.rank() != 2 || weight.dim(1) != embed) {
      throw Error(ErrorCode::kInvalidModel,
                  "expected a qkv_weight of (3*embed_dim,embed_dim), got " + weight.ToString());
    }
    Part::Spec spec{.type = "nn.MultiheadAttention",
                    .inputs = {"input"},
                    .params = {{"num_heads", std::to_string(heads_)}, {"batch_first", "True"}},
                    .attributes = {{"in_proj_weight", weight},
                                   {"in_proj_bias", Constant(init, "qkv_bias")},
                                   {"out_proj.weight", Constant(init, "proj_weight")},
                                   {"out_proj.bias", Constant(init, "proj_bias")}}};
    if (!init.Constant("mask").IsNone() || !init.IsConstant("mask")) {
      spec.inputs.emplace_back("attn_mask");
    }
    masked_ = spec.inputs.size() == 2;
    attention_.emplace(init, std::move(spec));
  }

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    const Value x = args[input_];
    if (x.AsTensor().rank() != 3) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected (batch,length,embed_dim), got " + x.AsTensor().ToString());
    }
    const Value first = steps(add_, {x, Attend(steps, args, norm_first_ ? steps(norm1_, {x}) : x)});
    const Value middle = norm_first_ ? first : steps(norm1_, {first});
    const Value fed = FeedForward(steps, norm_first_ ? steps(norm2_, {middle}) : middle);
    const Value second = steps(add_, {middle, fed});
    return {norm_first_ ? second : steps(norm2_, {second})};
  }

 private:
  static Tensor Constant(const LayerInit& init, const char* name) {
    if (!init.IsConstant(name) || !init.Constant(name).IsTensor()) {
      throw Error(ErrorCode::kUnsupported,
                  std::string("'") + name + "' must be a tensor that the model holds");
    }
    return init.Constant(name).AsTensor();
  }

  static Part Norm(const LayerInit& init, const char* weight, const char* bias) {
    const Tensor scale = Constant(init, weight);
    return Part(init,
                {.type = "nn.LayerNorm",
                 .inputs = {""},
                 .params = {{"normalized_shape", Value::Ints(scale.shape().dims()).ToString()},
                            {"eps", Value(init.Float("eps")).ToString()}},
                 .attributes = {{"weight", scale}, {"bias", Constant(init, bias)}}});
  }

  static Part Linear(const LayerInit& init, const char* weight, const char* bias) {
    return Part(
        init, {.type = "nn.Linear",
               .inputs = {""},
               .params = {{"bias", "True"}},
               .attributes = {{"weight", Constant(init, weight)}, {"bias", Constant(init, bias)}}});
  }

  Value FeedForward(const Steps& steps, const Value& x) const {
    return steps(linear2_, {steps(act_, {steps(linear1_, {x})})});
  }

  Value Attend(const Steps& steps, const Args& args, const Value& x) const {
    if (!masked_) return steps(*attention_, {x});
    return steps(*attention_, {x, FullMask(steps, args, x.AsTensor().shape())});
  }

  /// The mask for all, (length, length), or for each head of each batch, (batch * heads, length,
  /// length), true where a key does not take part. torch reads numbers as truth values here.
  Value FullMask(const Steps& steps, const Args& args, const Shape& x) const {
    const Value flags = steps(is_set_, {args[mask_]});
    const int64_t batch = x[0], length = x[1];
    const Shape& given = flags.AsTensor().shape();
    const auto type =
        args.Has(mask_type_) ? EncoderMask(args[mask_type_].AsInt()) : EncoderMask::kFull;
    const Shape expected = type == EncoderMask::kQueryKey  ? Shape{length, length}
                           : type == EncoderMask::kPadding ? Shape{batch, length}
                                                           : Shape{batch, heads_, length, length};
    const Shape full{batch * heads_, length, length};
    if (!(given == expected)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a mask " + expected.ToString() + ", got " + given.ToString());
    }
    if (type == EncoderMask::kQueryKey) return flags;
    if (type == EncoderMask::kFull) return Steps::Reshape(flags, full);
    const std::array<int64_t, 4> sizes = {batch, heads_, length, length};
    const Value spread = Calls(steps, make_)(
        "Tensor.expand", {{"input", Steps::Reshape(flags, Shape{batch, 1, 1, length})},
                          {"sizes", Value::Ints(sizes)}});
    return Steps::Reshape(spread, full);
  }

  int input_, mask_, mask_type_;
  int64_t heads_;
  bool norm_first_, masked_ = false;
  PartMaker make_;
  Part add_, is_set_, act_, norm1_, norm2_, linear1_, linear2_;
  std::optional<Part> attention_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(transformer_encoder_layer) {
  using namespace oort;
  registry.Add(
      OperatorSchema({"aten::_transformer_encoder_layer_fwd"},
                     "A whole nn.TransformerEncoderLayer: attention, two linear layers, two norms; "
                     "the mask is true (or not 0) where a key does not take part")
          .Tensor("src", kFloats)
          .Int("embed_dim")
          .AtLeast(1)
          .Int("num_heads")
          .AtLeast(1)
          .Tensor("qkv_weight", kFloats)
          .Tensor("qkv_bias", kFloats)
          .Tensor("proj_weight", kFloats)
          .Tensor("proj_bias", kFloats)
          .Bool("use_gelu")
          .Bool("norm_first")
          .Float("eps")
          .Tensor("norm_weight_1", kFloats)
          .Tensor("norm_bias_1", kFloats)
          .Tensor("norm_weight_2", kFloats)
          .Tensor("norm_bias_2", kFloats)
          .Tensor("ffn_weight_1", kFloats)
          .Tensor("ffn_bias_1", kFloats)
          .Tensor("ffn_weight_2", kFloats)
          .Tensor("ffn_bias_2", kFloats)
          .OptionalTensor("mask", kFloats | DType::kBool)
          .Int("mask_type")
          .Nullable(),
      Create<TransformerEncoderLayer>());
}
