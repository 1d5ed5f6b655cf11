// SPDX-License-Identifier: MIT
// Layers for f32 and f64 on all floating-point types.
#include <gtest/gtest.h>

#include <complex>

#include "oort/testing.h"

namespace oort::testing {
namespace {

constexpr DType kOthers[] = {DType::kF64, DType::kF16, DType::kBF16};

Tolerance ToleranceOf(DType dtype) {
  return dtype == DType::kBF16 ? Tolerance{1e-2, 1e-2} : Tolerance{1e-3, 1e-3};
}

TEST(FloatDTypes, LinearFollowsTheDTypeOfItsInput) {
  const Tensor weight = Tensor::From<float>({1, 2, -1, 0.5f}, {2, 2});
  const Tensor bias = Tensor::From<float>({0.25f, -4}, {2});
  const Tensor x = Tensor::From<float>({1, 2, -3, 0.5f}, {2, 2});
  const Tensor expected = Tensor::From<float>({5.25f, -4, -1.75f, -0.75f}, {2, 2});
  for (DType dtype : kOthers) {
    SCOPED_TRACE(Name(dtype));
    OperatorCase("nn.Linear")
        .Attribute("weight", weight.To(dtype))
        .Attribute("bias", bias.To(dtype))
        .Input(x.To(dtype))
        .ExpectOutputs({expected.To(dtype)}, ToleranceOf(dtype));
    OperatorCase("F.linear")
        .Input(x.To(dtype), "input")
        .Input(weight.To(dtype), "weight")
        .Input(bias.To(dtype), "bias")
        .ExpectOutputs({expected.To(dtype)}, ToleranceOf(dtype));
  }
}

TEST(FloatDTypes, ProductsTakeHalves) {
  const Tensor a = Tensor::From<float>({1, 2, -3, 0.5f}, {2, 2});
  const Tensor b = Tensor::From<float>({1, -1, 2, 0.5f}, {2, 2});
  const Tensor product = Tensor::From<float>({5, 0, -2, 3.25f}, {2, 2});
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    SCOPED_TRACE(Name(dtype));
    const Tensor expected = product.To(dtype);
    const auto on = [&](const char* type) { return OperatorCase(type).Input(a.To(dtype)); };
    on("torch.matmul").Input(b.To(dtype)).ExpectOutputs({expected});
    on("torch.mm").Input(b.To(dtype)).ExpectOutputs({expected});
    on("torch.einsum").Param("equation", "ij,jk->ik").Input(b.To(dtype)).ExpectOutputs({expected});
    OperatorCase("torch.addmm")
        .Input(Tensor::Zeros(dtype, {2}))
        .Input(a.To(dtype))
        .Input(b.To(dtype))
        .ExpectOutputs({expected});
  }
  OperatorCase("torch.mm")
      .Input(a.To(DType::kF16))
      .Input(b)
      .ExpectError(ErrorCode::kInvalidArgument, "of one dtype");
}

TEST(FloatDTypes, RefusesMixedInputs) {
  const Tensor x = RandomTensor(DType::kF64, {2, 3}), weight = RandomTensor(DType::kF32, {4, 3});
  OperatorCase("F.linear")
      .Input(x, "input")
      .Input(weight, "weight")
      .ExpectError(ErrorCode::kInvalidArgument, "one dtype, f64, got dtype f32");
  OperatorCase("F.linear")
      .Input(x.To(DType::kF32), "input")
      .Input(weight.To(DType::kF64), "weight")
      .ExpectError(ErrorCode::kInvalidArgument, "one dtype, f32, got dtype f64");
  OperatorCase("nn.Linear")
      .Attribute("weight", weight)
      .Input(RandomTensor(DType::kI64, {2, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "dtype");
}

TEST(FloatDTypes, ConvolutionsFollowTheDTypeOfTheirInput) {
  const Tensor x = Tensor::From<float>({1, 2, 3, 4}, {1, 1, 4});
  const Tensor weight = Tensor::From<float>({1, -2}, {1, 1, 2});
  for (DType dtype : kOthers) {
    SCOPED_TRACE(Name(dtype));
    OperatorCase("nn.Conv1d")
        .Attribute("weight", weight.To(dtype))
        .Input(x.To(dtype))
        .ExpectOutputs({Tensor::From<float>({-3, -4, -5}, {1, 1, 3}).To(dtype)});
    OperatorCase("F.conv_transpose1d")
        .Input(x.To(dtype), "input")
        .Input(weight.To(dtype), "weight")
        .ExpectOutputs({Tensor::From<float>({1, 0, -1, -2, -8}, {1, 1, 5}).To(dtype)});
  }
}

TEST(FloatDTypes, AttentionFollowsTheDTypeOfTheQuery) {
  // The first query meets the first key only; the mask leaves the second key to the second query.
  const Tensor q = Tensor::From<float>({60, 0, 0, 60}, {1, 2, 2});
  const Tensor k = Tensor::From<float>({1, 0, 0, 1}, {1, 2, 2});
  const Tensor v = Tensor::From<float>({1, 2, 3, 4}, {1, 2, 2});
  const Tensor mask = Tensor::From<float>({0, 0, -1000, 0}, {2, 2});
  for (DType dtype : kOthers) {
    SCOPED_TRACE(Name(dtype));
    OperatorCase("F.scaled_dot_product_attention")
        .Input(q.To(dtype), "query")
        .Input(k.To(dtype), "key")
        .Input(v.To(dtype), "value")
        .Input(mask.To(dtype), "attn_mask")
        .ExpectOutputs({v.To(dtype)}, ToleranceOf(dtype));
  }
}

TEST(FloatDTypes, RecurrentLayersGiveStatesOfTheSameDType) {
  // h = relu(2 x + h): sums of what has come so far.
  for (DType dtype : kOthers) {
    SCOPED_TRACE(Name(dtype));
    OperatorCase("nn.RNN")
        .Param("input_size", "1")
        .Param("hidden_size", "1")
        .Param("bias", "False")
        .Param("nonlinearity", "relu")
        .Attribute("weight_ih_l0", Tensor::From<float>({2}, {1, 1}).To(dtype))
        .Attribute("weight_hh_l0", Tensor::From<float>({1}, {1, 1}).To(dtype))
        .Input(Tensor::From<float>({1, 2, 3}, {3, 1, 1}).To(dtype))
        .Outputs(2)
        .ExpectOutputs({Tensor::From<float>({2, 6, 12}, {3, 1, 1}).To(dtype),
                        Tensor::From<float>({12}, {1, 1, 1}).To(dtype)});
  }
}

TEST(FloatDTypes, MultiheadAttentionTakesABoolMaskBesides) {
  const Tensor identity = Tensor::From<float>({1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1}, {6, 2});
  const Tensor out = Tensor::From<float>({1, 0, 0, 1}, {2, 2});
  const Tensor x = Tensor::From<float>({60, 0, 0, 60}, {2, 1, 2});
  for (DType dtype : kOthers) {
    SCOPED_TRACE(Name(dtype));
    OperatorCase("nn.MultiheadAttention")
        .Param("num_heads", "1")
        .Attribute("in_proj_weight", identity.To(dtype))
        .Attribute("out_proj.weight", out.To(dtype))
        .Input(x.To(dtype))
        .Input(Tensor::From<bool>({false, true, true, false}, {2, 2}), "attn_mask")
        .ExpectOutputs({x.To(dtype)}, ToleranceOf(dtype));
  }
}

/// What f32 could not hold survives.
TEST(FloatDTypes, ComputesDoublesInDouble) {
  const double fine = 1 + 0x1p-40;
  const Tensor x = Tensor::From<double>({fine, 1}, {1, 2});
  const Tensor weight = Tensor::From<double>({1, -1}, {1, 2});
  OperatorCase("nn.Linear")
      .Attribute("weight", weight)
      .Input(x)
      .ExpectOutputs({Tensor::From<double>({0x1p-40}, {1, 1})}, {0, 0});
  OperatorCase("nn.Conv1d")
      .Attribute("weight", weight.Reshaped({1, 2, 1}))
      .Input(x.Reshaped({2, 1}))
      .ExpectOutputs({Tensor::From<double>({0x1p-40}, {1, 1})}, {0, 0});
}

TEST(FloatDTypes, ProductsAndSumsTakeIntegers) {
  const Tensor input = Tensor::From<int8_t>({1, 2}, {2});
  const Tensor a = Tensor::From<int8_t>({1, 2, 3, 4}, {2, 2});
  const Tensor b = Tensor::From<int8_t>({1, -1, 2, 60}, {2, 2});
  const auto addmm = [&](const char* alpha, const char* beta) {
    return OperatorCase("torch.addmm")
        .Param("alpha", alpha)
        .Param("beta", beta)
        .Input(input, "input")
        .Input(a, "mat1")
        .Input(b, "mat2");
  };
  // a @ b is 5, 119, 11, 237 - 256.
  addmm("1", "1").ExpectOutputs({Tensor::From<int8_t>({6, 121, 12, -17}, {2, 2})});
  addmm("2", "-3").ExpectOutputs({Tensor::From<int8_t>({7, -24, 19, -44}, {2, 2})});
  addmm("1", "0").ExpectOutputs({Tensor::From<int8_t>({5, 119, 11, -19}, {2, 2})});
  addmm("0.5", "1").ExpectError(ErrorCode::kInvalidArgument, "integers alpha and beta");
}

TEST(FloatDTypes, OtherSumsWithProductsTakeIntegers) {
  const Tensor batch1 = Tensor::From<int32_t>({1, 2, 3, 4}, {2, 1, 2});
  const Tensor batch2 = Tensor::From<int32_t>({1, -1, 2, 60}, {2, 2, 1});
  OperatorCase("torch.addbmm")
      .Param("alpha", "2")
      .Input(Tensor::From<int32_t>({5}, {1}), "input")
      .Input(batch1, "batch1")
      .Input(batch2, "batch2")
      .ExpectOutputs({Tensor::From<int32_t>({2 * (1 - 2 + 6 + 240) + 5}, {1, 1})});
  OperatorCase("torch.addr")
      .Param("beta", "0.5")
      .Input(Tensor::From<int32_t>({5}, {1}), "input")
      .Input(Tensor::From<int32_t>({1, 2}, {2}), "vec1")
      .Input(Tensor::From<int32_t>({3}, {1}), "vec2")
      .ExpectError(ErrorCode::kInvalidArgument, "integers alpha and beta");
  using C = std::complex<float>;
  OperatorCase("torch.addmm")
      .Param("alpha", "2")
      .Param("beta", "3")
      .Input(Tensor::From<C>({C(1, 1)}, {1}), "input")
      .Input(Tensor::From<C>({C(0, 1), C(2, 0)}, {1, 2}), "mat1")
      .Input(Tensor::From<C>({C(0, 1), C(1, 1)}, {2, 1}), "mat2")
      .ExpectOutputs({Tensor::From<C>({C(5, 7)}, {1, 1})});
}

TEST(FloatDTypes, SumsWithProductsTakeHalves) {
  const Tensor input = Tensor::From<float>({1, 2}, {2});
  const Tensor matrix = Tensor::From<float>({1, 2, 3, 4}, {2, 2});
  const Tensor vector = Tensor::From<float>({1, -1}, {2});
  for (DType dtype : kOthers) {
    SCOPED_TRACE(Name(dtype));
    OperatorCase("torch.addmv")
        .Param("alpha", "2")
        .Input(input.To(dtype), "input")
        .Input(matrix.To(dtype), "mat")
        .Input(vector.To(dtype), "vec")
        .ExpectOutputs({Tensor::From<float>({-1, 0}, {2}).To(dtype)});
  }
}

/// The dtypes of operands must agree; constants of 16 bits serve f32.
TEST(FloatDTypes, MixesOnlyWithConstants) {
  const Tensor a = Tensor::From<float>({1, 2, 3, 4}, {2, 2});
  const Tensor product = Tensor::From<float>({7, 10, 15, 22}, {2, 2});
  OperatorCase("torch.matmul")
      .Input(a, "input")
      .Constant(a.To(DType::kBF16), "other")
      .ExpectOutputs({product});
  OperatorCase("torch.matmul")
      .Input(a.To(DType::kBF16), "input")
      .Constant(a, "other")
      .ExpectOutputs({product.To(DType::kBF16)});
  OperatorCase("torch.matmul")
      .Input(a.To(DType::kBF16), "input")
      .Input(a, "other")
      .ExpectError(ErrorCode::kInvalidArgument, "one dtype");
  OperatorCase("torch.matmul")
      .Input(a, "input")
      .Input(a.To(DType::kF16), "other")
      .ExpectError(ErrorCode::kInvalidArgument, "one dtype");
}

/// Answers of torch.
TEST(FloatDTypes, LinearAndConvolutionsTakeIntegers) {
  const Tensor x = Tensor::From<float>({1, 2, 3, 60, 50, 40}, {2, 3});
  const Tensor weight = Tensor::From<float>({1, 2, 3, 4, 1, 0}, {2, 3});
  const Tensor bias = Tensor::From<float>({5, 7}, {2});
  for (DType dtype : {DType::kU8, DType::kI8, DType::kI16, DType::kI32, DType::kI64}) {
    SCOPED_TRACE(Name(dtype));
    const bool wraps = dtype == DType::kI8 || dtype == DType::kU8;
    const Tensor expected = wraps ? Tensor::From<float>({19, 13, 29, 41}, {2, 2})
                                  : Tensor::From<float>({19, 13, 285, 297}, {2, 2});
    OperatorCase("F.linear")
        .Input(x.To(dtype), "input")
        .Constant(weight.To(dtype), "weight")
        .Input(bias.To(dtype), "bias")
        .ExpectOutputs({expected.To(dtype)});
    OperatorCase("F.conv1d")
        .Input(x.To(dtype).Reshaped({1, 2, 3}), "input")
        .Input(weight.To(dtype).Reshaped({1, 2, 3}), "weight")
        .ExpectOutputs({Tensor::From<float>({wraps ? 48.0f : 304.0f}, {1, 1, 1}).To(dtype)});
  }
  OperatorCase("nn.Linear")
      .Attribute("weight", weight)
      .Input(x.To(DType::kI32))
      .ExpectError(ErrorCode::kInvalidArgument, "the dtype of the weights, got dtype i32");
}

TEST(FloatDTypes, LinearAndConvolutionsTakeComplexNumbers) {
  using C = std::complex<float>;
  const Tensor x = Tensor::From<C>({C(1, 1), C(0, 2)}, {1, 2});
  const Tensor weight = Tensor::From<C>({C(0, 1), C(3, 0)}, {1, 2});
  for (DType dtype : {DType::kC64, DType::kC128}) {
    SCOPED_TRACE(Name(dtype));
    OperatorCase("nn.Linear")
        .Attribute("weight", weight.To(dtype))
        .Input(x.To(dtype))
        .ExpectOutputs({Tensor::From<C>({C(-1, 7)}, {1, 1}).To(dtype)});
    OperatorCase("nn.Conv1d")
        .Param("padding", "(1)")
        .Attribute("weight", weight.To(dtype).Reshaped({1, 1, 2}))
        .Input(x.To(dtype).Reshaped({1, 1, 2}))
        .ExpectOutputs({Tensor::From<C>({C(3, 3), C(-1, 7), C(-2, 0)}, {1, 1, 3}).To(dtype)});
    OperatorCase("nn.ConvTranspose1d")
        .Attribute("weight", weight.To(dtype).Reshaped({1, 1, 2}))
        .Input(x.To(dtype).Reshaped({1, 1, 2}))
        .ExpectOutputs({Tensor::From<C>({C(-1, 1), C(1, 3), C(0, 6)}, {1, 1, 3}).To(dtype)});
  }
}

}  // namespace
}  // namespace oort::testing
