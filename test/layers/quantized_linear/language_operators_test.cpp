// SPDX-License-Identifier: MIT
// Operators of language models other than attention: linear layers and tables of quantized weights,
// rotary angles and turns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "oort/testing.h"

namespace oort {
namespace {

using testing::OperatorCase;
using testing::RandomTensor;

/// Weights of 8 bits in groups with a scale each.
struct ByteWeight {
  Tensor data, scale;
  int64_t group;
  ByteWeight(int64_t rows, int64_t columns, int64_t g, uint64_t seed)
      : data(RandomTensor(DType::kI8, {rows, columns}, seed, -127, 127)),
        scale(RandomTensor(DType::kF32, {rows, columns / g}, seed + 1, -0.01, 0.01)),
        group(g) {}
  double At(int64_t row, int64_t column) const {
    return static_cast<double>(data.data<int8_t>()[row * data.dim(1) + column]) *
           scale.data<float>()[row * scale.dim(1) + column / group];
  }
  int64_t rows() const { return data.dim(0); }
};

Tensor LinearOf(const Tensor& x, const ByteWeight& weight, const float* bias) {
  const int64_t k = weight.data.dim(1), rows = x.elements() / k;
  Tensor y(DType::kF32, {rows, weight.rows()});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < weight.rows(); ++j) {
      double sum = bias == nullptr ? 0 : bias[j];
      for (int64_t i = 0; i < k; ++i) sum += x.data<float>()[r * k + i] * weight.At(j, i);
      y.data<float>()[r * weight.rows() + j] = static_cast<float>(sum);
    }
  }
  return y;
}

OperatorCase LinearCase(const std::vector<const ByteWeight*>& weights, int64_t columns) {
  OperatorCase op("oort.QuantizedLinear");
  std::string outputs;
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::string end = i == 0 ? "" : "_" + std::to_string(i);
    op.Param("format" + end, "int8");
    op.Attribute("weight" + end, weights[i]->data).Attribute("scale" + end, weights[i]->scale);
    outputs += (i == 0 ? "" : ",") + std::to_string(weights[i]->rows());
  }
  op.Param("in_features", std::to_string(columns)).Param("out_features", "(" + outputs + ")");
  return op;
}

TEST(QuantizedLinear, MultipliesOneOrThreeWeights) {
  const ByteWeight a(37, 64, 32, 1), b(16, 64, 64, 3), c(5, 64, 16, 5);
  const Tensor bias = RandomTensor(DType::kF32, {16}, 9);
  for (int64_t rows : {1, 3, 20}) {
    const Tensor x = RandomTensor(DType::kF32, {rows, 64}, 7);
    LinearCase({&a}, 64).Input(x).ExpectOutputs({LinearOf(x, a, nullptr)});
    LinearCase({&a, &b, &c}, 64)
        .Attribute("bias_1", bias)
        .Input(x)
        .Outputs(3)
        .ExpectOutputs(
            {LinearOf(x, a, nullptr), LinearOf(x, b, bias.data<float>()), LinearOf(x, c, nullptr)});
  }
}

TEST(QuantizedLinear, GatesOneProductWithAnother) {
  const ByteWeight a(40, 64, 32, 1), b(40, 64, 32, 3);
  for (int64_t rows : {1, 3, 20}) {
    const Tensor x = RandomTensor(DType::kF32, {rows, 64}, 7);
    Tensor want = LinearOf(x, a, nullptr);
    const Tensor up = LinearOf(x, b, nullptr);
    for (int64_t i = 0; i < want.elements(); ++i) want.data<float>()[i] *= up.data<float>()[i];
    LinearCase({&a, &b}, 64).Param("gated", "True").Input(x).ExpectOutputs({want});
  }
}

TEST(QuantizedLinear, RefusesPartsThatDoNotFit) {
  const ByteWeight a(40, 64, 32, 1), b(8, 64, 32, 3);
  const Tensor x = RandomTensor(DType::kF32, {2, 64}, 7);
  LinearCase({&a}, 64)
      .Input(RandomTensor(DType::kF32, {2, 63}, 7))
      .ExpectError(ErrorCode::kInvalidArgument, "last axis is 64");
  LinearCase({&a, &b}, 64)
      .Param("gated", "True")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "two products of one size");
  LinearCase({&a}, 64)
      .Attribute("bias", RandomTensor(DType::kF32, {39}, 1))
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "bias of 40");
  LinearCase({&a}, 64)
      .Param("format", "q9")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "no format");
  LinearCase({&a}, 96).Input(x).ExpectError(ErrorCode::kInvalidArgument, "(40,96)");
  LinearCase({&a}, 64)
      .Param("out_features", "()")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "one to three");
}

TEST(QuantizedEmbedding, ReadsRows) {
  const ByteWeight table(50, 32, 16, 1);
  Tensor indices(DType::kI64, {2, 3});
  const int64_t rows[] = {0, 49, 17, 16, 15, 17};
  std::copy_n(rows, 6, indices.data<int64_t>());
  Tensor want(DType::kF32, {2, 3, 32});
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t j = 0; j < 32; ++j) {
      want.data<float>()[i * 32 + j] = static_cast<float>(3 * table.At(rows[i], j));
    }
  }
  OperatorCase op("oort.QuantizedEmbedding");
  op.Param("num_embeddings", "50").Param("embedding_dim", "32").Param("factor", "3.0");
  op.Param("format", "int8").Attribute("weight", table.data).Attribute("scale", table.scale);
  OperatorCase good = op;
  good.Input(indices).ExpectOutputs({want});
  for (int64_t wrong : {-1, 50}) {
    Tensor index = indices.Clone();
    index.data<int64_t>()[4] = wrong;
    OperatorCase bad = op;
    bad.Input(index).ExpectError(ErrorCode::kInvalidArgument, "table of 50 rows");
  }
}

TEST(RotaryAngles, AreCosinesAndSines) {
  const Tensor frequencies = RandomTensor(DType::kF32, {5}, 3, 0, 1);
  Tensor positions(DType::kI64, {4});
  for (int64_t i = 0; i < 4; ++i) positions.data<int64_t>()[i] = i * i * 30;
  Tensor want(DType::kF32, {4, 2, 5});
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t i = 0; i < 5; ++i) {
      const float angle = static_cast<float>(t * t * 30) * frequencies.data<float>()[i];
      want.data<float>()[t * 10 + i] = static_cast<float>(1.5 * std::cos(double{angle}));
      want.data<float>()[t * 10 + 5 + i] = static_cast<float>(1.5 * std::sin(double{angle}));
    }
  }
  OperatorCase("oort.RotaryAngles")
      .Param("magnitude", "1.5")
      .Attribute("frequencies", frequencies)
      .Input(positions)
      .ExpectOutputs({want});
  // The sequence is longer than the context that the model was trained for.
  OperatorCase("oort.RotaryAngles")
      .Param("long_magnitude", "1.5")
      .Param("original_context", "100")
      .Attribute("frequencies", RandomTensor(DType::kF32, {5}, 4))
      .Attribute("long_frequencies", frequencies)
      .Input(positions)
      .ExpectOutputs({want});
  OperatorCase("oort.RotaryAngles")
      .Param("original_context", "100")
      .Attribute("frequencies", frequencies)
      .Input(positions)
      .ExpectError(ErrorCode::kInvalidModel, "long_frequencies");
}

/// Pair i of each head turned; elements behind the pairs stay.
Tensor TurnedBy(const Tensor& x, const Tensor& angles, int64_t head_dim, bool interleaved) {
  Tensor y = x.Clone();
  const int64_t pairs = angles.dim(2), width = x.dim(1);
  for (int64_t t = 0; t < x.dim(0); ++t) {
    for (int64_t head = 0; head < width; head += head_dim) {
      for (int64_t i = 0; i < pairs; ++i) {
        const int64_t first = t * width + head + (interleaved ? 2 * i : i);
        const int64_t second = first + (interleaved ? 1 : pairs);
        const double c = angles.data<float>()[(t * 2) * pairs + i];
        const double s = angles.data<float>()[(t * 2 + 1) * pairs + i];
        const double a = x.data<float>()[first], b = x.data<float>()[second];
        y.data<float>()[first] = static_cast<float>(a * c - b * s);
        y.data<float>()[second] = static_cast<float>(b * c + a * s);
      }
    }
  }
  return y;
}

TEST(Rotary, TurnsPairsOfQueriesAndKeys) {
  for (const auto& [head_dim, pairs] :
       {std::pair{2, 1}, {16, 8}, {16, 4}, {10, 5}, {64, 32}, {80, 37}}) {
    for (bool interleaved : {false, true}) {
      const Tensor q = RandomTensor(DType::kF32, {5, 3 * head_dim}, 1);
      const Tensor k = RandomTensor(DType::kF32, {5, head_dim}, 2);
      const Tensor angles = RandomTensor(DType::kF32, {5, 2, pairs}, 3);
      OperatorCase("oort.Rotary")
          .Param("head_dim", std::to_string(head_dim))
          .Param("interleaved", interleaved ? "True" : "False")
          .Input(q)
          .Input(k)
          .Input(angles)
          .Outputs(2)
          .ExpectOutputs({TurnedBy(q, angles, head_dim, interleaved),
                          TurnedBy(k, angles, head_dim, interleaved)});
    }
  }
}

TEST(Rotary, RefusesOtherShapes) {
  const auto run = [](Shape q, Shape k, Shape angles) {
    OperatorCase("oort.Rotary")
        .Param("head_dim", "8")
        .Input(Tensor(DType::kF32, q))
        .Input(Tensor(DType::kF32, k))
        .Input(Tensor(DType::kF32, angles))
        .Outputs(2)
        .ExpectError(ErrorCode::kInvalidArgument, "expected");
  };
  run({2, 16}, {2, 8}, {2, 2, 5});
  run({2, 16}, {2, 8}, {2, 1, 4});
  run({2, 16}, {3, 8}, {2, 2, 4});
  run({2, 17}, {2, 8}, {2, 2, 4});
}

TEST(Argmax, PicksTheLowestOfTheLargest) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<std::vector<float>, int32_t>> rows = {
      {{1, 3, 3, -2, 3}, 1},          {{kNan, -5, kNan, -4, kNan}, 3},
      {{-0.0f, 0.0f, -1, -1, -1}, 0}, {{-kInf, -kInf, -1e30f, kNan, -kInf}, 2},
      {{-kInf, kInf, 0, kInf, 0}, 1}, {{kNan, -kInf, kNan, -kInf, kNan}, -1},
      {{-7, -6, -5, -4, -3}, 4}};
  std::vector<float> x;
  std::vector<int32_t> want;
  for (const auto& [row, best] : rows) {
    x.insert(x.end(), row.begin(), row.end());
    want.push_back(best);
  }
  const auto count = static_cast<int64_t>(rows.size());
  OperatorCase("oort.Argmax")
      .Input(Tensor::From<float>(x, {count, 5}))
      .ExpectOutputs({Tensor::From<int32_t>(want, {count})});
}

TEST(Argmax, TakesRowsOfAnyLengthAndNumber) {
  for (const int64_t length : {1, 7, 64, 1000, 2048, 2049, 5000}) {
    const Tensor x = RandomTensor(DType::kF32, {2, 3, length}, static_cast<uint64_t>(length));
    Tensor want(DType::kI32, {2, 3});
    for (int64_t row = 0; row < 6; ++row) {
      const float* begin = x.data<float>() + row * length;
      want.data<int32_t>()[row] =
          static_cast<int32_t>(std::max_element(begin, begin + length) - begin);
    }
    OperatorCase("oort.Argmax").Input(x).ExpectOutputs({want});
  }
  OperatorCase("oort.Argmax")
      .Input(Tensor(DType::kF32, {0, 5}))
      .ExpectOutputs({Tensor(DType::kI32, {0})});
  OperatorCase("oort.Argmax")
      .Input(Tensor(DType::kF32, {2, 0}))
      .ExpectOutputs({Tensor::From<int32_t>({-1, -1}, {2})});
  OperatorCase("oort.Argmax")
      .Input(Tensor(DType::kF32, Shape{}))
      .ExpectError(ErrorCode::kInvalidArgument, "rows");
}

TEST(QuantizedArgmax, PicksTheRowOfTheLargestProduct) {
  const Tensor weight =
      Tensor::From<float>({1, 0, 0, /**/ 0, 2, 0, /**/ 0, 2, 0, /**/ -1, -1, 1}, {4, 3});
  const auto pick = [&] {
    return OperatorCase("oort.QuantizedArgmax")
        .Param("in_features", "3")
        .Param("out_features", "4")
        .Attribute("weight", weight);
  };
  pick()
      .Input(Tensor::From<float>({5, 1, 0, /**/ 0, 1, 0, /**/ -1, -1, 3}, {3, 1, 3}))
      .ExpectOutputs({Tensor::From<int32_t>({0, 1, 3}, {3, 1})});
  pick().Input(Tensor(DType::kF32, {0, 3})).ExpectOutputs({Tensor(DType::kI32, {0})});
  pick()
      .Input(Tensor(DType::kF32, {2, 4}))
      .ExpectError(ErrorCode::kInvalidArgument, "last axis is 3");
}

}  // namespace
}  // namespace oort
