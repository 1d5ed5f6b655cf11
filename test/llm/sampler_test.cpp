// SPDX-License-Identifier: MIT
#include "oort/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "cpu/kernels.h"
#include "cpu/sampling.h"
#include "llm/sampling/without_logits.h"
#include "oort/error.h"

namespace oort {
namespace {

constexpr float kSamplerInf = std::numeric_limits<float>::infinity();
constexpr float kSamplerNan = std::numeric_limits<float>::quiet_NaN();

/// Logits without order that are the same everywhere.
std::vector<float> SamplerLogits(size_t count, uint64_t seed = 1) {
  std::vector<float> logits(count);
  for (float& logit : logits) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    logit = static_cast<float>(static_cast<double>(seed >> 33) / 4294967296.0 * 12 - 3);
  }
  return logits;
}

/// The rules once more, one after the other and in f64.
std::vector<double> SamplerReference(const std::vector<float>& logits,
                                     const SamplingOptions& options,
                                     const std::vector<int32_t>& prompt,
                                     const std::vector<int32_t>& answer) {
  std::vector<double> z(logits.begin(), logits.end());
  for (const auto& [token, bias] : options.logit_bias) z[static_cast<size_t>(token)] += bias;
  std::map<int32_t, int> counts;
  for (const int32_t token : prompt) counts[token] += 0;
  for (const int32_t token : answer) counts[token] += 1;
  for (const auto& [token, count] : counts) {
    double& x = z[static_cast<size_t>(token)];
    x = x < 0 ? x * options.repetition_penalty : x / options.repetition_penalty;
    if (count > 0) x -= options.presence_penalty + options.frequency_penalty * count;
  }
  for (double& x : z) x /= options.temperature;
  std::vector<double> sorted = z;
  std::sort(sorted.rbegin(), sorted.rend());
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < z.size()) {
    for (double& x : z) x = x < sorted[static_cast<size_t>(options.top_k) - 1] ? -INFINITY : x;
  }
  const auto softmax = [&] {
    std::vector<double> p(z.size());
    double sum = 0;
    for (size_t i = 0; i < z.size(); ++i) sum += p[i] = std::exp(z[i] - sorted[0]);
    for (double& x : p) x /= sum;
    return p;
  };
  std::vector<double> p = softmax();
  std::vector<size_t> order(z.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  double before = 0;
  for (const size_t i : order) {
    if (before >= options.top_p) z[i] = -INFINITY;
    before += p[i];
  }
  p = softmax();
  const double most = *std::max_element(p.begin(), p.end());
  for (size_t i = 0; i < z.size(); ++i) z[i] = p[i] < options.min_p * most ? -INFINITY : z[i];
  return softmax();
}

/// Draws often and compares how often each token came, by chi-square (5 sigma).
void ExpectDistribution(const std::vector<float>& logits, SamplingOptions options,
                        const std::vector<int32_t>& prompt = {},
                        const std::vector<int32_t>& answer = {}) {
  const std::vector<double> expected = SamplerReference(logits, options, prompt, answer);
  constexpr int kDraws = 20000;
  std::vector<int> counts(logits.size());
  for (int i = 0; i < kDraws; ++i) {
    options.seed = static_cast<uint64_t>(i);
    Sampler sampler(options);
    sampler.AddPrompt(prompt);
    for (const int32_t token : answer) sampler.Accept(token);
    ++counts[static_cast<size_t>(sampler.Sample(logits).token)];
  }
  double chi = 0;
  int freedom = -1;
  double rare = 0, rare_count = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (expected[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i << " was left out";
    } else if (expected[i] * kDraws < 5) {
      rare += expected[i] * kDraws;
      rare_count += counts[i];
    } else {
      const double want = expected[i] * kDraws, d = counts[i] - want;
      chi += d * d / want;
      ++freedom;
    }
  }
  if (rare > 0) {
    chi += (rare_count - rare) * (rare_count - rare) / rare;
    ++freedom;
  }
  EXPECT_LT(chi, freedom + 5 * std::sqrt(2.0 * freedom + 2) + 5)
      << freedom << " degrees of freedom";
}

TEST(Sampler, GreedyTakesTheFirstOfTheLargest) {
  Sampler sampler;
  EXPECT_EQ(sampler.Sample(std::vector<float>{1, 3, 2, 3}).token, 1);
  EXPECT_EQ(sampler.Sample(std::vector<float>{kSamplerNan, -kSamplerInf, -5, kSamplerNan}).token,
            2);
  EXPECT_EQ(sampler.Sample(std::vector<float>{1, kSamplerInf, kSamplerInf}).token, 1);
  for (size_t size = 1; size < 70; ++size) {
    std::vector<float> logits(size, -2.0F);
    logits[size / 2] = kSamplerNan;
    logits[size - 1] = -1;
    EXPECT_EQ(sampler.Sample(logits).token, static_cast<int32_t>(size) - 1);
  }
}

TEST(Sampler, NothingToPickIsAnError) {
  for (const float temperature : {0.0F, 1.0F}) {
    Sampler sampler({.temperature = temperature});
    for (const auto& logits : {std::vector<float>{}, {kSamplerNan}, {-kSamplerInf, kSamplerNan}}) {
      EXPECT_THROW(sampler.Sample(logits), Error);
    }
  }
  Sampler forbidden({.logit_bias = {{0, -kSamplerInf}}});
  EXPECT_THROW(forbidden.Sample(std::vector<float>{1}), Error);
  EXPECT_EQ(forbidden.Sample(std::vector<float>{1, -9}).token, 1);
  Sampler beyond({.logit_bias = {{5, 1}}});
  EXPECT_THROW(beyond.Sample(std::vector<float>{1}), Error);
}

TEST(Sampler, OptionsAreChecked) {
  const auto refuse = [](SamplingOptions options, const char* name) {
    try {
      Sampler sampler(options);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  };
  refuse({.temperature = -1}, "temperature");
  refuse({.temperature = kSamplerNan}, "temperature");
  refuse({.temperature = kSamplerInf}, "temperature");
  refuse({.top_k = -1}, "top_k");
  refuse({.top_p = 0}, "top_p");
  refuse({.top_p = 1.5F}, "top_p");
  refuse({.top_p = kSamplerNan}, "top_p");
  refuse({.min_p = -0.1F}, "min_p");
  refuse({.min_p = kSamplerNan}, "min_p");
  refuse({.repetition_penalty = 0}, "repetition_penalty");
  refuse({.presence_penalty = kSamplerNan}, "presence_penalty");
  refuse({.frequency_penalty = kSamplerInf}, "frequency_penalty");
  refuse({.logit_bias = {{-1, 0}}}, "logit_bias");
  refuse({.logit_bias = {{1, kSamplerNan}}}, "logit_bias");
  refuse({.top_logprobs = -2}, "top_logprobs");
}

TEST(Sampler, DrawsFromTheDistribution) {
  const std::vector<float> logits = SamplerLogits(37);
  ExpectDistribution(logits, {.temperature = 1});
  ExpectDistribution(logits, {.temperature = 0.5F});
  ExpectDistribution(logits, {.temperature = 3});
  ExpectDistribution(logits, {.temperature = 1, .top_k = 5});
  ExpectDistribution(logits, {.temperature = 1, .top_k = 100});
  ExpectDistribution(logits, {.temperature = 1, .top_p = 0.7F});
  ExpectDistribution(logits, {.temperature = 1, .top_p = 0.01F});
  ExpectDistribution(logits, {.temperature = 1, .min_p = 0.2F});
  ExpectDistribution(logits, {.temperature = 2, .top_k = 12, .top_p = 0.8F, .min_p = 0.1F});
  ExpectDistribution(logits, {.temperature = 8, .top_p = 0.95F});
}

TEST(Sampler, PenaltiesAndBias) {
  const std::vector<float> logits = SamplerLogits(37);
  const std::vector<int32_t> prompt{1, 2, 2, 3, 9}, answer{3, 3, 8, 4};
  ExpectDistribution(logits, {.temperature = 1, .repetition_penalty = 1.8F}, prompt, answer);
  ExpectDistribution(logits, {.temperature = 1, .presence_penalty = 1.5F}, prompt, answer);
  ExpectDistribution(logits, {.temperature = 1, .frequency_penalty = 0.7F}, prompt, answer);
  ExpectDistribution(logits, {.temperature = 1, .logit_bias = {{5, 3}, {7, -kSamplerInf}}}, prompt,
                     answer);
  ExpectDistribution(logits,
                     {.temperature = 0.8F,
                      .top_k = 9,
                      .repetition_penalty = 1.3F,
                      .presence_penalty = 0.4F,
                      .frequency_penalty = -0.3F,
                      .logit_bias = {{30, 2}}},
                     prompt, answer);
}

TEST(Sampler, TopKKeepsWhatTiesWithTheLast) {
  Sampler sampler({.temperature = 1, .top_k = 2});
  std::map<int32_t, int> counts;
  for (int i = 0; i < 300; ++i) ++counts[sampler.Sample(std::vector<float>{5, 4, 4, 4, 1}).token];
  EXPECT_EQ(counts.size(), 4u);
  EXPECT_EQ(counts.count(4), 0u);
}

TEST(Sampler, LargeVocabulariesGiveTheSameAsTheReference) {
  // Many equal values, so that the cuts of top_k and top_p meet ties and blocks.
  std::vector<float> logits = SamplerLogits(50000, 3);
  for (float& logit : logits) logit = std::round(logit * 64) / 64;
  logits[777] = 20;
  logits[40001] = 19.5F;
  for (const SamplingOptions& options : {SamplingOptions{.temperature = 1, .top_k = 50},
                                         SamplingOptions{.temperature = 1, .top_p = 0.9F},
                                         SamplingOptions{.temperature = 5, .top_p = 0.5F},
                                         SamplingOptions{.temperature = 1, .min_p = 0.05F}}) {
    const std::vector<double> expected = SamplerReference(logits, options, {}, {});
    Sampler sampler(options);
    for (int i = 0; i < 50; ++i) {
      EXPECT_GT(expected[static_cast<size_t>(sampler.Sample(logits).token)], 0);
    }
  }
}

TEST(Sampler, ASeedGivesTheSameTokensWhateverElseRuns) {
  const std::vector<float> logits = SamplerLogits(500);
  const auto draw = [&](Sampler& sampler) { return sampler.Sample(logits).token; };
  Sampler alone({.temperature = 2, .seed = 11});
  std::vector<int32_t> expected;
  for (int i = 0; i < 40; ++i) expected.push_back(draw(alone));
  Sampler first({.temperature = 2, .seed = 11}), second({.temperature = 2, .seed = 12});
  int different = 0;
  for (int i = 0; i < 40; ++i) {
    const int32_t other = draw(second);
    EXPECT_EQ(draw(first), expected[static_cast<size_t>(i)]);
    different += other != expected[static_cast<size_t>(i)];
  }
  EXPECT_GT(different, 20);
  // A token that is given moves on like one that was drawn.
  Sampler resumed({.temperature = 2, .seed = 11});
  for (int i = 0; i < 20; ++i) resumed.Accept(expected[static_cast<size_t>(i)]);
  for (int i = 20; i < 40; ++i) EXPECT_EQ(draw(resumed), expected[static_cast<size_t>(i)]);
}

TEST(Sampler, ReportsTheModelsOwnProbabilities) {
  const std::vector<float> logits{1, 4, 2, 4, kSamplerNan, -kSamplerInf};
  double sum = 0;
  for (const double x : {1.0, 4.0, 2.0, 4.0}) sum += std::exp(x);
  Sampler sampler({.temperature = 0.1F, .logit_bias = {{2, 100}}, .top_logprobs = 3});
  const SampledToken sampled = sampler.Sample(logits);
  EXPECT_EQ(sampled.token, 2);
  EXPECT_NEAR(sampled.logprob, 2 - std::log(sum), 1e-6);
  ASSERT_EQ(sampled.top.size(), 3u);
  EXPECT_EQ(sampled.top[0].token, 1);
  EXPECT_EQ(sampled.top[1].token, 3);
  EXPECT_EQ(sampled.top[2].token, 2);
  EXPECT_NEAR(sampled.top[0].logprob, 4 - std::log(sum), 1e-6);
  Sampler many({.top_logprobs = 100});
  EXPECT_EQ(many.Sample(logits).top.size(), 5u);  // NaN has no place in the list
  EXPECT_TRUE(Sampler({.top_logprobs = 0}).Sample(logits).top.empty());
}

TEST(SamplerKernels, AgreeOnEveryInstructionSet) {
  for (const Isa isa : SupportedIsas()) {
    const SamplingKernels& kernels = SamplingKernelsFor(isa);
    for (const size_t size : {1u, 3u, 15u, 16u, 17u, 1023u, 1024u, 1031u, 5000u}) {
      std::vector<float> x = SamplerLogits(size), y(size, -1.0F);
      x[size / 3] = kSamplerNan;
      if (size > 1) x[0] = -kSamplerInf;
      float max = -kSamplerInf;
      double sum = 0;
      for (const float v : x) max = v > max ? v : max;
      EXPECT_EQ(kernels.max(x.data(), static_cast<int64_t>(size)), max);
      if (size == 1) continue;
      for (const float v : x)
        sum += std::isnan(v) ? 0 : std::exp((static_cast<double>(v) - max) * 0.7);
      const double got = kernels.exp_sum(x.data(), y.data(), static_cast<int64_t>(size), max, 0.7F);
      EXPECT_NEAR(got, sum, 1e-5 * sum);
      EXPECT_EQ(y[size / 3], 0);
      EXPECT_NEAR(y[size - 1], std::exp((static_cast<double>(x[size - 1]) - max) * 0.7), 1e-6);
      EXPECT_EQ(kernels.exp_sum(x.data(), nullptr, static_cast<int64_t>(size), max, 0.7F), got);
    }
  }
}

TEST(Sampler, NeedsNoLogitsWhereTheArgmaxTokenIsAllThatCounts) {
  const auto with = [](auto change) {
    SamplingOptions options;
    change(options);
    return PicksArgmax(options);
  };
  EXPECT_TRUE(with([](SamplingOptions& o) { o.seed = 7; }));
  EXPECT_TRUE(with([](SamplingOptions& o) { o.top_k = 3; }));
  EXPECT_FALSE(with([](SamplingOptions& o) { o.temperature = 0.5f; }));
  EXPECT_FALSE(with([](SamplingOptions& o) { o.repetition_penalty = 1.1f; }));
  EXPECT_FALSE(with([](SamplingOptions& o) { o.presence_penalty = 0.1f; }));
  EXPECT_FALSE(with([](SamplingOptions& o) { o.frequency_penalty = 0.1f; }));
  EXPECT_FALSE(with([](SamplingOptions& o) { o.logit_bias = {{3, 1.0f}}; }));
  EXPECT_FALSE(with([](SamplingOptions& o) { o.top_logprobs = 0; }));
}

TEST(Sampler, SaysHowItsNextTokenIsDrawn) {
  EXPECT_TRUE(OnlyDraws({.temperature = 0.5f, .top_k = 3, .top_p = 0.9f, .min_p = 0.1f}));
  EXPECT_FALSE(OnlyDraws({.temperature = 0.5f, .frequency_penalty = 0.1f}));
  EXPECT_FALSE(OnlyDraws({.temperature = 0.5f, .top_logprobs = 0}));
  EXPECT_EQ(NextDraw(Sampler({.top_k = 40})).top_k, 1);  // greedy
  Sampler sampler({.temperature = 0.5f, .top_k = int64_t{1} << 40, .top_p = 0.9f, .seed = 4});
  const cuda::TokenDraw first = NextDraw(sampler);
  EXPECT_EQ(first.top_k, INT32_MAX);
  EXPECT_EQ(first.temperature, 0.5f);
  EXPECT_EQ(first.top_p, 0.9f);
  // Four tokens that are equally likely: the number says which comes.
  sampler = Sampler({.temperature = 1, .seed = 4});
  for (int i = 0; i < 20; ++i) {
    const double at = sampler.NextUniform();
    EXPECT_EQ(NextDraw(sampler).uniform, at);
    EXPECT_EQ(sampler.Sample(std::vector<float>(4, 1.0f)).token, static_cast<int32_t>(4 * at));
  }
}

TEST(Sampler, SaysWhatItChangesOfTheLogits) {
  SamplingOptions options;
  options.logit_bias = {{4, 1.0f}, {2, -1.0f}, {4, 0.5f}};
  Sampler sampler(options);
  sampler.Accept(2);
  std::vector<LogitChange> changes;
  FindLogitChanges(sampler, 5, changes);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].Of(3), 2);
  EXPECT_EQ(changes[1].token, 4);
  EXPECT_EQ(changes[1].Of(3), 4.5f);
  EXPECT_FALSE(DependsOnTokens(options));
  EXPECT_THROW(FindLogitChanges(sampler, 4, changes), Error);

  options.repetition_penalty = 2;
  options.presence_penalty = 0.5f;
  options.frequency_penalty = 0.25f;
  EXPECT_TRUE(DependsOnTokens(options));
  sampler = Sampler(options);
  const std::vector<int32_t> prompt = {1, 9};
  sampler.AddPrompt(prompt);
  for (const int32_t token : {4, 3, 4}) sampler.Accept(token);
  FindLogitChanges(sampler, 5, changes);
  std::ranges::sort(changes, {}, &LogitChange::token);
  std::vector<float> changed;
  for (const LogitChange& change : changes) {
    EXPECT_EQ(change.token, static_cast<int32_t>(changed.size()) + 1);  // the last id is unknown
    changed.push_back(change.Of(4));
    changed.back() += change.Of(-4);
  }
  EXPECT_EQ(changed,
            (std::vector<float>{2 - 8, 3 - 5, 2 - 0.75f - 8 - 0.75f, 5.5f / 2 - 1 - 2.5f * 2 - 1}));
}

TEST(Sampler, SaysTheSameOfNoTokenWithAndWithoutLogits) {
  Sampler sampler;
  EXPECT_EQ(SampleDrawn(sampler, 5).token, 5);
  const auto text = [](auto pick) {
    try {
      pick();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return std::string(error.what());
    }
    return std::string();
  };
  const std::vector<float> none(3, -kSamplerInf);
  const std::string with = text([&] { sampler.Sample(none); });
  EXPECT_FALSE(with.empty());
  EXPECT_EQ(with, text([&] { SampleDrawn(sampler, -1); }));
}

}  // namespace
}  // namespace oort
