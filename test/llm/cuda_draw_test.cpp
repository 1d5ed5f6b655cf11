// SPDX-License-Identifier: MIT
// Tokens drawn on the GPU against those that a Sampler draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "cuda/device.h"
#include "cuda/memory.h"
#include "kit/paths.h"
#include "llm/sampling/without_logits.h"
#include "llm/turning_constraint.h"
#include "oort/engine.h"
#include "oort/testing.h"

namespace oort {
namespace {

constexpr float kDrawInf = std::numeric_limits<float>::infinity();

class CudaDraw : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    if (cuda::Devices(&reason).empty()) GTEST_SKIP() << reason;
  }

  /// Rows of logits of which few are likely, as a model gives them.
  static Tensor PeakedLogits(int64_t rows, int64_t count, float spread) {
    Tensor logits = testing::RandomTensor(DType::kF32, {rows, count}, 5, 0, 1);
    float* const values = logits.data<float>();
    for (int64_t i = 0; i < logits.elements(); ++i)
      values[i] = spread * std::log(values[i] + 1e-9f);
    return logits;
  }

  struct Drawn {
    std::vector<int32_t> tokens;
    std::vector<cuda::DrawReport> reports;
  };
  static Drawn DrawOnGpu(const Tensor& logits, std::span<const cuda::TokenDraw> draws) {
    cuda::Stream stream(0);
    const std::unique_ptr<cuda::TokenDrawer> drawer = cuda::MakeTokenDrawer(&stream);
    const Tensor there = cuda::ToDevice(logits, Device::Cuda(0));
    const size_t rows = static_cast<size_t>(logits.dim(0));
    const std::shared_ptr<Buffer> pinned = cuda::AllocatePinned(rows * sizeof(int32_t));
    auto* const tokens = reinterpret_cast<int32_t*>(pinned->data());
    std::fill_n(tokens, rows, -7);
    drawer->Begin(0, there, draws, tokens);
    const std::span<const cuda::DrawReport> reports = drawer->End(0);
    Drawn drawn{{tokens, tokens + rows}, {reports.begin(), reports.end()}};
    // What draws change of the logits they put back.
    const Tensor back = cuda::ToHost(there);
    EXPECT_EQ(std::memcmp(back.raw(), logits.raw(), logits.bytes()), 0);
    return drawn;
  }

  static std::span<const float> RowOf(const Tensor& logits, int64_t row) {
    const size_t count = static_cast<size_t>(logits.dim(1));
    return logits.span<float>().subspan(static_cast<size_t>(row) * count, count);
  }

  /// The share of rows whose token is the Sampler's, each with a seed of its own. `masks`: of each
  /// row, the tokens that may come; `before`: tokens that each answer has already.
  static double SameShare(const Tensor& logits, SamplingOptions options,
                          const std::vector<std::vector<uint32_t>>& masks = {},
                          std::span<const int32_t> before = {}) {
    const int64_t rows = logits.dim(0), count = logits.dim(1);
    std::vector<cuda::TokenDraw> draws;
    std::vector<Sampler> samplers;
    std::vector<SampledToken> expected;
    std::vector<std::vector<LogitChange>> changes(static_cast<size_t>(rows));
    for (int64_t row = 0; row < rows; ++row) {
      const size_t i = static_cast<size_t>(row);
      options.seed = static_cast<uint64_t>(row);
      Sampler sampler(options);
      for (const int32_t token : before) sampler.Accept(token % static_cast<int32_t>(count));
      cuda::TokenDraw& draw = draws.emplace_back(NextDraw(sampler));
      draw.row = static_cast<int32_t>(row);
      FindLogitChanges(sampler, static_cast<size_t>(count), changes[i]);
      draw.changes = changes[i];
      if (!masks.empty()) draw.allowed = masks[i];
      samplers.push_back(sampler.Clone());
      expected.push_back(sampler.Sample(RowOf(logits, row), draw.allowed));
    }
    const Drawn got = DrawOnGpu(logits, draws);
    int64_t same = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (got.tokens[i] != expected[i].token) continue;
      ++same;
      const SampledToken sampled = SampleDrawn(samplers[i], got.tokens[i], &got.reports[i]);
      EXPECT_NEAR(sampled.logprob, expected[i].logprob, 1e-5f * (1 - expected[i].logprob));
      EXPECT_EQ(sampled.top.size(), expected[i].top.size());
      for (size_t j = 0; j < std::min(sampled.top.size(), expected[i].top.size()); ++j) {
        EXPECT_EQ(sampled.top[j].token, expected[i].top[j].token) << "row " << i << ", " << j;
        EXPECT_NEAR(sampled.top[j].logprob, expected[i].top[j].logprob,
                    1e-5f * (1 - expected[i].top[j].logprob));
      }
    }
    return static_cast<double>(same) / static_cast<double>(rows);
  }

  /// One token in `each` may come, other ones in each row; a few rows have a single one.
  static std::vector<std::vector<uint32_t>> MasksFor(const Tensor& logits, int64_t each) {
    const size_t count = static_cast<size_t>(logits.dim(1));
    std::vector<std::vector<uint32_t>> masks;
    for (int64_t row = 0; row < logits.dim(0); ++row) {
      std::vector<uint32_t>& mask = masks.emplace_back((count + 31) / 32);
      for (size_t i = 0; i < count; ++i) {
        const bool may_come = (static_cast<int64_t>(i * 2654435761u % 1000003) + row) % each == 0;
        if (may_come && row % 5 > 0) mask[i / 32] |= uint32_t{1} << (i % 32);
      }
      const size_t always = static_cast<size_t>(row) * 31 % count;
      mask[always / 32] |= uint32_t{1} << (always % 32);
    }
    return masks;
  }
};

/// A draw falls on the border of two tokens about once in a million times.
TEST_F(CudaDraw, IsTheSamplersDraw) {
  const std::vector<SamplingOptions> all = {
      {.temperature = 0},
      {.temperature = 1},
      {.temperature = 0.3f},
      {.temperature = 2, .top_k = 1},
      {.temperature = 1, .top_k = 50},
      {.temperature = 1, .top_p = 0.9f},
      {.temperature = 0.7f, .top_p = 1e-6f},
      {.temperature = 1, .min_p = 0.05f},
      {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f},
      {.temperature = 1.5f, .top_k = 30000, .top_p = 0.99f},
      {.temperature = 100, .top_p = 0.5f, .min_p = 1e-9f},
  };
  for (const int64_t count : {1, 2, 33, 511, 1000, 49152, 151936}) {
    for (const float spread : {0.2f, 3.0f}) {
      const Tensor logits = PeakedLogits(count > 1000 ? 20 : 100, count, spread);
      for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(SameShare(logits, all[i]), 1) << count << " logits, options " << i;
      }
    }
  }
}

TEST_F(CudaDraw, EqualLogitsAndThoseThatAreNone) {
  const int64_t count = 5000;
  Tensor logits = Tensor::Zeros(DType::kF32, {60, count});
  float* const values = logits.data<float>();
  for (int64_t row = 0; row < 60; ++row) {
    for (int64_t i = 0; i < count; ++i) {
      float& logit = values[row * count + i];
      if (row % 3 == 0) logit = static_cast<float>(i % 4);  // many ties
      if (row % 3 == 1) logit = i % 2 == 0 ? std::nanf("") : i % 7 == 1 ? 2.0f : -kDrawInf;
      if (row % 3 == 2 && i % 1000 == 10) logit = kDrawInf;
    }
  }
  for (const SamplingOptions& options : std::vector<SamplingOptions>{
           {.temperature = 0},
           {.temperature = 1},
           {.temperature = 1, .top_k = 7},
           {.temperature = 1, .top_p = 0.3f},
           {.temperature = 1, .top_k = 100, .top_p = 0.5f, .min_p = 0.9f}}) {
    EXPECT_EQ(SameShare(logits, options), 1);
  }
}

TEST_F(CudaDraw, MasksBiasesAndPenaltiesAreTheSamplers) {
  const std::vector<int32_t> before = {3, 17, 3, 4095, 3, 100, 31, 32};
  const std::vector<SamplingOptions> all = {
      {.temperature = 0},
      {.temperature = 0, .repetition_penalty = 1.5f, .frequency_penalty = 0.7f},
      {.temperature = 1},
      {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .presence_penalty = 2},
      {.temperature = 1, .min_p = 0.02f, .repetition_penalty = 0.7f},
      {.temperature = 0.7f, .top_p = 0.5f, .logit_bias = {{0, 4.0f}, {1, -6.0f}, {0, 1.0f}}},
  };
  for (const int64_t count : {2, 33, 1000, 49152, 128256}) {
    const Tensor logits = PeakedLogits(count > 1000 ? 20 : 60, count, 3);
    for (const int64_t each : {1, 3, 500}) {
      const std::vector<std::vector<uint32_t>> masks = MasksFor(logits, each);
      for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(SameShare(logits, all[i], masks, before), 1)
            << count << " logits, one of " << each << ", options " << i;
      }
    }
    EXPECT_EQ(SameShare(logits, all[1], {}, before), 1) << count;
    EXPECT_EQ(SameShare(logits, {.temperature = 1, .logit_bias = {{1, -kDrawInf}}}), 1) << count;
  }
}

/// Those of the model's own distribution, whatever a mask or penalties make of it.
TEST_F(CudaDraw, LogProbabilitiesAreTheSamplers) {
  for (const int64_t count : {1, 2, 40, 1000, 49152, 128256}) {
    for (const float spread : {0.01f, 0.2f, 3.0f, 40.0f}) {
      const Tensor logits = PeakedLogits(12, count, spread);
      for (const int top : {0, 1, 20, cuda::kMostReported}) {
        SamplingOptions options{.temperature = 1, .frequency_penalty = 1, .top_logprobs = top};
        const std::vector<int32_t> before = {5, 5, 6};
        EXPECT_EQ(SameShare(logits, options), 1) << count << ", " << top;
        EXPECT_EQ(SameShare(logits, options, MasksFor(logits, 3), before), 1)
            << count << ", " << top;
        options.temperature = 0;
        EXPECT_EQ(SameShare(logits, options, {}, before), 1) << count << ", " << top;
      }
    }
  }
  Tensor ties = Tensor::Zeros(DType::kF32, {4, 5000});
  for (int64_t i = 0; i < ties.elements(); ++i) ties.data<float>()[i] = static_cast<float>(i % 3);
  EXPECT_EQ(SameShare(ties, {.temperature = 1, .top_logprobs = 20}), 1);
}

/// Draws of some rows only, again and again in all turns, with lists of other sizes each time.
TEST_F(CudaDraw, TurnsDoNotDisturbEachOther) {
  const Tensor logits = PeakedLogits(64, 32000, 2);
  const std::vector<std::vector<uint32_t>> masks = MasksFor(logits, 7);
  cuda::Stream stream(0);
  const std::unique_ptr<cuda::TokenDrawer> drawer = cuda::MakeTokenDrawer(&stream);
  const Tensor there = cuda::ToDevice(logits, Device::Cuda(0));
  const std::shared_ptr<Buffer> pinned = cuda::AllocatePinned(2 * 64 * sizeof(int32_t));
  auto* const tokens = reinterpret_cast<int32_t*>(pinned->data());
  std::vector<int32_t> expected[2];
  const auto check = [&](size_t turn, size_t step) {
    drawer->End(turn);
    for (size_t row = 0; row < expected[turn].size(); ++row) {
      EXPECT_EQ(tokens[64 * turn + row], expected[turn][row]) << "step " << step << ", row " << row;
    }
  };
  constexpr size_t kSteps = 40;
  for (size_t step = 0; step < kSteps; ++step) {
    const size_t turn = step % 2;
    int32_t* const mine = tokens + 64 * turn;
    if (step > 1) check(turn, step - 2);
    std::vector<cuda::TokenDraw> draws;
    expected[turn].assign(64, -7);
    std::fill_n(mine, 64, -7);
    for (size_t row = step % 3; row < 64; row += 1 + step % 5) {
      Sampler sampler({.temperature = 1, .seed = step * 64 + row});
      cuda::TokenDraw& draw = draws.emplace_back(NextDraw(sampler));
      draw.row = static_cast<int32_t>(row);
      if ((row + step) % 2 == 0) draw.allowed = masks[row];
      expected[turn][row] =
          sampler.Sample(RowOf(logits, static_cast<int64_t>(row)), draw.allowed).token;
    }
    drawer->Begin(turn, there, draws, mine);
  }
  check(0, kSteps - 2);
  check(1, kSteps - 1);
}

/// More log-probabilities than the GPU tells bring the logits to the host, where a Sampler draws.
TEST_F(CudaDraw, AnAnswerIsTheSameWithLogitsAndWithout) {
  LanguageModelOptions load;
  load.device = Device::Cuda(0);
  const auto model = LanguageModel::Load(TestData() / "checkpoints" / "llama", load);
  const auto answer = [&](int top_logprobs, uint64_t seed) {
    Engine engine(model);
    GenerateRequest request;
    request.prompt = {1, 2, 3};
    request.max_tokens = 20;
    request.ignore_end = true;
    request.sampling = {.temperature = 0.9f, .top_k = 40, .top_p = 0.95f, .seed = seed};
    request.sampling.top_logprobs = top_logprobs;
    return engine.Generate(request).tokens;
  };
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const std::vector<int32_t> want = answer(cuda::kMostReported + 1, seed);
    EXPECT_EQ(answer(-1, seed), want) << seed;
    EXPECT_EQ(answer(3, seed), want) << seed;
  }
  EXPECT_NE(answer(-1, 1), answer(-1, 2));
}

/// The GPU is a step ahead of the host also where rows are drawn and held to a form, and beside
/// beams, whose logits come to the host: all get what a Sampler on the host gives each alone.
TEST_F(CudaDraw, StepsOfAllKindsOfRowsGiveWhatTheHostPicks) {
  LanguageModelOptions load;
  load.device = Device::Cuda(0);
  load.exact = true;
  const auto model = LanguageModel::Load(TestData() / "checkpoints" / "llama", load);
  const auto request = [&](size_t i) {
    GenerateRequest made;
    made.prompt = {static_cast<int32_t>(3 + i % 30), 17, static_cast<int32_t>(1 + i % 5)};
    made.max_tokens = static_cast<int64_t>(10 + i * 7 % 40);
    made.ignore_end = true;
    made.sampling.seed = i;
    if (i % 3 > 0) made.sampling.temperature = 0.9f;
    if (i % 4 == 1)
      made.constraint = std::make_shared<TurningConstraint>(static_cast<int>(2 + i % 5));
    if (i % 5 == 2) made.sampling.repetition_penalty = 1.3f;
    if (i % 7 == 3) made.sampling.logit_bias = {{4, 2.0f}, {7, -3.0f}};
    return made;
  };
  EngineOptions options;
  options.cache_tokens = 4096;
  options.deterministic = true;
  constexpr size_t kRequests = 12;
  std::vector<std::vector<int32_t>> want;
  for (size_t i = 0; i < kRequests; ++i) {
    GenerateRequest with_logits = request(i);
    with_logits.sampling.top_logprobs = cuda::kMostReported + 1;
    want.push_back(Engine(model, options).Generate(with_logits).tokens);
  }
  for (const bool with_beams : {false, true}) {
    Engine engine(model, options);
    std::vector<int64_t> ids;
    if (with_beams) {
      GenerateRequest beams = request(0);
      beams.beams.width = 3;
      engine.Submit(beams);
    }
    for (size_t i = 0; i < kRequests; ++i) {
      ids.push_back(engine.Submit(request(i)));
      if (i % 3 == 0) engine.Step();
    }
    while (engine.Step()) {
    }
    for (size_t i = 0; i < kRequests; ++i) {
      EXPECT_EQ(engine.Take(ids[i]).value().tokens, want[i]) << i << ", beams " << with_beams;
    }
    EXPECT_EQ(engine.stats().used_blocks, 0);
  }
}

TEST_F(CudaDraw, NoTokenIsMinusOne) {
  Tensor none = Tensor::Zeros(DType::kF32, {4, 300});
  std::fill_n(none.data<float>(), none.elements(), -kDrawInf);
  std::vector<cuda::TokenDraw> draws(3);
  draws[1] = {.row = 1, .reported = 5};
  draws[2] = {.top_k = 1, .row = 3};
  EXPECT_EQ(DrawOnGpu(none, draws).tokens, (std::vector<int32_t>{-1, -1, -7, -1}));
  // A mask may leave none, too.
  const std::vector<uint32_t> nothing(10);
  const std::vector<cuda::TokenDraw> masked = {{.row = 2, .allowed = nothing}};
  EXPECT_EQ(DrawOnGpu(Tensor::Zeros(DType::kF32, {4, 300}), masked).tokens[2], -1);
}

}  // namespace
}  // namespace oort
