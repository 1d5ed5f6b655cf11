// SPDX-License-Identifier: MIT
// Tiny encoder-decoders give the logits and the greedy answers of transformers; see
// test/checkpoints/make_encoder_decoders.py.
#include "llm/text_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "llm/engine_impl.h"
#include "oort/engine.h"
#include "text/json.h"

namespace oort {
namespace {

using testing::ExpectThrows;
using Tokens = std::vector<int32_t>;

const std::filesystem::path kTextModels = TestData() / "checkpoints";

std::shared_ptr<const LanguageModel> TextModel(const std::string& name) {
  return LanguageModel::Load(kTextModels / name);
}

GenerateRequest Asked(Tokens text, int64_t most, bool ignore_end = true) {
  GenerateRequest request;
  request.prompt = std::move(text);
  request.max_tokens = most;
  request.ignore_end = ignore_end;
  request.sampling.temperature = 0;
  return request;
}

json::Json TextAnswersOf(const std::string& name) {
  return json::Parse(testing::FileBytes(kTextModels / (name + ".json")), name);
}

class TinyEncoderDecoder : public ::testing::TestWithParam<const char*> {};

/// Token by token, in parts and all at once, beside another text.
TEST_P(TinyEncoderDecoder, GivesTheLogitsOfTransformers) {
  const json::Json want = TextAnswersOf(GetParam());
  const auto model = TextModel(GetParam());
  const auto forced = want["forced"].get<Tokens>();
  const auto other = model->EncodePrompt(want["answers"][1]["text"].get<Tokens>());
  for (const size_t step : {size_t{1}, size_t{3}, forced.size()}) {
    for (size_t text = 0; text < want["logits"].size(); ++text) {
      const auto read = model->EncodePrompt(want["answers"][text]["text"].get<Tokens>());
      DecoderRunner runner(model, KvType::kF32, 256, 2);
      CachedSequence sequence, beside;
      sequence.text = read.get();
      beside.text = other.get();
      size_t row = 0;
      for (size_t at = 0; at < forced.size(); at += step) {
        const auto part = std::span(forced).subspan(at, std::min(step, forced.size() - at));
        const StepItem items[] = {{&sequence, part, StepItem::kAll},
                                  {&beside, part.first(1), StepItem::kNone}};
        const std::span<const float> logits = runner.Step(items);
        ASSERT_EQ(logits.size(), part.size() * want["logits"][text][0].size());
        for (size_t i = 0; i < logits.size(); ++i) {
          const size_t columns = want["logits"][text][0].size();
          const double number = want["logits"][text][row + i / columns][i % columns];
          ASSERT_NEAR(logits[i], number, 2e-4 + 2e-5 * std::abs(number))
              << "text " << text << " row " << row << " number " << i;
        }
        row += part.size();
      }
    }
  }
}

/// One by one, and all together in a cache that has no room for all of them.
TEST_P(TinyEncoderDecoder, AnswersAsTransformers) {
  const json::Json want = TextAnswersOf(GetParam());
  const auto model = TextModel(GetParam());
  EXPECT_TRUE(model->info().encodes_prompts);
  checks_steps = true;
  for (const int64_t cache : {512, 48}) {
    EngineOptions options{.threads = 1, .cache_tokens = cache, .reserve_cache = false};
    Engine engine(model, options);
    std::vector<int64_t> ids;
    for (int round = 0; round < 2; ++round) {
      for (const json::Json& item : want["answers"]) {
        const auto tokens = item["tokens"].get<Tokens>();
        const GenerateRequest request = Asked(item["text"].get<Tokens>(), std::ssize(tokens));
        EXPECT_EQ(engine.Generate(request).tokens, tokens);
        ids.push_back(engine.Submit(request));
      }
    }
    while (engine.Step()) {
    }
    const size_t texts = want["answers"].size();
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(engine.Take(ids[i])->tokens, want["answers"][i % texts]["tokens"].get<Tokens>());
    }
    EXPECT_EQ(engine.stats().reused_tokens, 0);
  }
  checks_steps = false;
}

/// Several answers to a text, beams and guesses, and those that are preempted.
TEST_P(TinyEncoderDecoder, AllThatEnginesDoSeesTheText) {
  const json::Json want = TextAnswersOf(GetParam());
  const auto model = TextModel(GetParam());
  const auto text = want["answers"][2]["text"].get<Tokens>();
  Engine plain(model, {.threads = 1});
  const Tokens answer = plain.Generate(Asked(text, 20)).tokens;
  GenerateRequest beam = Asked(text, 20);
  beam.beams.width = 1;
  EXPECT_EQ(plain.Generate(beam).tokens, answer);
  EngineOptions guessing{.threads = 1};
  guessing.draft = {.source = DraftOptions::kNgram, .model = {}, .tokens = 3};
  EXPECT_EQ(Engine(model, guessing).Generate(Asked(text, 20)).tokens, answer);
  GenerateRequest several = Asked(text, 40);
  several.sampling.temperature = 1;
  several.n = 4;
  const auto made = [&](int64_t cache, int64_t preemptions) {
    EngineOptions options{.threads = 1, .cache_tokens = cache, .reserve_cache = false};
    Engine engine(model, options);
    const GenerateResult result = engine.Generate(several);
    std::vector<Tokens> answers = {result.tokens};
    for (const GeneratedAnswer& other : result.others) answers.push_back(other.tokens);
    EXPECT_GE(engine.stats().preemptions, preemptions);
    return answers;
  };
  const auto all = made(512, 0);
  EXPECT_EQ(made(96, 1), all);
  for (size_t i = 1; i < all.size(); ++i) {
    several.n = 1;
    several.sampling.seed = i;
    EXPECT_EQ(made(512, 0)[0], all[i]);
  }
}

/// The longest answer: distances grow beyond what a table of biases tells apart.
TEST_P(TinyEncoderDecoder, LongAnswersDoNotDependOnWhatWasRead) {
  const json::Json want = TextAnswersOf(GetParam());
  const auto text = want["answers"][2]["text"].get<Tokens>();
  const auto model = TextModel(GetParam());
  Engine engine(model, {.threads = 1, .cache_tokens = 512});
  const int64_t most = std::min<int64_t>(300, model->info().context);
  const Tokens first = engine.Generate(Asked(text, most)).tokens;
  EXPECT_EQ(std::ssize(first), most);
  engine.Generate(Asked(want["answers"][0]["text"].get<Tokens>(), 10));
  EXPECT_EQ(engine.Generate(Asked(text, most)).tokens, first);
}

INSTANTIATE_TEST_SUITE_P(Models, TinyEncoderDecoder, ::testing::Values("bart", "t5", "t5_gated"),
                         [](const auto& item) { return std::string(item.param); });

TEST(EncoderDecoder, EndsWhereTheModelDoes) {
  const json::Json want = TextAnswersOf("t5_gated");
  const auto model = TextModel("t5_gated");
  Engine engine(model, {.threads = 1});
  size_t ended = 0;
  for (const json::Json& item : want["answers"]) {
    auto tokens = item["tokens"].get<Tokens>();
    const auto end = std::ranges::find(tokens, 1);
    const bool ends = end != tokens.end();
    if (ends) tokens.erase(end + 1, tokens.end());
    const GenerateResult answer =
        engine.Generate(Asked(item["text"].get<Tokens>(), ends ? 50 : 12, false));
    EXPECT_EQ(answer.tokens, tokens);
    EXPECT_EQ(answer.finish, ends ? FinishReason::kStop : FinishReason::kLength);
    ended += ends ? 1 : 0;
  }
  EXPECT_GT(ended, 0U);
}

/// In the fast mode, and with keys and values of fewer bits, answers still come.
TEST(EncoderDecoder, RunsFastToo) {
  const json::Json want = TextAnswersOf("t5");
  const auto model = LanguageModel::Load(kTextModels / "t5", {.exact = false});
  for (const KvType kv : {KvType::kF16, KvType::kInt8, KvType::kK6V4, KvType::kF32}) {
    Engine engine(model, {.threads = 2, .kv = kv});
    const auto text = want["answers"][0]["text"].get<Tokens>();
    EXPECT_EQ(engine.Generate(Asked(text, 30)).tokens.size(), 30U);
  }
}

/// BART's answers begin with a token that config.json names, whatever form they are held to.
TEST(EncoderDecoder, BeginsWithTheForcedToken) {
  const testing::TemporaryFolder folder;
  std::filesystem::copy(kTextModels / "bart", folder.path() / "model");
  const auto config_path = folder.path() / "model" / "config.json";
  json::Json config = json::Parse(testing::FileBytes(config_path), "config");
  config["forced_bos_token_id"] = 7;
  testing::WriteFile(config_path, config.dump());
  std::filesystem::remove(folder.path() / "model" / "generation_config.json");
  const auto model = LanguageModel::Load(folder.path() / "model");
  Engine engine(model, {.threads = 1});
  const auto text = TextAnswersOf("bart")["answers"][0]["text"].get<Tokens>();
  EXPECT_EQ(engine.Generate(Asked(text, 3)).tokens.at(0), 7);
  GenerateRequest request = Asked(text, 3);
  request.beams.width = 2;
  EXPECT_EQ(engine.Generate(request).tokens.at(0), 7);
  request = Asked(text, 3);
  request.sampling.temperature = 1;
  EXPECT_EQ(engine.Generate(request).tokens.at(0), 7);
}

TEST(EncoderDecoder, SaysWhatDoesNotFit) {
  EXPECT_TRUE(IsEncoderDecoder(kTextModels / "bart"));
  EXPECT_FALSE(IsEncoderDecoder(kTextModels / "llama"));
  EXPECT_FALSE(IsEncoderDecoder(kTextModels / "llama.gguf"));
  const auto model = TextModel("bart");
  Engine engine(model, {.threads = 1});
  ExpectThrows([&] { engine.Submit(Asked({40}, 2)); }, ErrorCode::kInvalidArgument,
               "not among the model's 40");
  ExpectThrows([&] { engine.Submit(Asked(Tokens(65, 3), 2)); }, ErrorCode::kInvalidArgument,
               "1 to 64 tokens");
  GenerateRequest request = Asked({3}, 2);
  request.prompt_logprobs = 1;
  ExpectThrows([&] { engine.Submit(request); }, ErrorCode::kUnsupported, "encoder-decoders");
  ExpectThrows([&] { TextModel("llama")->EncodePrompt(Tokens{3}); }, ErrorCode::kUnsupported,
               "has no encoder");
  const auto refuses = [&](const LanguageModelOptions& options, const char* what) {
    ExpectThrows([&] { LanguageModel::Load(kTextModels / "t5", options); }, ErrorCode::kUnsupported,
                 what);
  };
  refuses({.weights = "int8"}, "rounding weights");
  refuses({.device = Device::Cuda(0)}, "a GPU");
  refuses({.ranks = {.count = 2, .pipeline = true}}, "pipeline");
  refuses({.adapters = {{"a", "b"}}}, "LoRA");
  ExpectThrows([&] { VisitLogits(model, Tokens(9, 3), 4, {}, [](int64_t, auto) {}); },
               ErrorCode::kUnsupported, "encoder-decoders");
  EngineOptions drafting;
  drafting.draft = {.source = DraftOptions::kModel, .model = model, .tokens = 2};
  ExpectThrows([&] { Engine(model, drafting); }, ErrorCode::kUnsupported, "another model");
  const testing::TemporaryFolder folder;
  std::filesystem::copy(kTextModels / "t5", folder.path() / "model");
  json::Json config = json::Parse(testing::FileBytes(kTextModels / "t5" / "config.json"), "config");
  config["d_ff"] = 25;
  testing::WriteFile(folder.path() / "model" / "config.json", config.dump());
  ExpectThrows([&] { LanguageModel::Load(folder.path() / "model"); }, ErrorCode::kInvalidModel,
               "should be of (25,32), but is of (24,32)");
  config["d_ff"] = 24;
  config["num_layers"] = 1;
  testing::WriteFile(folder.path() / "model" / "config.json", config.dump());
  ExpectThrows([&] { LanguageModel::Load(folder.path() / "model"); }, ErrorCode::kUnsupported,
               "has no place in a model of the family 't5'");
}

/// A limit of memory counts the encoder, too.
TEST(EncoderDecoder, MemoryLimitsCountTheEncoder) {
  const auto model = TextModel("t5");
  const ReaderMemory reader = model->reader_memory();
  EXPECT_GT(reader.weights, 0U);
  EXPECT_GT(reader.activations, 0U);
  EngineOptions options{.threads = 1};
  const MemoryNeeds needs = NeedsOf(*model, options);
  EXPECT_GE(needs.weights, reader.weights + 1);
  options.memory_limit = needs.weights + needs.activations + needs.block;
  EXPECT_EQ(Engine(model, options).cache_tokens(), KvCache::kBlockTokens);
  --options.memory_limit;
  ExpectThrows([&] { Engine(model, options); }, ErrorCode::kLimit, "leaves no room");
}

}  // namespace
}  // namespace oort
