// SPDX-License-Identifier: MIT
#include "limits/limits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "limits/device_memory.h"
#include "limits/rank_limits.h"
#include "oort/error.h"

namespace oort::limits {
namespace {

using LimitsJson = nlohmann::json;

constexpr double kBinaryMega = 1024.0 * 1024;
constexpr double kBinaryGiga = kBinaryMega * 1024;

/// The units of the published tables of the Qwen1.5 family, which take 1 G as 2^30 and 1 T as 2^40.
Machine TableMachine() {
  return {"table", "", 1008 * kBinaryGiga, 82.58 * 1024 * kBinaryGiga, 24 * kBinaryGiga};
}

struct TableTurn {
  double first = 0, second = 0;  ///< 0: none
};

/// One row of each table: sizes, parameters in 2^30, cache of a position in 2^20, contexts that fit
/// 24 G (w16kv16, w8kv16, w4kv16, w6kv16, w4kv8; -1: too large), turning points (w16, w8, w4, each
/// with the head for all positions and once), positions a millisecond, milliseconds at 16, 8, 4
/// bits.
struct TableRow {
  const char* name;
  int64_t vocabulary, hidden, layers, intermediate, groups;
  double layer_parameters, head, active, total, cache;
  double contexts[5];
  TableTurn turns[6];
  double positions, first[3];
};

constexpr TableRow kQwenTable[] = {
    {"0.5B",
     151936,
     1024,
     24,
     2816,
     1,
     0.29,
     0.14,
     0.43,
     0.58,
     0.046875,
     {252705, 257424, 259784, 258604, 519568},
     {{}, {}, {55, 170}, {}, {23, 203}, {44, 106}},
     11010,
     {0.86, 0.43, 0.21}},
    {"1.8B",
     151936,
     2048,
     24,
     5504,
     1,
     1.13,
     0.29,
     1.42,
     1.71,
     0.09375,
     {115553, 123312, 127192, 125252, 254384},
     {{127, 245}, {}, {48, 325}, {68, 228}, {22, 351}, {29, 268}},
     5505,
     {2.82, 1.41, 0.70}},
    {"4B",
     151936,
     2560,
     40,
     6912,
     1,
     2.95,
     0.36,
     3.32,
     3.68,
     0.1953125,
     {45525, 54220, 58567, 56393, 117134},
     {{116, 302}, {}, {47, 371}, {55, 317}, {22, 396}, {25, 347}},
     2642,
     {6.58, 3.29, 1.65}},
    {"7B",
     151936,
     4096,
     32,
     11008,
     1,
     6.03,
     0.58,
     6.61,
     7.19,
     0.25,
     {22072, 35612, 42382, 38997, 84764},
     {{99, 553}, {113, 481}, {45, 607}, {50, 544}, {21, 630}, {23, 571}},
     2064,
     {13.12, 6.56, 3.28}},
    {"14B",
     152064,
     5120,
     40,
     13696,
     1,
     11.74,
     0.73,
     12.47,
     13.19,
     0.390625,
     {-1, 15114, 23285, 19199, 46571},
     {{95, 692}, {103, 638}, {44, 743}, {47, 694}, {21, 766}, {22, 718}},
     1321,
     {24.74, 12.37, 6.19}},
    {"32B without groups",
     152064,
     5120,
     64,
     27392,
     1,
     31.33,
     0.73,
     32.05,
     32.78,
     0.625,
     {-1, -1, 6531, -1, 13062},
     {{90, 1175}, {92, 1144}, {43, 1222}, {44, 1192}, {21, 1244}, {21, 1215}},
     826,
     {63.60, 31.80, 15.90}},
    {"32B",
     152064,
     5120,
     64,
     27392,
     5,
     28.83,
     0.73,
     29.55,
     30.28,
     0.125,
     {-1, -1, 37778, 7515, 75556},
     {{85, 6051}, {87, 5898}, {42, 6094}, {43, 5942}, {21, 6115}, {21, 5964}},
     4129,
     {58.64, 29.32, 14.66}},
    {"72B",
     152064,
     8192,
     80,
     24576,
     1,
     65.00,
     1.16,
     66.16,
     67.32,
     1.25,
     {-1, -1, -1, -1, -1},
     {{90, 1216}, {92, 1191}, {43, 1263}, {44, 1239}, {21, 1285}, {21, 1262}},
     413,
     {131.28, 65.64, 32.82}},
    {"110B without groups",
     152064,
     8192,
     80,
     49152,
     1,
     110.00,
     1.16,
     111.16,
     112.32,
     1.25,
     {-1, -1, -1, -1, -1},
     {{87, 2108}, {88, 2084}, {42, 2153}, {43, 2130}, {21, 2175}, {21, 2151}},
     413,
     {220.56, 110.28, 55.14}},
    // Its cache is printed as 0.125 there; the other columns follow from 0.15625, which is right.
    {"110B",
     152064,
     8192,
     80,
     49152,
     8,
     101.25,
     1.16,
     102.41,
     103.57,
     0.15625,
     {-1, -1, -1, -1, -1},
     {{84, 17602}, {85, 17400}, {42, 17644}, {42, 17443}, {20, 17665}, {21, 17464}},
     3303,
     {203.20, 101.60, 50.80}},
};

ModelShape QwenShape(const TableRow& row) {
  const int64_t heads = row.hidden / 128;
  return ReadModelShape(LimitsJson{
      {"model_type", "qwen2"},
      {"vocab_size", row.vocabulary},
      {"hidden_size", row.hidden},
      {"num_hidden_layers", row.layers},
      {"num_attention_heads", heads},
      {"num_key_value_heads", heads / row.groups},
      {"intermediate_size", row.intermediate},
      {"use_sliding_window", false},
      {"sliding_window",
       32768}}.dump());
}

void ExpectTurns(const std::vector<double>& turns, const TableTurn& expected) {
  if (expected.first == 0) {
    EXPECT_TRUE(turns.empty());
    return;
  }
  ASSERT_EQ(turns.size(), 2u);
  EXPECT_EQ(std::floor(turns[0]), expected.first);
  EXPECT_EQ(std::floor(turns[1]), expected.second);
}

TEST(Limits, ReproduceThePublishedTablesOfQwen) {
  const Machine machine = TableMachine();
  constexpr BitWidths kPrecisions[] = {{16, 16}, {8, 16}, {4, 16}, {6, 16}, {4, 8}};
  for (const TableRow& row : kQwenTable) {
    SCOPED_TRACE(row.name);
    const ModelShape shape = QwenShape(row);
    const ParameterCounts counts = CountParameters(shape);
    EXPECT_NEAR(counts.layers() / kBinaryGiga, row.layer_parameters, 0.0051);
    EXPECT_NEAR(counts.head / kBinaryGiga, row.head, 0.0051);
    EXPECT_NEAR(counts.active() / kBinaryGiga, row.active, 0.0051);
    EXPECT_NEAR((counts.active() + counts.embedding) / kBinaryGiga, row.total, 0.0051);
    EXPECT_EQ(CacheOfPosition(shape) / kBinaryMega, row.cache);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(LongestContext(shape, kPrecisions[i], machine.memory, false), row.contexts[i]) << i;
    }
    for (size_t i = 0; i < 6; ++i) {
      SCOPED_TRACE(i);
      ExpectTurns(PrefillTurns(shape, kPrecisions[i / 2], machine,
                               i % 2 == 0 ? Head::kAll : Head::kOnce, CacheReads::kEachPosition),
                  row.turns[i]);
    }
    EXPECT_EQ(std::round(PositionsPerMillisecond(shape, {16, 16}, machine)), row.positions);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(DecodeLimit(shape, kPrecisions[i], machine, 1).seconds() * 1000, row.first[i],
                  0.0051)
          << i;
    }
  }
}

TEST(Limits, ReproduceThePublishedPrefillTimes) {
  constexpr double kLengths[] = {25, 100, 200, 300, 400, 500};
  constexpr double kTimes[4][6] = {{0.26, 1.03, 2.07, 3.11, 4.17, 5.25},
                                   {0.84, 3.37, 6.76, 10.18, 13.62, 17.07},
                                   {1.96, 7.87, 15.78, 23.74, 31.74, 39.79},
                                   {3.91, 15.67, 31.39, 47.17, 63.01, 78.91}};
  for (size_t model = 0; model < 4; ++model) {
    for (size_t i = 0; i < 6; ++i) {
      const TimeLimit limit = PrefillLimit(QwenShape(kQwenTable[model]), {16, 16}, TableMachine(),
                                           kLengths[i], Head::kAll);
      EXPECT_NEAR(limit.compute * 1000, kTimes[model][i], 0.0071)
          << kQwenTable[model].name << " " << kLengths[i];
    }
  }
}

TEST(Limits, TurningPointsAreWhereTheLimitsMeet) {
  const ModelShape shape = QwenShape(kQwenTable[3]);
  const auto turns =
      PrefillTurns(shape, {8, 16}, TableMachine(), Head::kOnce, CacheReads::kEachPosition);
  ASSERT_EQ(turns.size(), 2u);
  const auto bound = [&](double n) {
    return PrefillLimit(shape, {8, 16}, TableMachine(), n, Head::kOnce, CacheReads::kEachPosition)
        .compute_bound();
  };
  EXPECT_FALSE(bound(std::floor(turns[0])));
  EXPECT_TRUE(bound(std::ceil(turns[0])));
  EXPECT_TRUE(bound(std::floor(turns[1])));
  EXPECT_FALSE(bound(std::ceil(turns[1])));
}

/// Parameters that the published checkpoints have.
TEST(Limits, CountParametersOfModelsThatExist) {
  const auto stored = [](const char* config) {
    return CountParameters(ReadModelShape(config)).stored();
  };
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

TEST(Limits, BatchesAndMemory) {
  const ModelShape shape = QwenShape(kQwenTable[3]);
  const Machine machine = TableMachine();
  const double batch = LargestBatch(shape, {4, 8}, machine.memory, 4096);
  const double weights = CountParameters(shape).stored() / 2;
  EXPECT_LE(weights + batch * CacheOf(shape, 4096), machine.memory);
  EXPECT_GT(weights + (batch + 1) * CacheOf(shape, 4096), machine.memory);
  EXPECT_EQ(LargestBatch(shape, {16, 16}, 1e9, 1), -1);
  const double balanced = BalancedBatch(shape, {16, 16}, machine, 1);
  EXPECT_TRUE(DecodeLimit(shape, {16, 16}, machine, 1, balanced).compute_bound());
  EXPECT_FALSE(DecodeLimit(shape, {16, 16}, machine, 1, balanced - 1).compute_bound());
  EXPECT_TRUE(std::isinf(BalancedBatch(shape, {16, 16}, machine, 100000)));
  EXPECT_NEAR(DecodeLimitOfBytes(shape, 5e9, 8, machine, 100).read,
              (5e9 + CacheOf(shape, 100)) / machine.bandwidth, 1e-12);
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
  ModelShape experts = shape;
  experts.experts = 8;
  EXPECT_THROW(PredictDeviceMemory(experts, {}, {16, 1, 1}), Error);
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
