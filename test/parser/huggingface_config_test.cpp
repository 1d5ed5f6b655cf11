// SPDX-License-Identifier: MIT
// config.json of all kinds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "parser/huggingface/config.h"

namespace oort {
namespace {

using json::Json;
using testing::ExpectThrows;
using testing::FileBytes;

void ExpectNumbers(const std::vector<float>& got, const Json& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double number = want[i].get<double>();
    EXPECT_NEAR(got[i], number, 3e-7 * number) << i;
  }
}

/// configs.json is made by make_configs.py: the answers are those of transformers.
TEST(HuggingFaceConfig, ReadsWhatTransformersReads) {
  const Json cases = json::Parse(FileBytes(TestData() / "checkpoints" / "configs.json"), "configs");
  EXPECT_GT(cases.size(), 20u);
  for (const Json& item : cases) {
    SCOPED_TRACE(item["name"].get<std::string>());
    const Json& want = item["answer"];
    const DecoderConfig got = ReadDecoderConfig(item["config"].dump());
    EXPECT_EQ(got.family, item["config"]["model_type"].get<std::string>());
    EXPECT_EQ(got.vocabulary, want["vocabulary"].get<int64_t>());
    EXPECT_EQ(got.hidden, want["hidden"].get<int64_t>());
    EXPECT_EQ(got.layers, want["layers"].get<int64_t>());
    EXPECT_EQ(got.heads, want["heads"].get<int64_t>());
    EXPECT_EQ(got.kv_heads, want["kv_heads"].get<int64_t>());
    EXPECT_EQ(got.head_dim, want["head_dim"].get<int64_t>());
    EXPECT_EQ(got.intermediate, want["intermediate"].get<int64_t>());
    EXPECT_EQ(got.context, want["context"].get<int64_t>());
    EXPECT_FLOAT_EQ(got.norm_epsilon, want["epsilon"].get<float>());
    EXPECT_EQ(got.tied_head, want["tied"].get<bool>());
    EXPECT_EQ(got.windows, want["windows"].get<std::vector<int64_t>>());
    EXPECT_FLOAT_EQ(got.attention_scale, want["attention_scale"].get<float>());
    EXPECT_FLOAT_EQ(got.attention_softcap, want["attention_softcap"].get<float>());
    EXPECT_FLOAT_EQ(got.final_softcap, want["final_softcap"].get<float>());
    const Json& rotary = want["rotary"];
    EXPECT_EQ(got.rotary.dims == 0, rotary.empty());
    if (rotary.empty()) continue;
    ExpectNumbers(got.rotary.frequencies, rotary["frequencies"]);
    EXPECT_FLOAT_EQ(got.rotary.magnitude, rotary["magnitude"].get<float>());
    EXPECT_EQ(got.rotary.original_context, rotary.value("original_context", int64_t{0}));
    if (!rotary.contains("long_frequencies")) continue;
    ExpectNumbers(got.rotary.long_frequencies, rotary["long_frequencies"]);
    EXPECT_FLOAT_EQ(got.rotary.long_magnitude, rotary["long_magnitude"].get<float>());
  }
}

Json SmallConfig(std::string_view family = "llama") {
  return {{"model_type", family},     {"vocab_size", 10},
          {"hidden_size", 16},        {"intermediate_size", 8},
          {"num_hidden_layers", 2},   {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"max_position_embeddings", 32}};
}

TEST(HuggingFaceConfig, ActivationsByName) {
  for (const auto& [name, want] :
       {std::pair{"silu", Activation::kSilu}, std::pair{"gelu", Activation::kGelu},
        std::pair{"gelu_new", Activation::kGeluTanh},
        std::pair{"gelu_pytorch_tanh", Activation::kGeluTanh},
        std::pair{"relu", Activation::kRelu}}) {
    Json config = SmallConfig();
    config["hidden_act"] = name;
    EXPECT_EQ(ReadDecoderConfig(config.dump()).activation, want) << name;
  }
  Json gemma = SmallConfig("gemma");
  gemma["hidden_act"] = "gelu";
  EXPECT_EQ(ReadDecoderConfig(gemma.dump()).activation, Activation::kGeluTanh);
}

TEST(HuggingFaceConfig, OldNamesOfLongrope) {
  Json config = SmallConfig("phi3");
  config["rope_scaling"] = {{"long_factor", {2.0, 3.0}}, {"short_factor", {1.0, 1.5}}};
  config["original_max_position_embeddings"] = 8;
  for (const std::string type : {"longrope", "su", "yarn"}) {
    config["rope_scaling"]["type"] = type;
    const RotaryConfig rotary = ReadDecoderConfig(config.dump()).rotary;
    EXPECT_EQ(rotary.frequencies[1], 1.0F / (1.5F * 100));
    EXPECT_EQ(rotary.long_frequencies[1], 1.0F / (3.0F * 100));
    EXPECT_FLOAT_EQ(rotary.magnitude, std::sqrt(1 + std::log(4.0F) / std::log(8.0F)));
  }
}

TEST(HuggingFaceConfig, ParametersOfEachTypeOfLayer) {
  Json config = SmallConfig("gemma2");
  const Json same = {{"rope_type", "linear"}, {"rope_theta", 500.0}, {"factor", 2.0}};
  config["rope_parameters"] = {{"full_attention", same}, {"sliding_attention", same}};
  EXPECT_EQ(ReadDecoderConfig(config.dump()).rotary.frequencies[0], 0.5F);
  config["rope_parameters"]["full_attention"]["rope_theta"] = 600.0;
  ExpectThrows([&] { ReadDecoderConfig(config.dump()); }, ErrorCode::kUnsupported,
               "different rotary embeddings");
}

TEST(HuggingFaceConfig, KeysOfOtherFamiliesDoNotCount) {
  Json config = SmallConfig();
  config["partial_rotary_factor"] = 0.5;
  EXPECT_EQ(ReadDecoderConfig(config.dump()).rotary.dims, 4);
  config["model_type"] = "phi3";
  EXPECT_EQ(ReadDecoderConfig(config.dump()).rotary.dims, 2);
  config["sliding_window"] = 7;
  config["layer_types"] = {"full_attention", "sliding_attention"};
  EXPECT_EQ(ReadDecoderConfig(config.dump()).windows, (std::vector<int64_t>{7, 7}));
  config["model_type"] = "mistral";
  EXPECT_EQ(ReadDecoderConfig(config.dump()).windows, (std::vector<int64_t>{0, 7}));
}

void ExpectConfigProblem(const Json& change, std::string_view message,
                         ErrorCode code = ErrorCode::kInvalidModel) {
  Json config = SmallConfig();
  config.update(change);
  ExpectThrows([&] { ReadDecoderConfig(config.dump()); }, code, message);
}

Json SmallLlama4(const Json& change) {
  Json config = SmallConfig();
  config.update({{"model_type", "llama4_text"},
                 {"num_hidden_layers", 4},
                 {"intermediate_size_mlp", 24},
                 {"num_local_experts", 4},
                 {"num_experts_per_tok", 1}});
  config.update(change);
  return config;
}

TEST(HuggingFaceConfig, LayersOfLlama4) {
  using LayerRotary = DecoderConfig::LayerRotary;
  const auto read = [](const Json& change) {
    return ReadDecoderConfig(SmallLlama4(change).dump());
  };
  const DecoderConfig usual = read(Json::object());
  EXPECT_EQ(usual.windows, (std::vector<int64_t>{8192, 8192, 8192, 0}));
  EXPECT_EQ(usual.layer_rotary[2], LayerRotary::kUsual);
  EXPECT_EQ(usual.layer_rotary[3], LayerRotary::kNone);
  EXPECT_EQ(usual.temperature.length, 8192);
  EXPECT_FLOAT_EQ(usual.temperature.scale, 0.1F);
  EXPECT_EQ(usual.intermediate, 24);
  EXPECT_EQ(usual.experts.shared_intermediate, SmallConfig()["intermediate_size"]);
  EXPECT_TRUE(usual.experts.dense.empty());
  // As the files of the first release have it: a number, and a list without layers.
  const DecoderConfig older = read({{"attn_temperature_tuning", 4},
                                    {"no_rope_layers", Json::array()},
                                    {"no_rope_layer_interval", 2},
                                    {"attention_chunk_size", 5}});
  EXPECT_EQ(older.temperature.length, 8192);
  EXPECT_EQ(older.windows, (std::vector<int64_t>{5, 0, 5, 0}));
  const DecoderConfig listed = read({{"moe_layers", {2}}, {"no_rope_layers", {0, 1, 1, 1}}});
  EXPECT_EQ(listed.experts.dense, (std::vector<bool>{true, true, false, true}));
  EXPECT_EQ(listed.layer_rotary[0], LayerRotary::kNone);
  EXPECT_EQ(listed.windows[0], 0);
  const DecoderConfig plain = read({{"attn_temperature_tuning", false},
                                    {"use_qk_norm", false},
                                    {"attention_chunk_size", nullptr}});
  EXPECT_EQ(plain.temperature.length, 0);
  EXPECT_EQ(plain.query_key_norm, DecoderConfig::QueryKeyNorm::kNone);
  EXPECT_EQ(plain.windows, (std::vector<int64_t>{0, 0, 0, 0}));
  const auto refused = [&](const Json& change, std::string_view message) {
    ExpectThrows([&] { read(change); }, ErrorCode::kInvalidModel, message);
  };
  refused({{"intermediate_size_mlp", nullptr}}, "'intermediate_size_mlp' is missing");
  refused({{"attn_temperature_tuning", "yes"}},
          "'attn_temperature_tuning' should be true or false");
  refused({{"floor_scale", 0}}, "'floor_scale' should be a number above 0");
  refused({{"attn_scale", -1}}, "how much queries grow");
  refused({{"moe_layers", 3}}, "'moe_layers' should be a list of layers");
  refused({{"no_rope_layers", {1}}}, "'no_rope_layers' should be a list with a number for every");
  refused({{"no_rope_layer_interval", 0}}, "'no_rope_layer_interval' should be a number above 0");
  refused({{"layer_types",
            {"sliding_attention", "full_attention", "full_attention", "full_attention"}}},
          "chunked_attention or full_attention");
}

/// As MobileLLM-R1 has it: Llama 4 without experts, whose steps between layers with some are 0.
TEST(HuggingFaceConfig, Llama4WithoutExperts) {
  const Json change = {{"num_local_experts", 0},
                       {"num_experts_per_tok", 0},
                       {"moe_layers", Json::array()},
                       {"interleave_moe_layer_step", 0}};
  const DecoderConfig dense = ReadDecoderConfig(SmallLlama4(change).dump());
  EXPECT_EQ(dense.intermediate, 24);
  EXPECT_EQ(dense.experts.count, 0);
  EXPECT_EQ(dense.experts.shared_intermediate, 0);
  EXPECT_FALSE(dense.experts.IsAt(0));
  // A list of layers says all, so the step says nothing; without one it has to.
  Json listed = {{"moe_layers", {1}}, {"interleave_moe_layer_step", 0}};
  EXPECT_EQ(ReadDecoderConfig(SmallLlama4(listed).dump()).experts.dense,
            (std::vector<bool>{true, false, true, true}));
  listed["moe_layers"] = nullptr;
  ExpectThrows([&] { ReadDecoderConfig(SmallLlama4(listed).dump()); }, ErrorCode::kInvalidModel,
               "'decoder_sparse_step' should be a number above 0");
}

/// Python writes infinity as a word, and newer transformers as an object.
TEST(HuggingFaceConfig, Mamba2) {
  const auto read = [](const std::string& limits, const std::string& more = {}) {
    return ReadDecoderConfig(R"({"model_type": "mamba2", "vocab_size": 40, "hidden_size": 32,
        "num_hidden_layers": 2, "num_heads": 8, "head_dim": 8, "state_size": 12, "n_groups": 2,
        "architectures": ["Infinity \" NaN"])" +
                             limits + more + "}");
  };
  for (const char* endless : {"", R"(, "time_step_limit": [0.0, Infinity])",
                              R"(, "time_step_limit": [0.0, {"__float__": "Infinity"}])"}) {
    SCOPED_TRACE(endless);
    const StateSpaceConfig space = read(endless).state_space;
    EXPECT_EQ(space.heads, 8);
    EXPECT_EQ(space.head_dim, 8);
    EXPECT_EQ(space.size, 12);
    EXPECT_EQ(space.groups, 2);
    EXPECT_EQ(space.taps, 4);
    EXPECT_EQ(space.channels(), 64 + 2 * 2 * 12);
    EXPECT_EQ(space.most_step, 0);
  }
  const DecoderConfig limited = read(R"(, "time_step_limit": [0.25, 0.5])");
  EXPECT_EQ(limited.state_space.least_step, 0.25F);
  EXPECT_EQ(limited.state_space.most_step, 0.5F);
  EXPECT_EQ(limited.context, 1048576);
  const auto refused = [&](const std::string& more, std::string_view message, ErrorCode code) {
    ExpectThrows([&] { read({}, more); }, code, message);
  };
  refused(R"(, "hidden_act": "gelu")", "hidden_act other than silu", ErrorCode::kUnsupported);
  refused(R"(, "time_step_limit": [2, 1])", "least time step", ErrorCode::kInvalidModel);
  refused(R"(, "conv_kernel": 1)", "taps", ErrorCode::kInvalidModel);
  refused(R"(, "chunk_size": 1Infinity)", "no valid JSON", ErrorCode::kInvalidModel);
}

TEST(HuggingFaceConfig, ReadsStreams) {
  const Json published = {{"model_type", "gemma3n_text"},
                          {"vocab_size", 262400},
                          {"hidden_size", 2048},
                          {"num_hidden_layers", 30},
                          {"num_attention_heads", 8},
                          {"num_key_value_heads", 2},
                          {"head_dim", 256},
                          {"num_kv_shared_layers", 10},
                          {"intermediate_size", 8192}};
  const auto read = [&](const Json& changes) {
    Json file = published;
    file.update(changes);
    return ReadDecoderConfig(file.dump(), "config.json");
  };
  const DecoderConfig config = read({{"intermediate_size", std::vector<int>(30, 8192)}});
  EXPECT_EQ(config.intermediate, 8192);
  EXPECT_EQ(config.altup.streams, 4);
  EXPECT_EQ(config.altup.laurel, 64);
  EXPECT_EQ(config.altup.per_layer, 256);
  EXPECT_EQ(config.altup.vocabulary, 262144);
  EXPECT_TRUE(config.altup.scaled && config.value_norms && config.tied_head);
  EXPECT_EQ(config.attention_scale, 1);
  EXPECT_EQ(config.final_softcap, 30);
  EXPECT_EQ(config.context, 32768);
  // Layer 19 sees everything, and 18 is the last one with a window that has keys.
  EXPECT_EQ(config.KeysOf(19), 19);
  EXPECT_EQ(config.KeysOf(20), 18);
  EXPECT_EQ(config.KeysOf(24), 19);
  EXPECT_EQ(config.KeysOf(29), 19);
  EXPECT_EQ(config.windows[28], 512);
  EXPECT_EQ(config.RotaryOf(28), DecoderConfig::LayerRotary::kLocal);
  EXPECT_TRUE(config.CutsGates(9));
  EXPECT_FALSE(config.CutsGates(10));
  EXPECT_NEAR(config.gate_cutoffs[0], 1.6448536, 1e-6);
  std::vector<double> shares(30, 0.0);
  shares[3] = 0.5;
  EXPECT_NEAR(read({{"activation_sparsity_pattern", shares}}).gate_cutoffs[3], 0, 1e-6);

  const auto refused = [&](const Json& changes, std::string_view message,
                           ErrorCode code = ErrorCode::kInvalidModel) {
    ExpectThrows([&] { read(changes); }, code, message);
  };
  std::vector<int> sizes(30, 8192);
  sizes[7] = 4096;
  refused({{"intermediate_size", sizes}}, "differs from layer to layer", ErrorCode::kUnsupported);
  refused({{"intermediate_size", Json::array()}}, "intermediate_size");
  refused({{"activation_sparsity_pattern", {0.5}}}, "a number for every layer");
  shares[3] = 1;
  refused({{"activation_sparsity_pattern", shares}}, "from 0 to below 1");
  refused({{"altup_num_inputs", 1}}, "residual streams");
  refused({{"altup_num_inputs", 0}}, "altup_num_inputs");  // streams alone know who shares keys
  refused({{"vocab_size_per_layer_input", INT64_MAX}}, "tokens with embeddings for layers");
  refused({{"vocab_size_per_layer_input", 0}}, "tokens with embeddings for layers");
  refused({{"altup_active_idx", 4}}, "active stream");
  refused({{"num_kv_shared_layers", 30}}, "share keys and values");
  refused({{"num_kv_shared_layers", 26}}, "no layer before has the keys and values");
}

/// Of hybrids, files list layers by old names or new ones, or those with attention.
TEST(HuggingFaceConfig, LayersWithAStateAmongOthers) {
  const auto read = [](const std::string& family, const std::string& more) {
    return ReadDecoderConfig(R"({"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 16,
        "num_local_experts": 0, "shared_intermediate_size": 24, "mamba_n_heads": 8,
        "mamba_d_head": "auto", "mamba_d_state": 12, "model_type": ")" +
                             family + "\"" + more + "}");
  };
  const std::vector<bool> middle = {false, true, false};
  for (const char* layers : {R"(, "layer_types": ["mamba", "attention", "mamba"])",
                             R"(, "layers_block_type":
                                 ["linear_attention", "full_attention", "mamba"])",
                             R"(, "attn_layer_indices": [1])"}) {
    SCOPED_TRACE(layers);
    const DecoderConfig config = read("granitemoehybrid", layers);
    EXPECT_EQ(config.state_space.attention, middle);
    EXPECT_EQ(config.state_space.head_dim, 8);
    EXPECT_EQ(config.heads, 4);
    EXPECT_EQ(config.intermediate, 24);
    EXPECT_EQ(config.rotary.dims, 0);
    EXPECT_EQ(config.KeptIndexOf(1), 0);
    EXPECT_EQ(config.KeptIndexOf(2), 1);
    EXPECT_TRUE(config.HasFeedForward(0) && config.HasFeedForward(1));
    EXPECT_EQ(read("bamba", layers).rotary.dims, 4);
  }
  const DecoderConfig both = read("falcon_h1", R"(, "mamba_d_ssm": 48,
      "key_multiplier": 0.5, "attention_in_multiplier": 2, "ssm_in_multiplier": 0.5,
      "ssm_multipliers": [1, 2, 3, 4, 5], "mlp_multipliers": [0.5, 0.25])");
  EXPECT_TRUE(both.state_space.IsAt(1) && both.HasAttention(1));
  EXPECT_EQ(both.KeptIndexOf(2), 2);
  EXPECT_EQ(both.state_space.head_dim, 6);
  EXPECT_FLOAT_EQ(both.attention_scale, 2 / std::sqrt(8.0F));
  EXPECT_EQ(both.scales.attention, 2);
  EXPECT_EQ(both.scales.feed_forward, 0.25F);
  EXPECT_EQ(both.state_space.c_scale, 2);
  EXPECT_FALSE(both.state_space.norm);
  const DecoderConfig none = read("granitemoehybrid", "");
  EXPECT_TRUE(none.state_space.IsAt(0) && none.state_space.IsAt(2));
  const DecoderConfig all = read("granitemoehybrid", R"(, "position_embedding_type": "rope",
      "layer_types": ["attention", "attention", "attention"])");
  EXPECT_EQ(all.state_space.heads, 0);
  EXPECT_EQ(all.rotary.dims, 8);
  const auto refused = [&](const std::string& more, std::string_view message) {
    ExpectThrows([&] { read("granitemoehybrid", more); }, ErrorCode::kInvalidModel, message);
  };
  refused(R"(, "layer_types": ["mamba"])", "as many strings as there are layers");
  refused(R"(, "layer_types": ["mamba", 1, "mamba"])", "mamba or attention for every layer");
  refused(R"(, "attn_layer_indices": [3])", "a list of layers");
  refused(R"(, "mamba_n_groups": 3)", "cannot share 3 groups");
  ExpectThrows([&] { read("falcon_h1", R"(, "ssm_multipliers": [1, 2])"); },
               ErrorCode::kInvalidModel, "a list of 5 numbers");
  ExpectThrows([&] { read("falcon_h1", R"(, "ssm_in_multiplier": 2, "mamba_proj_bias": true)"); },
               ErrorCode::kUnsupported, "whose products have a bias");
}

/// Layers with attention are listed, or every fourth unless the file says otherwise.
TEST(HuggingFaceConfig, LayersWithADeltaRule) {
  const auto read = [](const std::string& more) {
    return ReadDecoderConfig(R"({"model_type": "qwen3_next", "vocab_size": 40, "hidden_size": 32,
        "num_hidden_layers": 8, "num_attention_heads": 4, "intermediate_size": 24,
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16)" +
                                 more + "}",
                             "config.json");
  };
  const DecoderConfig usual = read("");
  EXPECT_TRUE(usual.state_space.delta && usual.attention_gate);
  EXPECT_EQ(usual.state_space.attention,
            (std::vector<bool>{false, false, false, true, false, false, false, true}));
  EXPECT_EQ(usual.state_space.channels(), 8192);
  EXPECT_EQ(usual.rotary.dims, 64);
  const DecoderConfig other = read(R"(, "full_attention_interval": 2, "head_dim": 16,
      "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_value_head_dim": 8,
      "linear_key_head_dim": 12, "linear_conv_kernel_dim": 3, "partial_rotary_factor": 0.5)");
  EXPECT_EQ(std::ranges::count(other.state_space.attention, true), 4);
  EXPECT_EQ(other.state_space.channels(), 80);
  EXPECT_EQ(other.state_space.taps, 3);
  EXPECT_EQ(other.rotary.dims, 8);
  const auto refused = [&](const char* more, const char* message) {
    ExpectThrows([&] { read(more); }, ErrorCode::kInvalidModel, message);
  };
  refused(R"(, "full_attention_interval": 0)", "a number above 0");
  refused(R"(, "linear_num_value_heads": 0)", "a number above 0");
  refused(R"(, "linear_num_key_heads": 3)", "cannot share 3 groups");
  refused(R"(, "linear_num_key_heads": 0)", "the number of groups is 0");
  refused(R"(, "layer_types": ["linear_attention"])", "as many strings as there are layers");
}

TEST(HuggingFaceConfig, RefusesWhatItDoesNotKnow) {
  ExpectConfigProblem(
      {{"model_type", "mamba"}},
      "bamba, cohere, deepseek_v2, deepseek_v3, falcon, falcon_h1, gemma, gemma2, "
      "gemma3_text, gemma3n, gemma3n_text, gpt2, gpt_neox, gpt_oss, granite, granitemoehybrid, "
      "idefics3, llama, llama4, llama4_text, "
      "mamba2, mistral, mixtral, olmo2, olmoe, phi, phi3, qwen2, qwen2_moe, qwen3, qwen3_5, "
      "qwen3_5_moe, qwen3_5_moe_text, qwen3_5_text, qwen3_moe, qwen3_next, smollm3, smolvlm, "
      "stablelm and starcoder2",
      ErrorCode::kUnsupported);
  ExpectConfigProblem({{"quantization_config", {{"bits", 4}}}}, "quantization_config",
                      ErrorCode::kUnsupported);
  ExpectConfigProblem({{"hidden_act", "mish"}}, "the activation 'mish'", ErrorCode::kUnsupported);
  ExpectConfigProblem({{"rope_scaling", {{"type", "mrope"}}}}, "'mrope'", ErrorCode::kUnsupported);
}

TEST(HuggingFaceConfig, NumbersMakeSense) {
  const int64_t huge = INT64_MAX;
  ExpectConfigProblem({{"model_type", nullptr}}, "'model_type' is missing");
  ExpectConfigProblem({{"model_type", 3}}, "'model_type' should be a string");
  ExpectConfigProblem({{"hidden_size", nullptr}}, "'hidden_size' is missing");
  ExpectConfigProblem({{"hidden_size", "16"}}, "'hidden_size' should be an integer");
  ExpectConfigProblem({{"hidden_size", 16.5}}, "'hidden_size' should be an integer");
  ExpectConfigProblem({{"hidden_size", UINT64_MAX}}, "'hidden_size' should be an integer");
  ExpectConfigProblem({{"num_attention_heads", 0}}, "the number of attention heads is 0");
  ExpectConfigProblem({{"num_key_value_heads", 3}}, "cannot share 3 key and value heads");
  ExpectConfigProblem({{"num_key_value_heads", -1}}, "the number of key and value heads is -1");
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const int64_t number : {huge, INT64_MIN, int64_t{-5}}) {
      ExpectConfigProblem({{key, number}}, "is");
    }
  }
  ExpectConfigProblem({{"head_dim", 7}}, "an even number of dimensions, not 7");
  ExpectConfigProblem({{"rope_theta", 0}}, "above 0");
  ExpectConfigProblem({{"rope_theta", -1e300}}, "above 0");
  ExpectConfigProblem({{"model_type", "phi3"}, {"partial_rotary_factor", 2}},
                      "'partial_rotary_factor'");
  ExpectConfigProblem({{"rms_norm_eps", -1}}, "epsilon");
  ExpectConfigProblem({{"rms_norm_eps", 1e300}}, "epsilon");
  ExpectConfigProblem({{"rope_scaling", 7}}, "should be a JSON object");
  ExpectConfigProblem({{"rope_scaling", {{"type", "linear"}}}}, "'factor' is missing");
  ExpectConfigProblem({{"rope_scaling", {{"type", "linear"}, {"factor", 0}}}}, "above 0");
  ExpectConfigProblem(
      {{"rope_scaling", {{"type", "llama3"}, {"factor", 2}, {"low_freq_factor", 5}}}},
      "low_freq_factor < high_freq_factor");
  ExpectConfigProblem({{"rope_scaling", {{"type", "yarn"}, {"factor", 2}, {"beta_fast", -3}}}},
                      "beta_fast");
  ExpectConfigProblem({{"rope_scaling", {{"type", "yarn"}}}, {"rope_theta", 1}}, "a base above 1");
  ExpectConfigProblem(
      {{"rope_scaling",
        {{"type", "yarn"}, {"factor", 2}, {"original_max_position_embeddings", -4}}}},
      "original context");
  ExpectConfigProblem({{"rope_scaling", {{"type", "longrope"}}}}, "needs 2 factors");
  ExpectConfigProblem({{"rope_scaling", {{"type", "longrope"}, {"short_factor", {1, "x"}}}}},
                      "a list of numbers");
  ExpectConfigProblem(
      {{"rope_scaling", {{"type", "longrope"}, {"short_factor", {0, 1}}, {"long_factor", {1, 1}}}}},
      "not finite");
  ExpectThrows([] { ReadDecoderConfig("[]"); }, ErrorCode::kInvalidModel, "JSON object");
  ExpectThrows([] { ReadDecoderConfig(""); }, ErrorCode::kInvalidModel, "no valid JSON");
  ExpectThrows([] { ReadDecoderConfig(std::string(100000, '[')); }, ErrorCode::kInvalidModel,
               "nested too deeply");
}

}  // namespace
}  // namespace oort
