// SPDX-License-Identifier: MIT
// Models in GGUF: what the metadata may leave out, and models that contradict themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/gguf_builder.h"
#include "parser/checkpoint/checkpoint.h"
#include "parser/checkpoint/families.h"
#include "parser/checkpoint/tokenizer_source.h"
#include "parser/gguf/gguf_config.h"

namespace oort {
namespace {

using namespace testing;  // NOLINT: the names of the builder

/// A model of one layer: 8 wide, 2 heads, 4 in the feed-forward layer, 5 tokens.
class GgufModel {
 public:
  explicit GgufModel(std::string architecture = "llama") : family_(std::move(architecture)) {
    spec_.pairs = {GgufText("general.architecture", family_),
                   Number("context_length", 16),
                   Number("embedding_length", 8),
                   Number("block_count", 1),
                   Number("feed_forward_length", 4),
                   Number("attention.head_count", 2),
                   GgufF32(family_ + ".attention.layer_norm_rms_epsilon", 1e-5F),
                   GgufText("tokenizer.ggml.model", "llama"),
                   GgufTexts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a", "b"})};
    Add("token_embd.weight", {8, 5});
    Add("output_norm.weight", {8});
    for (const char* name : {"attn_norm", "ffn_norm"}) Add(Layer(name), {8});
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
      Add(Layer(name), {8, 8});
    }
    for (const char* name : {"ffn_gate", "ffn_up"}) Add(Layer(name), {8, 4});
    Add(Layer("ffn_down"), {4, 8});
  }

  GgufPair Number(const std::string& key, uint32_t value) const {
    return GgufU32(family_ + "." + key, value);
  }
  static std::string Layer(const std::string& name) { return "blk.0." + name + ".weight"; }
  GgufModel& Add(const std::string& name, std::vector<int64_t> dims, float value = 0.5F) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    std::string data;
    for (int64_t i = 0; i < count; ++i) {
      data.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    spec_.tensors.push_back({name, std::move(dims), 0, data});
    return *this;
  }
  GgufModel& Set(const GgufPair& pair) {
    Drop(pair.key);
    spec_.pairs.push_back(pair);
    return *this;
  }
  GgufModel& Drop(const std::string& name) {
    std::erase_if(spec_.pairs, [&](const GgufPair& pair) { return pair.key == name; });
    std::erase_if(spec_.tensors, [&](const GgufTensor& tensor) { return tensor.name == name; });
    return *this;
  }
  GgufSpec& spec() { return spec_; }

  std::unique_ptr<Checkpoint> Open() const {
    const TemporaryFolder folder;
    WriteFile(folder / "m.gguf", BuildGguf(spec_));
    return Checkpoint::Open(folder / "m.gguf");
  }
  void ExpectProblem(std::string_view message, ErrorCode code = ErrorCode::kInvalidModel) const {
    ExpectThrows([&] { Open(); }, code, message);
  }

 private:
  std::string family_;
  GgufSpec spec_;
};

TEST(GgufModel, DefaultsOfMissingKeys) {
  const auto checkpoint = GgufModel().Open();
  const DecoderConfig& config = checkpoint->config();
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.rotary.dims, 4);
  EXPECT_EQ(config.rotary.frequencies, (std::vector<float>{1, 0.01F}));
  EXPECT_EQ(config.vocabulary, 5);
  EXPECT_EQ(config.attention_scale, 0.5F);
  EXPECT_EQ(config.windows, std::vector<int64_t>{0});
  EXPECT_TRUE(config.tied_head);
  EXPECT_TRUE(checkpoint->end_tokens().empty());
  EXPECT_FALSE(GgufModel().Add("output.weight", {8, 5}).Open()->config().tied_head);
}

TEST(GgufModel, NumbersOfEachLayer) {
  const auto array = [](std::vector<std::string> numbers) {
    return GgufArray("llama.attention.head_count", 5, numbers);
  };
  EXPECT_EQ(GgufModel().Set(array({Little(2, 4), Little(2, 4)})).Open()->config().heads, 2);
  GgufModel()
      .Set(array({Little(2, 4), Little(4, 4)}))
      .ExpectProblem("differs from layer to layer", ErrorCode::kUnsupported);
  GgufModel().Set(array({})).ExpectProblem("'llama.attention.head_count' is missing");
}

/// A layer with a delta rule, as the first files of qwen3next have its products: in one tensor.
TEST(GgufModel, LayersWithADeltaRule) {
  GgufModel model("qwen3next");
  const auto layers = [](std::vector<std::string> listed) {
    return GgufArray("qwen3next.attention.recurrent_layers", 7, listed);
  };
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm"}) {
    model.Drop(GgufModel::Layer(name));
  }
  model.Set(model.Number("ssm.time_step_rank", 2))
      .Set(model.Number("ssm.inner_size", 8))
      .Set(model.Number("ssm.state_size", 3))
      .Set(model.Number("ssm.group_count", 1))
      .Set(model.Number("ssm.conv_kernel", 2))
      .Set(model.Number("rope.dimension_count", 2))
      .Add(GgufModel::Layer("post_attention_norm"), {8})
      .Add(GgufModel::Layer("ssm_in"), {8, 22})
      .Add(GgufModel::Layer("ssm_ba"), {8, 4})
      .Add(GgufModel::Layer("ssm_conv1d"), {2, 14})
      .Add(GgufModel::Layer("ssm_norm"), {4})
      .Add(GgufModel::Layer("ssm_out"), {8, 8})
      .Add("blk.0.ssm_a", {2}, -0.5F)
      .Add("blk.0.ssm_dt.bias", {2});
  const auto checkpoint = model.Open();
  EXPECT_TRUE(checkpoint->config().state_space.IsAt(0));
  EXPECT_EQ(checkpoint->Matrix("model.layers.0.mixer.conv_proj.weight").rows, 14);
  EXPECT_EQ(checkpoint->Matrix("model.layers.0.mixer.gate_proj.weight").rows, 8);
  EXPECT_EQ(checkpoint->Matrix("model.layers.0.mixer.beta_proj.weight").rows, 2);
  model.Set(model.Number("full_attention_interval", 1))
      .ExpectProblem("'model.layers.0.self_attn.q_proj.weight' of (8,8) is missing");
  EXPECT_NO_THROW(model.Set(layers({Little(1, 1)})).Open());
  model.Set(layers({Little(1, 1), Little(1, 1)})).ExpectProblem("does not list every layer");
  model.Drop("qwen3next.attention.recurrent_layers")
      .Set(model.Number("full_attention_interval", 0))
      .ExpectProblem("is not above 0");
  model.Set(model.Number("full_attention_interval", 4))
      .Drop(GgufModel::Layer("ssm_in"))
      .Add(GgufModel::Layer("ssm_in"), {8, 21})
      .ExpectProblem("mixer.conv_proj.weight' of (14,8) is missing");
}

TEST(GgufModel, RotaryEmbeddingsAreStretched) {
  const auto linear = GgufModel().Set(GgufF32("llama.rope.scaling.factor", 4)).Open();
  EXPECT_EQ(linear->config().rotary.frequencies[0], 0.25F);
  const auto old = GgufModel().Set(GgufF32("llama.rope.scale_linear", 2)).Open();
  EXPECT_EQ(old->config().rotary.frequencies[0], 0.5F);
  GgufModel none;
  none.Set(GgufF32("llama.rope.scaling.factor", 4))
      .Set(GgufText("llama.rope.scaling.type", "none"));
  EXPECT_EQ(none.Open()->config().rotary.frequencies[0], 1);
  GgufModel divided;
  divided.Add("rope_freqs.weight", {2}, 8);
  EXPECT_EQ(divided.Open()->config().rotary.frequencies[0], 0.125F);
  divided.Set(GgufF32("llama.rope.scaling.factor", 4))
      .ExpectProblem("together with another", ErrorCode::kUnsupported);
  GgufModel part;
  part.Set(GgufU32("llama.rope.dimension_count", 2)).Set(GgufF32("llama.rope.freq_base", 5));
  EXPECT_EQ(part.Open()->config().rotary.frequencies, std::vector<float>{1});
  GgufModel yarn;
  yarn.Set(GgufText("llama.rope.scaling.type", "yarn"))
      .Set(GgufF32("llama.rope.scaling.factor", 4))
      .Set(GgufF32("llama.rope.scaling.yarn_attn_factor", 2));
  EXPECT_FLOAT_EQ(yarn.Open()->config().rotary.magnitude, 2 * (0.1F * std::log(4.0F) + 1));
  GgufModel()
      .Set(GgufText("llama.rope.scaling.type", "spiral"))
      .ExpectProblem("'spiral' is not known", ErrorCode::kUnsupported);
  GgufModel().Add("rope_freqs.weight", {3}).ExpectProblem("needs 2 factors");
  GgufModel().Add("rope_freqs.weight", {2}, 0).ExpectProblem("not finite");
  GgufModel().Add("rope_freqs.weight", {2, 1 << 18}).ExpectProblem("a few numbers in f32");
}

TEST(GgufModel, FusedTensorsAreCut) {
  GgufModel fused;
  for (const char* name : {"attn_q", "attn_k", "attn_v"}) fused.Drop(GgufModel::Layer(name));
  fused.Add(GgufModel::Layer("attn_qkv"), {8, 24}).Add("blk.0.attn_qkv.bias", {24});
  std::string& data = fused.spec().tensors[fused.spec().tensors.size() - 2].data;
  for (size_t i = 0; i < 24 * 8; ++i) {
    const auto value = static_cast<float>(i);
    data.replace(4 * i, 4, reinterpret_cast<const char*>(&value), 4);
  }
  const auto checkpoint = fused.Open();
  float row[8];
  ReadRows(checkpoint->Matrix("model.layers.0.self_attn.k_proj.weight"), 1, 2, row);
  EXPECT_EQ(row[0], 72);
  ReadRows(checkpoint->Matrix("model.layers.0.self_attn.v_proj.weight"), 7, 8, row);
  EXPECT_EQ(row[7], 191);
  EXPECT_EQ(checkpoint->Vector("model.layers.0.self_attn.q_proj.bias").elements(), 8);
  GgufModel both;
  both.Add(GgufModel::Layer("attn_qkv"), {8, 24})
      .ExpectProblem("are both 'model.layers.0.self_attn.q_proj.weight'");
}

TEST(GgufModel, KeysMustBeThere) {
  for (const char* key :
       {"context_length", "embedding_length", "block_count", "feed_forward_length",
        "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
    const std::string name = std::string("llama.") + key;
    GgufModel().Drop(name).ExpectProblem("'" + name + "' is missing");
    GgufModel().Set(GgufText(name, "7")).ExpectProblem("the value of '" + name + "' is no");
  }
  GgufModel().Drop("general.architecture").ExpectProblem("'general.architecture' is missing");
  GgufModel()
      .Set(GgufText("general.architecture", "mamba"))
      .ExpectProblem("granite, granitemoehybrid, idefics3, llama, llama4, llama4_text, mamba2",
                     ErrorCode::kUnsupported);
  GgufModel()
      .Set(GgufU32("llama.expert_count", 8))
      .ExpectProblem("'llama.expert_used_count' is missing");
  GgufModel()
      .Set(GgufU32("llama.attention.value_length", 3))
      .ExpectProblem("different sizes", ErrorCode::kUnsupported);
}

TEST(GgufModel, NumbersMakeSense) {
  for (const char* key : {"context_length", "embedding_length", "block_count",
                          "feed_forward_length", "attention.head_count", "attention.head_count_kv",
                          "attention.key_length", "rope.dimension_count"}) {
    const std::string name = std::string("llama.") + key;
    for (const GgufPair& pair :
         {GgufU32(name, UINT32_MAX), GgufPair{name, 11, Little(UINT64_MAX, 8)},
          GgufPair{name, 11, Little(uint64_t{1} << 62, 8)}}) {
      EXPECT_THROW(GgufModel().Set(pair).Open(), Error) << name;
    }
    if (key == std::string("rope.dimension_count")) continue;
    EXPECT_THROW(GgufModel().Set(GgufU32(name, 0)).Open(), Error) << name;
  }
  for (const uint32_t dims : {1U, 3U, 5U, 8U}) {  // odd, or more than the head has
    EXPECT_THROW(GgufModel().Set(GgufU32("llama.rope.dimension_count", dims)).Open(), Error);
  }
  EXPECT_THROW(GgufModel().Set(GgufU32("llama.attention.head_count", 3)).Open(), Error);
  EXPECT_THROW(GgufModel().Set(GgufF32("llama.rope.freq_base", -1)).Open(), Error);
  EXPECT_THROW(GgufModel().Set(GgufF32("llama.rope.freq_base", NAN)).Open(), Error);
  EXPECT_THROW(GgufModel().Set(GgufF32("llama.rope.scaling.factor", -2)).Open(), Error);
}

TEST(GgufModel, TensorsMustBeThere) {
  const std::vector<GgufTensor> tensors = GgufModel().spec().tensors;
  for (const GgufTensor& tensor : tensors) {
    SCOPED_TRACE(tensor.name);
    GgufModel missing, wrong;
    EXPECT_THROW(missing.Drop(tensor.name).Open(), Error);
    if (tensor.name == "token_embd.weight") continue;  // more embeddings than tokens are allowed
    std::vector<int64_t> dims = tensor.dims;
    dims.back() += 1;
    EXPECT_THROW(wrong.Drop(tensor.name).Add(tensor.name, dims).Open(), Error);
  }
  GgufModel()
      .Drop(GgufModel::Layer("ffn_down"))
      .ExpectProblem("'model.layers.0.mlp.down_proj.weight' of (8,4) is missing");
  GgufModel()
      .Drop("output_norm.weight")
      .Add("output_norm.weight", {8, 1})
      .ExpectProblem("should be of (8), but is of (1,8)");
}

TEST(GgufModel, TensorsMustHaveAPlace) {
  for (const char* name :
       {"blk.1.ffn_up.weight", "blk.00.ffn_up.weight", "blk.-1.ffn_up.weight", "blk.0.ffn_up.scale",
        "blk.0.ffn_up_exps.weight", "blk.0..weight", "blk.0", "blk.", "blk.0ffn_up.weight",
        "whatever", "whatever.weight", "blk.99999999999999999999.ffn_up.weight"}) {
    GgufModel().Add(name, {8, 4}).ExpectProblem("has no place", ErrorCode::kUnsupported);
  }
  GgufModel()
      .Add("blk.0.attn_q_norm.weight", {4})
      .ExpectProblem("has no place", ErrorCode::kUnsupported);
  GgufModel odd;
  odd.Drop(GgufModel::Layer("ffn_up"));
  odd.spec().tensors.push_back({GgufModel::Layer("ffn_up"), {256, 4}, 40, std::string(576, 'x')});
  odd.ExpectProblem("is stored as nvfp4", ErrorCode::kUnsupported);
}

TEST(GgufModel, VocabulariesAreSound) {
  GgufModel()
      .Set(GgufTexts("tokenizer.ggml.tokens", {"1", "2", "3", "4", "5", "6"}))
      .ExpectProblem("6 tokens, but only 5 have an embedding");
  GgufModel().Set(GgufTexts("tokenizer.ggml.tokens", {"\xc3"})).ExpectProblem("is not UTF-8");
  GgufModel()
      .Set(GgufArray("tokenizer.ggml.scores", 6, {Little(0, 4)}))
      .ExpectProblem("5 tokens, but 1 scores");
  GgufModel()
      .Set(GgufArray("tokenizer.ggml.token_type", 5, {Little(7, 4)}))
      .ExpectProblem("no type 7 of tokens");
  GgufModel().Set(GgufText("tokenizer.chat_template", "\xff")).ExpectProblem("is not UTF-8");
  GgufModel().Set(GgufU32("tokenizer.chat_template.x", 1)).ExpectProblem("is no string");
  const auto strange = GgufModel()
                           .Set(GgufU32("tokenizer.ggml.bos_token_id", 1))
                           .Set(GgufU32("tokenizer.ggml.eos_token_id", UINT32_MAX))
                           .Set(GgufU32("tokenizer.ggml.eot_token_id", 4))
                           .Set(GgufBool("tokenizer.ggml.add_bos_token", false))
                           .Open();
  EXPECT_EQ(strange->tokenizer().vocabulary.bos, 1);
  EXPECT_EQ(strange->tokenizer().vocabulary.eos, std::nullopt);
  EXPECT_EQ(strange->tokenizer().vocabulary.add_bos, false);
  EXPECT_EQ(strange->end_tokens(), std::vector<int32_t>{4});
}

TEST(GgufModel, ATokenizerJsonIsPreferred) {
  const auto checkpoint =
      GgufModel().Set(GgufText("tokenizer.huggingface.json", "{\"version\":1}")).Open();
  EXPECT_EQ(checkpoint->tokenizer().kind, TokenizerSource::Kind::kJson);
  EXPECT_EQ(checkpoint->tokenizer().bytes, "{\"version\":1}");
  EXPECT_EQ(checkpoint->tokenizer().vocabulary.tokens.size(), 5u);
  const auto none = GgufModel().Drop("tokenizer.ggml.model").Open();
  EXPECT_EQ(none->tokenizer().kind, TokenizerSource::Kind::kNone);
}

TEST(GgufModel, TheLargestGemmaScalesOtherwise) {
  for (const uint32_t layers : {26u, 46u}) {
    GgufModel model("gemma2");
    model.Set(model.Number("block_count", layers)).Set(model.Number("attention.key_length", 16));
    const gguf::File file = gguf::ReadFile(ByteSource::Owned(BuildGguf(model.spec())));
    DecoderConfig config = gguf::ReadConfig(file.metadata, {});
    config.vocabulary = 5;
    FinishConfig(config);
    EXPECT_EQ(config.attention_scale, layers == 46 ? 0.5F : 0.25F);
    EXPECT_EQ(config.attention_softcap, 50);
    EXPECT_EQ(config.final_softcap, 30);
    EXPECT_EQ(config.windows[0], 4096);
    EXPECT_EQ(config.windows[1], 0);
    EXPECT_EQ(config.embedding_scale, std::sqrt(8.0F));
  }
}

/// What files say of several residual streams, and what llama.cpp takes for granted.
TEST(GgufModel, StreamsHaveDefaults) {
  GgufModel model("gemma3n");
  model.Set(model.Number("block_count", 30)).Set(model.Number("attention.key_length", 16));
  const auto read = [](GgufModel given) {
    const gguf::File file = gguf::ReadFile(ByteSource::Owned(BuildGguf(given.spec())));
    return gguf::ReadConfig(file.metadata, {});
  };
  const DecoderConfig config = read(model);
  EXPECT_EQ(config.altup.streams, 4);
  EXPECT_EQ(config.altup.per_layer, 256);
  EXPECT_EQ(config.shared_layers, 10);
  EXPECT_EQ(config.attention_scale, 1);
  EXPECT_EQ(config.windows[3], 512);
  EXPECT_EQ(config.windows[4], 0);
  EXPECT_TRUE(config.CutsGates(9));
  EXPECT_FALSE(config.CutsGates(10));
  const auto flags = [](size_t count) {
    return GgufArray("gemma3n.attention.sliding_window_pattern", 7,
                     std::vector<std::string>(count, std::string(1, '\0')));
  };
  EXPECT_EQ(read(GgufModel(model).Set(flags(30))).windows, std::vector<int64_t>(30, 0));
  ExpectThrows([&] { read(GgufModel(model).Set(flags(3))); }, ErrorCode::kInvalidModel,
               "does not list every layer");
  const auto cutoffs = GgufArray("gemma3n.activation_sparsity_scale", 6,
                                 std::vector<std::string>(29, std::string(4, '\0')));
  ExpectThrows([&] { read(GgufModel(model).Set(cutoffs)); }, ErrorCode::kInvalidModel,
               "no sensible number");
  ExpectThrows([&] { read(GgufModel(model).Set(model.Number("altup.num_inputs", 0))); },
               ErrorCode::kInvalidModel, "is not above 0");
}

TEST(GgufModel, QueriesThatGrowNeedLayersThatTurn) {
  GgufModel model("llama4");
  model.Set(model.Number("rope.dimension_count", 0));
  model.ExpectProblem("queries grow where layers do not turn");
  model.Set(model.Number("attention.sliding_window", 0));  // then no query grows
  EXPECT_EQ(model.Open()->config().rotary.dims, 0);
}

}  // namespace
}  // namespace oort
