// SPDX-License-Identifier: MIT
// oort.PagedAttention against attention in f64 over all tokens of each sequence.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "kit/errors.h"
#include "kit/one_operator_graph.h"
#include "oort/kv_cache.h"
#include "oort/oort.h"
#include "oort/testing.h"

namespace oort {
namespace {

struct CachedCase {
  int64_t heads = 4, kv_heads = 2, head_dim = 16, window = 0;
  double scale = 0.25, softcap = 0;
  KvType type = KvType::kF32;
  int64_t layer = 1;
  bool fast = false;  // may round to bf16
  std::vector<float> sinks = {};
  int64_t group = 0, first_query = 0;
  std::vector<float> bias = {};  // of each head and distance
  bool chunked = false;

  Graph Build() const {
    Operator op;
    op.type = "oort.PagedAttention";
    op.params["layer"] = Parameter(std::to_string(layer));
    op.params["heads"] = Parameter(std::to_string(heads));
    op.params["kv_heads"] = Parameter(std::to_string(kv_heads));
    op.params["head_dim"] = Parameter(std::to_string(head_dim));
    if (group > 0) op.params["group"] = Parameter(std::to_string(group));
    if (group > 0) op.params["first_query"] = Parameter(std::to_string(first_query));
    op.params["window"] = Parameter(std::to_string(window));
    if (chunked) op.params["chunked"] = Parameter("True");
    op.params["scale"] = Parameter(std::to_string(scale));
    op.params["softcap"] = Parameter(std::to_string(softcap));
    if (fast) op.params["precision"] = Parameter("bf16");
    if (!sinks.empty()) {
      op.attributes["sinks"] =
          Tensor::From(std::span<const float>(sinks), Shape{static_cast<int64_t>(sinks.size())});
    }
    if (!bias.empty()) {
      op.attributes["distance_bias"] =
          Tensor::From(std::span<const float>(bias), Shape{heads, distances()});
    }
    return testing::GraphOf(std::move(op), {"query", "key", "value"});
  }
  int64_t distances() const { return static_cast<int64_t>(bias.size()) / heads; }
  KvShape shape() const { return {3, kv_heads, head_dim, type}; }
};

/// Queries, keys and values of one sequence from its first token on.
struct CachedTokens {
  Tensor query, key, value;
  CachedTokens(const CachedCase& c, int64_t tokens, uint64_t seed)
      : query(testing::RandomTensor(DType::kF32, {tokens, c.heads * c.head_dim}, seed)),
        key(testing::RandomTensor(DType::kF32, {tokens, c.kv_heads * c.head_dim}, seed + 1)),
        value(testing::RandomTensor(DType::kF32, {tokens, c.kv_heads * c.head_dim}, seed + 2)) {}
  CachedTokens(Tensor q, Tensor k, Tensor v)
      : query(std::move(q)), key(std::move(k)), value(std::move(v)) {}
  int64_t count() const { return query.dim(0); }
};

/// One row of the answer in f64.
std::vector<double> AttendInF64(const CachedCase& c, const CachedTokens& t, int64_t token,
                                int64_t head) {
  const int64_t kv = head / (c.heads / c.kv_heads), width = c.kv_heads * c.head_dim;
  const float* q = t.query.data<float>() + (token * c.heads + head) * c.head_dim;
  const int64_t first = c.window == 0 ? 0
                        : c.chunked   ? token - token % c.window
                                      : std::max<int64_t>(0, token - c.window + 1);
  std::vector<double> weights;
  double most = -1e300, sum = 0;
  for (int64_t i = first; i <= token; ++i) {
    const float* k = t.key.data<float>() + i * width + kv * c.head_dim;
    double score = 0;
    for (int64_t d = 0; d < c.head_dim; ++d) score += static_cast<double>(q[d]) * k[d];
    score *= c.scale;
    if (!c.bias.empty()) {
      const int64_t distance = std::min(token - i, c.distances() - 1);
      score += c.bias[static_cast<size_t>(head * c.distances() + distance)];
    }
    if (c.softcap > 0) score = c.softcap * std::tanh(score / c.softcap);
    weights.push_back(score);
    most = std::max(most, score);
  }
  std::vector<double> out(static_cast<size_t>(c.head_dim), 0.0);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double weight = std::exp(weights[i] - most);
    const float* v =
        t.value.data<float>() + (first + static_cast<int64_t>(i)) * width + kv * c.head_dim;
    for (size_t d = 0; d < out.size(); ++d) out[d] += weight * v[d];
    sum += weight;
  }
  if (!c.sinks.empty()) sum += std::exp(c.sinks[static_cast<size_t>(head)] - most);
  for (double& x : out) x /= sum;
  return out;
}

/// Runs sequences step by step: in step s each gives its next counts[sequence][s] tokens.
class CachedRun {
 public:
  CachedRun(const CachedCase& c, Isa isa, int threads)
      : c_(c),
        cache_(c.shape(), 200),
        session_(RuntimeGraph::Build(c.Build(), {.isa = isa}), {.threads = threads}) {
    // What stands where no token is must not matter: NaN.
    std::memset(cache_.Keys(0, 0, 0), 0xff, KvCache::Bytes(c.shape(), cache_.blocks()));
  }

  std::vector<std::vector<float>> Run(const std::vector<CachedTokens>& sequences,
                                      const std::vector<std::vector<int64_t>>& counts) {
    // Blocks of the sequences in turn, so that none has neighbours.
    std::vector<std::vector<int32_t>> blocks(sequences.size());
    std::vector<int64_t> position(sequences.size(), 0);
    std::vector<std::vector<float>> answers(sequences.size());
    for (size_t step = 0; step < counts[0].size(); ++step) {
      std::vector<SequenceSlice> slices;
      std::vector<float> q, k, v;
      int64_t rows = 0;
      for (size_t s = 0; s < sequences.size(); ++s) {
        const int64_t count = counts[s][step];
        while (static_cast<int64_t>(blocks[s].size()) < KvCache::BlocksFor(position[s] + count)) {
          blocks[s].push_back(next_block_++);
        }
        const auto append = [&](const Tensor& from, std::vector<float>& to) {
          const float* begin = from.data<float>() + position[s] * from.dim(1);
          to.insert(to.end(), begin, begin + count * from.dim(1));
        };
        append(sequences[s].query, q);
        append(sequences[s].key, k);
        append(sequences[s].value, v);
        slices.push_back({rows, count, position[s], {}});
        rows += count;
      }
      for (size_t s = 0; s < sequences.size(); ++s) slices[s].blocks = blocks[s];
      const SequenceBatch batch{slices, &cache_};
      RunOptions options;
      options.state = &batch;
      const int64_t width = c_.heads * c_.head_dim, kv_width = c_.kv_heads * c_.head_dim;
      const Tensor out = session_.Forward(
          {Tensor::Borrow(q.data(), {rows, width}), Tensor::Borrow(k.data(), {rows, kv_width}),
           Tensor::Borrow(v.data(), {rows, kv_width})},
          options)[0];
      for (size_t s = 0; s < sequences.size(); ++s) {
        const float* begin = out.data<float>() + slices[s].first * width;
        answers[s].insert(answers[s].end(), begin, begin + slices[s].count * width);
        position[s] += slices[s].count;
      }
    }
    return answers;
  }

 private:
  CachedCase c_;
  KvCache cache_;
  int32_t next_block_ = 0;
  Session session_;
};

double CachedTolerance(const CachedCase& c) {
  if (c.type == KvType::kInt8) return 5e-2;
  if (c.type == KvType::kK6V4) return 4e-1;  // closer to what it keeps: kv_k6v4_test.cpp
  if (c.fast) return 1.5e-2;
  return c.type == KvType::kF16 ? 4e-3 : 2e-5;
}

void ExpectAttention(const CachedCase& c, const std::vector<std::vector<int64_t>>& counts) {
  std::vector<CachedTokens> sequences;
  for (size_t s = 0; s < counts.size(); ++s) {
    int64_t tokens = 0;
    for (int64_t count : counts[s]) tokens += count;
    sequences.emplace_back(c, tokens, 10 * (s + 1));
  }
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(std::string(Name(isa)) + ", cache of " + std::string(Name(c.type)));
    const auto answers = CachedRun(c, isa, 1).Run(sequences, counts);
    for (size_t s = 0; s < counts.size(); ++s) {
      for (int64_t token = 0; token < sequences[s].count(); ++token) {
        for (int64_t head = 0; head < c.heads; ++head) {
          const std::vector<double> want = AttendInF64(c, sequences[s], token, head);
          for (int64_t d = 0; d < c.head_dim; ++d) {
            const int64_t at = (token * c.heads + head) * c.head_dim + d;
            ASSERT_NEAR(answers[s][static_cast<size_t>(at)], want[static_cast<size_t>(d)],
                        CachedTolerance(c))
                << "sequence " << s << " token " << token << " head " << head << " element " << d;
          }
        }
      }
    }
    for (int threads : {2, 3}) {
      EXPECT_EQ(CachedRun(c, isa, threads).Run(sequences, counts), answers) << threads;
    }
  }
}

constexpr KvType kKvTypes[] = {KvType::kF32, KvType::kF16, KvType::kInt8, KvType::kK6V4};

TEST(PagedAttention, EqualsAttentionInF64) {
  for (KvType type : kKvTypes) {
    for (int64_t head_dim : {1, 7, 16, 64, 72}) {
      CachedCase c;
      c.type = type;
      c.head_dim = head_dim;
      ExpectAttention(c, {{1}});
      ExpectAttention(c, {{37}});
    }
  }
}

TEST(PagedAttention, GroupsOfHeadsShareKeys) {
  for (KvType type : kKvTypes) {
    for (const auto& [heads, kv_heads] : {std::pair{9, 3}, {5, 1}, {3, 3}, {14, 2}}) {
      CachedCase c;
      c.type = type;
      c.heads = heads;
      c.kv_heads = kv_heads;
      ExpectAttention(c, {{20, 1, 1}});
    }
  }
}

TEST(PagedAttention, SeesAWindow) {
  for (int64_t window : {1, 5, 16, 17, 100}) {
    CachedCase c;
    c.window = window;
    ExpectAttention(c, {{40, 1, 6}});
    c.type = KvType::kF16;
    ExpectAttention(c, {{40, 1, 6}});
  }
}

// Chunks end within blocks, within what one task computes, and within what one step reads.
TEST(PagedAttention, SeesItsChunk) {
  for (const bool fast : {false, true}) {
    for (int64_t window : {1, 5, 16, 37}) {
      for (KvType type : kKvTypes) {
        CachedCase c;
        c.window = window;
        c.chunked = true;
        c.type = type;
        c.fast = fast;
        c.head_dim = 32;
        ExpectAttention(c, {{40, 1, 6, 30, 1, 1, 1, 1, 1, 1}});
      }
    }
  }
}

TEST(PagedAttention, CapsScores) {
  for (KvType type : kKvTypes) {
    CachedCase c;
    c.type = type;
    c.softcap = 0.5;
    ExpectAttention(c, {{19, 1}});
  }
}

// A head that has nothing to look at looks at its sink.
TEST(PagedAttention, SinksTakeAShare) {
  for (KvType type : kKvTypes) {
    for (const bool fast : {false, true}) {
      CachedCase c;
      c.type = type;
      c.fast = fast;
      c.head_dim = 32;
      c.sinks = {0.5f, -1, 3, 0};
      ExpectAttention(c, {{1, 1, 2, 40, 1}, {20, 3, 1, 1, 1}});
      c.window = 5;
      c.softcap = 2;
      ExpectAttention(c, {{40, 1, 3}});
    }
  }
  CachedCase c;
  c.sinks = {200, -200, 1, 1};  // all of it, and none
  ExpectAttention(c, {{3, 20}});
  c.sinks = {1, 2, 3};
  testing::ExpectThrows([&] { RuntimeGraph::Build(c.Build()); }, ErrorCode::kInvalidModel,
                        "a sink for each of 4 heads");
}

TEST(PagedAttention, DistancesHaveABias) {
  for (KvType type : kKvTypes) {
    for (const bool fast : {false, true}) {
      for (const int64_t distances : {1, 5, 16, 17, 70}) {
        CachedCase c;
        c.type = type;
        c.fast = fast;
        c.head_dim = 32;
        const Tensor bias = testing::RandomTensor(DType::kF32, {c.heads, distances}, 3);
        c.bias.assign(bias.span<float>().begin(), bias.span<float>().end());
        ExpectAttention(c, {{1, 1, 2, 40, 1}, {20, 3, 1, 1, 1}});
        c.window = 5;
        ExpectAttention(c, {{40, 1, 3}});
      }
    }
  }
  CachedCase c;
  c.bias = std::vector<float>(8, 1);
  c.softcap = 2;
  testing::ExpectThrows([&] { RuntimeGraph::Build(c.Build()); }, ErrorCode::kInvalidModel,
                        "no soft cap");
}

TEST(PagedAttention, LongSequencesAndManyTokensAtOnce) {
  for (KvType type : kKvTypes) {
    CachedCase c;
    c.type = type;
    c.head_dim = 24;
    ExpectAttention(c, {{333, 1, 1, 30}});
    c.heads = 6;
    c.window = 50;
    ExpectAttention(c, {{333, 1, 1, 30}});
  }
}

TEST(PagedAttention, FastManyTokensAreNearAttentionInF64) {
  for (KvType type : kKvTypes) {
    for (int64_t head_dim : {16, 32, 64, 96, 160}) {
      CachedCase c;
      c.type = type;
      c.head_dim = head_dim;
      c.scale = 1 / std::sqrt(static_cast<double>(head_dim));
      c.fast = true;
      ExpectAttention(c, {{13, 1, 40}});
      ExpectAttention(c, {{37}, {5}, {14}});
    }
    CachedCase c;
    c.type = type;
    c.head_dim = 64;
    c.scale = 0.125;
    c.fast = true;
    c.heads = 6;
    ExpectAttention(c, {{333, 1, 30}});
    c.window = 50;
    ExpectAttention(c, {{333, 1, 30}});
    c.softcap = 0.5;
    ExpectAttention(c, {{140, 20}});
  }
}

TEST(PagedAttention, FastFewTokensAreNearAttentionInF64) {
  for (KvType type : kKvTypes) {
    for (int64_t group : {2, 3, 5}) {
      CachedCase c;
      c.type = type;
      c.kv_heads = 2;
      c.heads = 2 * group;
      c.head_dim = group == 3 ? 96 : 64;
      c.scale = 0.125;
      c.fast = true;
      ExpectAttention(c, {{1, 1, 2, 11, 150, 1, 1, 3}});
      c.window = 21;
      ExpectAttention(c, {{9, 12, 5, 1, 1, 130, 1}});
      c.softcap = 0.5;
      ExpectAttention(c, {{9, 12, 1}});
    }
  }
}

// Queries that f16 cannot hold are multiplied as they are.
TEST(PagedAttention, FastFewTokensTakeQueriesOfAnySize) {
  CachedCase c;
  c.type = KvType::kF16;
  c.head_dim = 64;
  c.scale = 1e6;
  const std::vector<CachedTokens> tokens = {{c, 30, 1}};
  CachedCase fast = c;
  fast.fast = true;
  const std::vector<std::vector<int64_t>> counts = {{10, 1, 12, 7}};
  for (Isa isa : SupportedIsas()) {
    EXPECT_EQ(CachedRun(fast, isa, 1).Run(tokens, counts), CachedRun(c, isa, 1).Run(tokens, counts))
        << Name(isa);
  }
}

TEST(PagedAttention, SeveralSequencesInOneStep) {
  for (KvType type : kKvTypes) {
    CachedCase c;
    c.type = type;
    ExpectAttention(c, {{3, 1, 1, 7}, {40, 1, 0, 1}, {0, 17, 1, 1}, {16, 16, 1, 1}});
  }
}

TEST(PagedAttention, NeighboursDoNotChangeAnAnswer) {
  for (int i = 0; i < 8; ++i) {
    CachedCase c;
    c.type = kKvTypes[i / 2];
    c.fast = i % 2 == 1;
    c.head_dim = c.fast ? 32 : 16;
    const std::vector<CachedTokens> three = {{c, 50, 1}, {c, 23, 11}, {c, 8, 21}};
    const std::vector<std::vector<int64_t>> counts = {{45, 1, 4}, {20, 1, 2}, {6, 1, 1}};
    for (Isa isa : SupportedIsas()) {
      const auto together = CachedRun(c, isa, 2).Run(three, counts);
      for (size_t s = 0; s < three.size(); ++s) {
        EXPECT_EQ(CachedRun(c, isa, 1).Run({three[s]}, {counts[s]})[0], together[s]) << s;
      }
    }
  }
}

TEST(PagedAttention, APromptInChunksIsThePrompt) {
  CachedCase c;
  c.type = KvType::kF16;
  const std::vector<CachedTokens> tokens = {{c, 100, 3}};
  for (Isa isa : SupportedIsas()) {
    const auto whole = CachedRun(c, isa, 1).Run(tokens, {{100}})[0];
    const auto chunks = CachedRun(c, isa, 1).Run(tokens, {{33, 1, 2, 64}})[0];
    ASSERT_EQ(whole.size(), chunks.size());
    for (size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(whole[i], chunks[i], 1e-5);
  }
}

/// A prompt has the bits of its tokens one by one: not of where it is cut, nor of what was read
/// before.
TEST(PagedAttention, ManyRowsHaveTheBitsOfFew) {
  for (const KvType type : kKvTypes) {
    for (const auto& [head_dim, window, softcap] :
         {std::tuple<int64_t, int64_t, double>{64, 0, 0.0}, {80, 50, 0.0}, {16, 0, 5.0}}) {
      CachedCase c;
      c.type = type;
      c.heads = 6;
      c.head_dim = head_dim;
      c.window = window;
      c.softcap = softcap;
      const std::vector<CachedTokens> tokens = {{c, 200, 3}};
      for (Isa isa : SupportedIsas()) {
        const auto single =
            CachedRun(c, isa, 1).Run(tokens, {std::vector<int64_t>(size_t{200}, int64_t{1})});
        EXPECT_EQ(CachedRun(c, isa, 1).Run(tokens, {{200}}), single);
        EXPECT_EQ(CachedRun(c, isa, 2).Run(tokens, {{3, 17, 31, 149}}), single);
      }
    }
  }
}

Tensor ColumnsOf(const Tensor& from, int64_t begin, int64_t end) {
  Tensor to(DType::kF32, Shape{from.dim(0), end - begin});
  for (int64_t row = 0; row < from.dim(0); ++row) {
    std::copy_n(from.data<float>() + row * from.dim(1) + begin, end - begin,
                to.data<float>() + row * (end - begin));
  }
  return to;
}

/// Of nine heads of queries, three for each head of keys, one of several ranks has some.
struct PartOfHeads {
  int64_t first, end;
};

/// Holds the queries of such a part against the same ones among all.
void ExpectBitsOfAll(const CachedCase& all, const PartOfHeads& part) {
  const int64_t dim = all.head_dim, group = all.heads / all.kv_heads;
  const int64_t first_key = part.first / group, end_key = (part.end - 1) / group + 1;
  CachedCase c = all;
  c.heads = part.end - part.first;
  c.kv_heads = end_key - first_key;
  c.group = group;
  c.first_query = part.first % group;
  if (!all.sinks.empty()) c.sinks.assign(&all.sinks[part.first], &all.sinks[0] + part.end);
  const CachedTokens tokens(all, 83, 5);
  const CachedTokens own(ColumnsOf(tokens.query, part.first * dim, part.end * dim),
                         ColumnsOf(tokens.key, first_key * dim, end_key * dim),
                         ColumnsOf(tokens.value, first_key * dim, end_key * dim));
  const std::vector<std::vector<int64_t>> counts = {{50, 1, 3, 1, 28}};
  for (Isa isa : SupportedIsas()) {
    const std::vector<float> whole = CachedRun(all, isa, 1).Run({tokens}, counts)[0];
    std::vector<float> want;
    for (int64_t token = 0; token < tokens.count(); ++token) {
      const auto row = whole.begin() + token * all.heads * dim;
      want.insert(want.end(), row + part.first * dim, row + part.end * dim);
    }
    for (const int threads : {1, 2}) {
      EXPECT_EQ(CachedRun(c, isa, threads).Run({own}, counts)[0], want)
          << Name(isa) << ", heads " << part.first << " to " << part.end;
    }
  }
}

TEST(PagedAttention, RanksMayShareTheQueriesOfAKey) {
  for (const KvType type : kKvTypes) {
    for (const bool fast : {false, true}) {
      CachedCase c;
      c.type = type;
      c.fast = fast;
      c.heads = 9;
      c.kv_heads = 3;
      c.head_dim = 64;
      c.scale = 0.125;
      for (const PartOfHeads part : {PartOfHeads{0, 4}, {4, 9}, {2, 4}, {7, 8}, {3, 9}}) {
        ExpectBitsOfAll(c, part);
      }
      c.sinks = {0.5f, -1, 3, 0, 1, 2, -2, 0.25f, 4};
      ExpectBitsOfAll(c, {4, 9});
    }
  }
}

TEST(PagedAttention, GroupsFitTheHeads) {
  CachedCase c;
  c.heads = 5;
  c.kv_heads = 2;
  const auto refuses = [&] {
    testing::ExpectThrows([&] { RuntimeGraph::Build(c.Build()); }, ErrorCode::kInvalidModel,
                          "5 heads of queries cannot share 2 of keys");
  };
  refuses();
  c.group = 2;
  refuses();  // that is three heads of keys
  c.group = 3;
  EXPECT_NO_THROW(RuntimeGraph::Build(c.Build()));
  c.first_query = 2;
  refuses();
  c.first_query = INT64_MAX;
  refuses();
  c.group = INT64_MAX;
  refuses();
}

TEST(PagedAttention, RefusesWhatDoesNotFit) {
  const CachedCase c;
  KvCache cache(c.shape(), 4);
  KvCache other({3, 3, 16, KvType::kF32}, 4), shallow({1, 2, 16, KvType::kF32}, 4);
  KvCache fp8({c.shape().layers, c.shape().heads, c.shape().head_dim, KvType::kFp8}, 4);
  Session session(RuntimeGraph::Build(c.Build()), {.threads = 1});
  const auto run = [&](KvCache* memory, std::vector<SequenceSlice> slices, Shape query, Shape key) {
    const SequenceBatch batch{slices, memory};
    RunOptions options;
    options.state = &batch;
    session.Forward(
        {Tensor(DType::kF32, query), Tensor(DType::kF32, key), Tensor(DType::kF32, key)}, options);
  };
  const std::vector<int32_t> one = {0}, wrong = {7}, negative = {-1};
  const Shape q{2, 64}, k{2, 32};
  using testing::ExpectThrows;
  const auto invalid = ErrorCode::kInvalidArgument;
  ExpectThrows([&] { run(nullptr, {{0, 2, 0, one}}, q, k); }, invalid, "RunOptions::state");
  ExpectThrows([&] { run(&other, {{0, 2, 0, one}}, q, k); }, invalid, "other layers or heads");
  ExpectThrows([&] { run(&shallow, {{0, 2, 0, one}}, q, k); }, invalid, "other layers or heads");
  ExpectThrows(
      [&] {
        run(&fp8, {{0, 2, 0, one}}, q, k);
      },
      ErrorCode::kUnsupported,
      "f32, f16, int8 or k6v4, but the cache keeps fp8: that is for a GPU");
  ExpectThrows([&] { run(&cache, {{0, 2, 0, wrong}}, q, k); }, invalid, "a sequence of the batch");
  ExpectThrows(
      [&] {
        run(&cache, {{0, 2, 0, negative}}, q, k);
      },
      invalid, "a sequence of the batch");
  ExpectThrows([&] { run(&cache, {{0, 2, 15, one}}, q, k); }, invalid, "a sequence of the batch");
  ExpectThrows([&] { run(&cache, {{0, 2, INT64_MAX, one}}, q, k); }, invalid, "");
  ExpectThrows([&] { run(&cache, {{1, 2, 0, one}}, q, k); }, invalid, "a sequence of the batch");
  ExpectThrows([&] { run(&cache, {{0, 1, 0, one}}, q, k); }, invalid, "the input has 2");
  ExpectThrows([&] { run(&cache, {{0, 2, 0, one}}, {2, 60}, k); }, invalid, "expected queries");
  ExpectThrows([&] { run(&cache, {{0, 2, 0, one}}, q, {2, 64}); }, invalid, "expected keys");
  ExpectThrows([&] { run(&cache, {{0, 2, 0, one}}, q, {1, 32}); }, invalid, "expected keys");
  EXPECT_NO_THROW(run(&cache, {{0, 2, 0, one}}, q, k));
  EXPECT_THROW(
      session.Forward({Tensor(DType::kF32, q), Tensor(DType::kF32, k), Tensor(DType::kF32, k)}),
      Error);
  CachedCase uneven;
  uneven.heads = 5;
  EXPECT_THROW(RuntimeGraph::Build(uneven.Build()), Error);
}

}  // namespace
}  // namespace oort
