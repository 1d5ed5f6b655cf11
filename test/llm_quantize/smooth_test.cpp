// SPDX-License-Identifier: MIT
#include "llm_quantize/smooth.h"

#include <gtest/gtest.h>

#include <cmath>

#include "layers/quantized_linear/byte_rows.h"
#include "llm_quantize/awq.h"
#include "oort/testing.h"
#include "weights/quantize_weights.h"

namespace oort::llm_quantize {
namespace {

constexpr int64_t kTokens = 64, kOutputs = 32, kColumns = 96;

StoredMatrix RandomWeights(uint64_t seed) {
  StoredMatrix stored = AllocateStored({WeightFormat::kF32, 1, DType::kF32}, kOutputs, kColumns);
  const Tensor random = testing::RandomTensor(DType::kF32, {kOutputs, kColumns}, seed, -1, 1);
  QuantizeRows(random.data<float>(), 0, kOutputs, stored);
  return stored;
}

/// Every sixteenth column has inputs `times` as large as the others.
Tensor RandomInputs(float times) {
  Tensor inputs = testing::RandomTensor(DType::kF32, {kTokens, kColumns}, 5, -1, 1);
  for (int64_t i = 0; i < inputs.elements(); i += 16) inputs.data<float>()[i] *= times;
  return inputs;
}

std::vector<float> BytesAndBack(const float* row, bool is_weight) {
  std::vector<uint8_t> bytes(kColumns);
  const float unit = is_weight ? RoundWeights(ByteKind::kInt8, row, kColumns, bytes.data())
                               : RoundActivations(ByteKind::kInt8, row, kColumns, bytes.data());
  std::vector<float> values;
  for (const uint8_t byte : bytes) values.push_back(unit * ValueOfByte(ByteKind::kInt8, byte));
  return values;
}

/// The squared error of products of bytes.
double ErrorOf(const StoredMatrix& weights, const Tensor& inputs,
               const std::vector<float>& factors) {
  const StoredMatrix scaled = ScaleColumns(weights, factors);
  double error = 0;
  for (int64_t token = 0; token < kTokens; ++token) {
    std::vector<float> x(inputs.data<float>() + token * kColumns,
                         inputs.data<float>() + (token + 1) * kColumns);
    const std::vector<float> plain = x;
    for (size_t k = 0; k < x.size(); ++k) x[k] /= factors[k];
    const std::vector<float> rounded = BytesAndBack(x.data(), false);
    for (int64_t row = 0; row < kOutputs; ++row) {
      const float* const exact = weights.data.data<float>() + row * kColumns;
      const std::vector<float> w = BytesAndBack(scaled.data.data<float>() + row * kColumns, true);
      double off = 0;
      for (size_t k = 0; k < w.size(); ++k) {
        off += static_cast<double>(w[k]) * static_cast<double>(rounded[k]) -
               static_cast<double>(exact[k]) * static_cast<double>(plain[k]);
      }
      error += off * off;
    }
  }
  return error;
}

TEST(Smooth, FactorsLowerTheErrorOfProductsOfBytes) {
  const StoredMatrix weights = RandomWeights(12);
  const Tensor inputs = RandomInputs(60);
  const std::vector<float> factors = SmoothFactors({&weights, 1}, inputs);
  EXPECT_GT(factors[0], factors[1]);
  EXPECT_LT(ErrorOf(weights, inputs, factors),
            ErrorOf(weights, inputs, std::vector<float>(kColumns, 1)) / 4);
}

TEST(Smooth, FactorsArePowersOfTwo) {
  const StoredMatrix weights[] = {RandomWeights(12), RandomWeights(13)};
  int exponent = 0;
  for (const float factor : SmoothFactors(weights, RandomInputs(1000))) {
    EXPECT_EQ(std::frexp(factor, &exponent), 0.5F) << factor;
  }
}

/// Nor do columns without inputs, of which nothing is known, want anything.
TEST(Smooth, InputsThatAreAllAlikeWantNothing) {
  const StoredMatrix weights = RandomWeights(12);
  Tensor inputs = RandomInputs(1);
  const std::vector<float> none(kColumns, 1);
  EXPECT_LE(ErrorOf(weights, inputs, SmoothFactors({&weights, 1}, inputs)),
            ErrorOf(weights, inputs, none) * 1.1);
  for (int64_t i = 0; i < inputs.elements(); ++i) inputs.data<float>()[i] = 0;
  EXPECT_EQ(SmoothFactors({&weights, 1}, inputs), none);
}

}  // namespace
}  // namespace oort::llm_quantize
