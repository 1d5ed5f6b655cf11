// SPDX-License-Identifier: MIT
// Requests of all kinds at once: each has the answers that it has alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "kit/paths.h"
#include "kit/sanitized.h"
#include "oort/engine.h"

namespace oort {
namespace {

/// Never the same token twice, nor one next to it.
class NoNeighbours : public TokenConstraint {
 public:
  void Mask(std::span<uint32_t> bits) override {
    for (int32_t token = 0; token < 40; ++token) {
      if (IsFree(token)) bits[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token % 32);
    }
  }
  bool Accept(int32_t token) override {
    if (!IsFree(token)) return false;
    last_ = token;
    return true;
  }
  bool done() const override { return true; }
  std::unique_ptr<TokenConstraint> Clone() const override {
    return std::make_unique<NoNeighbours>(*this);
  }

 private:
  bool IsFree(int32_t token) const { return std::abs(token - last_) > 1; }
  int32_t last_ = -5;
};

class Mix {
 public:
  explicit Mix(uint32_t seed) : random_(seed) {}
  size_t Below(size_t n) { return static_cast<size_t>(random_() % n); }
  bool OneIn(size_t n) { return Below(n) == 0; }

  GenerateRequest Request() {
    GenerateRequest request;
    const size_t length = 1 + Below(OneIn(3) ? 30 : 8);
    for (size_t i = 0; i < length; ++i) {
      // Beginnings that others have, too.
      request.prompt.push_back(i < 18 ? static_cast<int32_t>(i) : static_cast<int32_t>(Below(40)));
    }
    if (OneIn(2)) request.prompt.back() = static_cast<int32_t>(Below(40));
    request.max_tokens = static_cast<int64_t>(Below(33));
    request.ignore_end = OneIn(2);
    if (OneIn(4)) request.min_tokens = static_cast<int64_t>(Below(10));
    if (OneIn(3)) request.constraint = std::make_shared<NoNeighbours>();
    request.priority = static_cast<int>(Below(3));
    request.caller = Below(3);
    request.sampling.seed = Below(100);
    request.sampling.top_logprobs = OneIn(2) ? static_cast<int>(Below(3)) : -1;
    if (OneIn(3)) request.sampling.repetition_penalty = 1.2F;
    if (OneIn(3)) request.sampling.frequency_penalty = 0.5F;
    if (OneIn(3)) request.sampling.logit_bias = {{4, 1.5F}, {9, -INFINITY}};
    if (OneIn(5)) request.prompt_logprobs = 1;
    if (OneIn(5)) {
      request.beams.width = static_cast<int64_t>(2 + Below(3));
      request.n = static_cast<int64_t>(1 + Below(2));
    } else {
      request.sampling.temperature = OneIn(3) ? 0.0F : 1.0F;
      request.sampling.top_k = OneIn(3) ? 5 : 0;
      request.n = OneIn(2) ? static_cast<int64_t>(1 + Below(5)) : 1;
      if (OneIn(5)) request.best_of = request.n + static_cast<int64_t>(Below(3));
    }
    return request;
  }

 private:
  std::mt19937 random_;
};

void ExpectSame(const GeneratedAnswer& got, const GeneratedAnswer& want, float tolerance) {
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.text, want.text);
  EXPECT_EQ(got.index, want.index);
  EXPECT_EQ(got.finish, want.finish);
  ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
  for (size_t i = 0; i < want.logprobs.size(); ++i) {
    EXPECT_LE(std::abs(got.logprobs[i] - want.logprobs[i]), tolerance) << i;
  }
}

void ExpectSame(const GenerateResult& got, const GenerateResult& want, float tolerance) {
  ExpectSame(static_cast<const GeneratedAnswer&>(got), want, tolerance);
  ASSERT_EQ(got.others.size(), want.others.size());
  for (size_t i = 0; i < want.others.size(); ++i) {
    ExpectSame(got.others[i], want.others[i], tolerance);
  }
  ASSERT_EQ(got.prompt_logprobs.size(), want.prompt_logprobs.size());
  for (size_t i = 0; i < want.prompt_logprobs.size(); ++i) {
    EXPECT_LE(std::abs(got.prompt_logprobs[i] - want.prompt_logprobs[i]), tolerance) << i;
  }
}

/// One case: requests that come at random moments, some of which are cancelled. Where nothing is
/// read again or found in the cache, all numbers are the same bit for bit.
void RunMix(const std::shared_ptr<const LanguageModel>& model, uint32_t seed, int64_t& preemptions,
            const DraftOptions& draft = {}) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Mix mix(seed);
  // All reserve their room; those without room are copied away; they are read again, or found.
  const size_t way = mix.Below(3);
  Engine engine(model, {.threads = 1,
                        .cache_tokens = static_cast<int64_t>(16 * (17 + mix.Below(6))),
                        .most_running = static_cast<int64_t>(8 + mix.Below(20)),
                        .reserve_cache = way == 0,
                        .swap_bytes = way == 1 ? size_t{1} << 24 : 0,
                        .reuse_prefixes = way == 2,
                        .draft = draft});
  Engine alone(model, {.threads = 1, .cache_tokens = 1024, .deterministic = true});
  struct Asked {
    GenerateRequest request;
    int64_t id = 0;
    bool cancelled = false;
  };
  std::vector<Asked> all;
  int64_t steps = 0;
  for (size_t left = 8; left > 0 || engine.Step(); ++steps) {
    ASSERT_LT(steps, 20'000) << "the engine does not come to an end";
    if (left > 0 && mix.OneIn(2)) {
      Asked asked{mix.Request()};
      if (seed % 4 == 3 && left % 2 == 0) asked.request.draft_tokens = static_cast<int64_t>(left);
      asked.id = engine.Submit(asked.request);
      all.push_back(std::move(asked));
      --left;
    }
    if (left > 0) engine.Step();
    if (mix.OneIn(12) && !all.empty()) {
      Asked& asked = all[mix.Below(all.size())];
      engine.Cancel(asked.id);
      asked.cancelled = true;
    }
  }
  EXPECT_EQ(engine.stats().used_blocks, 0);
  EXPECT_EQ(engine.stats().waiting, 0);
  preemptions += engine.stats().preemptions;
  for (const Asked& asked : all) {
    const std::optional<GenerateResult> got = engine.Take(asked.id);
    ASSERT_TRUE(got.has_value());
    if (asked.cancelled && got->finish == FinishReason::kCancelled) continue;
    const bool some_cancelled = std::ranges::any_of(got->others, [](const GeneratedAnswer& other) {
      return other.finish == FinishReason::kCancelled;
    });
    if (some_cancelled) continue;
    // A beam that finds no room is read again.
    const bool reads_again = way == 2 || (way == 1 && asked.request.beams.width > 0);
    ExpectSame(*got, alone.Generate(asked.request), reads_again ? 1e-3F : 0.0F);
  }
}

TEST(Mix, EveryRequestAnswersAsIfAlone) {
  const auto model = LanguageModel::Load(TestData() / "checkpoints" / "llama", {.exact = true});
  constexpr uint32_t kCases = testing::IsSanitized() ? 20 : 100;
  int64_t preemptions = 0;
  for (uint32_t seed = 0; seed < kCases && !::testing::Test::HasFailure(); ++seed) {
    RunMix(model, seed, preemptions);
  }
  EXPECT_GT(preemptions, 0);
}

/// The same with guesses, of n-grams or of a model, of which most are wrong.
TEST(Mix, GuessesChangeNoAnswer) {
  const std::filesystem::path checkpoints = TestData() / "checkpoints";
  const auto model = LanguageModel::Load(checkpoints / "llama", {.exact = true});
  const auto other = LanguageModel::Load(checkpoints / "mistral", {.exact = true});
  constexpr uint32_t kCases = testing::IsSanitized() ? 12 : 60;
  int64_t preemptions = 0;
  for (uint32_t seed = 0; seed < kCases && !::testing::Test::HasFailure(); ++seed) {
    DraftOptions draft;
    draft.source = seed % 3 == 0 ? DraftOptions::kModel : DraftOptions::kNgram;
    if (seed % 3 == 0) draft.model = seed % 2 == 0 ? model : other;
    draft.tokens = std::vector<int64_t>{0, 1, 4, 15}[seed / 3 % 4];
    RunMix(model, 1000 + seed, preemptions, draft);
  }
  EXPECT_GT(preemptions, 0);
}

}  // namespace
}  // namespace oort
