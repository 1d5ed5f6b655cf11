// SPDX-License-Identifier: MIT
// Language models written as .pnnx.param and .pnnx.bin, in all widths of weights.
#include <gtest/gtest.h>

#include <cmath>

#include "decoder/converted.h"
#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "llm/tiny_logits.h"
#include "text/json.h"

namespace oort {
namespace {

namespace fs = std::filesystem;
using testing::ExpectThrows;
using testing::TemporaryFolder;

const fs::path kSourceModels = TestData() / "checkpoints";

struct Converted {
  explicit Converted(const std::string& model, ConvertOptions options = {}) {
    ConvertLanguageModel(kSourceModels / model, param(), bin(), options);
  }
  fs::path param() const { return folder / "model.pnnx.param"; }
  fs::path bin() const { return folder / "model.pnnx.bin"; }
  TemporaryFolder folder;
};

/// How far logits are apart, beside how far they spread.
double RelativeError(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, spread = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(static_cast<double>(got[i] - want[i]), 2);
    spread += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / spread);
}

TEST(ConvertLanguageModel, KeepsWeightsAsTheyAre) {
  for (const char* name : {"llama",
                           "mistral.gguf",
                           "qwen2",
                           "qwen3.gguf",
                           "gemma",
                           "gemma2.gguf",
                           "phi3",
                           "gpt2",
                           "llama2c_v0.bin",
                           "llama2c_v2.bin",
                           "cohere",
                           "falcon_new",
                           "gemma3_text.gguf",
                           "gemma3n_text",
                           "gpt_neox",
                           "granite.gguf",
                           "granitemoehybrid.gguf",
                           "qwen3_next",
                           "falcon_h1",
                           "olmo2",
                           "phi",
                           "smollm3",
                           "stablelm.gguf",
                           "starcoder2",
                           "llama2c_v3.bin",
                           "mixtral",
                           "qwen2_moe.gguf",
                           "qwen3_moe",
                           "deepseek_v2_groups",
                           "gpt_oss_mxfp4",
                           "llama4_text",
                           "olmoe"}) {
    SCOPED_TRACE(name);
    const Converted converted(name);
    EXPECT_EQ(TinyLogits(converted.param()), TinyLogits(kSourceModels / name));
  }
}

TEST(ConvertLanguageModel, WritesFewerBits) {
  const std::vector<float> want = TinyLogits(kSourceModels / "llama");
  struct Case {
    ConvertOptions options;
    double error, smaller;
  };
  const auto whole = fs::file_size(Converted("llama").bin());
  for (const Case& c : {Case{{.weights = "f32"}, 0, 0}, Case{{.weights = "f16"}, 0.002, 1.2},
                        Case{{.weights = "bf16"}, 0.02, 1.2}, Case{{.weights = "int8"}, 0.05, 1.3},
                        Case{{.weights = "int8", .asymmetric = true}, 0.05, 1.3},
                        Case{{.weights = "int4"}, 0.35, 1.35},
                        Case{{.weights = "int4", .asymmetric = true}, 0.35, 1.3},
                        Case{{.weights = "int4", .group = 128}, 0.35, 1.35}}) {
    SCOPED_TRACE(c.options.weights);
    const Converted converted("llama", c.options);
    const double error = RelativeError(TinyLogits(converted.param()), want);
    EXPECT_LE(error, c.error);
    EXPECT_EQ(error == 0, c.options.weights == "f32");
    EXPECT_LE(static_cast<double>(fs::file_size(converted.bin())) * c.smaller,
              static_cast<double>(whole) + 1);
  }
}

/// The same numbers as through a file, in as much memory: also where the head is the embeddings.
TEST(LanguageModel, QuantizesWeightsOnTheWay) {
  for (const char* name : {"llama", "qwen2", "gemma.gguf", "gpt2", "llama2c_v2.bin"}) {
    for (const char* weights : {"int8", "int4", "bf16"}) {
      SCOPED_TRACE(std::string(name) + " " + weights);
      const Converted converted(name, {.weights = weights, .group = 32});
      const auto from_file = LanguageModel::Load(converted.param(), {.exact = true});
      const auto on_the_way =
          LanguageModel::Load(kSourceModels / name, {.exact = true, .weights = weights});
      EXPECT_EQ(TinyLogits(on_the_way), TinyLogits(from_file));
      EXPECT_EQ(on_the_way->info().weight_bytes, from_file->info().weight_bytes);
      const Tensor one = Tensor::Meta(DType::kI32, Shape{1});
      const auto held = [&](const LanguageModel& model) {
        return static_cast<double>(model.graph()->Plan({one, one, one}).memory.weights);
      };
      EXPECT_NEAR(held(*on_the_way), held(*from_file), 0.05 * held(*from_file));
    }
  }
  const Converted converted("llama");
  ExpectThrows([&] { LanguageModel::Load(converted.param(), {.weights = "int8"}); },
               ErrorCode::kUnsupported, "stay as they are");
  ExpectThrows([&] { LanguageModel::Load(kSourceModels / "llama", {.weights = "int3"}); },
               ErrorCode::kInvalidArgument, "int3");
}

/// A head that is the embeddings is stored once.
TEST(ConvertLanguageModel, SharesATiedHead) {
  const Converted converted("qwen2", {.weights = "f32"});
  const Graph graph = ReadPnnx(converted.param(), converted.bin());
  const Operator& head = graph.operators[static_cast<size_t>(graph.FindOperator("lm_head"))];
  EXPECT_TRUE(head.attributes.count("weight") == 0);
  EXPECT_EQ(head.inputs.size(), 2u);
  EXPECT_EQ(head.input_names.back(), "weight");
}

TEST(ConvertLanguageModel, KeepsWhatBelongsToTheModel) {
  const Converted converted("llama.gguf");
  const ConvertedModel model = ReadConverted(converted.param(), {});
  const auto source = Checkpoint::Open(kSourceModels / "llama.gguf");
  const VocabularySpec &got = model.about.tokenizer.vocabulary,
                       &want = source->tokenizer().vocabulary;
  EXPECT_EQ(model.about.tokenizer.kind, source->tokenizer().kind);
  EXPECT_EQ(got.kind, want.kind);
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.scores, want.scores);
  EXPECT_EQ(got.types, want.types);
  EXPECT_EQ(got.bos, want.bos);
  EXPECT_EQ(got.unk, want.unk);
  EXPECT_EQ(got.add_bos, want.add_bos);
  EXPECT_EQ(model.about.end_tokens, source->end_tokens());
  ASSERT_EQ(model.about.templates.size(), 2u);
  EXPECT_EQ(model.about.templates[1].name, "tool_use");
  EXPECT_EQ(model.about.templates[0].text, "{{ messages[0].content }}");
  EXPECT_EQ(model.about.config.kv_heads, 2);
  EXPECT_EQ(model.about.config.context, 64);
  EXPECT_EQ(model.graph.FindOperator("oort.language_model"), -1);
  const ConvertedModel raw = ReadConverted(Converted("llama2c_v1.bin").param(), {});
  EXPECT_EQ(raw.about.tokenizer.bytes,
            Checkpoint::Open(kSourceModels / "llama2c_v1.bin")->tokenizer().bytes);
}

TEST(ConvertLanguageModel, RefusesNonsense) {
  const auto expect = [](const ConvertOptions& options, std::string_view message) {
    ExpectThrows([&] { Converted("llama", options); }, ErrorCode::kInvalidArgument, message);
  };
  expect({.weights = "int3"}, "not as 'int3'");
  expect({.weights = "q4_0"}, "not as 'q4_0'");
  expect({.weights = "int8", .group = 0}, "at least one weight");
  const TemporaryFolder folder;
  ExpectThrows(
      [&] { ConvertLanguageModel(kSourceModels / "llama", folder / "a.param", folder / "b.bin"); },
      ErrorCode::kInvalidArgument, "in .param and .bin alone");
}

TEST(ConvertLanguageModel, LeavesNothingBehindWhenStopped) {
  const TemporaryFolder folder;
  std::stop_source stop;
  ConvertOptions options{.weights = "int8"};
  options.stop = stop.get_token();
  uint64_t done = 0;
  options.progress = [&](const Progress& progress) {
    EXPECT_GT(progress.done, done);
    EXPECT_LE(progress.done, progress.total);
    done = progress.done;
    if (progress.done > 100) stop.request_stop();
  };
  ExpectThrows(
      [&] {
        ConvertLanguageModel(kSourceModels / "llama", folder / "m.param", folder / "m.bin",
                             options);
      },
      ErrorCode::kCancelled, "");
  EXPECT_GT(done, 100u);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(ConvertLanguageModel, OtherGraphsAreNoLanguageModels) {
  const fs::path other = SourceTree() / "models/digits/digits.pnnx.param";
  ExpectThrows([&] { LanguageModel::Load(other); }, ErrorCode::kUnsupported,
               "is no language model that 'oort convert' wrote");
}

TEST(ConvertLanguageModel, TheDescriptionIsNotTrusted) {
  const Converted converted("llama");
  const Graph good = ReadPnnx(converted.param(), converted.bin());
  const int index = good.FindOperator("oort.language_model");
  ASSERT_GE(index, 0);
  const Tensor bytes = good.operators[static_cast<size_t>(index)].attributes.at("data");
  const json::Json about =
      json::Parse({reinterpret_cast<const char*>(bytes.raw()), bytes.bytes()}, "about");
  const auto expect = [&](const char* pointer, const json::Json& value, std::string_view message) {
    json::Json wrong = about;
    wrong[json::Json::json_pointer(pointer)] = value;
    const std::string text = wrong.dump();
    Graph graph = good;
    graph.operators[static_cast<size_t>(index)].attributes["data"] =
        Tensor::From(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()),
                     {static_cast<int64_t>(text.size())});
    const TemporaryFolder folder;
    WritePnnx(graph, folder / "m.param", folder / "m.bin");
    try {
      LanguageModel::Load(folder / "m.param");
      ADD_FAILURE() << "no error for " << pointer;
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find(message), std::string_view::npos)
          << error.what();
    }
  };
  expect("/version", 2, "another version");
  expect("/config", 7, "JSON object");
  expect("/config/family", "mamba", "'mamba'");
  expect("/config/vocabulary", 41, "no head for a vocabulary of 41");
  expect("/config/layers", -1, "the number of layers");
  expect("/config/kv_heads", "x", "should be an integer");
  expect("/tokenizer/kind", "magic", "'magic'");
  expect("/tokenizer/vocabulary_size", -5, "vocabulary");
  expect("/templates", "x", "'templates' should be");
  expect("/end_tokens", {1.5}, "'end_tokens' should be");
}

TEST(ConvertLanguageModel, RecognisesModels) {
  EXPECT_TRUE(IsLanguageModel(kSourceModels / "llama"));
  EXPECT_TRUE(IsLanguageModel(kSourceModels / "llama.gguf"));
  EXPECT_TRUE(IsLanguageModel(kSourceModels / "llama2c_v0.bin"));
  EXPECT_FALSE(IsLanguageModel(kSourceModels));
  EXPECT_FALSE(IsLanguageModel(kSourceModels / "llama.json"));
  EXPECT_FALSE(IsLanguageModel(kSourceModels / "none"));
}

}  // namespace
}  // namespace oort
