// SPDX-License-Identifier: MIT
// Folders of Hugging Face that become GGUFs: the same model in llama.cpp's words.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "llm/tiny_logits.h"
#include "llm_quantize/quantize_language.h"
#include "parser/checkpoint/checkpoint.h"
#include "parser/gguf/gguf.h"

namespace oort::llm_quantize {
namespace {

namespace fs = std::filesystem;
using oort::testing::ExpectThrows;
using oort::testing::TemporaryFolder;

const fs::path kHubModels = TestData() / "checkpoints";

/// 37 letters, a pair of them and two special tokens, which is all that the tiny models have
/// embeddings for.
std::string TinyTokenizer(const std::string& type = "BPE") {
  std::string vocab;
  for (int i = 0; i < 37; ++i) {
    const char letter = static_cast<char>('A' + i + (i > 25 ? 6 : 0));
    vocab += "\"" + std::string(1, letter) + "\":" + std::to_string(i) + ",";
  }
  vocab += R"("AB":37)";
  const auto special = [](int id, const std::string& text) {
    return R"({"id":)" + std::to_string(id) + R"(,"content":")" + text +
           R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,)" +
           R"("special":true})";
  };
  return R"({"version":"1.0","added_tokens":[)" + special(38, "<|begin|>") + "," +
         special(39, "<|end|>") +
         R"(],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,)" +
         R"("trim_offsets":true,"use_regex":true},"post_processor":null,"decoder":{"type":)" +
         R"("ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},"model":)" +
         R"({"type":")" + type + R"(","vocab":{)" + vocab + R"(},"merges":["A B"]}})";
}

/// A copy of a tiny model's folder, with a tokenizer.
class HubFolder {
 public:
  explicit HubFolder(const std::string& name) {
    fs::copy(kHubModels / name, path(), fs::copy_options::recursive);
    Write("tokenizer.json", TinyTokenizer());
    Write("tokenizer_config.json", R"({"bos_token":"<|begin|>","eos_token":"<|end|>",)"
                                   R"("chat_template":"{{ messages[0].content }}"})");
  }
  fs::path path() const { return folder_ / "model"; }
  void Write(const std::string& file, const std::string& text) const {
    fs::create_directories(path());
    std::ofstream(path() / file, std::ios::binary) << text;
  }
  void Replace(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = oort::testing::FileBytes(path() / file);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    Write(file, text.replace(at, from.size(), to));
  }
  fs::path out() const { return folder_ / "out.gguf"; }

 private:
  TemporaryFolder folder_;
};

LanguageQuantizeOptions SearchOptions(const std::string& weights) {
  LanguageQuantizeOptions options;
  options.method = Method::kSearch;
  options.weights = weights;
  options.threads = 2;
  return options;
}
/// All matrices stay as they are.
LanguageQuantizeOptions KeepAll() {
  LanguageQuantizeOptions options = SearchOptions("q8_0");
  options.rules.push_back({"*", {}});
  return options;
}

double RelativeDistance(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, spread = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(static_cast<double>(got[i] - want[i]), 2);
    spread += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / spread);
}

std::vector<std::byte> BytesOf(const gguf::File& file, const gguf::TensorEntry& entry) {
  std::vector<std::byte> bytes(static_cast<size_t>(entry.bytes));
  file.source->ReadAt(entry.offset, bytes);
  return bytes;
}

class HubGguf : public ::testing::TestWithParam<const char*> {};

TEST_P(HubGguf, IsTheSameModel) {
  const HubFolder folder(GetParam());
  const std::vector<float> wanted = TinyLogits(folder.path());
  QuantizeLanguage(folder.path(), folder.out(), KeepAll());
  // Frequencies are made of other numbers than in the folder: last digits differ.
  EXPECT_LT(RelativeDistance(TinyLogits(folder.out()), wanted), 1e-5);
  QuantizeLanguage(folder.path(), folder.out(), SearchOptions("q8_0"));
  const double error = RelativeDistance(TinyLogits(folder.out()), wanted);
  EXPECT_LT(error, 0.05);
  EXPECT_GT(error, 1e-5);
}

/// The keys and tensors of the files that were made as llama.cpp's converter makes them.
TEST_P(HubGguf, SaysWhatLlamaCppWouldSay) {
  const std::string name = GetParam();
  const HubFolder folder(name);
  QuantizeLanguage(folder.path(), folder.out(), KeepAll());
  const auto got = gguf::ReadFiles(folder.out());
  const auto want = gguf::ReadFiles(kHubModels / (name + ".gguf"));
  const gguf::Metadata& keys = got[0].metadata;
  for (const gguf::RawPair& pair : want[0].metadata.pairs()) {
    if (pair.key.starts_with("tokenizer.") || pair.key.starts_with("general.")) continue;
    SCOPED_TRACE(pair.key);
    ASSERT_TRUE(keys.Has(pair.key));
    if (pair.key.ends_with(".type")) {
      EXPECT_EQ(keys.Text(pair.key), want[0].metadata.Text(pair.key));
    } else {
      EXPECT_NEAR(*keys.Number(pair.key), *want[0].metadata.Number(pair.key), 1e-6);
    }
  }
  EXPECT_EQ(keys.Text("general.architecture"), want[0].metadata.Text("general.architecture"));
  for (const gguf::TensorEntry& entry : want[0].tensors) {
    SCOPED_TRACE(entry.name);
    const auto same = std::ranges::find(got[0].tensors, entry.name, &gguf::TensorEntry::name);
    ASSERT_NE(same, got[0].tensors.end());
    EXPECT_EQ(same->dims, entry.dims);
    const bool is_rotary = entry.name.starts_with("rope_");
    if (same->type == entry.type && !is_rotary) {
      EXPECT_EQ(BytesOf(got[0], *same), BytesOf(want[0], entry));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, HubGguf,
                         ::testing::Values("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2",
                                           "gpt2"),
                         [](const auto& test) { return std::string(test.param); });

TEST(HubGgufTokenizer, IsTakenOver) {
  const HubFolder folder("llama");
  QuantizeLanguage(folder.path(), folder.out(), SearchOptions("q4_0"));
  const auto files = gguf::ReadFiles(folder.out());
  const gguf::Metadata& keys = files[0].metadata;
  EXPECT_EQ(keys.Text("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(keys.Text("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(keys.Texts("tokenizer.ggml.tokens").size(), 40U);
  EXPECT_EQ(keys.Integers("tokenizer.ggml.token_type")[39], 3);
  EXPECT_EQ(keys.Integer("tokenizer.ggml.bos_token_id"), 38);
  EXPECT_EQ(keys.Integer("tokenizer.ggml.eos_token_id"), 39);
  EXPECT_EQ(keys.Bool("tokenizer.ggml.add_bos_token"), false);
  EXPECT_EQ(keys.Text("tokenizer.chat_template"), "{{ messages[0].content }}");
  // What generation_config.json says ends an answer, too.
  EXPECT_EQ(Checkpoint::Open(folder.out())->end_tokens(), (std::vector<int32_t>{39, 2}));
}

TEST(HubGgufTokenizer, OfTheStorytellerGivesTheSameTokens) {
  const TemporaryFolder folder;
  const fs::path model = SourceTree() / "models" / "storyteller";
  QuantizeLanguage(model, folder / "story.gguf", SearchOptions("q4_k_m"));
  const Tokenizer was = Tokenizer::FromFile(model), is = Tokenizer::FromFile(folder / "story.gguf");
  for (const char* text :
       {"Tell me a story about a fox.", "<|user|>It's 12345!<|end|>", "", "\n  x"}) {
    EXPECT_EQ(is.Encode(text), was.Encode(text)) << text;
  }
}

TEST(HubGgufFolder, RefusesWhatAGgufCannotSay) {
  const auto refuses = [](const HubFolder& folder, ErrorCode code, std::string_view says) {
    ExpectThrows([&] { QuantizeLanguage(folder.path(), folder.out(), SearchOptions("q8_0")); },
                 code, says);
    EXPECT_FALSE(fs::exists(folder.out()));
  };
  const HubFolder without("llama");
  fs::remove(without.path() / "tokenizer.json");
  refuses(without, ErrorCode::kNotFound, "tokenizer.json");
  const HubFolder other("llama");
  other.Write("tokenizer.json", TinyTokenizer("WordLevel"));
  refuses(other, ErrorCode::kInvalidModel, "unk_token");
  const HubFolder cut("llama");
  cut.Replace("tokenizer.json", R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false)",
              R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true)");
  refuses(cut, ErrorCode::kUnsupported, ".pnnx.param");
  const HubFolder active("llama");
  active.Replace("config.json", R"("hidden_act": "silu")", R"("hidden_act": "relu")");
  refuses(active, ErrorCode::kUnsupported, "activation");
  const HubFolder scaled("qwen3");
  scaled.Replace("config.json", R"("rope_type": "default")",
                 R"("rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0, "original_max_position_embeddings": 32)");
  refuses(scaled, ErrorCode::kUnsupported, "rope scaling");
  const HubFolder unknown("phi3");
  refuses(unknown, ErrorCode::kUnsupported, "only those of gemma, gemma2, gpt2, llama, mistral");
  const HubFolder fused("gpt2");
  LanguageQuantizeOptions options = SearchOptions("q8_0");
  options.rules.push_back({"*.v_proj.weight", {WeightFormat::kQ4_0, 0}});
  ExpectThrows([&] { QuantizeLanguage(fused.path(), fused.out(), options); },
               ErrorCode::kInvalidArgument, "one tensor");
}

}  // namespace
}  // namespace oort::llm_quantize
