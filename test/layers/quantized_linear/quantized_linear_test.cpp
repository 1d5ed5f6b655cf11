// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "byte_weight.h"
#include "cpu/features.h"
#include "kit/one_operator_graph.h"
#include "oort/kv_cache.h"
#include "oort/oort.h"

namespace oort {
namespace {

using testing::ByteWeight;
using testing::OperatorCase;
using testing::RandomTensor;

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

/// Rows of q4_0, whose scales are small: each block of 32 has one of f16 and 16 bytes.
Tensor NibbleWeight(int64_t rows, int64_t columns) {
  Tensor data = RandomTensor(DType::kU8, {rows, columns / 32 * 18}, 11, 0, 255);
  for (int64_t block = 0; block < rows * columns / 32; ++block) {
    data.data<uint8_t>()[block * 18 + 1] = 0x20;
  }
  return data;
}

// Steps of answers whose kernels may be those of prompts keep to those of one row while these are
// faster: up to 12 rows everywhere, and 23 where weights of 4 bits take rows in pairs.
TEST(QuantizedLinear, AFewAnswersAreAsAlone) {
  constexpr int64_t kColumns = 96, kOutputs = 40;
  Operator op;
  op.type = "oort.QuantizedLinear";
  op.params["format"] = Parameter("q4_0");
  op.params["precision"] = Parameter("bf16");
  op.params["in_features"] = Parameter(std::to_string(kColumns));
  op.params["out_features"] = Parameter("(" + std::to_string(kOutputs) + ")");
  op.attributes["weight"] = NibbleWeight(kOutputs, kColumns);
  const auto graph = RuntimeGraph::Build(testing::GraphOf(std::move(op), {"input"}));
  Session session(graph);
  const int64_t rows = graph->isa() == Isa::kNeon && ThisCpu().arm_i8mm ? 23 : 12;
  const auto run = [&](const Tensor& x) {
    std::vector<SequenceSlice> slices;
    for (int64_t row = 0; row < x.dim(0); ++row) slices.push_back({row, 1, 0, {}, 0, -1});
    const SequenceBatch batch(slices, nullptr, nullptr, false);
    RunOptions options;
    options.state = &batch;
    return session.Forward({x}, options)[0];
  };
  const Tensor x = RandomTensor(DType::kF32, {rows, kColumns}, 3), all = run(x);
  for (int64_t row = 0; row < rows; ++row) {
    Tensor one(DType::kF32, {1, kColumns});
    std::copy_n(x.data<float>() + row * kColumns, kColumns, one.data<float>());
    const Tensor alone = run(one);
    ASSERT_TRUE(std::equal(alone.data<float>(), alone.data<float>() + kOutputs,
                           all.data<float>() + row * kOutputs))
        << "row " << row;
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

}  // namespace
}  // namespace oort
