// SPDX-License-Identifier: MIT
// Tiny language models in fewer bits, from file to file.
#include "llm_quantize/quantize_language.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "llm/tiny_logits.h"
#include "llm_quantize/layer_stream.h"
#include "parser/gguf/gguf_writer.h"

namespace oort::llm_quantize {
namespace {

namespace fs = std::filesystem;
using oort::testing::ExpectThrows;
using oort::testing::TemporaryFolder;

const fs::path kTinyModels = TestData() / "checkpoints";

/// Tokens below 40, which all tiny models know.
std::vector<int32_t> TinyText(size_t count) {
  std::vector<int32_t> tokens;
  uint32_t state = 12345;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(static_cast<int32_t>(state >> 24) % 40);
  }
  return tokens;
}

LanguageQuantizeOptions TinyOptions(Method method, const std::string& weights) {
  LanguageQuantizeOptions options;
  options.method = method;
  options.weights = weights;
  options.tokens = TinyText(256);
  options.window = 32;
  options.threads = 2;
  return options;
}

double Distance(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, spread = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(static_cast<double>(got[i] - want[i]), 2);
    spread += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / spread);
}

std::string FileBytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool HasLapack() {
#ifdef OORT_NO_LAPACK
  return false;
#else
  return true;
#endif
}

/// What goes through a model stage by stage is what goes through it as a whole.
TEST(LayerStream, ComputesWhatTheModelComputes) {
  for (const char* name : {"llama.gguf", "qwen2", "qwen3", "gemma2", "phi3", "gpt2", "mistral"}) {
    SCOPED_TRACE(name);
    const auto checkpoint = Checkpoint::Open(kTinyModels / name);
    const std::vector<int32_t> tokens = {3, 17, 29, 5, 5, 38, 11, 0, 22, 31, 8, 14};
    LayerStream stream(*checkpoint, tokens, 12, 1, {});
    Tensor last;
    size_t visits = 0;
    stream.Run([&](std::span<const std::string>, Tensor& inputs) {
      last = inputs;
      ++visits;
    });
    const DecoderConfig& config = checkpoint->config();
    EXPECT_EQ(visits, static_cast<size_t>(4 * config.layers + 1));
    const StoredMatrix head =
        checkpoint->Matrix(config.tied_head ? "model.embed_tokens.weight" : "lm_head.weight");
    std::vector<float> weights(static_cast<size_t>(head.rows * head.columns)), logits;
    ReadRows(head, 0, head.rows, weights.data());
    for (int64_t row = 0; row < 12; ++row) {
      for (int64_t token = 0; token < head.rows; ++token) {
        double sum = 0;
        for (int64_t k = 0; k < head.columns; ++k) {
          sum += static_cast<double>(last.data<float>()[row * head.columns + k]) *
                 static_cast<double>(weights[static_cast<size_t>(token * head.columns + k)]);
        }
        if (config.final_softcap > 0) {
          const auto cap = static_cast<double>(config.final_softcap);
          sum = cap * std::tanh(sum / cap);
        }
        logits.push_back(static_cast<float>(sum));
      }
    }
    EXPECT_LT(Distance(logits, TinyLogits(kTinyModels / name)), 1e-5);
  }
}

TEST(QuantizeLanguage, WritesAGgufThatIsTheSameModel) {
  const TemporaryFolder folder;
  for (const char* name : {"llama.gguf", "qwen2.gguf", "phi3.gguf", "gemma2.gguf", "gpt2.gguf"}) {
    for (const char* weights : {"q8_0", "q5_1", "q4_0"}) {
      SCOPED_TRACE(std::string(name) + " " + weights);
      const fs::path out = folder / "out.gguf";
      const auto result =
          QuantizeLanguage(kTinyModels / name, out, TinyOptions(Method::kImportance, weights));
      EXPECT_GT(result.matrices.size(), 4U);
      const double error = Distance(TinyLogits(out), TinyLogits(kTinyModels / name));
      EXPECT_LT(error, std::string_view(weights) == "q8_0" ? 0.05 : 0.5);
      EXPECT_GT(error, 0);
      // What is said of the model, and its tokenizer, are still there.
      const auto before = gguf::ReadFiles(kTinyModels / name), after = gguf::ReadFiles(out);
      EXPECT_EQ(after[0].tensors.size(), before[0].tensors.size());
      for (const gguf::RawPair& pair : before[0].metadata.pairs()) {
        if (pair.key == "general.file_type" || pair.key == "general.quantization_version") continue;
        EXPECT_TRUE(after[0].metadata.Has(pair.key)) << pair.key;
      }
    }
  }
}

TEST(QuantizeLanguage, WritesAParamThatIsTheSameModel) {
  const TemporaryFolder folder;
  for (const char* name : {"llama", "qwen3", "gemma", "gpt2", "llama2c_v0.bin"}) {
    for (const Method method :
         {Method::kSearch, Method::kImportance, Method::kGptq, Method::kAwq}) {
      if (method == Method::kGptq && !HasLapack()) continue;
      SCOPED_TRACE(std::string(name) + " " + std::string(Name(method)));
      const fs::path out = folder / "out.pnnx.param";
      LanguageQuantizeOptions options = TinyOptions(method, "int8");
      QuantizeLanguage(kTinyModels / name, out, options);
      const double error = Distance(TinyLogits(out), TinyLogits(kTinyModels / name));
      EXPECT_LT(error, 0.05);
      EXPECT_GT(error, 0);
    }
  }
}

TEST(QuantizeLanguage, GivesTheSameBytesAgain) {
  if (!HasLapack()) GTEST_SKIP() << "built without LAPACK";
  const TemporaryFolder folder;
  for (const Method method : {Method::kImportance, Method::kGptq, Method::kAwq}) {
    LanguageQuantizeOptions options = TinyOptions(method, "q4_1");
    QuantizeLanguage(kTinyModels / "llama.gguf", folder / "a.gguf", options);
    options.threads = 1;
    QuantizeLanguage(kTinyModels / "llama.gguf", folder / "b.gguf", options);
    EXPECT_EQ(FileBytes(folder / "a.gguf"), FileBytes(folder / "b.gguf"));
  }
}

/// A run that was stopped goes on with what it has, and ends with the same bytes.
TEST(QuantizeLanguage, GoesOnWhereItWasStopped) {
  if (!HasLapack()) GTEST_SKIP() << "built without LAPACK";
  const TemporaryFolder folder;
  const fs::path model = kTinyModels / "llama.gguf", out = folder / "b.gguf";
  LanguageQuantizeOptions options = TinyOptions(Method::kGptq, "q4_1");
  QuantizeLanguage(model, folder / "a.gguf", options);
  options.resume = true;
  std::stop_source stop;
  options.stop = stop.get_token();
  int done = 0;
  options.progress = [&](const Progress&) {
    if (++done == 6) stop.request_stop();
  };
  ExpectThrows([&] { QuantizeLanguage(model, out, options); }, ErrorCode::kCancelled, "");
  EXPECT_FALSE(fs::exists(out));
  EXPECT_TRUE(fs::exists(folder / "b.gguf.partial"));
  options.stop = {};
  LanguageQuantizeOptions other = options;
  other.damping = 0.5;
  ExpectThrows([&] { QuantizeLanguage(model, out, other); }, ErrorCode::kInvalidArgument,
               "was begun with another model");
  options.progress = {};
  const auto result = QuantizeLanguage(model, out, options);
  const auto resumed = std::ranges::count_if(
      result.matrices, [](const MatrixReport& matrix) { return matrix.resumed; });
  EXPECT_EQ(resumed, 6);
  EXPECT_EQ(FileBytes(folder / "a.gguf"), FileBytes(out));
  EXPECT_FALSE(fs::exists(folder / "b.gguf.partial"));
  options.method = Method::kAwq;
  ExpectThrows([&] { QuantizeLanguage(model, out, options); }, ErrorCode::kInvalidArgument,
               "cannot go on later");
}

/// Factors move from norms into matrices, whose types stay; being powers of two, they change no
/// digit of either.
TEST(QuantizeLanguage, SmoothLeavesTheModelWhatItIs) {
  const TemporaryFolder folder;
  for (const char* name : {"llama", "qwen3", "gemma", "gpt2", "llama.gguf"}) {
    SCOPED_TRACE(name);
    const bool is_gguf = std::string_view(name).ends_with(".gguf");
    const fs::path out = folder / (is_gguf ? "out.gguf" : "out.pnnx.param");
    const auto result = QuantizeLanguage(kTinyModels / name, out, TinyOptions(Method::kSmooth, ""));
    for (const MatrixReport& matrix : result.matrices) EXPECT_TRUE(matrix.kept) << matrix.name;
    EXPECT_LT(Distance(TinyLogits(out), TinyLogits(kTinyModels / name)), 1e-6);
  }
  const auto refuse = [&](const char* model, LanguageQuantizeOptions options, const char* says) {
    ExpectThrows(
        [&] { QuantizeLanguage(kTinyModels / model, folder / "other.pnnx.param", options); },
        std::string_view(model) == "llama" ? ErrorCode::kInvalidArgument : ErrorCode::kUnsupported,
        says);
  };
  LanguageQuantizeOptions options = TinyOptions(Method::kSmooth, "");
  options.group = 32;
  refuse("llama", options, "smooth rounds nothing");
  options = TinyOptions(Method::kSmooth, "");
  options.resume = true;
  refuse("llama", options, "cannot go on later");
  options = TinyOptions(Method::kSmooth, "");
  options.tokens.clear();
  refuse("llama", options, "needs a text");
  QuantizeLanguage(kTinyModels / "llama.gguf", folder / "q8.gguf",
                   TinyOptions(Method::kSearch, "q8_0"));
  ExpectThrows(
      [&] {
        QuantizeLanguage(folder / "q8.gguf", folder / "other.gguf",
                         TinyOptions(Method::kSmooth, ""));
      },
      ErrorCode::kUnsupported, "smooth scales weights of 16 and 32 bits");
}

/// What the storyteller's gates give has some large columns.
TEST(QuantizeLanguage, SmoothMovesFactorsFromUpToDown) {
  const TemporaryFolder folder;
  const fs::path model = SourceTree() / "models" / "storyteller", out = folder / "out.gguf";
  LanguageQuantizeOptions options = TinyOptions(Method::kSmooth, "");
  options.tokens = EncodeText(
      model,
      "Once upon a time a fox met a dog. They played in the snow until it was dark. The dog "
      "was happy, and the fox said that it would come again the next day.");
  QuantizeLanguage(model, out, options);
  EXPECT_LT(Distance(TinyLogits(out), TinyLogits(model)), 1e-6);
  const auto before = Checkpoint::Open(model), after = Checkpoint::Open(out);
  int changed = 0;
  for (int64_t layer = 0; layer < before->config().layers; ++layer) {
    const std::string mlp = "model.layers." + std::to_string(layer) + ".mlp.";
    const auto row_of = [&](const Checkpoint& checkpoint, const char* name, int64_t row) {
      const StoredMatrix matrix = checkpoint.Matrix(mlp + name);
      std::vector<float> values(static_cast<size_t>(matrix.columns));
      ReadRows(matrix, row, row + 1, values.data());
      return values;
    };
    const std::vector<float> was = row_of(*before, "down_proj.weight", 0);
    const std::vector<float> is = row_of(*after, "down_proj.weight", 0);
    for (size_t k = 0; k < was.size(); ++k) {
      if (was[k] == is[k]) continue;
      ++changed;
      int exponent = 0;
      const float factor = is[k] / was[k];
      EXPECT_EQ(std::frexp(factor, &exponent), 0.5F) << factor;
      const auto row = static_cast<int64_t>(k);
      const float up = row_of(*before, "up_proj.weight", row)[0];
      const float scaled = row_of(*after, "up_proj.weight", row)[0];
      EXPECT_EQ(std::frexp(up / scaled / factor, &exponent), 0.5F);  // the norm's factor besides
    }
  }
  EXPECT_GT(changed, 0);
}

TEST(QuantizeLanguage, ImportanceGoesThroughItsFile) {
  const TemporaryFolder folder;
  const fs::path model = kTinyModels / "llama.gguf";
  const LanguageQuantizeOptions options = TinyOptions(Method::kImportance, "q4_0");
  const auto result = QuantizeLanguage(model, folder / "a.gguf", options);
  const std::vector<std::string> datasets = {"text.txt"};
  WriteImportance(result.importance, datasets, options.window, folder / "im.gguf");
  LanguageQuantizeOptions again = options;
  again.tokens.clear();
  const DecoderConfig config = Checkpoint::Open(model)->config();
  again.importance = ReadImportance(folder / "im.gguf", config);
  EXPECT_EQ(again.importance->size(), result.importance.size());
  for (const auto& [name, columns] : result.importance) {
    ASSERT_TRUE(again.importance->contains(name)) << name;
    const ColumnImportance& read = again.importance->at(name);
    EXPECT_EQ(read.tokens, columns.tokens);
    for (size_t k = 0; k < columns.mean_squares.size(); ++k) {
      EXPECT_FLOAT_EQ(read.mean_squares[k], columns.mean_squares[k]);
    }
  }
  QuantizeLanguage(model, folder / "b.gguf", again);
  EXPECT_LT(Distance(TinyLogits(folder / "b.gguf"), TinyLogits(folder / "a.gguf")), 0.05);
  EXPECT_EQ(MeasureImportance(model, options).size(), result.importance.size());
  // Of another model, and no imatrix at all.
  ExpectThrows(
      [&] {
        DecoderConfig other = config;
        other.hidden *= 2;
        ReadImportance(folder / "im.gguf", other);
      },
      ErrorCode::kInvalidModel, "columns there, but");
  ExpectThrows([&] { ReadImportance(model, config); }, ErrorCode::kInvalidModel, "no imatrix");
}

TEST(QuantizeLanguage, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const fs::path model = kTinyModels / "llama.gguf", out = folder / "out.gguf";
  const auto expect = [&](LanguageQuantizeOptions options, ErrorCode code, std::string_view text,
                          const fs::path& from, const fs::path& to) {
    ExpectThrows([&] { QuantizeLanguage(from, to, options); }, code, text);
    EXPECT_FALSE(fs::exists(to));
  };
  const auto bad = ErrorCode::kInvalidArgument;
  LanguageQuantizeOptions options = TinyOptions(Method::kImportance, "q4_0");
  options.tokens.resize(31);
  expect(options, bad, "less than one window of 32", model, out);
  options.tokens = std::vector<int32_t>(64, 1000000);
  expect(options, bad, "the model knows", model, out);
  options.tokens.clear();
  expect(options, bad, "needs a text", model, out);
  expect(TinyOptions(Method::kSearch, "q3_k"), bad, "weights can be int4", model, out);
  expect(TinyOptions(Method::kSearch, "int3"), bad, "weights can be int4", model, out);
  options = TinyOptions(Method::kSearch, "int4");
  options.group = 64;
  expect(options, bad, "groups of a GGUF have 32 weights", model, out);
  options.group = 48;
  expect(options, bad, "no whole groups of 48", model, folder / "out.pnnx.param");
  options = TinyOptions(Method::kSearch, "q4_0");
  options.asymmetric = true;
  expect(options, bad, "q4_0 has its own", model, out);
  expect(TinyOptions(Method::kSearch, "q4_0"), ErrorCode::kUnsupported,
         "written of a GGUF or of a folder", kTinyModels / "llama2c_v0.bin", out);
  for (const char* other : {"mixtral", "mamba2", "bamba", "gemma3n_text"}) {
    expect(TinyOptions(Method::kSearch, "int4"), ErrorCode::kUnsupported, "layers with a state",
           kTinyModels / other, folder / "out.pnnx.param");
  }
  expect(TinyOptions(Method::kSearch, "q4_0"), bad, "ends in .gguf or .pnnx.param", model,
         folder / "out.bin");
  ExpectThrows([&] { QuantizeLanguage(model, model, TinyOptions(Method::kSearch, "q4_0")); }, bad,
               "overwrite the model");
  ExpectThrows([] { MethodNamed("magic"); }, bad,
               "there are search, imatrix, gptq, awq and smooth");
}

}  // namespace
}  // namespace oort::llm_quantize
