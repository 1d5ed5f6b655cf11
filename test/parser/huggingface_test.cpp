// SPDX-License-Identifier: MIT
// Folders of models, and folders that are traps.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "parser/checkpoint/checkpoint.h"
#include "parser/checkpoint/tokenizer_source.h"
#include "parser/huggingface/config.h"

namespace oort {
namespace {

namespace fs = std::filesystem;
using json::Json;
using testing::ExpectThrows;
using testing::FileBytes;
using testing::TemporaryFolder;
using testing::WriteFile;

const fs::path kHubModels = TestData() / "checkpoints";

/// A copy of a tiny model that tests may spoil.
class HubFolder {
 public:
  explicit HubFolder(const std::string& model = "llama") {
    for (const auto& entry : fs::directory_iterator(kHubModels / model)) {
      fs::copy_file(entry.path(), path() / entry.path().filename());
    }
  }
  const fs::path& path() const { return folder_.path(); }
  std::unique_ptr<Checkpoint> Open() const { return Checkpoint::Open(path()); }
  void Write(const std::string& name, const std::string& bytes) const {
    WriteFile(path() / name, bytes);
  }
  void ExpectProblem(std::string_view message, ErrorCode code = ErrorCode::kInvalidModel) const {
    ExpectThrows([&] { Open(); }, code, message);
  }

 private:
  TemporaryFolder folder_;
};

TEST(HuggingFace, FindsTokenizerAndTemplates) {
  const HubFolder folder;
  folder.Write("tokenizer.model", "pieces");
  EXPECT_EQ(folder.Open()->tokenizer().kind, TokenizerSource::Kind::kSentencePiece);
  EXPECT_EQ(folder.Open()->tokenizer().bytes, "pieces");
  folder.Write("tokenizer.json", "{}");
  folder.Write("tokenizer_config.json", R"({"chat_template": "one"})");
  auto checkpoint = folder.Open();
  EXPECT_EQ(checkpoint->tokenizer().kind, TokenizerSource::Kind::kJson);
  EXPECT_EQ(checkpoint->tokenizer().bytes, "{}");
  EXPECT_EQ(checkpoint->tokenizer().config, R"({"chat_template": "one"})");
  ASSERT_EQ(checkpoint->chat_templates().size(), 1u);
  EXPECT_EQ(checkpoint->chat_templates()[0].text, "one");
  folder.Write("tokenizer_config.json",
               R"({"chat_template": [{"name": "default", "template": "a"},
                                     {"name": "rag", "template": "b"}]})");
  checkpoint = folder.Open();
  ASSERT_EQ(checkpoint->chat_templates().size(), 2u);
  EXPECT_EQ(checkpoint->chat_templates()[1].name, "rag");
  EXPECT_EQ(checkpoint->chat_templates()[1].text, "b");
  folder.Write("chat_template.jinja", "two\n");
  fs::create_directory(folder.path() / "additional_chat_templates");
  folder.Write("additional_chat_templates/tool_use.jinja", "three");
  checkpoint = folder.Open();
  ASSERT_EQ(checkpoint->chat_templates().size(), 2u);
  EXPECT_EQ(checkpoint->chat_templates()[0].text, "two\n");
  EXPECT_EQ(checkpoint->chat_templates()[1].name, "tool_use");
  EXPECT_EQ(checkpoint->chat_templates()[1].text, "three");
  folder.Write("chat_template.jinja", "\xff");
  folder.ExpectProblem("is not UTF-8");
}

TEST(HuggingFace, TemplatesOfTheConfigAreSound) {
  const HubFolder folder;
  folder.Write("tokenizer_config.json", R"({"chat_template": 7})");
  folder.ExpectProblem("'chat_template' should be");
  folder.Write("tokenizer_config.json", R"({"chat_template": [{"name": "x"}]})");
  folder.ExpectProblem("should be a text beside a name");
  folder.Write("tokenizer_config.json", "{");
  folder.ExpectProblem("tokenizer_config.json: no valid JSON");
}

TEST(HuggingFace, EndTokensComeFromTwoFiles) {
  const HubFolder folder;
  folder.Write("generation_config.json", R"({"eos_token_id": [5, 3, 5, 1000, -1]})");
  EXPECT_EQ(folder.Open()->end_tokens(), (std::vector<int32_t>{5, 3}));
  folder.Write("generation_config.json", "{}");
  EXPECT_EQ(folder.Open()->end_tokens(), std::vector<int32_t>{2});
  fs::remove(folder.path() / "generation_config.json");
  EXPECT_EQ(folder.Open()->end_tokens(), std::vector<int32_t>{2});
  folder.Write("generation_config.json", R"({"eos_token_id": "x"})");
  folder.ExpectProblem("a token or a list of tokens");
}

TEST(HuggingFace, WeightsMustBeThereAndFit) {
  const HubFolder folder;
  const std::string weights = FileBytes(folder.path() / "model.safetensors");
  Json config = json::Parse(FileBytes(folder.path() / "config.json"), "config");
  fs::remove(folder.path() / "model.safetensors");
  folder.ExpectProblem("neither model.safetensors nor", ErrorCode::kNotFound);
  folder.Write("model.safetensors", weights.substr(0, 1000));
  EXPECT_THROW(folder.Open(), Error);
  folder.Write("model.safetensors", weights);
  for (const auto& [key, message] :
       {std::pair{"hidden_size", "should be of"}, std::pair{"vocab_size", "should be of (41,32)"},
        std::pair{"intermediate_size", "should be of (25,32)"},
        std::pair{"num_hidden_layers", "'model.layers.2.self_attn.q_proj.weight' of"}}) {
    Json wrong = config;
    wrong[key] = wrong[key].get<int64_t>() + (key == std::string("hidden_size") ? 4 : 1);
    folder.Write("config.json", wrong.dump());
    folder.ExpectProblem(message);
  }
  Json fewer = config;
  fewer["num_hidden_layers"] = 1;
  folder.Write("config.json", fewer.dump());
  folder.ExpectProblem("has no place in a model of the family 'llama'", ErrorCode::kUnsupported);
  Json many = config;
  many["num_hidden_layers"] = 4000;
  folder.Write("config.json", many.dump());
  folder.ExpectProblem("too few for 4000 layers");
}

/// The bytes of a safetensors file, and where those of a tensor lie.
struct Weights {
  std::string bytes;

  Json header() const {
    uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof(size));
    return json::Parse(bytes.substr(sizeof(size), size), "header");
  }
  std::pair<size_t, size_t> Range(const std::string& name) const {
    uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof(size));
    const auto ends = header()[name]["data_offsets"].get<std::vector<size_t>>();
    return {sizeof(size) + size + ends[0], ends[1] - ends[0]};
  }
  /// The same with another name, of as many characters.
  Weights Renamed(const std::string& from, const std::string& to) const {
    Weights renamed = *this;
    renamed.bytes.replace(bytes.find('"' + from + '"'), from.size() + 2, '"' + to + '"');
    return renamed;
  }
};

TEST(HuggingFace, ATiedHeadThatIsAnotherCounts) {
  const HubFolder folder;
  Weights weights{FileBytes(folder.path() / "model.safetensors")};
  Json config = json::Parse(FileBytes(folder.path() / "config.json"), "config");
  config["tie_word_embeddings"] = true;
  folder.Write("config.json", config.dump());
  EXPECT_TRUE(folder.Open()->Has("lm_head.weight"));
  EXPECT_FALSE(folder.Open()->config().tied_head);
  const auto [head, size] = weights.Range("lm_head.weight");
  const size_t embeddings = weights.Range("model.embed_tokens.weight").first;
  weights.bytes.replace(head, size, weights.bytes, embeddings, size);
  folder.Write("model.safetensors", weights.bytes);
  EXPECT_FALSE(folder.Open()->Has("lm_head.weight"));
  EXPECT_TRUE(folder.Open()->config().tied_head);
  weights.bytes[head + size - 1] ^= 1;
  folder.Write("model.safetensors", weights.bytes);
  EXPECT_TRUE(folder.Open()->Has("lm_head.weight"));
}

TEST(HuggingFace, BiasesAreThoseOfTheConfig) {
  const HubFolder folder("qwen2");
  const Weights weights{FileBytes(folder.path() / "model.safetensors")};
  EXPECT_TRUE(folder.Open()->Has("model.layers.0.self_attn.q_proj.bias"));
  folder.Write("model.safetensors", weights
                                        .Renamed("model.layers.0.self_attn.q_proj.bias",
                                                 "model.layers.0.self_attn.o_proj.bias")
                                        .bytes);
  folder.ExpectProblem("'model.layers.0.self_attn.o_proj.bias' has no place in the model that",
                       ErrorCode::kUnsupported);
  folder.Write("model.safetensors", weights.bytes);
  Json config = json::Parse(FileBytes(folder.path() / "config.json"), "config");
  config["model_type"] = "llama";
  folder.Write("config.json", config.dump());
  folder.ExpectProblem("'model.layers.1.self_attn.v_proj.bias' has no place",
                       ErrorCode::kUnsupported);
  config["attention_bias"] = true;
  folder.Write("config.json", config.dump());
  EXPECT_TRUE(folder.Open()->Has("model.layers.1.self_attn.v_proj.bias"));
}

TEST(HuggingFace, TheIndexIsNotTrusted) {
  const HubFolder folder("mistral");
  const std::string name = "model.safetensors.index.json";
  const Json index = json::Parse(FileBytes(folder.path() / name), name);
  EXPECT_EQ(folder.Open()->config().family, "mistral");
  const auto expect = [&](const Json& file, std::string_view message,
                          ErrorCode code = ErrorCode::kInvalidModel) {
    Json wrong = index;
    wrong["weight_map"]["model.norm.weight"] = file;
    folder.Write(name, wrong.dump());
    folder.ExpectProblem(message, code);
  };
  for (const char* path : {"../secret", "/etc/passwd", "a/b.safetensors", "..", ".", "", "a\\b"}) {
    expect(path, "is not the name of a file");
  }
  expect(std::string("model\0", 6), "is not the name of a file");
  expect(7, "names of files");
  expect("none.safetensors", "cannot open", ErrorCode::kNotFound);
  expect("model-00001-of-00005.safetensors", "'model.norm.weight' should be in");
  folder.Write(name, "{}");
  folder.ExpectProblem("'weight_map' should be an object");
  folder.Write(name, R"({"weight_map": {}})");
  folder.ExpectProblem("too few for 2 layers");
}

TEST(HuggingFace, LinksDoNotLeadOut) {
  const HubFolder folder;
  const TemporaryFolder elsewhere;
  const fs::path weights = folder.path() / "model.safetensors";
  fs::rename(weights, elsewhere / "weights");
  fs::create_symlink(elsewhere / "weights", weights);
  folder.ExpectProblem("is a link out of the model's folder");
  fs::remove(weights);
  fs::rename(elsewhere / "weights", folder.path() / "real");
  fs::create_symlink("real", weights);
  EXPECT_EQ(folder.Open()->config().layers, 2);
}

TEST(HuggingFace, ReadsASnapshotOfTheHubsCache) {
  const TemporaryFolder cache;
  const fs::path blobs = cache / "blobs", snapshot = cache / "snapshots" / "abc";
  fs::create_directories(blobs);
  fs::create_directories(snapshot);
  for (const auto& entry : fs::directory_iterator(kHubModels / "llama")) {
    const std::string name = entry.path().filename().string();
    fs::copy_file(entry.path(), blobs / ("hash-" + name));
    fs::create_symlink("../../blobs/hash-" + name, snapshot / name);
  }
  EXPECT_EQ(Checkpoint::Open(snapshot)->config().layers, 2);
  fs::remove(snapshot / "config.json");
  fs::create_symlink(kHubModels / "llama" / "config.json", snapshot / "config.json");
  ExpectThrows([&] { Checkpoint::Open(snapshot); }, ErrorCode::kInvalidModel, "is a link out");
}

TEST(HuggingFace, FilesMayBeNoFiles) {
  const HubFolder folder;
  fs::create_directory(folder.path() / "tokenizer.json");
  folder.ExpectProblem("is a directory", ErrorCode::kIo);
}

}  // namespace
}  // namespace oort
