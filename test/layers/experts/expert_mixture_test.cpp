// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "layers/experts/expert_routing.h"
#include "oort/testing.h"

namespace oort {
namespace {

using testing::OperatorCase;
using testing::RandomTensor;

constexpr int64_t kWidth = 32, kInner = 20, kExperts = 5;

/// Weights of all experts, as rows behind each other.
struct MixtureWeights {
  Tensor gate = RandomTensor(DType::kF32, {kExperts * kInner, kWidth}, 1, -0.3, 0.3);
  Tensor up = RandomTensor(DType::kF32, {kExperts * kInner, kWidth}, 2, -0.3, 0.3);
  Tensor down = RandomTensor(DType::kF32, {kExperts * kWidth, kInner}, 3, -0.3, 0.3);
  Tensor gate_bias = RandomTensor(DType::kF32, {kExperts * kInner}, 4);
  Tensor up_bias = RandomTensor(DType::kF32, {kExperts * kInner}, 5);
  Tensor down_bias = RandomTensor(DType::kF32, {kExperts * kWidth}, 6);
};

double Dot(const Tensor& weight, int64_t row, const double* x) {
  const int64_t columns = weight.dim(1);
  double sum = 0;
  for (int64_t i = 0; i < columns; ++i) sum += weight.data<float>()[row * columns + i] * x[i];
  return sum;
}

struct MixtureRule {
  int64_t used = 2;
  bool normalized = false;
  double limit = 0;
  bool biased = false;
  bool scales_inputs = false;  // by the sigmoid
};

/// What one expert makes of a row.
std::vector<double> ExpertOf(const MixtureWeights& w, const MixtureRule& rule, int64_t expert,
                             const double* x) {
  std::vector<double> hidden, out;
  for (int64_t i = 0; i < kInner; ++i) {
    const int64_t row = expert * kInner + i;
    double g = Dot(w.gate, row, x) + (rule.biased ? w.gate_bias.data<float>()[row] : 0);
    double u = Dot(w.up, row, x) + (rule.biased ? w.up_bias.data<float>()[row] : 0);
    if (rule.limit > 0) {
      g = std::min(g, rule.limit);
      u = std::clamp(u, -rule.limit, rule.limit) + 1;
    }
    hidden.push_back(u * g / (1 + std::exp(-(rule.limit > 0 ? 1.702 : 1) * g)));
  }
  for (int64_t i = 0; i < kWidth; ++i) {
    const int64_t row = expert * kWidth + i;
    out.push_back(Dot(w.down, row, hidden.data()) +
                  (rule.biased ? w.down_bias.data<float>()[row] : 0));
  }
  return out;
}

/// Token by token and expert by expert, in f64.
Tensor MixtureOf(const MixtureWeights& w, const MixtureRule& rule, const Tensor& x,
                 const Tensor& router, const Tensor& addend) {
  Tensor y(DType::kF32, x.shape());
  for (int64_t token = 0; token < x.dim(0); ++token) {
    const float* logits = router.data<float>() + token * kExperts;
    std::vector<int64_t> order(kExperts);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
    double all = 0;
    for (int64_t i = 0; i < (rule.normalized ? rule.used : kExperts); ++i) {
      all += std::exp(logits[order[static_cast<size_t>(i)]]);
    }
    std::vector<double> row(kWidth), sum(kWidth);
    for (int64_t i = 0; i < kWidth; ++i) {
      row[static_cast<size_t>(i)] = x.data<float>()[token * kWidth + i];
      if (addend.defined()) sum[static_cast<size_t>(i)] = addend.data<float>()[token * kWidth + i];
    }
    for (int64_t i = 0; i < rule.used; ++i) {
      const int64_t expert = order[static_cast<size_t>(i)];
      std::vector<double> in = row;
      double weight = std::exp(logits[expert]) / all;
      if (rule.scales_inputs) {
        for (double& number : in) number /= 1 + std::exp(-logits[expert]);
        weight = 1;
      }
      const std::vector<double> out = ExpertOf(w, rule, expert, in.data());
      for (size_t j = 0; j < out.size(); ++j) sum[j] += out[j] * weight;
    }
    for (size_t j = 0; j < sum.size(); ++j) {
      y.data<float>()[token * kWidth + static_cast<int64_t>(j)] = static_cast<float>(sum[j]);
    }
  }
  return y;
}

OperatorCase MixtureCase(const MixtureWeights& w, const MixtureRule& rule) {
  OperatorCase op("oort.ExpertMixture");
  op.Param("in_features", std::to_string(kWidth)).Param("intermediate", std::to_string(kInner));
  op.Param("experts", std::to_string(kExperts)).Param("used", std::to_string(rule.used));
  op.Param("normalized", rule.normalized ? "True" : "False").Param("activation", "silu");
  op.Param("limit", std::to_string(rule.limit));
  if (rule.scales_inputs) op.Param("scales_inputs", "True").Param("sigmoid", "True");
  op.Attribute("weight", w.gate).Attribute("weight_1", w.up).Attribute("weight_2", w.down);
  if (rule.biased) {
    op.Attribute("bias", w.gate_bias).Attribute("bias_1", w.up_bias);
    op.Attribute("bias_2", w.down_bias);
  }
  return op;
}

TEST(ExpertMixture, EachTokenGoesThroughItsExperts) {
  const MixtureWeights w;
  for (const int64_t tokens : {1, 2, 7, 40}) {
    const Tensor x = RandomTensor(DType::kF32, {tokens, kWidth}, 7);
    const Tensor router = RandomTensor(DType::kF32, {tokens, kExperts}, 8, -3, 3);
    const Tensor addend = RandomTensor(DType::kF32, {tokens, kWidth}, 9);
    for (const bool normalized : {false, true}) {
      for (const int64_t used : {int64_t{1}, int64_t{2}, kExperts}) {
        const MixtureRule rule{used, normalized};
        MixtureCase(w, rule).Input(x).Input(router).ExpectOutputs(
            {MixtureOf(w, rule, x, router, {})}, {2e-4, 2e-4});
        MixtureCase(w, rule).Input(x).Input(router).Input(addend).ExpectOutputs(
            {MixtureOf(w, rule, x, router, addend)}, {2e-4, 2e-4});
      }
    }
  }
}

TEST(ExpertMixture, HoldsProductsToALimit) {
  const MixtureWeights w;
  const MixtureRule rule{.used = 3, .normalized = true, .limit = 0.5, .biased = true};
  const Tensor x = RandomTensor(DType::kF32, {6, kWidth}, 7);
  const Tensor router = RandomTensor(DType::kF32, {6, kExperts}, 8, -3, 3);
  MixtureCase(w, rule).Input(x).Input(router).ExpectOutputs({MixtureOf(w, rule, x, router, {})},
                                                            {2e-4, 2e-4});
}

TEST(ExpertMixture, WeightsMayScaleInputs) {
  const MixtureWeights w;
  for (const int64_t tokens : {1, 9}) {
    const Tensor x = RandomTensor(DType::kF32, {tokens, kWidth}, 7);
    const Tensor router = RandomTensor(DType::kF32, {tokens, kExperts}, 8, -3, 3);
    const MixtureRule rule{.used = 2, .scales_inputs = true};
    MixtureCase(w, rule).Input(x).Input(router).ExpectOutputs({MixtureOf(w, rule, x, router, {})},
                                                              {2e-4, 2e-4});
  }
}

TEST(ExpertMixture, SaysWhatDoesNotFit) {
  const MixtureWeights w;
  const Tensor x = RandomTensor(DType::kF32, {3, kWidth}, 7);
  const Tensor router = RandomTensor(DType::kF32, {3, kExperts}, 8);
  MixtureCase(w, {.used = kExperts + 1})
      .Input(x)
      .Input(router)
      .ExpectError(ErrorCode::kInvalidModel, "a token cannot use 6 of 5 experts");
  MixtureCase(w, {}).Input(x).Input(x).ExpectError(ErrorCode::kInvalidArgument,
                                                   "a router's logits (tokens,5)");
  MixtureWeights small;
  small.down = RandomTensor(DType::kF32, {kWidth, kInner}, 3);
  EXPECT_THROW(MixtureCase(small, {}).Input(x).Input(router).Run(), Error);
}

TEST(ExpertRouting, GroupsTokensByExpert) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> logits = {0, 1, 2, 3, 3, 1, 2, 0, 5, 5, 5, 5, nan, nan, nan, 1};
  const ExpertRouting routing({4, 2, true}, logits.data(), 4);
  EXPECT_EQ(routing.experts_in_use(), (std::vector<int64_t>{0, 1, 2, 3}));
  const auto tokens = [&](int64_t expert) {
    std::vector<int64_t> found;
    for (int64_t i = 0; i < routing.count(expert); ++i) {
      found.push_back(routing.begin(expert)[i].token);
    }
    return found;
  };
  EXPECT_EQ(tokens(0), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(tokens(1), (std::vector<int64_t>{2}));
  EXPECT_EQ(tokens(2), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(tokens(3), (std::vector<int64_t>{0, 3}));
  EXPECT_FLOAT_EQ(routing.begin(1)[0].weight, 0.5F);
  const float share = 1 / (1 + std::exp(-1.0F));
  EXPECT_FLOAT_EQ(routing.begin(3)[0].weight, share);
}

/// Experts of the only token, and their weights.
std::vector<std::pair<int64_t, float>> RoutedBy(const RoutingRule& rule,
                                                const std::vector<float>& logits) {
  const ExpertRouting routing(rule, logits.data(), 1);
  std::vector<std::pair<int64_t, float>> found;
  for (const int64_t expert : routing.experts_in_use()) {
    found.emplace_back(expert, routing.begin(expert)->weight);
  }
  return found;
}

TEST(ExpertRouting, ChoosesFromTheBestGroups) {
  const std::vector<float> logits = {3, 0, 2, 1.5F, 2.5F, -4};
  RoutingRule rule{.experts = 6, .used = 2, .groups = 3, .groups_used = 1};
  // The group with the best expert.
  const auto best = RoutedBy(rule, logits);
  ASSERT_EQ(best.size(), 2U);
  EXPECT_EQ(best[0].first, 0);
  EXPECT_EQ(best[1].first, 1);
  float all = 0;
  for (const float logit : logits) all += std::exp(logit);
  EXPECT_FLOAT_EQ(best[1].second, std::exp(0.0F) / all);
  // The group with the best two.
  rule.sigmoid = true;
  rule.scale = 3;
  const auto two = RoutedBy(rule, logits);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].first, 2);
  EXPECT_EQ(two[1].first, 3);
  const auto sigmoid = [](float x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_FLOAT_EQ(two[0].second, 3 * sigmoid(2));
}

/// In f32 all sigmoids of logits above 17 are 1, and all of those below -104 are 0.
TEST(ExpertRouting, LogitsRankWhereSigmoidsAreAlike) {
  const RoutingRule rule{.experts = 4, .used = 1, .sigmoid = true};
  const auto chosen = [&](const std::vector<float>& logits) {
    return RoutedBy(rule, logits).at(0).first;
  };
  EXPECT_EQ(chosen({17, 18, 20, 19}), 2);
  EXPECT_EQ(chosen({-120, -119, -118, -110}), 3);
  EXPECT_FLOAT_EQ(RoutedBy(rule, {17, 18, 20, 19}).at(0).second, 1);
}

TEST(ExpertRouting, CorrectionsChooseButDoNotWeigh) {
  const std::vector<float> logits = {1, 0, -1, 2}, correction = {0, 1, 0, -1};
  RoutingRule rule{.experts = 4, .used = 2, .normalized = true, .sigmoid = true};
  rule.correction = correction.data();
  const auto routed = RoutedBy(rule, logits);
  ASSERT_EQ(routed.size(), 2U);
  EXPECT_EQ(routed[0].first, 0);
  EXPECT_EQ(routed[1].first, 1);
  const float a = 1 / (1 + std::exp(-1.0F)), b = 0.5F;
  EXPECT_FLOAT_EQ(routed[0].second, a / (a + b));
  EXPECT_FLOAT_EQ(routed[1].second, b / (a + b));
}

}  // namespace
}  // namespace oort
