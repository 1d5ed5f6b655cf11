// SPDX-License-Identifier: MIT
// Tiny models of every family, in every format. What is in them is told by transformers: see
// test/checkpoints/make_checkpoints.py.
#include "parser/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numeric>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "parser/checkpoint/tokenizer_source.h"
#include "text/json.h"

namespace oort {
namespace {

using testing::ExpectThrows;

const std::filesystem::path kModels = TestData() / "checkpoints";

json::Json AnswerOf(const std::string& model) {
  return json::Parse(testing::FileBytes(kModels / (model + ".json")), model);
}

std::vector<float> ElementsOf(const Checkpoint& checkpoint, const std::string& name, int rank) {
  if (rank == 1) {
    const Tensor vector = checkpoint.Vector(name);
    EXPECT_EQ(vector.dtype(), DType::kF32);
    return {vector.span<float>().begin(), vector.span<float>().end()};
  }
  const StoredMatrix matrix = checkpoint.Matrix(name);
  Check(matrix);
  std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.columns));
  ReadRows(matrix, 0, matrix.rows, values.data());
  return values;
}

/// Every weight that transformers has, and its shape and elements.
void ExpectWeights(const Checkpoint& checkpoint, const json::Json& answer) {
  const bool interleaved = checkpoint.config().rotary.interleaved;
  for (const auto& item : answer["weights"].items()) {
    const std::string& name = item.key();
    SCOPED_TRACE(name);
    const bool turned = interleaved && answer["interleaved"].contains(name);
    const json::Json& want = turned ? answer["interleaved"][name] : item.value();
    ASSERT_TRUE(checkpoint.Has(name));
    const auto shape = want["shape"].get<std::vector<int64_t>>();
    const std::vector<float> got = ElementsOf(checkpoint, name, static_cast<int>(shape.size()));
    if (shape.size() == 2) {
      EXPECT_EQ(checkpoint.Matrix(name).rows, shape[0]);
      EXPECT_EQ(checkpoint.Matrix(name).columns, shape[1]);
    }
    ASSERT_EQ(static_cast<int64_t>(got.size()),
              std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
    for (size_t i = 0; i < want["at"].size(); ++i) {
      EXPECT_EQ(got[want["at"][i].get<size_t>()], want["values"][i].get<float>());
    }
  }
}

void ExpectFrequencies(const std::vector<float>& got, const json::Json& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i].get<double>(), 2.5e-7 * want[i].get<double>());
  }
}

void ExpectRotary(const RotaryConfig& rotary, const json::Json& want) {
  if (want.empty()) {
    EXPECT_EQ(rotary.dims, 0);
    return;
  }
  ExpectFrequencies(rotary.frequencies, want["frequencies"]);
  EXPECT_EQ(rotary.dims, static_cast<int64_t>(2 * want["frequencies"].size()));
  EXPECT_FLOAT_EQ(rotary.magnitude, want["magnitude"].get<float>());
  EXPECT_EQ(rotary.long_frequencies.empty(), !want.contains("long_frequencies"));
  if (rotary.long_frequencies.empty()) return;
  ExpectFrequencies(rotary.long_frequencies, want["long_frequencies"]);
  EXPECT_FLOAT_EQ(rotary.long_magnitude, want["long_magnitude"].get<float>());
  EXPECT_EQ(rotary.original_context, 8);
}

/// The configuration of the tiny models, up to what the format changes.
DecoderConfig TinyConfig(const std::string& family) {
  DecoderConfig config;
  config.vocabulary = 40;
  config.hidden = 32;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.intermediate = 24;
  config.context = 64;
  config.norm_epsilon = 1e-6F;
  config.windows = {0, 0};
  if (family == "llama" || family == "phi3") config.norm_epsilon = 1e-5F;
  if (family == "mistral") config.windows = {5, 5};
  if (family == "phi3") config.windows = {9, 9};
  if (family == "qwen2") config.tied_head = true;
  if (family == "qwen3") {
    config.head_dim = 12;
    config.query_key_norm = DecoderConfig::QueryKeyNorm::kHead;
  }
  if (family == "gemma" || family == "gemma2") {
    config.head_dim = family == "gemma" ? 10 : 12;
    config.activation = Activation::kGeluTanh;
    config.tied_head = true;
    config.embedding_scale = std::sqrt(32.0F);
  }
  if (family == "gemma2") {
    config.post_norms = true;
    config.windows = {4, 0};
    config.attention_softcap = 5;
    config.final_softcap = 3;
  }
  if (family == "gpt2") {
    config.kv_heads = 4;
    config.norm_epsilon = 1e-5F;
    config.norm = DecoderConfig::Norm::kLayer;
    config.activation = Activation::kGeluTanh;
    config.gated = false;
    config.tied_head = true;
    config.learned_positions = true;
  }
  config.attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config.head_dim)));
  return config;
}

void ExpectConfig(const DecoderConfig& got, const DecoderConfig& want) {
  EXPECT_EQ(got.vocabulary, want.vocabulary);
  EXPECT_EQ(got.hidden, want.hidden);
  EXPECT_EQ(got.layers, want.layers);
  EXPECT_EQ(got.heads, want.heads);
  EXPECT_EQ(got.kv_heads, want.kv_heads);
  EXPECT_EQ(got.head_dim, want.head_dim);
  EXPECT_EQ(got.intermediate, want.intermediate);
  EXPECT_EQ(got.context, want.context);
  EXPECT_EQ(got.norm, want.norm);
  EXPECT_EQ(got.norm_epsilon, want.norm_epsilon);
  EXPECT_EQ(got.activation, want.activation);
  EXPECT_EQ(got.gated, want.gated);
  EXPECT_EQ(got.tied_head, want.tied_head);
  EXPECT_EQ(got.query_key_norm, want.query_key_norm);
  EXPECT_EQ(got.chunked_windows, want.chunked_windows);
  EXPECT_EQ(got.temperature.length, want.temperature.length);
  EXPECT_EQ(got.temperature.scale, want.temperature.scale);
  EXPECT_EQ(got.block, want.block);
  EXPECT_EQ(got.pre_norms, want.pre_norms);
  EXPECT_EQ(got.post_norms, want.post_norms);
  EXPECT_FLOAT_EQ(got.residual_scale, want.residual_scale);
  EXPECT_FLOAT_EQ(got.logit_scale, want.logit_scale);
  EXPECT_EQ(got.layer_rotary, want.layer_rotary);
  EXPECT_EQ(got.learned_positions, want.learned_positions);
  EXPECT_EQ(got.embedding_scale, want.embedding_scale);
  EXPECT_FLOAT_EQ(got.attention_scale, want.attention_scale);
  EXPECT_EQ(got.attention_softcap, want.attention_softcap);
  EXPECT_EQ(got.final_softcap, want.final_softcap);
  EXPECT_EQ(got.windows, want.windows);
  EXPECT_EQ(got.altup.streams, want.altup.streams);
  EXPECT_EQ(got.altup.active, want.altup.active);
  EXPECT_EQ(got.altup.laurel, want.altup.laurel);
  EXPECT_EQ(got.altup.per_layer, want.altup.per_layer);
  EXPECT_EQ(got.altup.vocabulary, want.altup.vocabulary);
  EXPECT_EQ(got.shared_layers, want.shared_layers);
  EXPECT_EQ(got.value_norms, want.value_norms);
  ASSERT_EQ(got.gate_cutoffs.size(), want.gate_cutoffs.size());
  for (size_t i = 0; i < got.gate_cutoffs.size(); ++i) {
    EXPECT_FLOAT_EQ(got.gate_cutoffs[i], want.gate_cutoffs[i]) << i;
  }
  EXPECT_EQ(got.experts.count, want.experts.count);
  EXPECT_EQ(got.experts.used, want.experts.used);
  EXPECT_EQ(got.experts.normalized, want.experts.normalized);
  EXPECT_EQ(got.experts.shared_intermediate, want.experts.shared_intermediate);
  EXPECT_EQ(got.experts.sigmoid, want.experts.sigmoid);
  EXPECT_EQ(got.experts.scales_inputs, want.experts.scales_inputs);
  EXPECT_EQ(got.experts.dense, want.experts.dense);
}

class CheckpointOfFamily : public ::testing::TestWithParam<const char*> {};

TEST_P(CheckpointOfFamily, ReadsAFolder) {
  const std::string family = GetParam();
  const auto checkpoint = Checkpoint::Open(kModels / family);
  const json::Json answer = AnswerOf(family);
  EXPECT_EQ(checkpoint->config().family, family);
  EXPECT_FALSE(checkpoint->config().rotary.interleaved);
  ExpectConfig(checkpoint->config(), TinyConfig(family));
  ExpectRotary(checkpoint->config().rotary, answer["rotary"]);
  ExpectWeights(*checkpoint, answer);
  EXPECT_EQ(checkpoint->Has("lm_head.weight"), !checkpoint->config().tied_head);
  const std::vector<int32_t> two{2}, both{2, 7};
  EXPECT_EQ(checkpoint->end_tokens(), family == "qwen2" ? both : two);
  EXPECT_EQ(checkpoint->tokenizer().kind, TokenizerSource::Kind::kNone);
}

TEST_P(CheckpointOfFamily, ReadsAGguf) {
  const std::string family = GetParam();
  const auto checkpoint = Checkpoint::Open(kModels / (family + ".gguf"));
  const json::Json answer = AnswerOf(family);
  const bool is_llama = family == "llama" || family == "mistral";
  EXPECT_EQ(checkpoint->config().family, is_llama ? "llama" : family);
  EXPECT_EQ(checkpoint->config().rotary.interleaved, is_llama);
  ExpectConfig(checkpoint->config(), TinyConfig(family));
  ExpectRotary(checkpoint->config().rotary, answer["rotary"]);
  ExpectWeights(*checkpoint, answer);
  EXPECT_EQ(checkpoint->end_tokens(), (std::vector<int32_t>{2, 7}));
  EXPECT_EQ(checkpoint->file_bytes(), std::filesystem::file_size(kModels / (family + ".gguf")));
  ASSERT_EQ(checkpoint->chat_templates().size(), 2u);
  EXPECT_EQ(checkpoint->chat_templates()[0].name, "default");
  EXPECT_EQ(checkpoint->chat_templates()[0].text, "{{ messages[0].content }}");
  EXPECT_EQ(checkpoint->chat_templates()[1].name, "tool_use");
}

INSTANTIATE_TEST_SUITE_P(Families, CheckpointOfFamily,
                         ::testing::Values("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2",
                                           "phi3", "gpt2"),
                         [](const auto& item) { return std::string(item.param); });

/// Both say the same of a model, and both have the weights of transformers.
class TwoFormats : public ::testing::TestWithParam<const char*> {};

TEST_P(TwoFormats, SayTheSame) {
  const std::string name = GetParam();
  const json::Json answer = AnswerOf(name);
  const auto folder = Checkpoint::Open(kModels / name);
  const auto gguf = Checkpoint::Open(kModels / (name + ".gguf"));
  EXPECT_TRUE(name.starts_with(folder->config().family)) << folder->config().family;
  // Some call themselves otherwise in GGUF.
  const std::string in_gguf = name == "mixtral"       ? "llama"
                              : name == "deepseek_v3" ? "deepseek_v2"
                                                      : folder->config().family;
  EXPECT_EQ(gguf->config().family, in_gguf);
  ExpectConfig(gguf->config(), folder->config());
  for (const auto* checkpoint : {folder.get(), gguf.get()}) {
    ExpectRotary(checkpoint->config().rotary, answer["rotary"]);
    ExpectWeights(*checkpoint, answer);
    if (!answer["rotary"].contains("local_frequencies")) continue;
    ExpectFrequencies(checkpoint->config().local_rotary.frequencies,
                      answer["rotary"]["local_frequencies"]);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TwoFormats,
                         ::testing::Values("cohere", "deepseek_v2", "deepseek_v2_groups",
                                           "deepseek_v3", "falcon", "falcon_new", "gemma3_text",
                                           "gemma3n_text", "gpt_neox", "gpt_oss", "gpt_oss_mxfp4",
                                           "granite", "granitemoehybrid", "granitemoehybrid_dense",
                                           "llama4_text", "llama4_text_plain", "mamba2",
                                           "mamba2_tied", "mixtral", "olmo2", "olmoe", "phi",
                                           "qwen2_moe", "qwen3_moe", "qwen3_next", "smollm3",
                                           "stablelm", "stablelm_parallel", "starcoder2"),
                         [](const auto& item) { return std::string(item.param); });

TEST(Checkpoint, ReadsLlama2c) {
  for (const int version : {0, 1, 2, 3}) {
    SCOPED_TRACE(version);
    const std::string name = "llama2c_v" + std::to_string(version);
    const auto checkpoint = Checkpoint::Open(kModels / (name + ".bin"));
    const json::Json answer = AnswerOf(name);
    DecoderConfig config = TinyConfig("llama");
    config.vocabulary = 262;  // three special tokens, all bytes, three more
    ExpectConfig(checkpoint->config(), config);
    EXPECT_TRUE(checkpoint->config().rotary.interleaved);
    ExpectRotary(checkpoint->config().rotary, answer["rotary"]);
    ExpectWeights(*checkpoint, answer);
    EXPECT_EQ(checkpoint->tokenizer().kind, TokenizerSource::Kind::kLlama2c);
    EXPECT_EQ(checkpoint->tokenizer().vocabulary_size, 262u);
    EXPECT_EQ(checkpoint->tokenizer().bytes, testing::FileBytes(kModels / "tokenizer.bin"));
    EXPECT_EQ(checkpoint->end_tokens(), (std::vector<int32_t>{1, 2}));
  }
}

TEST(Checkpoint, FillsAVocabulary) {
  const auto checkpoint = Checkpoint::Open(kModels / "llama.gguf");
  const TokenizerSource& source = checkpoint->tokenizer();
  EXPECT_EQ(source.kind, TokenizerSource::Kind::kVocabulary);
  const VocabularySpec& spec = source.vocabulary;
  EXPECT_EQ(spec.kind, "llama");
  EXPECT_EQ(spec.architecture, "llama");
  ASSERT_EQ(spec.tokens.size(), 40u);
  EXPECT_EQ(spec.tokens[2], "</s>");
  EXPECT_EQ(spec.tokens[3], "A");
  EXPECT_EQ(spec.scores[5], -5.0F);
  EXPECT_EQ(spec.types[0], 2);
  EXPECT_EQ(spec.types[39], 1);
  EXPECT_EQ(spec.bos, 1);
  EXPECT_EQ(spec.eos, 2);
  EXPECT_EQ(spec.unk, std::nullopt);
  EXPECT_EQ(spec.add_bos, true);
  EXPECT_EQ(spec.add_eos, std::nullopt);
}

TEST(Checkpoint, MapsWeightsAndLetsThemGo) {
  const auto path = kModels / "qwen3.gguf";
  const auto checkpoint = Checkpoint::Open(path);
  const void* address = nullptr;
  {
    const StoredMatrix matrix = checkpoint->Matrix("model.layers.0.mlp.down_proj.weight");
    address = matrix.data.raw();
    EXPECT_TRUE(testing::IsMappedFrom(path, address));
  }
  EXPECT_FALSE(testing::IsMappedFrom(path, address));
}

TEST(Checkpoint, SaysWhatIsNotThere) {
  const auto checkpoint = Checkpoint::Open(kModels / "llama.gguf");
  EXPECT_FALSE(checkpoint->Has("model.layers.2.mlp.up_proj.weight"));
  ExpectThrows([&] { checkpoint->Matrix("nothing"); }, ErrorCode::kNotFound, "no tensor 'nothing'");
  ExpectThrows([&] { checkpoint->Vector("nothing"); }, ErrorCode::kNotFound, "no tensor 'nothing'");
  ExpectThrows([&] { checkpoint->Matrix("model.norm.weight"); }, ErrorCode::kInvalidArgument,
               "is no matrix");
  ExpectThrows([&] { checkpoint->Vector("lm_head.weight"); }, ErrorCode::kInvalidArgument,
               "is no vector");
}

TEST(Checkpoint, KnowsItsFormats) {
  const testing::TemporaryFolder folder;
  ExpectThrows([&] { Checkpoint::Open(folder / "none"); }, ErrorCode::kNotFound, "cannot open");
  ExpectThrows([&] { Checkpoint::Open(folder.path()); }, ErrorCode::kNotFound, "no config.json");
  for (const std::string bytes : {"", "x", "not a model, but some text that is long enough"}) {
    testing::WriteFile(folder / "file", bytes);
    ExpectThrows([&] { Checkpoint::Open(folder / "file"); }, ErrorCode::kInvalidModel,
                 "is no language model");
  }
}

/// The real thing, where it was fetched.
TEST(Checkpoint, ReadsSmolLm2) {
  const char* path = std::getenv("OORT_SMOLLM2");
  if (path == nullptr) GTEST_SKIP() << "OORT_SMOLLM2 does not name the GGUF";
  const auto checkpoint = Checkpoint::Open(path);
  const DecoderConfig& config = checkpoint->config();
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.layers, 30);
  EXPECT_EQ(config.vocabulary, 49152);
  EXPECT_EQ(config.kv_heads, 3);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ(checkpoint->Matrix("model.embed_tokens.weight").format, WeightFormat::kQ8_0);
  EXPECT_EQ(checkpoint->Matrix("model.layers.29.mlp.down_proj.weight").format, WeightFormat::kQ4_1);
  EXPECT_EQ(checkpoint->tokenizer().vocabulary.pre, "smollm");
  EXPECT_EQ(checkpoint->tokenizer().vocabulary.merges.size(), 48900u);
  EXPECT_EQ(checkpoint->end_tokens(), std::vector<int32_t>{2});
}

}  // namespace
}  // namespace oort
