// SPDX-License-Identifier: MIT
// Guesses of heads: where they come from, and what becomes of folders that are none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "kit/errors.h"
#include "llm/decoder_runner.h"
#include "llm/heads_drafter.h"
#include "llm/memory_needs.h"
#include "llm/speculation/tiny_heads.h"
#include "oort/engine.h"
#include "parser/checkpoint/checkpoint.h"
#include "parser/huggingface/draft_heads.h"

namespace oort {
namespace {

using testing::ExpectThrows;
using testing::LoadWithHeads;
using testing::Matrix;
using testing::TemporaryFolder;
using testing::TinyHeads;

const std::filesystem::path kHeadModels = TestData() / "checkpoints";
const std::filesystem::path kTeller = SourceTree() / "models" / "storyteller";
const DraftOptions kFourHeads = {.source = DraftOptions::kHeads, .model = nullptr, .tokens = 4};

/// W x, and the bias where there is one.
std::vector<float> Product(const Matrix& weight, const std::vector<float>& x) {
  std::vector<float> y(static_cast<size_t>(weight.rows));
  for (size_t row = 0; row < y.size(); ++row) {
    for (size_t i = 0; i < x.size(); ++i) y[row] += weight.values[row * x.size() + i] * x[i];
  }
  return y;
}

/// What head `index` says of x, as it is written down in the paper.
std::vector<float> LogitsOf(const TinyHeads& heads, int64_t index, int64_t layers,
                            std::vector<float> x) {
  const std::string head = std::to_string(index) + ".";
  for (int64_t j = 0; j < layers; ++j) {
    const std::string linear = head + std::to_string(j) + ".linear.";
    const std::vector<float> z = Product(heads.tensors.at(linear + "weight"), x);
    const std::vector<float>& bias = heads.tensors.at(linear + "bias").values;
    for (size_t i = 0; i < x.size(); ++i) {
      const float sum = z[i] + bias[i];
      x[i] += sum / (1 + std::exp(-sum));
    }
  }
  return Product(heads.tensors.at(head + std::to_string(layers) + ".weight"), x);
}

int32_t ArgmaxOf(const std::vector<float>& values) {
  return static_cast<int32_t>(std::ranges::max_element(values) - values.begin());
}

TEST(HeadsDrafter, GuessesWhatItsHeadsSay) {
  for (const int64_t layers : {1, 2}) {
    const LanguageModelInfo info = LanguageModel::Load(kHeadModels / "llama")->info();
    const TinyHeads heads(4, layers, info.hidden, info.vocabulary, 11);
    const TemporaryFolder folder;
    heads.Write(folder.path());
    LanguageModelOptions options;
    options.exact = true;
    options.draft_heads = folder.path();
    const auto model = LanguageModel::Load(kHeadModels / "llama", options);
    EXPECT_EQ(model->info().draft_heads, 4);
    HeadsDrafter drafter(model, 1);
    EXPECT_EQ(drafter.most(), 4);
    std::mt19937 random(3);
    const Matrix states = testing::RandomMatrix(3, info.hidden, random);
    const auto state = [&](size_t row) {
      const auto begin = states.values.begin() + static_cast<std::ptrdiff_t>(row) * info.hidden;
      return std::vector<float>(begin, begin + info.hidden);
    };
    const std::vector<int32_t> tokens = {1, 2, 3};
    const Sampler sampler;
    std::vector<std::vector<float>> rows;
    for (size_t row = 0; row < 3; ++row) rows.push_back(state(row));
    rows.insert(rows.begin() + 1, std::vector<float>());  // who has no state gets no guess
    std::vector<DraftAsk> asks;
    const int64_t most[] = {4, 4, 2, 15};
    for (size_t i = 0; i < rows.size(); ++i) {
      asks.push_back({.id = static_cast<int64_t>(i),
                      .tokens = tokens,
                      .sampler = &sampler,
                      .hidden = rows[i],
                      .most = most[i]});
    }
    drafter.Draft(asks);
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t count = rows[i].empty() ? 0 : std::min<int64_t>(most[i], 4);
      ASSERT_EQ(std::ssize(asks[i].guesses), count);
      for (int64_t j = 0; j < count; ++j) {
        EXPECT_EQ(asks[i].guesses[static_cast<size_t>(j)].token,
                  ArgmaxOf(LogitsOf(heads, j, layers, rows[i])));
      }
    }
  }
}

/// The weight of the model's own head, as f32.
Matrix OwnHead(const std::filesystem::path& path) {
  const auto checkpoint = Checkpoint::Open(path);
  const bool tied = checkpoint->config().tied_head;
  const StoredMatrix stored =
      checkpoint->Matrix(tied ? "model.embed_tokens.weight" : "lm_head.weight");
  Matrix head{stored.rows, stored.columns, {}};
  head.values.resize(static_cast<size_t>(stored.rows * stored.columns));
  ReadRows(stored, 0, stored.rows, head.values.data());
  return head;
}

/// What heads read is what the model's own head makes its logits of, also where these are scaled or
/// cut behind it, and whether logits come to the host or only the argmax.
TEST(HeadsDrafter, ReadsWhatTheModelsHeadReads) {
  for (const char* file : {"llama", "qwen2.gguf", "gemma2", "gpt2.gguf", "cohere"}) {
    SCOPED_TRACE(file);
    LanguageModelOptions options;
    options.exact = true;
    const auto model = LoadWithHeads(file, options);
    const Matrix head = OwnHead(kHeadModels / file);
    DecoderRunner runner(model, KvType::kF32, 64, 1);
    const std::vector<int32_t> tokens = {3, 17, 29, 5};
    CachedSequence all, apart;
    StepItem item{&all, tokens, StepItem::kAll};
    const auto width = static_cast<size_t>(model->info().hidden);
    const auto vocabulary = static_cast<size_t>(model->info().vocabulary);
    const std::span<const float> logits = runner.Step({&item, 1});
    ASSERT_EQ(runner.hidden().size(), tokens.size() * width);
    for (size_t row = 0; row < tokens.size(); ++row) {
      const auto own = logits.subspan(row * vocabulary, vocabulary);
      const auto state = runner.hidden().subspan(row * width, width);
      EXPECT_EQ(ArgmaxOf(Product(head, {state.begin(), state.end()})),
                ArgmaxOf({own.begin(), own.end()}));
    }
    const std::vector<float> last(runner.hidden().end() - model->info().hidden,
                                  runner.hidden().end());
    item = {&apart, tokens, StepItem::kLast};
    const int32_t picked = runner.StepArgmax({&item, 1})[0];
    ASSERT_EQ(runner.hidden().size(), width);
    for (size_t i = 0; i < width; ++i) EXPECT_NEAR(runner.hidden()[i], last[i], 1e-4F);
    EXPECT_EQ(picked, ArgmaxOf(Product(head, last)));
  }
}

GenerateRequest Story(const LanguageModel& model, const char* wish, float temperature,
                      int64_t tokens = 100) {
  GenerateRequest request;
  request.prompt = model.EncodeChat(std::vector<ChatMessage>{{"user", wish}});
  request.max_tokens = tokens;
  request.sampling.temperature = temperature;
  request.sampling.seed = 5;
  return request;
}

const char* const kWishes[] = {"Tell me a story about a fox.", "A story about an owl and a drum.",
                               "Write a short story about a lost key."};

/// The heads that are beside the model were trained by a script, and know what they say.
TEST(StorytellerHeads, GuessFarAboveChance) {
  for (const bool exact : {true, false}) {
    LanguageModelOptions options;
    options.exact = exact;
    const auto plain = LanguageModel::Load(kTeller, options);
    options.draft_heads = kTeller / "heads";
    const auto model = LanguageModel::Load(kTeller, options);
    EXPECT_EQ(model->info().draft_heads, 3);
    EXPECT_EQ(model->info().weight_bytes,
              plain->info().weight_bytes + model->info().draft_head_bytes);
    for (const float temperature : {0.0F, 0.7F}) {
      DraftCounts counts;
      int64_t tokens = 0;
      for (const char* wish : kWishes) {
        const GenerateRequest request = Story(*plain, wish, temperature);
        const GenerateResult want = Engine(plain).Generate(request);
        Engine engine(model, {.draft = kFourHeads});
        const GenerateResult got = engine.Generate(request);
        EXPECT_EQ(got.tokens, want.tokens);
        EXPECT_EQ(got.text, want.text);
        EXPECT_LE(got.draft.drafted, 3 * got.draft.steps);
        EXPECT_EQ(engine.stats().draft.accepted, got.draft.accepted);
        EXPECT_EQ(engine.stats().steps, std::ssize(want.tokens) - got.draft.accepted);
        EXPECT_EQ(engine.stats().used_blocks, 0);
        counts += got.draft;
        tokens += std::ssize(got.tokens);
      }
      // Of 1,024 tokens: by chance a guess in a thousand is right.
      EXPECT_GT(counts.accepted, tokens / 3);
      EXPECT_GT(counts.accepted_at[0], counts.accepted_at[1]);
      EXPECT_GT(counts.accepted_at[1], counts.accepted_at[2]);
      EXPECT_GT(counts.accepted_at[2], 0);
      EXPECT_EQ(counts.accepted_at[3], 0);
    }
  }
}

/// All at once, with all that requests ask for: penalties, several answers, and who wants none.
TEST(StorytellerHeads, GuessForManyRequestsAtOnce) {
  LanguageModelOptions load;
  load.exact = true;
  load.draft_heads = kTeller / "heads";
  const auto model = LanguageModel::Load(kTeller, load);
  std::vector<GenerateRequest> requests;
  for (const char* wish : kWishes) {
    for (const float temperature : {0.0F, 0.8F}) {
      requests.push_back(Story(*model, wish, temperature, 40));
    }
  }
  requests[1].n = 3;
  requests[2].sampling.repetition_penalty = 1.2F;
  requests[3].sampling.top_logprobs = 2;
  requests[4].draft_tokens = 0;
  requests[5].draft_tokens = 1;
  requests[5].prompt_logprobs = 0;
  for (const int64_t tokens : {0, 2, 4}) {
    EngineOptions options{.cache_tokens = 1024, .reuse_prefixes = true};
    options.draft = {.source = DraftOptions::kHeads, .model = nullptr, .tokens = tokens};
    Engine engine(model, options);
    std::vector<int64_t> ids;
    for (const GenerateRequest& request : requests) ids.push_back(engine.Submit(request));
    while (engine.Step()) {
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      const GenerateResult want = Engine(model).Generate(requests[i]), got = *engine.Take(ids[i]);
      EXPECT_EQ(got.tokens, want.tokens);
      ASSERT_EQ(got.others.size(), want.others.size());
      for (size_t j = 0; j < want.others.size(); ++j) {
        EXPECT_EQ(got.others[j].tokens, want.others[j].tokens);
      }
      if (i == 4) {
        EXPECT_EQ(got.draft.drafted, 0);
      }
      if (i == 5) {
        EXPECT_LE(got.draft.drafted, got.draft.steps);
      }
    }
    EXPECT_EQ(engine.stats().used_blocks, 0);
    EXPECT_TRUE(tokens == 0 || engine.stats().draft.accepted > 0);
  }
}

TEST(StorytellerHeads, GuessOnAGpu) {
  std::string reason;
  if (cuda::Devices(&reason).empty()) GTEST_SKIP() << reason;
  LanguageModelOptions options;
  options.device = Device::Cuda(0);
  options.draft_heads = kTeller / "heads";
  for (const bool exact : {true, false}) {
    options.exact = exact;
    const auto model = LanguageModel::Load(kTeller, options);
    for (const float temperature : {0.0F, 0.7F}) {
      for (const int64_t tokens : {0, 4}) {
        const GenerateRequest request = Story(*model, kWishes[0], temperature);
        EngineOptions guessing;
        guessing.draft = {.source = DraftOptions::kHeads, .model = nullptr, .tokens = tokens};
        Engine engine(model, guessing);
        const GenerateResult got = engine.Generate(request);
        EXPECT_EQ(got.tokens, Engine(model).Generate(request).tokens);
        EXPECT_TRUE(tokens == 0 || got.draft.accepted > std::ssize(got.tokens) / 4);
      }
    }
  }
}

TEST(DraftHeads, AreCountedAsMemory) {
  LanguageModelOptions load;
  const auto plain = LanguageModel::Load(kTeller, load);
  load.draft_heads = kTeller / "heads";
  const auto model = LanguageModel::Load(kTeller, load);
  const MemoryNeeds without = NeedsOf(*plain, EngineOptions()),
                    with = NeedsOf(*model, EngineOptions());
  EXPECT_GE(with.weights, without.weights + model->info().draft_head_bytes / 2);
  EXPECT_GT(with.activations, without.activations);
  EXPECT_EQ(with.block, without.block);
}

/// Folders that are no heads of the tiny llama, by what is wrong with them.
TEST(DraftHeads, RefuseWhatDoesNotFit) {
  const LanguageModelInfo info = LanguageModel::Load(kHeadModels / "llama")->info();
  const auto refused = [&](const std::function<void(TinyHeads&)>& change, ErrorCode code,
                           const char* says) {
    SCOPED_TRACE(says);
    TinyHeads heads(2, 1, info.hidden, info.vocabulary);
    change(heads);
    const TemporaryFolder folder;
    heads.Write(folder.path());
    LanguageModelOptions options;
    options.draft_heads = folder.path();
    ExpectThrows([&] { LanguageModel::Load(kHeadModels / "llama", options); }, code, says);
  };
  constexpr ErrorCode kBroken = ErrorCode::kInvalidModel;
  refused([](TinyHeads& heads) { heads.config["medusa_num_heads"] = 0; }, kBroken, "from 1 to 15");
  refused([](TinyHeads& heads) { heads.config["medusa_num_heads"] = 16; }, kBroken, "from 1 to 15");
  refused([](TinyHeads& heads) { heads.config["medusa_num_layers"] = "one"; }, kBroken,
          "medusa_num_layers");
  refused([](TinyHeads& heads) { heads.config.erase("medusa_num_heads"); }, kBroken,
          "medusa_num_heads");
  refused([](TinyHeads& heads) { heads.config["medusa_num_heads"] = 3; }, kBroken,
          "'2.0.linear.weight' is missing");
  refused([](TinyHeads& heads) { heads.config["medusa_num_layers"] = 2; }, kBroken,
          "'0.1.linear.weight' is missing");
  refused([](TinyHeads& heads) { heads.config["medusa_num_heads"] = 1; }, ErrorCode::kUnsupported,
          "'1.0.linear.bias', which has no place");
  refused([&](TinyHeads& heads) { heads = TinyHeads(2, 1, info.hidden, info.vocabulary + 1); },
          kBroken, "'0.1.weight' should be of (40,");
  refused([&](TinyHeads& heads) { heads = TinyHeads(2, 1, info.hidden * 2, info.vocabulary); },
          kBroken, "'0.0.linear.weight' should be of");
  refused([](TinyHeads& heads) { heads.vectors.clear(); }, kBroken,
          "'0.0.linear.bias' should be of");
}

TEST(DraftHeads, RefuseBrokenFilesAndPlacesWhereTheyCannotGuess) {
  const LanguageModelInfo info = LanguageModel::Load(kHeadModels / "llama")->info();
  const TemporaryFolder folder;
  LanguageModelOptions options;
  options.draft_heads = folder.path();
  const auto load = [&](const char* file) {
    return [&options, file] { LanguageModel::Load(kHeadModels / file, options); };
  };
  EXPECT_FALSE(IsDraftHeads(folder.path()));
  ExpectThrows(load("llama"), ErrorCode::kNotFound, "config.json");
  TinyHeads(2, 1, info.hidden, info.vocabulary).Write(folder.path());
  EXPECT_TRUE(IsDraftHeads(folder.path()));
  EXPECT_FALSE(IsDraftHeads(kHeadModels / "llama"));
  const std::filesystem::path weights = folder / "medusa_lm_head.safetensors";
  const std::string bytes = testing::FileBytes(weights);
  testing::WriteFile(weights, bytes.substr(0, bytes.size() - 8));
  ExpectThrows(load("llama"), ErrorCode::kInvalidModel, "draft heads");
  std::string integers = bytes;
  for (size_t at = 0; (at = integers.find("F32", at)) != std::string::npos;) {
    integers.replace(at, 3, "I32");
  }
  testing::WriteFile(weights, integers);
  ExpectThrows(load("llama"), ErrorCode::kUnsupported, "F32, F16 and BF16");
  std::filesystem::remove(weights);
  ExpectThrows(load("llama"), ErrorCode::kNotFound, "has no medusa_lm_head.safetensors");
  testing::WriteFile(weights, bytes);
  ExpectThrows(load("t5"), ErrorCode::kUnsupported, "is not for encoder-decoders");
  options.ranks.count = 2;
  ExpectThrows(load("llama"), ErrorCode::kUnsupported, "of one rank");
  EngineOptions guessing;
  guessing.draft = kFourHeads;
  const auto plain = LanguageModel::Load(kHeadModels / "llama");
  ExpectThrows([&] { Engine(plain, guessing); }, ErrorCode::kInvalidArgument,
               "LanguageModelOptions::draft_heads");
}

/// Numbers that are none are no guesses, and nothing else goes wrong.
TEST(DraftHeads, ThatGiveNoNumbersLeaveTheAnswerAlone) {
  const LanguageModelInfo info = LanguageModel::Load(kHeadModels / "llama")->info();
  TinyHeads heads(2, 1, info.hidden, info.vocabulary);
  for (auto& [name, matrix] : heads.tensors) std::ranges::fill(matrix.values, NAN);
  const TemporaryFolder folder;
  heads.Write(folder.path());
  LanguageModelOptions options;
  options.draft_heads = folder.path();
  const auto model = LanguageModel::Load(kHeadModels / "llama", options);
  for (const float temperature : {0.0F, 1.0F}) {
    GenerateRequest request;
    request.prompt = {3, 17, 29};
    request.max_tokens = 20;
    request.ignore_end = true;
    request.sampling.temperature = temperature;
    EXPECT_EQ(Engine(model, {.draft = kFourHeads}).Generate(request).tokens,
              Engine(model).Generate(request).tokens);
  }
}

}  // namespace
}  // namespace oort
