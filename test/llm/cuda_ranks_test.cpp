// SPDX-License-Identifier: MIT
// Models on several ranks that have a GPU each, or share one, against one rank and the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "collectives/nccl_group.h"
#include "cuda/device.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "llm/decoder_runner.h"
#include "oort/engine.h"

namespace oort {
namespace {

class CudaRankModels : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    if (cuda::Devices(&reason).empty()) GTEST_SKIP() << reason;
  }

  using Exchange = RankOptions::Exchange;
  static std::shared_ptr<const LanguageModel> Load(const std::filesystem::path& path, Device device,
                                                   int ranks, bool exact_split,
                                                   Exchange exchange = Exchange::kHost) {
    LanguageModelOptions options;
    options.device = device;
    options.exact = true;
    options.ranks.count = ranks;
    options.ranks.exact = exact_split;
    options.ranks.exchange = exchange;
    options.ranks.deadline = 60;
    return LanguageModel::Load(path, options);
  }

  /// Logits of all tokens, in steps of so many.
  static std::vector<float> Logits(const std::shared_ptr<const LanguageModel>& model, size_t step) {
    DecoderRunner runner(model, KvType::kF32, 64, 1);
    CachedSequence sequence;
    std::vector<float> logits;
    std::vector<int32_t> tokens;
    for (int i = 0; i < 40; ++i) {
      tokens.push_back(static_cast<int32_t>((i * 7 + 3) % model->info().vocabulary));
    }
    for (size_t at = 0; at < tokens.size(); at += step) {
      const size_t count = std::min(step, tokens.size() - at);
      const StepItem item{&sequence, std::span(tokens).subspan(at, count), StepItem::kAll};
      const std::span<const float> rows = runner.Step({&item, 1});
      logits.insert(logits.end(), rows.begin(), rows.end());
    }
    sequence = {};
    return logits;
  }

  static std::vector<int32_t> Answer(const std::shared_ptr<const LanguageModel>& model,
                                     float temperature = 0) {
    Engine engine(model, {.threads = 1});
    GenerateRequest request;
    request.prompt = {3, 10, 17, 24};
    request.max_tokens = 24;
    request.ignore_end = true;
    request.sampling.temperature = temperature;
    request.sampling.seed = 5;
    return engine.Generate(request).tokens;
  }

  static void ExpectNear(const std::vector<float>& got, const std::vector<float>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], 1e-3 * (1 + std::abs(want[i]))) << i;
    }
  }

  static bool HasTheBits(const std::vector<float>& one, const std::vector<float>& other) {
    return one.size() == other.size() &&
           std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
  }

  /// The tiny models in numbers that a GPU keeps as they are.
  static std::filesystem::path InHalves(const char* name, const testing::TemporaryFolder& folder) {
    ConvertOptions convert;
    convert.weights = "f16";
    const std::string stem = (folder.path() / name).string();
    ConvertLanguageModel(TestData() / "checkpoints" / name, stem + ".pnnx.param",
                         stem + ".pnnx.bin", convert);
    return stem + ".pnnx.param";
  }
};

TEST_F(CudaRankModels, AnswerAsTheCpuDoes) {
  const testing::TemporaryFolder folder;
  for (const char* name : {"llama", "qwen2", "qwen3", "gemma2", "gpt2", "mixtral", "mamba2"}) {
    SCOPED_TRACE(name);
    const auto file = InHalves(name, folder);
    const std::vector<float> want = Logits(Load(file, Device::Cpu(), 1, false), 40);
    for (const bool exact_split : {true, false}) {
      const auto model = Load(file, Device::Cuda(0), 2, exact_split);
      EXPECT_EQ(model->exchange(), "host");
      for (const size_t step : {size_t{40}, size_t{5}, size_t{1}}) {
        SCOPED_TRACE(std::to_string(step) + (exact_split ? ", exact" : ", fast"));
        const std::vector<float> got = Logits(model, step);
        ExpectNear(got, want);
        EXPECT_TRUE(HasTheBits(Logits(model, step), got)) << "another time";
      }
    }
  }
}

/// A row of a weight is multiplied in the same order wherever its matrix begins.
TEST_F(CudaRankModels, ExactSplitHasTheBitsOfOneGpuTokenByToken) {
  const testing::TemporaryFolder folder;
  for (const char* name : {"llama", "qwen2", "qwen3", "gemma2", "gpt2"}) {
    SCOPED_TRACE(name);
    const auto file = InHalves(name, folder);
    const std::vector<float> want = Logits(Load(file, Device::Cuda(0), 1, false), 1);
    for (const int ranks : {2, 3}) {
      EXPECT_TRUE(HasTheBits(Logits(Load(file, Device::Cuda(0), ranks, true), 1), want)) << ranks;
    }
  }
}

TEST_F(CudaRankModels, AnEngineAnswersTheSameEachTime) {
  const std::filesystem::path file = SourceTree() / "models" / "storyteller";
  for (const bool exact_split : {true, false}) {
    for (const float temperature : {0.0f, 0.8f}) {
      const auto once = Answer(Load(file, Device::Cuda(0), 2, exact_split), temperature);
      EXPECT_EQ(once.size(), 24u);
      EXPECT_EQ(Answer(Load(file, Device::Cuda(0), 2, exact_split), temperature), once);
    }
  }
}

TEST_F(CudaRankModels, LayersInTurnAnswerAsOneGpu) {
  LanguageModelOptions options;
  options.device = Device::Cuda(0);
  const std::filesystem::path file = SourceTree() / "models" / "storyteller";
  const auto want = Answer(LanguageModel::Load(file, options));
  options.ranks.count = 2;
  options.ranks.pipeline = true;
  options.ranks.deadline = 60;
  EXPECT_EQ(Answer(LanguageModel::Load(file, options)), want);
}

TEST_F(CudaRankModels, OneAloneIsMeasuredWithoutTheOthers) {
  LanguageModelOptions options;
  options.device = Device::Cuda(0);
  options.ranks.count = 2;
  options.ranks.lone = 1;
  const auto model = LanguageModel::Random("smollm2-135m", "int8", 32, options);
  EXPECT_EQ(model->exchange(), "none");
  EXPECT_EQ(Answer(model).size(), 24u);
}

/// Sums are made in the order of the ranks on either way.
TEST_F(CudaRankModels, NcclGivesTheBitsOfTheWayByTheHost) {
  NcclPlace found;
  FindNccl(found);
  if (found.transport == nullptr) GTEST_SKIP() << found.problem;
  const testing::TemporaryFolder folder;
  const auto file = InHalves("llama", folder);
  std::string reason;
  const char* told = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  const bool shared = told != nullptr && std::string(told) == "1" && found.release >= 23000;
  if (cuda::Devices(&reason).size() < 2 && !shared) {
    try {
      Load(file, Device::Cuda(0), 2, false, Exchange::kNccl);
      FAIL() << "it was loaded";
    } catch (const Error& error) {  // its own, or what rank 1 said first
      EXPECT_NE(std::string(error.what()).find("on one GPU"), std::string::npos) << error.what();
    }
    EXPECT_EQ(Load(file, Device::Cuda(0), 2, false, Exchange::kAuto)->exchange(), "host");
    return;
  }
  for (const bool exact_split : {true, false}) {
    const auto by_nccl = Load(file, Device::Cuda(0), 2, exact_split, Exchange::kNccl);
    EXPECT_EQ(by_nccl->exchange(), "nccl");
    const auto by_host = Load(file, Device::Cuda(0), 2, exact_split, Exchange::kHost);
    for (const size_t step : {size_t{40}, size_t{1}}) {
      EXPECT_TRUE(HasTheBits(Logits(by_nccl, step), Logits(by_host, step))) << step;
    }
    EXPECT_EQ(Answer(by_nccl), Answer(by_host));
  }
}

}  // namespace
}  // namespace oort
