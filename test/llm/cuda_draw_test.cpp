// SPDX-License-Identifier: MIT
// Tokens drawn on the GPU against those that a Sampler draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "cuda/device.h"
#include "cuda/memory.h"
#include "kit/paths.h"
#include "llm/sampling/without_logits.h"
#include "oort/engine.h"
#include "oort/testing.h"

namespace oort {
namespace {

constexpr float kDrawInf = std::numeric_limits<float>::infinity();

class CudaDraw : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    if (cuda::Devices(&reason).empty()) GTEST_SKIP() << reason;
  }

  /// Rows of logits of which few are likely, as a model gives them.
  static Tensor PeakedLogits(int64_t rows, int64_t count, float spread) {
    Tensor logits = testing::RandomTensor(DType::kF32, {rows, count}, 5, 0, 1);
    float* const values = logits.data<float>();
    for (int64_t i = 0; i < logits.elements(); ++i)
      values[i] = spread * std::log(values[i] + 1e-9f);
    return logits;
  }

  /// The share of rows whose token is the Sampler's, each with a seed of its own.
  static double SameShare(const Tensor& logits, SamplingOptions options) {
    const int64_t rows = logits.dim(0), count = logits.dim(1);
    std::vector<cuda::TokenDraw> draws;
    std::vector<int32_t> expected;
    for (int64_t row = 0; row < rows; ++row) {
      options.seed = static_cast<uint64_t>(row);
      Sampler sampler(options);
      draws.push_back(NextDraw(sampler));
      const std::span<const float> all = logits.span<float>();
      expected.push_back(
          sampler.Sample(all.subspan(static_cast<size_t>(row * count), static_cast<size_t>(count)))
              .token);
    }
    cuda::TokenDrawer drawer(0);
    const std::span<const int32_t> got =
        drawer.Draw(cuda::ToDevice(logits, Device::Cuda(0)), draws);
    int64_t same = 0;
    for (int64_t row = 0; row < rows; ++row) {
      same += got[static_cast<size_t>(row)] == expected[static_cast<size_t>(row)] ? 1 : 0;
    }
    return static_cast<double>(same) / static_cast<double>(rows);
  }
};

/// A draw falls on the border of two tokens about once in a million times.
TEST_F(CudaDraw, IsTheSamplersDraw) {
  const std::vector<SamplingOptions> all = {
      {.temperature = 0},
      {.temperature = 1},
      {.temperature = 0.3f},
      {.temperature = 2, .top_k = 1},
      {.temperature = 1, .top_k = 50},
      {.temperature = 1, .top_p = 0.9f},
      {.temperature = 0.7f, .top_p = 1e-6f},
      {.temperature = 1, .min_p = 0.05f},
      {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f},
      {.temperature = 1.5f, .top_k = 30000, .top_p = 0.99f},
      {.temperature = 100, .top_p = 0.5f, .min_p = 1e-9f},
  };
  for (const int64_t count : {1, 2, 33, 511, 1000, 49152, 151936}) {
    for (const float spread : {0.2f, 3.0f}) {
      const Tensor logits = PeakedLogits(count > 1000 ? 20 : 100, count, spread);
      for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(SameShare(logits, all[i]), 1) << count << " logits, options " << i;
      }
    }
  }
}

TEST_F(CudaDraw, EqualLogitsAndThoseThatAreNone) {
  const int64_t count = 5000;
  Tensor logits = Tensor::Zeros(DType::kF32, {60, count});
  float* const values = logits.data<float>();
  for (int64_t row = 0; row < 60; ++row) {
    for (int64_t i = 0; i < count; ++i) {
      float& logit = values[row * count + i];
      if (row % 3 == 0) logit = static_cast<float>(i % 4);  // many ties
      if (row % 3 == 1) logit = i % 2 == 0 ? std::nanf("") : i % 7 == 1 ? 2.0f : -kDrawInf;
      if (row % 3 == 2 && i % 1000 == 10) logit = kDrawInf;
    }
  }
  for (const SamplingOptions& options : std::vector<SamplingOptions>{
           {.temperature = 0},
           {.temperature = 1},
           {.temperature = 1, .top_k = 7},
           {.temperature = 1, .top_p = 0.3f},
           {.temperature = 1, .top_k = 100, .top_p = 0.5f, .min_p = 0.9f}}) {
    EXPECT_EQ(SameShare(logits, options), 1);
  }
}

/// Log-probabilities bring the logits to the host, where a Sampler draws.
TEST_F(CudaDraw, AnAnswerIsTheSameWithLogitsAndWithout) {
  LanguageModelOptions load;
  load.device = Device::Cuda(0);
  const auto model = LanguageModel::Load(TestData() / "checkpoints" / "llama", load);
  const auto answer = [&](int top_logprobs, uint64_t seed) {
    Engine engine(model);
    GenerateRequest request;
    request.prompt = {1, 2, 3};
    request.max_tokens = 20;
    request.ignore_end = true;
    request.sampling = {.temperature = 0.9f, .top_k = 40, .top_p = 0.95f, .seed = seed};
    request.sampling.top_logprobs = top_logprobs;
    return engine.Generate(request).tokens;
  };
  for (uint64_t seed = 0; seed < 5; ++seed) EXPECT_EQ(answer(-1, seed), answer(0, seed)) << seed;
  EXPECT_NE(answer(-1, 1), answer(-1, 2));
}

TEST_F(CudaDraw, NoTokenIsMinusOne) {
  Tensor none = Tensor::Zeros(DType::kF32, {2, 300});
  std::fill_n(none.data<float>(), none.elements(), -kDrawInf);
  cuda::TokenDrawer drawer(0);
  const std::vector<cuda::TokenDraw> draws(2);
  const std::span<const int32_t> got = drawer.Draw(cuda::ToDevice(none, Device::Cuda(0)), draws);
  EXPECT_EQ(std::vector<int32_t>(got.begin(), got.end()), (std::vector<int32_t>{-1, -1}));
}

}  // namespace
}  // namespace oort
