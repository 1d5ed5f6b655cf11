// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "decoder/random_checkpoint.h"
#include "kit/errors.h"

namespace oort {
namespace {

TEST(RandomCheckpoint, HasTheShapesOfTheNamedModel) {
  const auto checkpoint = MakeRandomCheckpoint("qwen2.5-0.5b", "int4", 64);
  EXPECT_EQ(checkpoint->config().layers, 24);
  const StoredMatrix key = checkpoint->Matrix("model.layers.3.self_attn.k_proj.weight");
  EXPECT_EQ(key.rows, 128);
  EXPECT_EQ(key.columns, 896);
  const StoredMatrix down = checkpoint->Matrix("model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(down.rows, 896);
  EXPECT_EQ(down.columns, 4864);
  EXPECT_TRUE(checkpoint->Has("model.layers.0.self_attn.q_proj.bias"));
  EXPECT_FALSE(checkpoint->Has("model.layers.0.self_attn.o_proj.bias"));
}

TEST(RandomCheckpoint, FollowsTheRulesOfItsFamily) {
  const auto checkpoint = MakeRandomCheckpoint("llama4-scout", "int4", 64);
  const DecoderConfig& config = checkpoint->config();
  EXPECT_EQ(config.windows[2], 8192);
  EXPECT_EQ(config.windows[3], 0);
  EXPECT_EQ(config.RotaryOf(2), DecoderConfig::LayerRotary::kUsual);
  EXPECT_EQ(config.RotaryOf(3), DecoderConfig::LayerRotary::kNone);
  EXPECT_TRUE(config.chunked_windows && config.experts.scales_inputs && config.experts.sigmoid);
  EXPECT_EQ(config.temperature.length, 8192);
  const StoredMatrix down = checkpoint->Matrix("model.layers.0.mlp.shared_expert.down_proj.weight");
  EXPECT_EQ(down.rows, 5120);
  EXPECT_EQ(down.columns, 8192);
}

TEST(RandomCheckpoint, HasStates) {
  const auto checkpoint = MakeRandomCheckpoint("mamba2-130m", "int8", 64);
  const std::string mixer = "model.layers.3.mixer.";
  EXPECT_EQ(checkpoint->Matrix(mixer + "conv_proj.weight").rows, 1792);
  EXPECT_EQ(checkpoint->Matrix(mixer + "out_proj.weight").columns, 1536);
  EXPECT_EQ(checkpoint->Vector(mixer + "conv.weight").elements(), 1792 * 4);
  EXPECT_LT(checkpoint->Vector(mixer + "rate.weight").data<float>()[0], 0);
}

TEST(RandomCheckpoint, HasStreams) {
  const auto checkpoint = MakeRandomCheckpoint("gemma3n-e2b", "int4", 128);
  const DecoderConfig& config = checkpoint->config();
  EXPECT_EQ(config.KeysOf(29), 19);
  EXPECT_EQ(config.RotaryOf(0), DecoderConfig::LayerRotary::kLocal);
  const StoredMatrix table = checkpoint->Matrix("model.embed_tokens_per_layer.weight");
  EXPECT_EQ(table.rows, 262144);
  EXPECT_EQ(table.columns, 30 * 256);
  // Matrices without whole groups are no smaller than they are.
  const std::string layer = "model.layers.3.";
  EXPECT_EQ(checkpoint->Matrix(layer + "altup.prediction_coefs.weight").format, WeightFormat::kF32);
  EXPECT_EQ(checkpoint->Matrix(layer + "laurel.linear_right.weight").columns, 64);
  EXPECT_EQ(checkpoint->Matrix(layer + "per_layer_projection.weight").columns, 256);
  EXPECT_EQ(checkpoint->Vector("model.per_layer_projection_norm.weight").elements(), 256);
}

TEST(RandomCheckpoint, HasStatesAndAttention) {
  const auto checkpoint = MakeRandomCheckpoint("granite4-h-tiny", "int4", 64);
  const DecoderConfig& config = checkpoint->config();
  EXPECT_FALSE(config.state_space.IsAt(5) || config.state_space.IsAt(35));
  EXPECT_EQ(std::ranges::count(config.state_space.attention, true), 4);
  EXPECT_EQ(config.rotary.dims, 0);
  EXPECT_EQ(checkpoint->Matrix("model.layers.5.self_attn.k_proj.weight").rows, 512);
  EXPECT_EQ(checkpoint->Matrix("model.layers.6.mixer.conv_proj.weight").rows, 3328);
  EXPECT_EQ(checkpoint->Matrix("model.layers.6.mlp.shared_expert.down_proj.weight").columns, 1024);
}

TEST(RandomCheckpoint, HasDeltaRules) {
  const auto checkpoint = MakeRandomCheckpoint("qwen3-next-80b-a3b", "int4", 64);
  const DecoderConfig& config = checkpoint->config();
  EXPECT_TRUE(config.state_space.delta && config.attention_gate);
  EXPECT_TRUE(config.state_space.IsAt(0) && !config.state_space.IsAt(3));
  EXPECT_EQ(config.rotary.dims, 64);
  const std::string mixer = "model.layers.6.mixer.";
  EXPECT_EQ(checkpoint->Matrix(mixer + "conv_proj.weight").rows, 8192);
  EXPECT_EQ(checkpoint->Matrix(mixer + "beta_proj.weight").rows, 32);
  EXPECT_EQ(checkpoint->Vector(mixer + "norm.weight").elements(), 128);
  EXPECT_EQ(checkpoint->Matrix("model.layers.3.self_attn.gate_proj.weight").rows, 4096);
  EXPECT_EQ(checkpoint->Matrix("model.layers.3.mlp.shared_expert_gate.weight").rows, 1);
}

TEST(RandomCheckpoint, HasNumbersInEveryFormat) {
  for (const char* weights : {"bf16", "f16", "int8", "int4"}) {
    SCOPED_TRACE(weights);
    const auto checkpoint = MakeRandomCheckpoint("smollm2-135m", weights, 64);
    const StoredMatrix key = checkpoint->Matrix("model.layers.3.self_attn.k_proj.weight");
    std::vector<float> row(static_cast<size_t>(key.columns));
    ReadRows(key, 5, 6, row.data());
    double squares = 0;
    for (float value : row) squares += static_cast<double>(value) * static_cast<double>(value);
    // About 1/sqrt(hidden): neither zeros nor anything that would grow from layer to layer.
    EXPECT_GT(squares, 0.1);
    EXPECT_LT(squares, 4);
  }
}

TEST(RandomCheckpoint, LayersShareNumbersButAreDifferentToWhoPacksThem) {
  const auto checkpoint = MakeRandomCheckpoint("smollm2-135m", "int4", 32);
  const StoredMatrix a = checkpoint->Matrix("model.layers.0.self_attn.o_proj.weight");
  const StoredMatrix b = checkpoint->Matrix("model.layers.1.self_attn.o_proj.weight");
  EXPECT_EQ(a.data.raw(), b.data.raw());
  EXPECT_NE(a.data.buffer(), b.data.buffer());
}

TEST(RandomCheckpoint, RefusesWhatItDoesNotKnow) {
  using testing::ExpectThrows;
  ExpectThrows([] { MakeRandomCheckpoint("gpt5", "bf16", 32); }, ErrorCode::kInvalidArgument,
               "llama2-7b");
  ExpectThrows([] { MakeRandomCheckpoint("llama2-7b", "int4", 48); }, ErrorCode::kInvalidArgument,
               "groups of 32, 64 or 128");
  ExpectThrows([] { MakeRandomCheckpoint("llama2-7b", "int3", 32); }, ErrorCode::kInvalidArgument,
               "bf16, f16, int8 or int4");
}

}  // namespace
}  // namespace oort
