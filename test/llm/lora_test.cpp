// SPDX-License-Identifier: MIT
// LoRA adapters, held against a model whose weights have the adapter merged in.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "cuda/device.h"
#include "kit/errors.h"
#include "kit/files.h"
#include "kit/gguf_builder.h"
#include "kit/paths.h"
#include "kit/peft_adapter.h"
#include "llm/decoder_runner.h"
#include "oort/engine.h"
#include "parser/adapter/adapter.h"
#include "parser/safetensors/safetensors.h"
#include "text/json.h"

namespace oort {
namespace {

using testing::ExpectThrows;
using testing::Matrices;
using testing::Matrix;
using testing::RandomMatrix;
using testing::SafetensorsOf;
using testing::TemporaryFolder;
using testing::WritePeft;

const std::filesystem::path kLoraModels = TestData() / "checkpoints";
constexpr int64_t kRank = 3;
constexpr float kAlpha = 6;
constexpr int64_t kVocabulary = 40;

/// The tensors of the tiny llama, which are all f32; vectors count as one row.
Matrices ReadModel(std::map<std::string, bool>& vectors) {
  const auto source = ByteSource::File(kLoraModels / "llama/model.safetensors");
  Matrices matrices;
  for (const safetensors::Entry& entry : safetensors::ReadHeader(*source)) {
    const bool vector = entry.shape.size() == 1;
    Matrix& matrix = matrices[entry.name];
    matrix.rows = vector ? 1 : entry.shape[0];
    matrix.columns = entry.shape.back();
    matrix.values.resize(static_cast<size_t>(matrix.rows * matrix.columns));
    source->ReadAt(entry.offset, std::as_writable_bytes(std::span(matrix.values)));
    if (vector) vectors[entry.name] = true;
  }
  return matrices;
}

bool IsTarget(const std::string& name) { return name.ends_with("_proj.weight"); }

/// Of every weight that an adapter can change, by the name without ".weight".
std::map<std::string, std::pair<Matrix, Matrix>> RandomAdapter(unsigned seed) {
  std::mt19937 random(seed);
  std::map<std::string, bool> vectors;
  std::map<std::string, std::pair<Matrix, Matrix>> adapter;
  for (const auto& [name, weight] : ReadModel(vectors)) {
    if (!IsTarget(name)) continue;
    adapter[name.substr(0, name.size() - 7)] = {RandomMatrix(kRank, weight.columns, random),
                                                RandomMatrix(weight.rows, kRank, random)};
  }
  return adapter;
}

Matrices PeftTensors(unsigned seed) {
  Matrices tensors;
  for (const auto& [name, halves] : RandomAdapter(seed)) {
    tensors["base_model.model." + name + ".lora_A.weight"] = halves.first;
    tensors["base_model.model." + name + ".lora_B.weight"] = halves.second;
  }
  return tensors;
}

json::Json PeftConfig() { return testing::PeftConfig(kRank, kAlpha); }

/// The tiny llama with W + alpha / rank * B A.
void WriteMerged(const std::filesystem::path& folder, unsigned seed) {
  std::map<std::string, bool> vectors;
  Matrices model = ReadModel(vectors);
  for (const auto& [name, halves] : RandomAdapter(seed)) {
    const auto& [down, up] = halves;
    Matrix& weight = model.at(name + ".weight");
    for (int64_t row = 0; row < weight.rows; ++row) {
      for (int64_t column = 0; column < weight.columns; ++column) {
        double sum = 0;
        for (int64_t r = 0; r < kRank; ++r) {
          sum += static_cast<double>(up.values[static_cast<size_t>(row * kRank + r)]) *
                 down.values[static_cast<size_t>(r * weight.columns + column)];
        }
        weight.values[static_cast<size_t>(row * weight.columns + column)] +=
            static_cast<float>(sum * kAlpha / kRank);
      }
    }
  }
  std::filesystem::create_directories(folder);
  std::filesystem::copy(kLoraModels / "llama/config.json", folder / "config.json");
  testing::WriteFile(folder / "model.safetensors", SafetensorsOf(model, vectors));
}

/// Folders "a" and "b": two adapters of other numbers.
struct Adapters {
  Adapters() {
    WritePeft(folder / "a", PeftTensors(1), PeftConfig());
    WritePeft(folder / "b", PeftTensors(2), PeftConfig());
  }
  std::shared_ptr<const LanguageModel> Load(bool exact = true) const {
    return LanguageModel::Load(
        kLoraModels / "llama",
        {.adapters = {{"a", folder / "a"}, {"b", folder / "b"}}, .exact = exact});
  }
  TemporaryFolder folder;
};

const std::vector<int32_t> kPrompt = {3, 17, 29, 5, 11, 8, 23};

/// Logits of every token of the prompt, read in steps of so many.
std::vector<float> Logits(const std::shared_ptr<const LanguageModel>& model, int32_t adapter,
                          size_t step) {
  DecoderRunner runner(model, KvType::kF32, 64, 1);
  CachedSequence sequence;
  sequence.adapter = adapter;
  std::vector<float> all;
  for (size_t at = 0; at < kPrompt.size(); at += step) {
    const size_t count = std::min(step, kPrompt.size() - at);
    const StepItem item{&sequence, std::span(kPrompt).subspan(at, count), StepItem::kAll,
                        static_cast<int64_t>(kPrompt.size())};
    const std::span<const float> logits = runner.Step({&item, 1});
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

void ExpectClose(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 1e-3 + 1e-4 * std::abs(want[i])) << i;
  }
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(double{a[i]} - b[i]));
  return most;
}

TEST(Lora, ComputesAsMergedWeightsDo) {
  const Adapters adapters;
  const auto model = adapters.Load();
  EXPECT_EQ(model->adapters(), (std::vector<std::string>{"a", "b"}));
  const auto base = LanguageModel::Load(kLoraModels / "llama", {.exact = true});
  const std::vector<float> plain = Logits(base, -1, 3);
  ASSERT_EQ(plain.size(), kPrompt.size() * kVocabulary);
  for (const unsigned seed : {1u, 2u}) {
    const TemporaryFolder folder;
    WriteMerged(folder / "merged", seed);
    const auto merged = LanguageModel::Load(folder / "merged", {.exact = true});
    for (const size_t step : {size_t{1}, size_t{3}, kPrompt.size()}) {
      const std::vector<float> want = Logits(merged, -1, step);
      EXPECT_GT(Distance(want, plain), 0.5);  // the adapter does something
      ExpectClose(Logits(model, static_cast<int32_t>(seed) - 1, step), want);
    }
  }
  ExpectClose(Logits(model, -1, 3), plain);
}

/// The same matrices as a GGUF has them: rows of queries and keys in pairs.
std::string GgufAdapter(unsigned seed) {
  const std::map<std::string, std::pair<std::string, int64_t>> names = {
      {"self_attn.q_proj", {"attn_q", 4}}, {"self_attn.k_proj", {"attn_k", 2}},
      {"self_attn.v_proj", {"attn_v", 0}}, {"self_attn.o_proj", {"attn_output", 0}},
      {"mlp.gate_proj", {"ffn_gate", 0}},  {"mlp.up_proj", {"ffn_up", 0}},
      {"mlp.down_proj", {"ffn_down", 0}}};
  testing::GgufSpec spec;
  spec.pairs = {testing::GgufText("general.type", "adapter"),
                testing::GgufText("general.architecture", "llama"),
                testing::GgufText("adapter.type", "lora"),
                testing::GgufF32("adapter.lora.alpha", kAlpha)};
  for (const auto& [name, halves] : RandomAdapter(seed)) {
    const std::string layer = name.substr(13, 1);  // "model.layers.0.…"
    const auto& [theirs, heads] = names.at(name.substr(15));
    Matrix up = halves.second;
    const int64_t size = heads > 0 ? up.rows / heads : 0;
    for (int64_t row = 0; heads > 0 && row < up.rows; ++row) {
      const int64_t head = row / size, place = row % size;
      const int64_t from = head * size + place / 2 + (place % 2) * size / 2;
      for (int64_t r = 0; r < kRank; ++r) {
        up.values[static_cast<size_t>(row * kRank + r)] =
            halves.second.values[static_cast<size_t>(from * kRank + r)];
      }
    }
    const std::string full = "blk." + layer + "." + theirs + ".weight.lora_";
    spec.tensors.push_back({full + "a", {halves.first.columns, kRank}, 0, halves.first.bytes()});
    spec.tensors.push_back({full + "b", {kRank, up.rows}, 0, up.bytes()});
  }
  return testing::BuildGguf(spec);
}

TEST(Lora, AdaptersOfGgufAreTheSame) {
  const Adapters adapters;
  testing::WriteFile(adapters.folder / "a.gguf", GgufAdapter(1));
  const auto model = LanguageModel::Load(
      kLoraModels / "llama.gguf", {.adapters = {{"a", adapters.folder / "a.gguf"}}, .exact = true});
  ExpectClose(Logits(model, 0, 3), Logits(adapters.Load(), 0, 3));
}

GenerateRequest LoraRequest(const std::string& adapter, int32_t first) {
  GenerateRequest request;
  request.prompt = kPrompt;
  request.prompt[0] = first;
  request.max_tokens = 12;
  request.ignore_end = true;
  request.sampling.top_logprobs = 3;
  request.adapter = adapter;
  return request;
}

TEST(Lora, ARowIsTheSameBesideOthers) {
  const Adapters adapters;
  for (const bool exact : {true, false}) {
    const auto model = adapters.Load(exact);
    std::vector<GenerateResult> alone;
    const std::vector<std::pair<std::string, int32_t>> cases = {
        {"", 3}, {"a", 3}, {"b", 3}, {"a", 7}, {"", 9}};
    for (const auto& [adapter, first] : cases) {
      Engine engine(model, {.threads = 1});
      alone.push_back(engine.Generate(LoraRequest(adapter, first)));
    }
    EXPECT_NE(alone[0].tokens, alone[1].tokens);
    EXPECT_NE(alone[1].tokens, alone[2].tokens);
    Engine engine(model, {.threads = 1, .cache_tokens = 512});
    std::vector<int64_t> ids;
    for (const auto& [adapter, first] : cases)
      ids.push_back(engine.Submit(LoraRequest(adapter, first)));
    while (engine.Step()) {
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      const GenerateResult result = engine.Take(ids[i]).value();
      EXPECT_EQ(result.tokens, alone[i].tokens) << i;
      EXPECT_EQ(result.logprobs, alone[i].logprobs) << i;
    }
  }
}

TEST(Lora, PrefixesAreOfOneAdapter) {
  const Adapters adapters;
  Engine engine(adapters.Load(), {.threads = 1, .cache_tokens = 512, .reuse_prefixes = true});
  const auto ask = [&](const std::string& adapter) {
    GenerateRequest request = LoraRequest(adapter, 3);
    for (int32_t i = 0; i < 33; ++i) request.prompt.push_back(i);
    request.max_tokens = 4;
    return engine.Generate(std::move(request));
  };
  const GenerateResult plain = ask(""), first = ask("a"), other = ask("b");
  EXPECT_EQ(first.reused_tokens, 0);
  EXPECT_EQ(other.reused_tokens, 0);
  const GenerateResult again = ask("a");
  EXPECT_GT(again.reused_tokens, 0);
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_GT(ask("").reused_tokens, 0);
}

TEST(Lora, AnswersOfOneRequestKeepTheAdapter) {
  const Adapters adapters;
  const auto model = adapters.Load();
  Engine engine(model, {.threads = 1});
  GenerateRequest request = LoraRequest("a", 3);
  request.sampling.temperature = 1;
  request.sampling.seed = 5;
  GenerateRequest second = request;
  second.sampling.seed = 6;
  request.n = 2;
  const GenerateResult both = engine.Generate(request);
  EXPECT_EQ(both.others.at(0).tokens, engine.Generate(second).tokens);
}

TEST(Lora, RefusesWhatItCannotApply) {
  const Adapters adapters;
  const auto load = [&](const Matrices& tensors, const json::Json& config = PeftConfig()) {
    WritePeft(adapters.folder / "bad", tensors, config);
    LanguageModel::Load(kLoraModels / "llama", {.adapters = {{"bad", adapters.folder / "bad"}}});
  };
  const Matrices good = PeftTensors(1);
  const auto with = [](const std::string& key, const json::Json& value) {
    json::Json config = PeftConfig();
    config[key] = value;
    return config;
  };
  const std::string name = "base_model.model.model.layers.0.mlp.up_proj.lora_";
  ExpectThrows([&] { load(good, with("use_dora", true)); }, ErrorCode::kUnsupported, "use_dora");
  ExpectThrows([&] { load(good, with("bias", "all")); }, ErrorCode::kUnsupported, "biases");
  ExpectThrows([&] { load(good, with("peft_type", "IA3")); }, ErrorCode::kUnsupported, "IA3");
  ExpectThrows([&] { load(good, with("modules_to_save", {"lm_head"})); }, ErrorCode::kUnsupported,
               "modules_to_save");
  ExpectThrows(
      [&] {
        load(good, with("alpha_pattern", {{"q_proj", 2}}));
      },
      ErrorCode::kUnsupported, "alpha_pattern");
  ExpectThrows([&] { load(good, with("lora_alpha", 1e300)); }, ErrorCode::kInvalidModel, "finite");
  ExpectThrows([&] { load(good, with("r", kRank + 1)); }, ErrorCode::kInvalidModel,
               "says the rank 4");
  EXPECT_NO_THROW(load(good, with("rank_pattern", {{"q_proj", kRank}})));
  ExpectThrows([&] { load({}); }, ErrorCode::kInvalidModel, "no weight");
  Matrices tensors = good;
  tensors.erase(name + "A.weight");
  ExpectThrows([&] { load(tensors); }, ErrorCode::kInvalidModel, "one of two");
  tensors = good;
  tensors[name + "A.weight"] = {2, 32, std::vector<float>(64)};
  ExpectThrows([&] { load(tensors); }, ErrorCode::kInvalidModel, "no rank in common");
  tensors[name + "A.weight"] = {kRank, 8, std::vector<float>(kRank * 8)};
  ExpectThrows([&] { load(tensors); }, ErrorCode::kInvalidModel, "another model");
  tensors = good;
  tensors["base_model.model.lm_head.lora_A.weight"] = {kRank, 32, std::vector<float>(kRank * 32)};
  tensors["base_model.model.lm_head.lora_B.weight"] = {40, kRank, std::vector<float>(kRank * 40)};
  ExpectThrows([&] { load(tensors); }, ErrorCode::kInvalidModel, "cannot change");
  tensors = good;
  tensors[name + "A.weight"] = {5000, 32, std::vector<float>(5000 * 32)};
  tensors[name + "B.weight"] = {24, 5000, std::vector<float>(5000 * 24)};
  ExpectThrows([&] { load(tensors); }, ErrorCode::kUnsupported, "the rank 5000");
  tensors = good;
  tensors["base_model.model.model.norm.weight"] = {1, 32, std::vector<float>(32)};
  ExpectThrows([&] { load(tensors); }, ErrorCode::kUnsupported, "no LoRA matrix");
  // A GGUF has its weights in another order.
  ExpectThrows(
      [&] {
        LanguageModel::Load(kLoraModels / "llama.gguf",
                            {.adapters = {{"a", adapters.folder / "a"}}});
      },
      ErrorCode::kUnsupported, "same kind");
  ExpectThrows(
      [&] {
        LanguageModel::Load(kLoraModels / "llama",
                            {.adapters = {{"x", kLoraModels / "llama.gguf"}}});
      },
      ErrorCode::kInvalidModel, "not a LoRA adapter");
  ExpectThrows(
      [&] {
        LanguageModel::Load(kLoraModels / "llama", {.adapters = {{"a", adapters.folder / "a"},
                                                                 {"a", adapters.folder / "b"}}});
      },
      ErrorCode::kInvalidArgument, "names of their own");
  Engine engine(adapters.Load());
  ExpectThrows([&] { engine.Submit(LoraRequest("c", 3)); }, ErrorCode::kInvalidArgument,
               "no adapter");
}

TEST(Lora, RefusesFilesThatEndTooEarly) {
  const auto memory = [](const std::string& bytes) {
    return ByteSource::Memory(std::as_bytes(std::span(bytes)));
  };
  const std::string config = PeftConfig().dump(), weights = SafetensorsOf(PeftTensors(1)),
                    gguf = GgufAdapter(1);
  EXPECT_EQ(ReadPeftAdapter(config, *memory(weights)).weights.size(), 14u);
  EXPECT_EQ(ReadGgufAdapter(memory(gguf)).weights.size(), 14u);
  for (size_t size = 0; size < weights.size(); size += 1 + size / 16) {
    const std::string part = weights.substr(0, size);
    EXPECT_THROW(ReadPeftAdapter(config, *memory(part)), Error) << size;
  }
  for (size_t size = 0; size < gguf.size(); size += 1 + size / 16) {
    const std::string part = gguf.substr(0, size);
    EXPECT_THROW(ReadGgufAdapter(memory(part)), Error) << size;
  }
  for (size_t size = 0; size < config.size(); ++size) {
    EXPECT_THROW(ReadPeftAdapter(config.substr(0, size), *memory(weights)), Error) << size;
  }
}

/// In 16 bits, which is what a GPU makes of f32.
std::shared_ptr<const LanguageModel> LoadHalf(const Adapters& adapters, Device device) {
  LanguageModelOptions options;
  options.adapters = {{"a", adapters.folder / "a"}, {"b", adapters.folder / "b"}};
  options.weights = "f16";
  options.exact = true;
  options.device = device;
  return LanguageModel::Load(kLoraModels / "llama", options);
}

TEST(Lora, OnAGpuAsOnTheCpu) {
  std::string reason;
  if (cuda::Devices(&reason).empty()) GTEST_SKIP() << reason;
  const Adapters adapters;
  const auto model = LoadHalf(adapters, Device::Cuda(0));
  const auto host = LoadHalf(adapters, Device::Cpu());
  for (const int32_t adapter : {-1, 0, 1}) {
    // Single tokens are recorded at the second step and replayed.
    for (const size_t step : {size_t{1}, size_t{3}, kPrompt.size()}) {
      SCOPED_TRACE(std::to_string(adapter) + " in steps of " + std::to_string(step));
      ExpectClose(Logits(model, adapter, step), Logits(host, adapter, step));
    }
  }
}

TEST(Lora, OnAGpuARowIsTheSameBesideOthers) {
  std::string reason;
  if (cuda::Devices(&reason).empty()) GTEST_SKIP() << reason;
  const Adapters adapters;
  const auto model = LoadHalf(adapters, Device::Cuda(0));
  std::vector<GenerateRequest> requests;
  for (const char* adapter : {"a", "", "b", "a", "b", ""}) {
    requests.push_back(LoraRequest(adapter, static_cast<int32_t>(3 + requests.size())));
  }
  Engine together(model, {.cache_tokens = 512, .deterministic = true});
  std::vector<int64_t> ids;
  for (const GenerateRequest& request : requests) {
    ids.push_back(together.Submit(request));
    together.Step();  // adapters of a step are others each time
  }
  while (together.Step()) {
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    Engine alone(model, {.deterministic = true});
    EXPECT_EQ(together.Take(ids[i]).value().tokens, alone.Generate(requests[i]).tokens) << i;
  }
}

}  // namespace
}  // namespace oort
