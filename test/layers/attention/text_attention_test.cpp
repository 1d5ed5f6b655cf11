// SPDX-License-Identifier: MIT
// oort.TextAttention against attention in f64 over the text of each sequence.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kit/errors.h"
#include "kit/one_operator_graph.h"
#include "oort/kv_cache.h"
#include "oort/oort.h"
#include "oort/testing.h"

namespace oort {
namespace {

constexpr int64_t kHeads = 3, kHeadDim = 8, kWidth = kHeads * kHeadDim;
constexpr float kScale = 0.4F;

Graph TextGraph(int64_t layer) {
  Operator op;
  op.type = "oort.TextAttention";
  op.params["layer"] = Parameter(std::to_string(layer));
  op.params["heads"] = Parameter(std::to_string(kHeads));
  op.params["head_dim"] = Parameter(std::to_string(kHeadDim));
  op.params["scale"] = Parameter(std::to_string(kScale));
  return testing::GraphOf(std::move(op), {"query"});
}

EncodedText TextOf(int64_t tokens, uint64_t seed, int layers = 2) {
  EncodedText text;
  for (int layer = 0; layer < layers; ++layer) {
    const Shape shape{1, kHeads, tokens, kHeadDim};
    text.keys.push_back(testing::RandomTensor(DType::kF32, shape, seed + 2 * layer));
    text.values.push_back(testing::RandomTensor(DType::kF32, shape, seed + 2 * layer + 1));
  }
  return text;
}

/// One element of the answer in f64.
double TextElement(const float* query, const EncodedText& text, size_t layer, int64_t head,
                   int64_t element) {
  const Tensor &keys = text.keys[layer], &values = text.values[layer];
  const int64_t tokens = keys.dim(2);
  double sum = 0, weights = 0;
  for (int64_t token = 0; token < tokens; ++token) {
    const int64_t at = (head * tokens + token) * kHeadDim;
    double score = 0;
    for (int64_t d = 0; d < kHeadDim; ++d) {
      score += static_cast<double>(query[head * kHeadDim + d]) * keys.data<float>()[at + d];
    }
    const double weight = std::exp(score * kScale);
    sum += weight * values.data<float>()[at + element];
    weights += weight;
  }
  return sum / weights;
}

std::vector<Tensor> RunText(const Tensor& query, const std::vector<SequenceSlice>& slices, Isa isa,
                            int threads, int64_t layer = 1) {
  Session session(RuntimeGraph::Build(TextGraph(layer), {.isa = isa}), {.threads = threads});
  const SequenceBatch batch{slices, nullptr};
  RunOptions options;
  options.state = &batch;
  return session.Forward({query}, options);
}

/// Sequences of several texts with rows of their own, whatever stands beside them.
TEST(TextAttention, EqualsAttentionInF64) {
  const EncodedText texts[] = {TextOf(1, 1), TextOf(7, 20), TextOf(130, 40)};
  const Tensor query = testing::RandomTensor(DType::kF32, {9, kWidth}, 5);
  const std::vector<SequenceSlice> slices = {{.first = 0, .count = 1, .text = &texts[1]},
                                             {.first = 1, .count = 4, .text = &texts[2]},
                                             {.first = 5, .count = 0, .text = &texts[2]},
                                             {.first = 5, .count = 1, .text = &texts[0]},
                                             {.first = 6, .count = 3, .text = &texts[1]}};
  for (const Isa isa : SupportedIsas()) {
    const Tensor out = RunText(query, slices, isa, 1)[0];
    for (const SequenceSlice& slice : slices) {
      for (int64_t row = slice.first; row < slice.first + slice.count; ++row) {
        for (int64_t i = 0; i < kWidth; ++i) {
          const double want = TextElement(query.data<float>() + row * kWidth, *slice.text, 1,
                                          i / kHeadDim, i % kHeadDim);
          ASSERT_NEAR(out.data<float>()[row * kWidth + i], want, 2e-5)
              << Name(isa) << " row " << row << " element " << i;
        }
      }
    }
    const Tensor again = RunText(query, slices, isa, 3)[0];
    EXPECT_TRUE(std::ranges::equal(out.span<float>(), again.span<float>()));
  }
}

TEST(TextAttention, RefusesWhatDoesNotFit) {
  const EncodedText text = TextOf(4, 1);
  const Tensor query = testing::RandomTensor(DType::kF32, {2, kWidth}, 5);
  const auto refuses = [&](const std::vector<SequenceSlice>& slices, int64_t layer,
                           const char* what) {
    testing::ExpectThrows([&] { RunText(query, slices, SupportedIsas()[0], 1, layer); },
                          ErrorCode::kInvalidArgument, what);
  };
  refuses({{.first = 0, .count = 2}}, 0, "has no text");
  refuses({{.first = 1, .count = 2, .text = &text}}, 0, "rows that the input does not have");
  refuses({{.first = 0, .count = 2, .text = &text}}, 2, "read by another model");
  EncodedText wrong = text;
  wrong.values[0] = wrong.values[0].To(DType::kF64);
  refuses({{.first = 0, .count = 2, .text = &wrong}}, 0, "read by another model");
  Session session(RuntimeGraph::Build(TextGraph(0)));
  testing::ExpectThrows([&] { session.Forward({query}); }, ErrorCode::kInvalidArgument,
                        "needs a SequenceBatch");
  testing::ExpectThrows(
      [&] {
        session.Forward({testing::RandomTensor(DType::kF32, {2, kWidth + 1}, 1)});
      },
      ErrorCode::kInvalidArgument, "expected queries");
}

}  // namespace
}  // namespace oort
