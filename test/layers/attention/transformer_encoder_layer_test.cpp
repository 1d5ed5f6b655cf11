// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/aten/aten_form.h"

namespace oort::testing {
namespace {

constexpr int64_t kWidth = 8, kHeads = 2, kHidden = 12;

/// The tensors of a layer, in the operator's order.
struct EncoderWeights {
  Tensor qkv = Random({3 * kWidth, kWidth}), qkv_bias = Random({3 * kWidth});
  Tensor proj = Random({kWidth, kWidth}), proj_bias = Random({kWidth});
  Tensor norm1 = Random({kWidth}), norm1_bias = Random({kWidth});
  Tensor norm2 = Random({kWidth}), norm2_bias = Random({kWidth});
  Tensor up = Random({kHidden, kWidth}), up_bias = Random({kHidden});
  Tensor down = Random({kWidth, kHidden}), down_bias = Random({kWidth});

 private:
  static Tensor Random(const Shape& shape) {
    static uint64_t seed = 1;
    return RandomTensor(DType::kF32, shape, ++seed);
  }
};

OperatorCase Encoder(const EncoderWeights& w, const Tensor& x, bool gelu, bool norm_first) {
  return OperatorCase("aten::_transformer_encoder_layer_fwd")
      .Param("embed_dim", std::to_string(kWidth))
      .Param("num_heads", std::to_string(kHeads))
      .Param("use_gelu", gelu ? "True" : "False")
      .Param("norm_first", norm_first ? "True" : "False")
      .Param("eps", "1e-5")
      .Input(x, "src")
      .Constant(w.qkv, "qkv_weight")
      .Constant(w.qkv_bias, "qkv_bias")
      .Constant(w.proj, "proj_weight")
      .Constant(w.proj_bias, "proj_bias")
      .Constant(w.norm1, "norm_weight_1")
      .Constant(w.norm1_bias, "norm_bias_1")
      .Constant(w.norm2, "norm_weight_2")
      .Constant(w.norm2_bias, "norm_bias_2")
      .Constant(w.up, "ffn_weight_1")
      .Constant(w.up_bias, "ffn_bias_1")
      .Constant(w.down, "ffn_weight_2")
      .Constant(w.down_bias, "ffn_bias_2");
}

/// The layer step by step, through the modules that it stands for.
class EncoderSteps {
 public:
  explicit EncoderSteps(const EncoderWeights& weights) : w_(weights) {}

  Tensor Run(const Tensor& x, bool gelu, bool norm_first) const {
    const Tensor first = Add(x, Attend(norm_first ? Norm(x, w_.norm1, w_.norm1_bias) : x));
    const Tensor middle = norm_first ? first : Norm(first, w_.norm1, w_.norm1_bias);
    const Tensor fed = norm_first ? Norm(middle, w_.norm2, w_.norm2_bias) : middle;
    const Tensor hidden = Linear(fed, w_.up, w_.up_bias);
    const Tensor active = OperatorCase(gelu ? "F.gelu" : "F.relu").Input(hidden, "input").Run()[0];
    const Tensor second = Add(middle, Linear(active, w_.down, w_.down_bias));
    return norm_first ? second : Norm(second, w_.norm2, w_.norm2_bias);
  }

 private:
  static Tensor Add(const Tensor& a, const Tensor& b) {
    return OperatorCase("torch.add").Input(a, "input").Input(b, "other").Run()[0];
  }
  static Tensor Norm(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return OperatorCase("nn.LayerNorm")
        .Param("normalized_shape", weight.shape().ToString())
        .Param("eps", "1e-5")
        .Attribute("weight", weight)
        .Attribute("bias", bias)
        .Input(x)
        .Run()[0];
  }
  static Tensor Linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return OperatorCase("F.linear")
        .Input(x, "input")
        .Constant(weight, "weight")
        .Constant(bias, "bias")
        .Run()[0];
  }
  Tensor Attend(const Tensor& x) const {
    return OperatorCase("nn.MultiheadAttention")
        .Param("embed_dim", std::to_string(kWidth))
        .Param("num_heads", std::to_string(kHeads))
        .Param("batch_first", "True")
        .Attribute("in_proj_weight", w_.qkv)
        .Attribute("in_proj_bias", w_.qkv_bias)
        .Attribute("out_proj.weight", w_.proj)
        .Attribute("out_proj.bias", w_.proj_bias)
        .Input(x)
        .Run()[0];
  }

  const EncoderWeights& w_;
};

TEST(TransformerEncoderLayer, IsAttentionAndTwoLinearLayersBetweenNorms) {
  const EncoderWeights weights;
  const Tensor x = RandomTensor(DType::kF32, {2, 5, kWidth}, 77);
  for (bool gelu : {false, true}) {
    for (bool norm_first : {false, true}) {
      SCOPED_TRACE(std::string(gelu ? "gelu" : "relu") + (norm_first ? ", norms first" : ""));
      Encoder(weights, x, gelu, norm_first)
          .ExpectOutputs({EncoderSteps(weights).Run(x, gelu, norm_first)}, {1e-4, 1e-4});
    }
  }
}

TEST(TransformerEncoderLayer, IgnoresMaskedKeys) {
  const EncoderWeights weights;
  const Tensor x = RandomTensor(DType::kF32, {1, 5, kWidth}, 77);
  // Without its last two keys a sequence is the shorter one.
  const Tensor mask = Tensor::From<bool>({false, false, false, true, true}, {1, 5});
  const Tensor got =
      Encoder(weights, x, false, false).Input(mask, "mask").Param("mask_type", "1").Run()[0];
  const Tensor shorter = Tensor::BorrowConst(x.raw(), DType::kF32, {1, 3, kWidth}).Clone();
  const Tensor want = EncoderSteps(weights).Run(shorter, false, false);
  ExpectNear(Tensor::BorrowConst(got.raw(), DType::kF32, {1, 3, kWidth}), want);
}

TEST(TransformerEncoderLayer, RefusesWhatDoesNotFit) {
  const EncoderWeights weights;
  const Tensor x = RandomTensor(DType::kF32, {1, 5, kWidth}, 77);
  Encoder(weights, x, false, false)
      .Input(Tensor::Zeros(DType::kBool, {1, 4}), "mask")
      .Param("mask_type", "1")
      .ExpectError(ErrorCode::kInvalidArgument, "mask of (batch,length)");
  EncoderWeights narrow;
  narrow.qkv = RandomTensor(DType::kF32, {3 * kWidth, kWidth - 1});
  Encoder(narrow, x, false, false).ExpectError(ErrorCode::kInvalidModel, "qkv_weight");
}

}  // namespace
}  // namespace oort::testing
