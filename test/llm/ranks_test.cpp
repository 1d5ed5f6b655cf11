// SPDX-License-Identifier: MIT
// Models on several ranks answer as they do on one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "kit/sanitized.h"
#include "llm/decoder_runner.h"
#include "llm/smollm2_file.h"
#include "oort/engine.h"
#include "parser/huggingface/encoder_decoder.h"
#include "text/json.h"

namespace oort {
namespace {

const std::filesystem::path kRankModels = TestData() / "checkpoints";

/// Logits of all tokens, read in steps of so many, and what greedy sampling picks behind each.
struct RankLogits {
  std::vector<float> logits;
  std::vector<int32_t> argmax;
};

RankLogits LogitsOf(const std::shared_ptr<const LanguageModel>& model,
                    const std::vector<int32_t>& tokens, size_t step, KvType kv) {
  RankLogits result;
  DecoderRunner runner(model, kv, 64, 1);
  CachedSequence sequence, again;
  std::shared_ptr<const EncodedText> text;
  if (model->info().encodes_prompts) text = model->EncodePrompt(tokens);
  sequence.text = again.text = text.get();
  for (size_t at = 0; at < tokens.size(); at += step) {
    const auto piece = std::span(tokens).subspan(at, std::min(step, tokens.size() - at));
    const int64_t length = static_cast<int64_t>(tokens.size());
    const StepItem item{&sequence, piece, StepItem::kAll, length};
    const std::span<const float> logits = runner.Step({&item, 1});
    result.logits.insert(result.logits.end(), logits.begin(), logits.end());
    const StepItem likeliest{&again, piece, StepItem::kAll, length};
    const std::span<const int32_t> picked = runner.StepArgmax({&likeliest, 1});
    result.argmax.insert(result.argmax.end(), picked.begin(), picked.end());
  }
  sequence = {};
  again = {};
  return result;
}

bool HasSameBits(const std::vector<float>& one, const std::vector<float>& other) {
  return one.size() == other.size() &&
         std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
}

std::vector<int32_t> TokensOf(const std::string& family) {
  const std::string name = family.substr(0, family.find('.'));
  const json::Json answers = json::Parse(testing::FileBytes(kRankModels / (name + ".json")), name);
  return answers.at(answers.contains("tokens") ? "tokens" : "forced").get<std::vector<int32_t>>();
}

LanguageModelOptions RankedOptions(int ranks, bool exact_split) {
  LanguageModelOptions options;
  options.ranks.count = ranks;
  options.ranks.exact = exact_split;
  options.ranks.deadline = 120;  // machines that test are slow now and then
  return options;
}

class RanksOfFamily : public ::testing::TestWithParam<const char*> {};

/// Holds so many ranks of the exact split against one, in one step and token by token.
void ExpectBitsOfOne(const std::filesystem::path& file, const std::vector<int32_t>& tokens,
                     bool exact, const std::vector<int>& counts) {
  const auto alone = LanguageModel::Load(file, {.exact = exact});
  const KvType kv = exact ? KvType::kF32 : KvType::kF16;
  const std::vector<size_t> steps = {tokens.size(), 1};
  std::vector<RankLogits> want;
  for (const size_t step : steps) want.push_back(LogitsOf(alone, tokens, step, kv));
  for (const int ranks : counts) {
    LanguageModelOptions options = RankedOptions(ranks, true);
    options.exact = exact;
    const auto together = LanguageModel::Load(file, options);
    EXPECT_EQ(together->ranks(), ranks);
    for (size_t i = 0; i < steps.size(); ++i) {
      const RankLogits got = LogitsOf(together, tokens, steps[i], kv);
      EXPECT_TRUE(HasSameBits(got.logits, want[i].logits))
          << ranks << " ranks, " << (exact ? "exact" : "fast") << ", step " << steps[i];
      EXPECT_EQ(got.argmax, want[i].argmax);
    }
  }
}

TEST_P(RanksOfFamily, ExactSplitHasTheBitsOfOneRank) {
  const std::vector<int32_t> tokens = TokensOf(GetParam());
  // What a sanitizer looks for shows with few ranks.
  const bool few = testing::TriesFewer();
  ExpectBitsOfOne(kRankModels / GetParam(), tokens, true,
                  few ? std::vector{3} : std::vector{2, 3, 4, 5, 6, 7, 8});
  ExpectBitsOfOne(kRankModels / GetParam(), tokens, false,
                  few ? std::vector{2} : std::vector{2, 3, 6});
}

/// A file has what the head and the embeddings share once, as an operator of its own.
TEST(Ranks, ConvertedModelsShareTheirWeights) {
  const testing::TemporaryFolder folder;
  for (const char* name : {"qwen2", "gemma2"}) {
    SCOPED_TRACE(name);
    const std::string stem = (folder.path() / name).string();
    ConvertLanguageModel(kRankModels / name, stem + ".pnnx.param", stem + ".pnnx.bin", {});
    ExpectBitsOfOne(stem + ".pnnx.param", TokensOf(name), true, {2, 3});
    LanguageModelOptions options = RankedOptions(2, false);
    options.ranks.pipeline = true;
    EXPECT_EQ(LanguageModel::Load(stem + ".pnnx.param", options)->ranks(), 2);
  }
}

TEST_P(RanksOfFamily, LayersInTurnHaveTheBitsOfOneRank) {
  const std::vector<int32_t> tokens = TokensOf(GetParam());
  if (IsEncoderDecoder(kRankModels / GetParam())) {
    LanguageModelOptions options = RankedOptions(2, false);
    options.ranks.pipeline = true;
    testing::ExpectThrows([&] { LanguageModel::Load(kRankModels / GetParam(), options); },
                          ErrorCode::kUnsupported, "pipeline split) is not for encoder-decoders");
    return;
  }
  for (const bool exact : {true, false}) {
    const auto alone = LanguageModel::Load(kRankModels / GetParam(), {.exact = exact});
    const KvType kv = exact ? KvType::kF32 : KvType::kF16;
    LanguageModelOptions options = RankedOptions(2, false);
    options.exact = exact;
    options.ranks.pipeline = true;
    const auto together = LanguageModel::Load(kRankModels / GetParam(), options);
    const auto layers = [&](const LanguageModel& model) {
      return model.kv_shape(kv).layers + model.state_shape().layers;
    };
    EXPECT_LT(layers(*together), layers(*alone));
    for (const size_t step : {tokens.size(), size_t{1}}) {
      const RankLogits want = LogitsOf(alone, tokens, step, kv);
      const RankLogits got = LogitsOf(together, tokens, step, kv);
      EXPECT_TRUE(HasSameBits(got.logits, want.logits)) << (exact ? "exact" : "fast") << step;
      EXPECT_EQ(got.argmax, want.argmax);
    }
  }
}

TEST_P(RanksOfFamily, FastSplitIsCloseAndAlwaysTheSame) {
  const std::vector<int32_t> tokens = TokensOf(GetParam());
  const auto alone = LanguageModel::Load(kRankModels / GetParam(), {.exact = true});
  const RankLogits want = LogitsOf(alone, tokens, tokens.size(), KvType::kF32);
  for (const int ranks : {2, 3}) {
    LanguageModelOptions options = RankedOptions(ranks, false);
    options.exact = true;
    const auto together = LanguageModel::Load(kRankModels / GetParam(), options);
    const RankLogits got = LogitsOf(together, tokens, tokens.size(), KvType::kF32);
    const RankLogits again = LogitsOf(together, tokens, tokens.size(), KvType::kF32);
    EXPECT_TRUE(HasSameBits(got.logits, again.logits));
    ASSERT_EQ(got.logits.size(), want.logits.size());
    for (size_t i = 0; i < got.logits.size(); ++i) {
      ASSERT_NEAR(got.logits[i], want.logits[i], 1e-4 + 1e-4 * std::abs(want.logits[i])) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, RanksOfFamily,
    ::testing::Values("llama", "llama.gguf", "mistral", "qwen2", "qwen3", "gemma", "gemma2.gguf",
                      "phi3", "gpt2", "llama2c_v1.bin", "llama2c_v2.bin", "mixtral", "mixtral.gguf",
                      "qwen2_moe", "qwen2_moe.gguf", "qwen3_moe", "qwen3_next", "qwen3_5_text",
                      "olmoe", "gemma3_text", "cohere", "falcon", "falcon_new", "phi", "granite",
                      "gpt_neox", "olmo2", "smollm3", "stablelm", "stablelm_parallel", "starcoder2",
                      "gpt_oss", "gpt_oss_mxfp4", "deepseek_v2", "deepseek_v2_groups",
                      "deepseek_v3", "llama4_text", "llama4_text_plain.gguf", "mamba2",
                      "mamba2_tied.gguf", "granitemoehybrid", "granitemoehybrid_dense.gguf",
                      "bamba", "falcon_h1", "falcon_h1_norm", "t5", "t5_gated", "bart"),
    [](const auto& item) {
      std::string name = item.param;
      std::replace(name.begin(), name.end(), '.', '_');
      return name;
    });

/// Layers that share keys and values have them on the rank of their heads. Between layers there is
/// more than one row for each token, so that they cannot be shared out.
TEST(Ranks, StreamsHaveTheBitsOfOneRank) {
  const char* const name = "gemma3n_text";
  const std::vector<int32_t> tokens = TokensOf(name);
  ExpectBitsOfOne(kRankModels / name, tokens, true, {2, 3});
  ExpectBitsOfOne(kRankModels / name, tokens, false, {2});
  const auto alone = LanguageModel::Load(kRankModels / name, {.exact = true});
  EXPECT_EQ(alone->kv_shape(KvType::kF32).layers, 3);
  const RankLogits want = LogitsOf(alone, tokens, tokens.size(), KvType::kF32);
  LanguageModelOptions options = RankedOptions(2, false);
  options.exact = true;
  const RankLogits got = LogitsOf(LanguageModel::Load(kRankModels / name, options), tokens,
                                  tokens.size(), KvType::kF32);
  ASSERT_EQ(got.logits.size(), want.logits.size());
  for (size_t i = 0; i < got.logits.size(); ++i) {
    ASSERT_NEAR(got.logits[i], want.logits[i], 1e-4 + 1e-4 * std::abs(want.logits[i])) << i;
  }
  options.ranks.pipeline = true;
  testing::ExpectThrows([&] { LanguageModel::Load(kRankModels / name, options); },
                        ErrorCode::kUnsupported, "cannot share its 6 layers");
}

GenerateRequest RankRequest(uint64_t seed) {
  GenerateRequest request;
  request.prompt = {5, 9, 3, 7};
  request.max_tokens = 20;
  request.ignore_end = true;
  request.sampling.temperature = seed == 0 ? 0.0f : 0.8f;
  request.sampling.seed = seed;
  return request;
}

TEST(Ranks, AnEngineAnswersSeveralAtOnceAsOneRankDoes) {
  for (const char* weights : {"", "int8"}) {
    LanguageModelOptions options = RankedOptions(3, true);
    options.weights = weights;
    const auto together = LanguageModel::Load(kRankModels / "llama", options);
    const auto alone = LanguageModel::Load(kRankModels / "llama", {.weights = weights});
    Engine one(alone, {.threads = 1}), many(together, {.threads = 1});
    std::vector<int64_t> ids;
    for (const uint64_t seed : {0, 1, 2}) ids.push_back(many.Submit(RankRequest(seed)));
    while (many.Step()) {
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(many.Take(ids[i]).value().tokens, one.Generate(RankRequest(i)).tokens) << i;
    }
  }
}

TEST(Ranks, MoreRanksThanLayersAreRefused) {
  LanguageModelOptions options = RankedOptions(3, false);
  options.ranks.pipeline = true;
  for (const char* const name : {"llama", "falcon_h1"}) {  // one has attention and a state in each
    testing::ExpectThrows([&] { LanguageModel::Load(kRankModels / name, options); },
                          ErrorCode::kUnsupported, "cannot share its 2 layers");
  }
  options.ranks.exact = true;
  EXPECT_THROW(LanguageModel::Load(kRankModels / "llama", options), Error);
}

/// Several at once, with a prompt that repeats itself, so that guesses are right now and then.
std::vector<std::vector<int32_t>> AnswersOf(const std::shared_ptr<const LanguageModel>& model,
                                            const DraftOptions& draft) {
  EngineOptions options{.threads = 1};
  options.draft = draft;
  options.deterministic = true;
  options.prompt_chunk = 8;
  Engine engine(model, options);
  std::vector<int64_t> ids;
  for (const uint64_t seed : {0, 1, 2, 0}) {
    GenerateRequest request = RankRequest(seed);
    for (int turn = 0; turn < 5; ++turn) {
      for (const int32_t token : {5, 9, 3, 7}) request.prompt.push_back(token);
    }
    ids.push_back(engine.Submit(std::move(request)));
  }
  while (engine.Step()) {
  }
  std::vector<std::vector<int32_t>> answers;
  for (const int64_t id : ids) answers.push_back(engine.Take(id).value().tokens);
  return answers;
}

TEST(Ranks, BatchesAndGuessesAnswerAsOnOneRank) {
  const auto alone = LanguageModel::Load(kRankModels / "llama");
  DraftOptions ngram, smaller;
  ngram.source = DraftOptions::kNgram;
  ngram.tokens = 3;
  smaller.source = DraftOptions::kModel;  // it guesses as well as anybody can
  smaller.model = alone;
  smaller.tokens = 3;
  const auto want = AnswersOf(alone, {});
  for (const bool pipeline : {false, true}) {
    LanguageModelOptions options = RankedOptions(2, !pipeline);
    options.ranks.pipeline = pipeline;
    const auto together = LanguageModel::Load(kRankModels / "llama", options);
    EXPECT_EQ(AnswersOf(together, {}), want);
    EXPECT_EQ(AnswersOf(together, ngram), want);
    EXPECT_EQ(AnswersOf(together, smaller), want);
  }
}

TEST(Ranks, OneOfThemAloneRunsToBeMeasured) {
  for (const bool pipeline : {false, true}) {
    for (const int rank : {0, 1}) {
      LanguageModelOptions options = RankedOptions(2, false);
      options.ranks.lone = rank;
      options.ranks.pipeline = pipeline;
      const auto model = LanguageModel::Load(kRankModels / "llama", options);
      EXPECT_EQ(model->rank(), 0);  // it leads nobody, but an engine may run on it
      EXPECT_LT(model->info().step_bytes, model->info().weight_bytes * 3 / 4);
      Engine engine(model, {.threads = 1});
      EXPECT_EQ(engine.Generate(RankRequest(0)).tokens.size(), 20U);
    }
  }
}

TEST(Ranks, WhatIsWrongOnEveryRankIsToldOnce) {
  try {
    LanguageModel::Load(kRankModels / "no_such_model", RankedOptions(3, false));
    FAIL() << "it was loaded";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no_such_model"), std::string::npos) << error.what();
  }
}

TEST(Ranks, AStepThatFailsEndsTheGroupWithoutWaiting) {
  const auto model = LanguageModel::Load(kRankModels / "llama", RankedOptions(2, false));
  DecoderRunner runner(model, KvType::kF32, 64, 1);
  CachedSequence sequence;
  const std::vector<int32_t> wrong = {1 << 30};
  const StepItem item{&sequence, wrong, StepItem::kLast};
  for (int turn = 0; turn < 2; ++turn) {
    try {
      runner.Step({&item, 1});
      FAIL() << "it ran";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("is not in a table"), std::string::npos)
          << error.what();
    }
    EXPECT_EQ(sequence.length, 0);
  }
  sequence = {};
}

TEST(Ranks, AGpuThatIsNotThereIsToldOnce) {
  LanguageModelOptions options = RankedOptions(2, false);
  options.device = Device::Cuda(999);
  options.ranks.spread = false;
  try {
    LanguageModel::Load(kRankModels / "llama", options);
    FAIL() << "it was loaded";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.find("cuda:999") != std::string::npos ||
                text.find("no CUDA") != std::string::npos)
        << text;
  }
}

TEST(Ranks, NcclIsForGpus) {
  LanguageModelOptions options = RankedOptions(2, false);
  options.ranks.exchange = RankOptions::Exchange::kNccl;
  testing::ExpectThrows([&] { LanguageModel::Load(kRankModels / "llama", options); },
                        ErrorCode::kInvalidArgument, "for ranks on GPUs");
}

TEST(Ranks, SayHowTheyExchange) {
  EXPECT_EQ(LanguageModel::Load(kRankModels / "llama")->exchange(), "none");
  EXPECT_EQ(LanguageModel::Load(kRankModels / "llama", RankedOptions(2, false))->exchange(),
            "host");
  LanguageModelOptions lone = RankedOptions(2, false);
  lone.ranks.lone = 1;
  EXPECT_EQ(LanguageModel::Load(kRankModels / "llama", lone)->exchange(), "none");
}

TEST(Ranks, EachOfEightHasAPartOfTheStoryteller) {
  // Its products have rows for eight ranks, those of the tiny families for two.
  const std::filesystem::path file = SourceTree() / "models/storyteller";
  const std::vector<int32_t> tokens = {1, 504, 282, 46, 314, 260, 1, 9, 44};
  for (const bool exact : {true, false}) {
    ExpectBitsOfOne(file, tokens, exact, {2, 3, 4, 5, 6, 7, 8});
  }
}

TEST(Ranks, AnEngineSharesExpertsOut) {
  const auto alone = LanguageModel::Load(kRankModels / "qwen3_moe");
  for (const bool exact_split : {true, false}) {
    const auto together =
        LanguageModel::Load(kRankModels / "qwen3_moe", RankedOptions(3, exact_split));
    const auto answers = AnswersOf(together, {});
    if (exact_split) {
      EXPECT_EQ(answers, AnswersOf(alone, {}));
    }
    EXPECT_EQ(AnswersOf(together, {}), answers);
  }
}

/// Two to eight ranks of the exact split against one, with the shape of SmolLM2: ranks share the
/// queries of a head of keys.
void ExpectBitsOfSmol(
    const std::function<std::shared_ptr<const LanguageModel>(const LanguageModelOptions&)>& load) {
  // A short prompt in pieces, and one whose rows fill tiles of matrix products.
  const std::vector<int32_t> few = {1, 504, 3575, 282, 4649, 314, 260, 1, 9, 44};
  std::vector<int32_t> many;
  for (int32_t i = 0; i < 27; ++i) many.push_back(17 + i * 61);
  const auto alone = load({});
  const RankLogits want_few = LogitsOf(alone, few, 5, KvType::kF16);
  const RankLogits want_many = LogitsOf(alone, many, many.size(), KvType::kF16);
  for (const int ranks : {2, 4, 5, 8}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    const auto together = load(RankedOptions(ranks, true));
    EXPECT_TRUE(HasSameBits(LogitsOf(together, few, 5, KvType::kF16).logits, want_few.logits));
    EXPECT_TRUE(
        HasSameBits(LogitsOf(together, many, many.size(), KvType::kF16).logits, want_many.logits));
  }
}

TEST(Ranks, SmolLmHasTheBitsOfOneRank) {
  const std::filesystem::path file = testing::SmolModelFile();
  if (file.empty() || testing::kTooSlowForSmol) GTEST_SKIP() << "no SmolLM2 here";
  ExpectBitsOfSmol([&](const auto& options) { return LanguageModel::Load(file, options); });
}

TEST(Ranks, TheShapeOfSmolLmHasTheBitsOfOneRank) {
  if (testing::kTooSlowForSmol) GTEST_SKIP() << "too slow here";
  ExpectBitsOfSmol([](const auto& options) {
    return LanguageModel::Random("smollm2-135m", "int4", 32, options);
  });
}

}  // namespace
}  // namespace oort
