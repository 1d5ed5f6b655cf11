// SPDX-License-Identifier: MIT
// What tracing an nn.TransformerEncoderLayer in inference mode leaves: one operator of 20 inputs.
#include "layers/composite/decomposition.h"

namespace oort {
namespace {

/// Which queries a mask is for: torch's mask_type.
enum class EncoderMask : int64_t { kQueryKey = 0, kPadding = 1, kFull = 2 };

/// The arguments by their place in the schema.
enum EncoderArg {
  kSource,
  kEmbedDim,
  kHeads,
  kQkvWeight,
  kQkvBias,
  kProjWeight,
  kProjBias,
  kUseGelu,
  kNormFirst,
  kEps,
  kNorm1,
  kNorm2 = kNorm1 + 2,
  kLinear1 = kNorm2 + 2,
  kLinear2 = kLinear1 + 2,
  kMask = kLinear2 + 2,
  kMaskType
};

class EncoderParts {
 public:
  EncoderParts(const Decomposer& call, const Args& args) : call_(call), args_(args) {}

  Value Norm(const Value& x, int weight) const {
    const Value shape = Value::Ints(args_.shape(weight).dims());
    return Module("nn.LayerNorm", {{"", x}, {"normalized_shape", shape}, {"eps", args_[kEps]}},
                  weight);
  }

  Value FeedForward(const Value& x) const {
    const Value hidden = Linear(x, kLinear1);
    return Linear(call_(args_[kUseGelu].AsBool() ? "F.gelu" : "F.relu", {{"input", hidden}}),
                  kLinear2);
  }

  Value Attend(const Value& x) const {
    const Tensor& weight = args_.tensor(kQkvWeight);
    if (weight.rank() != 2 || weight.dim(1) != args_[kEmbedDim].AsInt()) {
      throw Error(ErrorCode::kInvalidModel,
                  "expected a qkv_weight of (3*embed_dim,embed_dim), got " + weight.ToString());
    }
    // The weights alone would do for a matrix, too, which torch refuses here.
    const Value mixed = call_
                            .Module("nn.MultiheadAttention",
                                    {{"input", x},
                                     {"attn_mask", args_.Has(kMask) ? Mask(x) : Value()},
                                     {"num_heads", args_[kHeads]},
                                     {"batch_first", true},
                                     {"rank", 3}},
                                    {{"in_proj_weight", weight},
                                     {"in_proj_bias", args_.tensor(kQkvBias)},
                                     {"out_proj.weight", args_.tensor(kProjWeight)},
                                     {"out_proj.bias", args_.tensor(kProjBias)}})
                            .front();
    call_.ExpectLike(mixed, x);
    return mixed;
  }

 private:
  Value Module(const char* type, const std::vector<Decomposer::Argument>& arguments,
               int weight) const {
    return call_
        .Module(type, arguments,
                {{"weight", args_.tensor(weight)}, {"bias", args_.tensor(weight + 1)}})
        .front();
  }
  Value Linear(const Value& x, int weight) const {
    return Module("nn.Linear", {{"", x}, {"bias", true}}, weight);
  }

  /// The mask for all, (length, length), or for each head of each batch, (batch * heads, length,
  /// length), true where a key does not take part. torch reads numbers as truth values here.
  Value Mask(const Value& x) const {
    const Value flags = call_.Formula("ne(@0,0)", {args_[kMask]});
    const auto type =
        args_.Has(kMaskType) ? EncoderMask(args_[kMaskType].AsInt()) : EncoderMask::kFull;
    if (type == EncoderMask::kQueryKey) return flags;
    const auto joined = [&](const Value& mask) {
      return call_("torch.flatten", {{"input", mask}, {"start_dim", 0}, {"end_dim", 1}});
    };
    if (type == EncoderMask::kFull) return joined(flags);
    const Shape &shape = x.AsTensor().shape(), &given = flags.AsTensor().shape();
    if (shape.rank() != 3 || !(given == Shape{shape[0], shape[1]})) {
      throw Error(ErrorCode::kInvalidArgument, "expected a mask of (batch,length), got " +
                                                   given.ToString() + " for " + shape.ToString());
    }
    const int64_t batch = shape[0], length = shape[1], heads = args_[kHeads].AsInt();
    return joined(
        call_("Tensor.expand", {{"input", call_.Reshape(flags, Shape{batch, 1, 1, length})},
                                {"sizes", Value(Value::List{batch, heads, length, length})}}));
  }

  const Decomposer& call_;
  const Args& args_;
};

std::vector<Value> EncoderLayer(const Decomposer& call, const Args& args) {
  const EncoderParts parts(call, args);
  const bool norm_first = args[kNormFirst].AsBool();
  const auto add = [&](const Value& a, const Value& b) {
    return call.Formula("add(@0,@1)", {a, b});
  };
  const Value& x = args[kSource];
  const Value first = add(x, parts.Attend(norm_first ? parts.Norm(x, kNorm1) : x));
  const Value middle = norm_first ? first : parts.Norm(first, kNorm1);
  const Value fed = parts.FeedForward(norm_first ? parts.Norm(middle, kNorm2) : middle);
  const Value second = add(middle, fed);
  return {norm_first ? second : parts.Norm(second, kNorm2)};
}

}  // namespace
}  // namespace oort

OORT_LAYERS(transformer_encoder_layer) {
  using namespace oort;
  AddDecomposition(
      registry,
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
      EncoderLayer);
}
