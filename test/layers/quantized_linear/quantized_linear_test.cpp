// SPDX-License-Identifier: MIT
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

}  // namespace
}  // namespace oort
