// SPDX-License-Identifier: MIT
#include "limits/limits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kit/paths.h"
#include "limits/device_memory.h"
#include "limits/rank_limits.h"
#include "oort/error.h"

namespace oort::limits {
namespace {

using LimitsJson = nlohmann::json;

/// A token reads and writes the state, at the first position as at any other.
TEST(Limits, StatesTakeTheSameAtAnyLength) {
  const ModelShape shape = ReadModelShape(
      R"({"model_type": "mamba2", "vocab_size": 50288, "hidden_size": 768, "num_hidden_layers": 24,
    "num_heads": 24, "head_dim": 64, "state_size": 128, "n_groups": 1, "tie_word_embeddings": true})");
  const double state = 24 * (24 * 64 * 128 + 3 * 1792);
  EXPECT_EQ(StateOf(shape), state);
  EXPECT_EQ(CacheOfPosition(shape), 0);
  Machine machine = KnownMachines()[0];
  const double first = DecodeLimit(shape, {16, 16}, machine, 1).seconds();
  EXPECT_EQ(DecodeLimit(shape, {16, 16}, machine, 1e6).seconds(), first);
  const double weights = CountParameters(shape).active() * 2;
  EXPECT_DOUBLE_EQ(first, (weights + 8 * state) / machine.bandwidth);
  EXPECT_TRUE(std::isinf(PositionsPerMillisecond(shape, {16, 16}, machine)));
  const double stored = CountParameters(shape).stored() * 2;
  EXPECT_EQ(LargestBatch(shape, {16, 16}, stored + 10.5 * state * 4, 1e6), 10);
  EXPECT_TRUE(std::isinf(LongestContext(shape, {16, 16}, stored + state * 4 + 1)));
  EXPECT_EQ(LongestContext(shape, {16, 16}, stored + state * 4 - 1e3), -1);
}

/// Gemma 3n: the last layers see keys and values of others, and a table has embeddings for layers.
TEST(Limits, SharedKeysTakeNoMemoryButAreRead) {
  const ModelShape shape = ReadModelShape(
      R"({"model_type": "gemma3n_text", "vocab_size": 262400, "hidden_size": 2048, "num_hidden_layers": 30,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "intermediate_size": 8192,
    "num_kv_shared_layers": 10})");
  const ParameterCounts counts = CountParameters(shape);
  EXPECT_EQ(counts.stored(), 4435182688);  // as transformers counts
  EXPECT_EQ(counts.embedding, 262400.0 * 2048 + 262144.0 * 30 * 256);
  EXPECT_EQ(CacheOfPosition(shape), 20 * 2 * 2 * 256);
  EXPECT_EQ(CacheOf(shape, 100), 100 * CacheOfPosition(shape));
  const Machine& machine = KnownMachines()[0];
  EXPECT_DOUBLE_EQ(DecodeLimit(shape, {16, 16}, machine, 100).read,
                   (counts.active() + 30 * 100 * 2 * 2 * 256) * 2 / machine.bandwidth);
}

/// Of layers with attention and layers with a state; parameters are those of the file.
TEST(Limits, HybridsHaveACacheAndAState) {
  const auto shape = [](const char* name) {
    return ShapeOfModel(TestData() / "checkpoints" / name);
  };
  const ModelShape mixture = shape("granitemoehybrid");
  EXPECT_EQ(CountParameters(mixture).stored(), 93368);
  EXPECT_EQ(StateOf(mixture), 3 * (64 * 12 + 3 * 112));
  EXPECT_EQ(CacheOfPosition(mixture), 2 * 2 * 2 * 8);
  EXPECT_EQ(CacheOf(mixture, 10), 10 * CacheOfPosition(mixture));
  EXPECT_EQ(CountParameters(shape("granitemoehybrid.gguf")).stored(), 93368);
  EXPECT_EQ(CountParameters(shape("bamba")).stored(), 28160);
  const ModelShape both = shape("falcon_h1_norm");
  EXPECT_EQ(CountParameters(both).stored(), 30640);
  EXPECT_EQ(StateOf(both), 2 * (64 * 12 + 3 * 112));
  EXPECT_EQ(CacheOfPosition(both), 2 * 2 * 2 * 8);
  // The convolution's biases, which it does not have, are counted.
  EXPECT_EQ(CountParameters(shape("granitemoehybrid_dense")).stored(), 26832 + 2 * 88);
}

/// The same of delta rules, and attention with gates.
TEST(Limits, DeltaRulesHaveAState) {
  const auto shape = [](const char* name) {
    return ShapeOfModel(TestData() / "checkpoints" / name);
  };
  const ModelShape mixture = shape("qwen3_next");
  EXPECT_EQ(StateOf(mixture), 3 * (4 * 8 * 12 + 3 * 80));
  EXPECT_EQ(CacheOfPosition(mixture), 2 * 2 * 16);
  EXPECT_EQ(CountParameters(mixture).stored(), 72112);
  EXPECT_EQ(CountParameters(shape("qwen3_next.gguf")).stored(), 72112);
  EXPECT_EQ(CountParameters(shape("qwen3_5_text")).stored(), 34040);
  EXPECT_EQ(CountParameters(shape("qwen3_5_moe")).stored(), 38864);
}

/// Parameters that the published checkpoints have.
TEST(Limits, CountParametersOfModelsThatExist) {
  const auto stored = [](const char* config) {
    return CountParameters(ReadModelShape(config)).stored();
  };
  EXPECT_EQ(
      stored(
          R"({"model_type": "mamba2", "vocab_size": 50288, "hidden_size": 768, "num_hidden_layers": 24, "num_heads": 24,
    "head_dim": 64, "state_size": 128, "n_groups": 1, "tie_word_embeddings": true})"),
      128989632);
  EXPECT_EQ(
      stored(
          R"({"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "num_hidden_layers": 30,
    "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1536, "tie_word_embeddings": true})"),
      134515008);
  EXPECT_EQ(
      stored(
          R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "tie_word_embeddings": false})"),
      8030261248);
  EXPECT_EQ(
      stored(
          R"({"model_type": "gpt2", "vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12,
    "n_positions": 1024, "n_inner": null})"),
      124439808);
  EXPECT_EQ(
      stored(
          R"({"model_type": "mixtral", "vocab_size": 32000, "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8,
    "num_experts_per_tok": 2})"),
      46702792704);
  EXPECT_EQ(
      stored(
          R"({"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072,
    "tie_word_embeddings": true})"),
      596049920);
  EXPECT_EQ(
      stored(
          R"({"model_type": "gemma2", "vocab_size": 256000, "hidden_size": 2304, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 9216,
    "sliding_window": 4096})"),
      2614341888);
  EXPECT_EQ(
      stored(
          R"({"model_type": "phi3", "vocab_size": 32064, "hidden_size": 3072, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 8192, "sliding_window": 2047})"),
      3821079552);
  EXPECT_EQ(
      stored(
          R"({"model_type": "qwen3_next", "vocab_size": 151936, "hidden_size": 2048, "num_hidden_layers": 48,
    "num_attention_heads": 16, "num_key_value_heads": 2, "intermediate_size": 5120, "num_experts": 512,
    "num_experts_per_tok": 10, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512})"),
      79674391296);  // without the layer that predicts tokens further ahead
}

TEST(Limits, WindowsBoundTheCache) {
  const ModelShape shape =
      ReadModelShape(R"({"model_type": "gemma2", "vocab_size": 1000, "hidden_size": 64,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "intermediate_size": 128, "sliding_window": 100})");
  EXPECT_EQ(CacheOf(shape, 50), 4 * 64 * 50.0);
  EXPECT_EQ(CacheOf(shape, 1000), 64 * (2 * 100.0 + 2 * 1000));
  // The sum over positions, by hand.
  const Machine machine{"m", "", 1e9, 1e12, 1e6};
  for (const double length : {1.0, 99.0, 100.0, 101.0, 250.0}) {
    double cache = 0;
    for (double n = 1; n <= length; ++n) cache += CacheOf(shape, n);
    const double weights = CountParameters(shape).active();
    EXPECT_NEAR(PrefillLimit(shape, {16, 16}, machine, length).read,
                (weights + CacheOf(shape, length)) * 2 / 1e9, 1e-12);
    EXPECT_NEAR(
        PrefillLimit(shape, {16, 16}, machine, length, Head::kOnce, CacheReads::kEachPosition).read,
        (weights + cache) * 2 / 1e9, 1e-12);
    EXPECT_NEAR(
        PrefillLimit(shape, {16, 16}, machine, length).compute,
        (CountParameters(shape).layers() * length + cache * 2 + CountParameters(shape).head) * 2 /
            1e12,
        1e-15);
  }
  const double all_local =
      LongestContext(ReadModelShape(R"({"model_type": "mistral", "vocab_size": 10,
    "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 8,
    "sliding_window": 16})"),
                     {16, 16}, 1e6);
  EXPECT_TRUE(std::isinf(all_local));
}

TEST(Limits, ExpertsAreReadAsTheyAreUsed) {
  const ModelShape shape =
      ReadModelShape(R"({"model_type": "mixtral", "vocab_size": 100, "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "num_local_experts": 8,
    "num_experts_per_tok": 2})");
  const ParameterCounts counts = CountParameters(shape);
  EXPECT_EQ(counts.feed_forward, 2 * 8 * 3 * 64 * 128.0);
  EXPECT_EQ(counts.feed_forward_active, 2 * 2 * 3 * 64 * 128.0);
  const Machine machine{"m", "", 1e9, 1e15, 1e6};
  EXPECT_NEAR(DecodeLimit(shape, {8, 16}, machine, 1).read * 1e9,
              counts.active() + CacheOf(shape, 1) * 2, 1e-3);
  EXPECT_NEAR(DecodeLimit(shape, {8, 16}, machine, 1, 1000).read * 1e9,
              counts.layers() + counts.head + 1000 * CacheOf(shape, 1) * 2, 1e-3);
}

/// Products of the layers are faster, those of the head, of experts and of attention are not.
TEST(Limits, ProductsOfBytesAreFaster) {
  const char* const dense = R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128})";
  Machine machine{"m", "", 1e9, 1e12, 1e6};
  machine.byte_rate = 2;
  const BitWidths plain{8, 16}, bytes{8, 16, true};
  const auto saved = [&](const ModelShape& shape, double tokens) {
    return (PrefillLimit(shape, plain, machine, tokens).compute -
            PrefillLimit(shape, bytes, machine, tokens).compute) *
           machine.flops / 2;
  };
  const ModelShape shape = ReadModelShape(dense);
  const double layers = CountParameters(shape).layers_active();
  EXPECT_NEAR(saved(shape, 10), 10 * layers / 2, 1e-3);
  EXPECT_EQ(PrefillLimit(shape, bytes, machine, 10).read,
            PrefillLimit(shape, plain, machine, 10).read);
  EXPECT_NEAR((DecodeLimit(shape, plain, machine, 5, 7).compute -
               DecodeLimit(shape, bytes, machine, 5, 7).compute) *
                  machine.flops / 2,
              7 * layers / 2, 1e-3);
  const ModelShape experts =
      ReadModelShape(R"({"model_type": "mixtral", "vocab_size": 100, "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "num_local_experts": 8,
    "num_experts_per_tok": 2})");
  EXPECT_NEAR(saved(experts, 10), 10 * CountParameters(experts).attention_active / 2, 1e-3);
  machine.byte_rate = 1;
  EXPECT_EQ(saved(shape, 10), 0);
}

/// Weights of layers have 8 bits and one scale a row, embeddings and head what they had.
TEST(Limits, BytesInTheMemoryOfAGpu) {
  const ModelShape shape = ReadModelShape(R"({"model_type": "llama", "vocab_size": 1024,
    "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512})");
  const double layers = 2 * (4 * 256 * 256 + 3 * 256 * 512), norms = 5 * 256 * 4;
  const double tables = 2 * 1024 * 256 * 2;
  EXPECT_EQ(PredictDeviceWeights(shape, {.bits = 16, .bytes = true}),
            layers * 17 / 16 + norms + tables);
  EXPECT_EQ(PredictDeviceWeights(shape, {.bits = 16}), layers * 2 + norms + tables);
  EXPECT_EQ(PredictDeviceWeights(shape, {.bits = 4, .bytes = true}),
            PredictDeviceWeights(shape, {.bits = 4}));
}

/// Llama 4 Scout as its folder says it, with changes.
ModelShape ReadScout(const LimitsJson& changes) {
  LimitsJson text = {{"model_type", "llama4_text"}, {"vocab_size", 202048},
                     {"hidden_size", 5120},         {"num_hidden_layers", 48},
                     {"num_attention_heads", 40},   {"num_key_value_heads", 8},
                     {"intermediate_size", 8192},   {"intermediate_size_mlp", 16384},
                     {"num_local_experts", 16},     {"num_experts_per_tok", 1}};
  text.update(changes);
  const LimitsJson whole = {{"model_type", "llama4"}, {"text_config", text}};
  return ReadModelShape(whole.dump());
}

/// So many parameters does transformers count, pictures left out.
TEST(Limits, ExpertsThatAreSharedAndChunksOfAttention) {
  const auto read = ReadScout;
  const ModelShape scout = read(LimitsJson::object());
  EXPECT_EQ(CountParameters(scout).stored(), 107769861120.0);
  EXPECT_EQ(scout.windows[3], 0);
  EXPECT_EQ(scout.windows[4], 8192);
  // Two chunks cost twice what one does.
  const ModelShape chunked =
      read({{"layer_types", std::vector<std::string>(48, "chunked_attention")}});
  const Machine machine{"m", "", 1e12, 1e12, 1e12};
  const auto attention = [&](double length) {
    return PrefillLimit(chunked, {16, 16}, machine, length).compute * machine.flops / 2 -
           CountParameters(chunked).layers_active() * length - CountParameters(chunked).head;
  };
  EXPECT_NEAR(attention(16384) / attention(8192), 2, 1e-6);
  EXPECT_EQ(CountParameters(read({{"interleave_moe_layer_step", 2}})).router, 24 * 16 * 5120.0);
}

/// A way of packing weights that Oort does not know changes no size.
TEST(Limits, SizesOfLlama4ThatOortCannotRun) {
  const LimitsJson packed = {{"quantization_config", {{"quant_method", "unheard-of"}}}};
  const LimitsJson usual = LimitsJson::object(), every_second = {{"interleave_moe_layer_step", 2}},
                   dense = {{"num_local_experts", 0}, {"num_experts_per_tok", 0}};
  for (LimitsJson changes : {usual, every_second, dense}) {
    SCOPED_TRACE(changes.dump());
    const ModelShape known = ReadScout(changes);
    changes.update(packed);
    const ModelShape shape = ReadScout(changes);
    EXPECT_EQ(CountParameters(shape).stored(), CountParameters(known).stored());
    EXPECT_EQ(CountParameters(shape).active(), CountParameters(known).active());
    EXPECT_EQ(shape.intermediate, 16384);
    EXPECT_EQ(shape.dense_layers, known.dense_layers);
    EXPECT_EQ(shape.windows, known.windows);
  }
}

/// Idefics3 and SmolVLM around a language model that Oort reads in no such folder.
TEST(Limits, LanguageModelsOfPicturesThatOortCannotRun) {
  const LimitsJson text = {{"model_type", "mistral"},   {"vocab_size", 32000},
                           {"hidden_size", 4096},       {"num_hidden_layers", 32},
                           {"num_attention_heads", 32}, {"num_key_value_heads", 8},
                           {"intermediate_size", 14336}};
  const ModelShape alone = ReadModelShape(text.dump());
  for (const char* const whole : {"idefics3", "smolvlm"}) {
    const LimitsJson config = {{"model_type", whole}, {"text_config", text}};
    const ModelShape shape = ReadModelShape(config.dump());
    EXPECT_EQ(shape.family, "mistral");
    EXPECT_EQ(CountParameters(shape).stored(), CountParameters(alone).stored());
  }
}

TEST(Limits, ConfigsAreChecked) {
  for (
      const char* bad :
      {"", "[]", "{}", R"({"vocab_size": 10})",
       R"({"vocab_size": 10, "hidden_size": 0, "num_hidden_layers": 1, "num_attention_heads": 1})",
       R"({"vocab_size": 10, "hidden_size": 9223372036854775807, "num_hidden_layers": 1, "num_attention_heads": 1})",
       R"({"vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 3,
           "num_key_value_heads": 2})",
       R"({"vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
           "kv_lora_rank": 2})"}) {
    EXPECT_THROW(ReadModelShape(bad), Error) << bad;
  }
  EXPECT_THROW(FindMachine("abacus"), Error);
  EXPECT_EQ(FindMachine("h200").bandwidth, 4800e9);
}

/// Of families that can be run, shapes are what the reader of checkpoints says.
TEST(Limits, ShapesFollowTheReaderOfCheckpoints) {
  const auto shape = [](LimitsJson more) {
    LimitsJson config = {{"vocab_size", 100},        {"hidden_size", 64},
                         {"num_hidden_layers", 30},  {"num_attention_heads", 4},
                         {"intermediate_size", 128}, {"num_key_value_heads", 2}};
    config.update(more);
    return ReadModelShape(config.dump());
  };
  const ModelShape qwen2 =
      shape({{"model_type", "qwen2"}, {"use_sliding_window", true}, {"sliding_window", 10}});
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.output_bias);
  ASSERT_EQ(qwen2.windows.size(), 30u);
  EXPECT_EQ(qwen2.windows[27], 0);
  EXPECT_EQ(qwen2.windows[28], 10) << "the windows begin with max_window_layers";
  EXPECT_EQ(shape({{"model_type", "qwen3"}}).head_dim, 128);
  const ModelShape biased =
      shape({{"model_type", "llama"}, {"attention_bias", true}, {"mlp_bias", true}});
  EXPECT_TRUE(biased.qkv_bias && biased.output_bias && biased.mlp_bias);
  // Weights that cannot be read have a shape all the same.
  const ModelShape quantized =
      shape({{"model_type", "llama"}, {"quantization_config", {{"bits", 4}}}});
  EXPECT_EQ(quantized.layers, 30);
  EXPECT_FALSE(quantized.qkv_bias);
}

ModelShape Llama2Shape() {
  ModelShape shape;
  shape.vocabulary = 32000;
  shape.hidden = shape.norm_width = 4096;
  shape.layers = shape.heads = shape.kv_heads = 32;
  shape.head_dim = 128;
  shape.intermediate = 11008;
  return shape;
}

/// Its sizes are whole strips and steps, so that nothing is filled up.
TEST(DeviceMemory, CountsWeightsScalesAndCache) {
  const ModelShape shape = Llama2Shape();
  const double norms = 65 * 4096, matrices = 6738415616.0 - norms;
  const auto weights = [&](DeviceWeightBits bits) {
    return PredictDeviceMemory(shape, bits, {16, 4096, 512}).weights - 4 * norms;
  };
  EXPECT_EQ(weights({16, 0, 32}), 2 * matrices);
  EXPECT_EQ(weights({8, 0, 32}), matrices * (1 + 2.0 / 32));
  EXPECT_EQ(weights({8, 0, 128}), matrices * (1 + 2.0 / 64));  // a step of 64 columns has one
  EXPECT_EQ(weights({4, 4, 64}), matrices * (0.5 + 2.0 / 64));
  const double tables = 2.0 * 32000 * 4096;
  EXPECT_EQ(weights({4, 0, 64}), (matrices - tables) * (0.5 + 2.0 / 64) + tables * (1 + 2.0 / 64));
  EXPECT_EQ(weights({4, 0, 16}), 2 * matrices);  // such groups are widened
  const double cache = PredictDeviceMemory(shape, {}, {16, 4090, 512}).cache;
  EXPECT_NEAR(cache, 32.0 * 2 * 4096 * 2 * 4096, 0.001 * cache);
}

TEST(DeviceMemory, FillsUpStripsAndSharesATiedTable) {
  ModelShape shape = Llama2Shape();
  shape.tied_head = true;
  shape.vocabulary = 32001;
  const double tied = PredictDeviceMemory(shape, {}, {16, 16, 16}).weights;
  shape.tied_head = false;
  EXPECT_EQ(PredictDeviceMemory(shape, {}, {16, 16, 16}).weights - tied, 32016.0 * 4096 * 2);
}

TEST(DeviceMemory, PromptsOfVeryManyRowsUnpackWeights) {
  const ModelShape shape = Llama2Shape();
  const auto scratch = [&](int bits, double rows) {
    return PredictDeviceMemory(shape, {bits, 0, 32}, {16, 4096, rows}).activations;
  };
  EXPECT_EQ(scratch(16, 16), scratch(4, 16));
  EXPECT_EQ(scratch(4, 512) - scratch(16, 512), 2.0 * 2 * 11008 * 4096);
  // Small models have two numbers of 16 bits for each one, of weights and of what they multiply.
  ModelShape small = shape;
  small.layers = 1;
  small.vocabulary = 1000;
  const double rows = 512, wide = 2 * 11008;
  const auto small_scratch = [&](double count) {
    return PredictDeviceMemory(small, {4, 4, 32}, {32, 64, count, true}).activations;
  };
  EXPECT_EQ(small_scratch(rows),
            4 * (rows * (4096 + 11008) + rows * 4096 + wide * 4096 + rows * wide + 16 * 1000));
  // Up to 128 they are multiplied as they are, some in sums of eight parts.
  EXPECT_LT(scratch(4, 128) - scratch(16, 128), 10e6);
}

TEST(DeviceMemory, HoldsAllExperts) {
  const ModelShape dense = Llama2Shape();
  ModelShape mixed = dense;
  mixed.experts = 8;
  mixed.experts_used = 2;
  mixed.expert_intermediate = 1408;
  mixed.dense_layers = 2;
  const auto predict = [&](const ModelShape& shape, double rows) {
    return PredictDeviceMemory(shape, {}, {16, 16, rows});
  };
  const double layers = 30, hidden = 4096;
  EXPECT_EQ(predict(mixed, 16).weights - predict(dense, 16).weights,
            2 * layers * hidden * (3.0 * (8 * 1408 - 11008) + 16));  // a strip of the router
  // Two rows of results for each token, and what is multiplied, in two numbers of 16 bits.
  EXPECT_GT(predict(mixed, 256).activations,
            256 * 4 * (hidden + 2 * hidden + hidden + 2 * (hidden + 1408)));
  // Of long steps not all tokens at once: then attention needs more than the mixture.
  ModelShape narrow = dense;
  mixed.intermediate = narrow.intermediate = 1408;
  EXPECT_EQ(predict(mixed, 16384).activations, predict(narrow, 16384).activations);
}

/// Llama-2, of 7 or of 70 billion weights.
ModelShape Llama2OnRanks(bool large) {
  return ReadModelShape(large ? R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 8192,
      "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
      "intermediate_size": 28672})"
                              : R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096,
      "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008})");
}

TEST(RankLimits, AreWithinTenPercentOfPublishedRates) {
  // Tokens a second that the README of gpt-fast gives for A100s over NVLink, in 16 bits. It also
  // says that these GPUs read 1700 GB/s at most. The overhead is what its 104.9 tokens a second on
  // one GPU leave beside reading; all others are predictions.
  struct Published {
    bool large;
    int ranks;
    double rate;
  };
  const Published points[] = {{false, 1, 104.9},  {false, 2, 168.84}, {false, 4, 254.02},
                              {false, 8, 328.43}, {true, 2, 21.32},   {true, 4, 38.01},
                              {true, 8, 62.50}};
  Machine machine = FindMachine("a100");
  machine.bandwidth = 1700e9;
  machine.layer_overhead = 55e-6;
  for (const Published& point : points) {
    const RankTime time = DecodeOnRanks(Llama2OnRanks(point.large), {16, 16}, machine,
                                        FindLink("nvlink"), point.ranks, 1);
    EXPECT_NEAR(1 / time.seconds(), point.rate, 0.1 * point.rate) << point.ranks;
  }
}

TEST(RankLimits, LayersWithAStateWaitLess) {
  ModelShape shape = Llama2OnRanks(false);
  shape.state_groups = 8;
  shape.state_taps = 4;
  const Link link{"", "", 1, 1e30};  // all that counts is how often
  const auto waits = [&](int64_t state_size, int ranks) {
    shape.state_size = state_size;
    shape.state_alone = state_size > 0;
    shape.state_layers = shape.state_alone ? shape.layers : 0;
    return DecodeOnRanks(shape, {16, 16}, FindMachine("a100"), link, ranks, 1).exchange;
  };
  const double layers = static_cast<double>(shape.layers);
  EXPECT_NEAR(waits(0, 4), 2 * layers + 2, 1e-6);
  EXPECT_NEAR(waits(128, 4), layers + 2, 1e-6);
  EXPECT_NEAR(waits(128, 3), 2 * layers + 2, 1e-6);  // ranks share groups
  // Of a hybrid, attention and feed-forwards wait as in other models.
  shape.state_alone = false;
  shape.state_layers = 8;
  const auto hybrid = DecodeOnRanks(shape, {16, 16}, FindMachine("a100"), link, 4, 1);
  EXPECT_NEAR(hybrid.exchange, 2 * layers + 2, 1e-6);
}

TEST(RankLimits, SlowLinksAreSlowerThanOne) {
  const ModelShape shape = Llama2OnRanks(false);
  const Machine& machine = FindMachine("a100");
  const auto seconds = [&](const char* link, int ranks) {
    return DecodeOnRanks(shape, {4, 16}, machine, FindLink(link), ranks, 1).seconds();
  };
  EXPECT_EQ(seconds("1gbe", 1), seconds("nvlink", 1));
  EXPECT_GT(seconds("1gbe", 2), seconds("1gbe", 1));
  EXPECT_LT(seconds("nvlink", 8), seconds("nvlink", 4));
  EXPECT_LT(seconds("nvlink", 8), seconds("pcie", 8));
  EXPECT_THROW(FindLink("string and cans"), Error);
}

}  // namespace
}  // namespace oort::limits
