// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "test/kit/every_float.h"
#include "test/layers/attention/attention_reference.h"

namespace oort::testing {
namespace {

struct Qkv {
  Qkv(Shape stack, int64_t queries, int64_t keys, int64_t dim, int64_t value_dim)
      : sizes{stack.elements(), queries, keys, dim, value_dim}, output(stack) {
    const auto with = [&](int64_t rows, int64_t columns, uint64_t seed) {
      Shape shape = stack;
      shape.Append(rows);
      shape.Append(columns);
      return RandomTensor(DType::kF32, shape, seed);
    };
    q = with(queries, dim, 1);
    k = with(keys, dim, 2);
    v = with(keys, value_dim, 3);
    output.Append(queries);
    output.Append(value_dim);
  }
  Tensor Expected(double scale, const MaskFunction& mask) const {
    const Tensor q64 = q.To(DType::kF64), k64 = k.To(DType::kF64), v64 = v.To(DType::kF64);
    return ToF32(
        Attend(sizes, q64.data<double>(), k64.data<double>(), v64.data<double>(), scale, mask),
        output);
  }
  OperatorCase Case() const {
    return OperatorCase("F.scaled_dot_product_attention")
        .Input(q, "query")
        .Input(k, "key")
        .Input(v, "value");
  }
  Sizes sizes;
  Shape output;
  Tensor q, k, v;
};

TEST(ScaledDotProduct, TakesEverySize) {
  for (int64_t queries : {1, 3, 8, 65, 130}) {
    for (int64_t keys : {1, 7, 50}) {
      for (int64_t dim : {1, 5, 16}) {
        const Qkv qkv({2, 3}, queries, keys, dim, dim + 2);
        qkv.Case().ExpectOutputs({qkv.Expected(1 / std::sqrt(static_cast<double>(dim)), nullptr)});
      }
    }
  }
}

TEST(ScaledDotProduct, TakesEveryRankAndScale) {
  for (Shape stack : {Shape{}, Shape{4}, Shape{2, 3}, Shape{2, 1, 3}}) {
    const Qkv qkv(stack, 5, 6, 8, 8);
    qkv.Case().Param("scale", "0.3").ExpectOutputs({qkv.Expected(0.3, nullptr)});
    qkv.Case()
        .Param("scale", "None")
        .Param("attn_mask", "None")
        .ExpectOutputs({qkv.Expected(1 / std::sqrt(8.0), nullptr)});
  }
}

TEST(ScaledDotProduct, IsCausalFromTheTopLeft) {
  for (int64_t keys : {3, 5, 9}) {
    const Qkv qkv({2}, 5, keys, 4, 4);
    qkv.Case()
        .Param("is_causal", "True")
        .ExpectOutputs(
            {qkv.Expected(0.5, [](int64_t, int64_t l, int64_t s) { return s > l ? -kInf : 0.0; })});
  }
}

TEST(ScaledDotProduct, AddsMasksOfNumbers) {
  const Qkv qkv({2, 3}, 5, 6, 4, 4);
  for (Shape shape :
       {Shape{5, 6}, Shape{2, 3, 5, 6}, Shape{2, 1, 5, 6}, Shape{3, 1, 6}, Shape{1, 1, 5, 1}}) {
    SCOPED_TRACE(shape.ToString());
    const Tensor mask = RandomTensor(DType::kF32, shape, 9);
    const auto at = [&](int64_t i, int64_t l, int64_t s) {
      const int64_t position[] = {i / 3, i % 3, l, s};
      int64_t offset = 0, scale = 1;
      for (int axis = shape.rank() - 1; axis >= 0; --axis) {
        offset += position[axis + 4 - shape.rank()] % shape[axis] * scale;
        scale *= shape[axis];
      }
      return static_cast<double>(mask.data<float>()[offset]);
    };
    qkv.Case().Input(mask, "attn_mask").ExpectOutputs({qkv.Expected(0.5, at)});
  }
}

TEST(ScaledDotProduct, KeepsWhereABoolMaskIsTrue) {
  const Qkv qkv({2}, 4, 5, 4, 4);
  Tensor mask(DType::kBool, {4, 5});
  for (int64_t i = 0; i < 20; ++i) mask.data<bool>()[i] = i % 3 != 0;
  qkv.Case()
      .Input(mask, "attn_mask")
      .ExpectOutputs({qkv.Expected(
          0.5, [](int64_t, int64_t l, int64_t s) { return (l * 5 + s) % 3 != 0 ? 0.0 : -kInf; })});
}

TEST(ScaledDotProduct, GivesZerosWhereAllIsMasked) {
  const Qkv qkv({1}, 3, 4, 4, 4);
  Tensor expected = qkv.Expected(0.5, nullptr);
  std::fill_n(expected.data<float>() + 4, 4, 0.0f);
  Tensor flags(DType::kBool, {3, 4}), numbers = Tensor::Zeros(DType::kF32, {3, 4});
  for (int64_t i = 0; i < 12; ++i) flags.data<bool>()[i] = i / 4 != 1;
  std::fill_n(numbers.data<float>() + 4, 4, -std::numeric_limits<float>::infinity());
  qkv.Case().Input(flags, "attn_mask").ExpectOutputs({expected});
  qkv.Case().Input(numbers, "attn_mask").ExpectOutputs({expected});
}

TEST(ScaledDotProduct, SharesKeyHeadsBetweenQueryHeads) {
  const Qkv whole({2, 6}, 5, 7, 4, 4);
  // Key heads 0 and 3 of six stand for two that three query heads share each.
  const auto halve = [](const Tensor& x) {
    const int64_t block = x.dim(2) * x.dim(3);
    Tensor y(DType::kF32, {2, 2, x.dim(2), x.dim(3)});
    for (int64_t i = 0; i < 4; ++i) {
      std::copy_n(x.data<float>() + (i / 2 * 6 + i % 2 * 3) * block, block,
                  y.data<float>() + i * block);
    }
    return y;
  };
  Qkv spread = whole;
  for (Tensor* x : {&spread.k, &spread.v}) {
    const int64_t block = x->dim(2) * x->dim(3);
    *x = x->Clone();
    for (int64_t i = 0; i < 12; ++i) {
      std::copy_n(x->data<float>() + i / 3 * 3 * block, block, x->data<float>() + i * block);
    }
  }
  OperatorCase("F.scaled_dot_product_attention")
      .Param("enable_gqa", "True")
      .Input(whole.q, "query")
      .Input(halve(whole.k), "key")
      .Input(halve(whole.v), "value")
      .ExpectOutputs({spread.Expected(0.5, nullptr)});
}

TEST(ScaledDotProduct, TakesEmptyBatches) {
  const Qkv qkv({0, 3}, 5, 6, 4, 4);
  qkv.Case().ExpectOutputs({Tensor(DType::kF32, {0, 3, 5, 4})});
}

TEST(ScaledDotProduct, RefusesWhatDoesNotFit) {
  const auto attend = [](Shape q, Shape k, Shape v) {
    return OperatorCase("F.scaled_dot_product_attention")
        .Input(RandomTensor(DType::kF32, q), "query")
        .Input(RandomTensor(DType::kF32, k), "key")
        .Input(RandomTensor(DType::kF32, v), "value");
  };
  attend({4}, {5, 4}, {5, 4}).ExpectError(ErrorCode::kInvalidArgument, "rank 2 or more");
  attend({3, 4}, {5, 6}, {5, 6}).ExpectError(ErrorCode::kInvalidArgument, "one width");
  attend({3, 4}, {5, 4}, {6, 4}).ExpectError(ErrorCode::kInvalidArgument, "as many values");
  attend({3, 4}, {5, 4}, {5, 4})
      .Input(RandomTensor(DType::kF32, {2, 5}), "attn_mask")
      .ExpectError(ErrorCode::kInvalidArgument, "");
  attend({3, 4}, {5, 4}, {5, 4})
      .Input(RandomTensor(DType::kI64, {3, 5}), "attn_mask")
      .ExpectError(ErrorCode::kInvalidArgument, "i64");
  attend({5, 3, 4}, {2, 5, 4}, {2, 5, 4})
      .Param("enable_gqa", "True")
      .ExpectError(ErrorCode::kInvalidArgument, "multiple");
  attend({3, 4}, {5, 4}, {5, 4})
      .Param("dropout_p", "0.5")
      .ExpectError(ErrorCode::kUnsupported, "dropout_p");
}

TEST(ScaledDotProduct, TakesEveryFloat) {
  Qkv qkv({2, 3}, 70, 6, 5, 4);
  const Tensor mask = RandomTensor(DType::kF32, {70, 6}, 4);
  ExpectEveryFloat(
      [&](const Convert& convert) {
        return OperatorCase("F.scaled_dot_product_attention")
            .Input(convert(qkv.q), "query")
            .Input(convert(qkv.k), "key")
            .Input(convert(qkv.v), "value")
            .Input(convert(mask), "attn_mask");
      },
      [&](const Convert& convert) -> std::vector<Tensor> {
        const Tensor q = convert(qkv.q), k = convert(qkv.k), v = convert(qkv.v), m = convert(mask);
        const std::vector<double> y = Attend(
            qkv.sizes, q.data<double>(), k.data<double>(), v.data<double>(), 1 / std::sqrt(5.0),
            [&](int64_t, int64_t l, int64_t s) { return m.data<double>()[l * 6 + s]; });
        return {Tensor::From<double>(std::span<const double>(y), qkv.output)};
      });
}

TEST(ScaledDotProduct, TakesAMaskOfF32WithEveryFloat) {
  Qkv qkv({2}, 3, 4, 5, 5);
  const Tensor mask = RandomTensor(DType::kF32, {3, 4}, 4);
  for (bool constant : {false, true}) {
    ExpectEveryFloat(
        [&](const Convert& convert) {
          OperatorCase test("F.scaled_dot_product_attention");
          test.Input(convert(qkv.q), "query").Input(convert(qkv.k), "key");
          test.Input(convert(qkv.v), "value");
          return constant ? test.Constant(mask, "attn_mask") : test.Input(mask, "attn_mask");
        },
        [&](const Convert& convert) -> std::vector<Tensor> {
          const Tensor q = convert(qkv.q), k = convert(qkv.k), v = convert(qkv.v);
          const auto added = [&](int64_t, int64_t l, int64_t s) {
            return Element(mask, l * 4 + s);
          };
          const std::vector<double> y = Attend(qkv.sizes, q.data<double>(), k.data<double>(),
                                               v.data<double>(), 1 / std::sqrt(5.0), added);
          return {Tensor::From<double>(std::span<const double>(y), qkv.output)};
        });
  }
}

TEST(ScaledDotProduct, RefusesMixedDTypes) {
  const Qkv qkv({2}, 3, 4, 5, 5);
  for (DType dtype : {DType::kF16, DType::kF64}) {
    OperatorCase("F.scaled_dot_product_attention")
        .Input(qkv.q, "query")
        .Input(qkv.k.To(dtype), "key")
        .Input(qkv.v, "value")
        .ExpectError(ErrorCode::kInvalidArgument, "one dtype, f32");
  }
}

/// (b,x,y,d) to (b,y,x,d).
Tensor SwapMiddle(const Tensor& tensor) {
  const int64_t b = tensor.dim(0), x = tensor.dim(1), y = tensor.dim(2), d = tensor.dim(3);
  Tensor result(DType::kF32, {b, y, x, d});
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const int64_t at = ((i / d / y / x * y + i / d % y) * x + i / d / y % x) * d + i % d;
    result.data<float>()[at] = tensor.data<float>()[i];
  }
  return result;
}

TEST(FusedAttention, ReadsHeadsBehindPositions) {
  for (int64_t queries : {1, 5, 70}) {
    const Qkv qkv({2, 3}, queries, 6, 4, 5);
    const Tensor expected = qkv.Expected(0.5, nullptr);
    for (int flags = 0; flags < 16; ++flags) {
      SCOPED_TRACE(flags);
      OperatorCase attention("oort.Attention");
      const Tensor* operands[] = {&qkv.q, &qkv.k, &qkv.v};
      const char* names[] = {"query_heads_last", "key_heads_last", "value_heads_last"};
      for (int i = 0; i < 3; ++i) {
        const bool last = (flags >> i & 1) != 0;
        attention.Input(last ? SwapMiddle(*operands[i]) : *operands[i]);
        if (last) attention.Param(names[i], "True");
      }
      if ((flags & 8) != 0) attention.Param("output_heads_last", "True");
      attention.Param("rank", "4")
          .ExpectOutputs({(flags & 8) != 0 ? SwapMiddle(expected) : expected});
    }
  }
}

TEST(FusedAttention, RefusesOtherRanks) {
  const Qkv qkv({2}, 5, 6, 4, 4);
  const auto attention = [&] {
    return OperatorCase("oort.Attention").Input(qkv.q).Input(qkv.k).Input(qkv.v);
  };
  attention()
      .Param("query_heads_last", "True")
      .Param("rank", "4")
      .ExpectError(ErrorCode::kInvalidArgument, "rank 4");
  attention()
      .Param("output_heads_last", "True")
      .Param("rank", "4")
      .ExpectError(ErrorCode::kInvalidArgument, "heads");
  OperatorCase("oort.Attention")
      .Param("key_heads_last", "True")
      .Input(RandomTensor(DType::kF32, {3, 4}, 1))
      .Input(RandomTensor(DType::kF32, {3, 4}, 1))
      .Input(RandomTensor(DType::kF32, {3, 4}, 1))
      .ExpectError(ErrorCode::kInvalidArgument, "3 or more");
}

}  // namespace
}  // namespace oort::testing
