// SPDX-License-Identifier: MIT
// What keys of a model have in common, by the bias of the product that gives them.
#include "decoder/key_centre.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "decoder/decoder.h"
#include "kit/paths.h"
#include "oort/testing.h"
#include "parser/checkpoint/checkpoint.h"

namespace oort {
namespace {

/// Two heads of 6 elements, of which two pairs turn.
TEST(KeyCentre, IsTheMeanOfTurnedBiases) {
  constexpr int64_t kHeadDim = 6, kPositions = 4096;
  const Tensor bias = testing::RandomTensor(DType::kF32, {2 * kHeadDim}, 3);
  for (const bool interleaved : {false, true}) {
    RotaryConfig rotary;
    rotary.dims = 4;
    rotary.interleaved = interleaved;
    rotary.frequencies = {0.3f, 1e-4f};
    rotary.magnitude = 1.5f;
    const Tensor centre = KeyCentre(bias, kHeadDim, rotary);
    for (int64_t head = 0; head < 2; ++head) {
      const float* const x = bias.data<float>() + head * kHeadDim;
      const float* const got = centre.data<float>() + head * kHeadDim;
      for (size_t pair = 0; pair < 2; ++pair) {
        const size_t first = interleaved ? 2 * pair : pair, second = first + (interleaved ? 1 : 2);
        double a = 0, b = 0;
        for (int64_t position = 0; position < kPositions; ++position) {
          const double turn =
              static_cast<double>(rotary.frequencies[pair]) * static_cast<double>(position);
          a += x[first] * std::cos(turn) - x[second] * std::sin(turn);
          b += x[second] * std::cos(turn) + x[first] * std::sin(turn);
        }
        EXPECT_NEAR(got[first], a / kPositions * 1.5, 2e-3) << interleaved << pair;
        EXPECT_NEAR(got[second], b / kPositions * 1.5, 2e-3) << interleaved << pair;
      }
      EXPECT_EQ(got[4], x[4]);
      EXPECT_EQ(got[5], x[5]);
    }
  }
}

TEST(KeyCentre, OfModelsWithABias) {
  const auto has_centre = [](const char* name) {
    const auto checkpoint = Checkpoint::Open(TestData() / "checkpoints" / name);
    const DecoderGraph decoder = BuildDecoder(*checkpoint);
    int64_t centres = 0;
    for (const Operator& op : decoder.graph.operators) centres += op.attributes.count("key_centre");
    EXPECT_TRUE(centres == 0 || centres == checkpoint->config().layers) << name;
    return centres > 0;
  };
  EXPECT_TRUE(has_centre("qwen2"));
  EXPECT_FALSE(has_centre("llama"));
  EXPECT_FALSE(has_centre("gpt_oss"));  // it has biases, and sinks
}

}  // namespace
}  // namespace oort
