// SPDX-License-Identifier: MIT
// Keys of 6 bits and values of 4: what the cache holds, byte for byte, against a plain reference,
// and attention over it against attention in f64 over the numbers that the reference reads. Keys of
// 8 bits: how near attention over them is, where some elements are large in all tokens alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "kit/errors.h"
#include "kit/one_operator_graph.h"
#include "layers/attention/paged/cpu/k6v4_layout.h"
#include "layers/attention/paged/cpu/kv_kernels.h"
#include "oort/dtype.h"
#include "oort/kv_cache.h"
#include "oort/oort.h"
#include "oort/testing.h"

namespace oort {
namespace {

constexpr int64_t kTokensEach = KvCache::kBlockTokens, kGroup = K6V4Layout::kGroup;

struct LowBitCase {
  int64_t heads = 2, kv_heads = 1, head_dim = 64;
  bool fast = false;
  KvType type = KvType::kK6V4;
  Tensor key_centre = {};
  KvShape shape() const { return {1, kv_heads, head_dim, type}; }
  Graph Build() const {
    Operator op;
    op.type = "oort.PagedAttention";
    op.params["layer"] = Parameter("0");
    op.params["heads"] = Parameter(std::to_string(heads));
    op.params["kv_heads"] = Parameter(std::to_string(kv_heads));
    op.params["head_dim"] = Parameter(std::to_string(head_dim));
    op.params["scale"] = Parameter("0.2");
    if (fast) op.params["precision"] = Parameter("bf16");
    if (key_centre.defined()) op.attributes["key_centre"] = key_centre;
    return testing::GraphOf(std::move(op), {"query", "key", "value"});
  }
};

/// Queries, keys and values, of which some elements of the keys are large in all tokens alike.
struct LowBitTokens {
  Tensor query, key, value;
  LowBitTokens(const LowBitCase& c, int64_t tokens, uint64_t seed)
      : query(testing::RandomTensor(DType::kF32, {tokens, c.heads * c.head_dim}, seed)),
        key(testing::RandomTensor(DType::kF32, {tokens, c.kv_heads * c.head_dim}, seed + 1)),
        value(testing::RandomTensor(DType::kF32, {tokens, c.kv_heads * c.head_dim}, seed + 2)) {
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t d = 3; d < key.dim(1); d += 11) {
        key.data<float>()[t * key.dim(1) + d] += static_cast<float>(d % 2 == 0 ? 40 : -25);
      }
    }
  }
};

/// A cache of one sequence, which reads its tokens in pieces.
struct LowBitRun {
  KvCache cache;
  std::vector<int32_t> blocks;
  std::vector<float> out;

  LowBitRun(const LowBitCase& c, Isa isa, const LowBitTokens& tokens,
            const std::vector<int64_t>& counts)
      : cache(c.shape(), 16) {
    std::memset(cache.Keys(0, 0, 0), 0xff, KvCache::Bytes(c.shape(), cache.blocks()));
    for (int32_t i = 0; i < 16; ++i) blocks.push_back(15 - i);
    Session session(RuntimeGraph::Build(c.Build(), {.isa = isa}), {.threads = 1});
    int64_t at = 0;
    for (const int64_t count : counts) {
      const std::vector<SequenceSlice> slices = {{0, count, at, blocks}};
      const SequenceBatch batch{slices, &cache};
      RunOptions options;
      options.state = &batch;
      const auto rows = [&](Tensor from) {  // shares its numbers
        return Tensor::Borrow(from.data<float>() + at * from.dim(1), {count, from.dim(1)});
      };
      const Tensor answer =
          session.Forward({rows(tokens.query), rows(tokens.key), rows(tokens.value)}, options)[0];
      out.insert(out.end(), answer.data<float>(), answer.data<float>() + answer.elements());
      at += count;
    }
  }
};

float Halved(float x) { return HalfToFloat(FloatToHalf(x)); }

/// Rounded by itself: no compiler may fuse it with a sum behind it.
float Product(float a, float b) {
  const volatile float product = a * b;
  return product;
}

/// A group of keys around a centre, and one of values, as the cache says them.
std::vector<float> KeysAsKept(const float* first, const float* x, int64_t count) {
  float most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, std::fabs(first[i]));
  const float scale = most / 127, inverse = most > 0 ? 127 / most : 0;
  std::vector<float> centre, kept;
  float far = 0;
  for (int64_t i = 0; i < count; ++i) {
    centre.push_back(Product(std::rint(first[i] * inverse), scale));
    far = std::max(far, std::fabs(x[i] - centre.back()));
  }
  const float step = Halved(far / 31.5f);
  for (int64_t i = 0; i < count; ++i) {
    const float at = centre[static_cast<size_t>(i)];
    const float q = Product(x[i] - at, step > 0 ? 1 / step : 0) + 31.5f;
    kept.push_back(std::fma(std::rint(std::clamp(q, 0.0f, 63.0f)) - 31.5f, step, at));
  }
  return kept;
}
std::vector<float> ValuesAsKept(const float* x, int64_t count) {
  const auto [least, most] = std::minmax_element(x, x + count);
  const float low = Halved(*least), step = Halved((*most - *least) / 15);
  std::vector<float> kept;
  for (int64_t i = 0; i < count; ++i) {
    const float q = (x[i] - low) * (step > 0 ? 1 / step : 0);
    kept.push_back(std::fma(std::rint(std::clamp(q, 0.0f, 15.0f)), step, low));
  }
  return kept;
}

/// All tokens' keys or values as the reference keeps them.
std::vector<float> AsKept(const LowBitCase& c, const Tensor& from, bool keys) {
  std::vector<float> kept(static_cast<size_t>(from.elements()));
  for (int64_t t = 0; t < from.dim(0); ++t) {
    for (int64_t head = 0; head < c.kv_heads; ++head) {
      for (int64_t d = 0; d < c.head_dim; d += kGroup) {
        const int64_t count = std::min(kGroup, c.head_dim - d), at = head * c.head_dim + d;
        const float* x = from.data<float>() + t * from.dim(1) + at;
        const float* first = from.data<float>() + t / kTokensEach * kTokensEach * from.dim(1) + at;
        const auto group = keys ? KeysAsKept(first, x, count) : ValuesAsKept(x, count);
        std::copy(group.begin(), group.end(), kept.begin() + t * from.dim(1) + at);
      }
    }
  }
  return kept;
}

/// One number as the bytes of the cache say it, taken apart bit by bit.
float KeyInCache(const LowBitRun& run, const LowBitCase& c, int64_t t, int64_t head, int64_t d) {
  const K6V4Layout at(c.head_dim);
  const std::byte* side = run.cache.Keys(0, run.blocks[static_cast<size_t>(t / kTokensEach)], head);
  const int64_t slot = t % kTokensEach;
  const int low = static_cast<int>(side[d / 2 * 16 + slot]) >> (d % 2 * 4) & 15;
  const int high = static_cast<int>(side[at.HighBits(d) + slot]) >> (d % 4 * 2) & 3;
  uint16_t step;
  float scale;
  std::memcpy(&step, side + at.KeyScales(d / kGroup) + 2 * slot, 2);
  std::memcpy(&scale, side + at.CentreScales() + 4 * (d / kGroup), 4);
  const float centre = static_cast<float>(static_cast<int8_t>(side[at.Centres() + d])) * scale;
  return std::fma(static_cast<float>(low + 16 * high) - 31.5f, HalfToFloat(step), centre);
}
float ValueInCache(const LowBitRun& run, const LowBitCase& c, int64_t t, int64_t head, int64_t d) {
  const K6V4Layout at(c.head_dim);
  const std::byte* side =
      run.cache.Values(0, run.blocks[static_cast<size_t>(t / kTokensEach)], head);
  const int64_t slot = t % kTokensEach;
  const int bits = static_cast<int>(side[at.ValueBits(slot, d)]) >> (d % 32 < 16 ? 0 : 4) & 15;
  uint16_t of_group[2];
  std::memcpy(of_group, side + at.ValueScales(slot, d / kGroup), 4);
  return std::fma(static_cast<float>(bits), HalfToFloat(of_group[0]), HalfToFloat(of_group[1]));
}

std::vector<double> AttendOver(const LowBitCase& c, const LowBitTokens& tokens,
                               const std::vector<float>& keys, const std::vector<float>& values,
                               int64_t token, int64_t head) {
  const int64_t kv = head / (c.heads / c.kv_heads), width = c.kv_heads * c.head_dim;
  const float* q = tokens.query.data<float>() + (token * c.heads + head) * c.head_dim;
  std::vector<double> out(static_cast<size_t>(c.head_dim), 0.0), scores;
  double most = -1e300, sum = 0;
  for (int64_t t = 0; t <= token; ++t) {
    double score = 0;
    for (int64_t d = 0; d < c.head_dim; ++d) {
      score +=
          static_cast<double>(q[d]) * keys[static_cast<size_t>(t * width + kv * c.head_dim + d)];
    }
    scores.push_back(score * 0.2);
    most = std::max(most, scores.back());
  }
  for (int64_t t = 0; t <= token; ++t) {
    const double weight = std::exp(scores[static_cast<size_t>(t)] - most);
    sum += weight;
    for (size_t d = 0; d < out.size(); ++d) {
      out[d] += weight * values[static_cast<size_t>(t * width + kv * c.head_dim) + d];
    }
  }
  for (double& x : out) x /= sum;
  return out;
}

/// All rows of all heads, over the numbers that the reference reads.
void ExpectAttention(const LowBitCase& c, const LowBitRun& run, const LowBitTokens& tokens,
                     const std::vector<float>& keys, const std::vector<float>& values,
                     double tolerance) {
  for (int64_t t = 0; t < tokens.query.dim(0); ++t) {
    for (int64_t head = 0; head < c.heads; ++head) {
      const auto want = AttendOver(c, tokens, keys, values, t, head);
      for (size_t d = 0; d < want.size(); ++d) {
        ASSERT_NEAR(run.out[static_cast<size_t>((t * c.heads + head) * c.head_dim) + d], want[d],
                    tolerance)
            << "token " << t << " head " << head << " element " << d;
      }
    }
  }
}

TEST(KeysOf6BitsValuesOf4, AreWhatTheReferenceKeeps) {
  for (const int64_t head_dim : {1, 7, 16, 32, 64, 72, 80, 128}) {
    LowBitCase c;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_dim = head_dim;
    const int64_t width = c.kv_heads * head_dim;
    const LowBitTokens tokens(c, 45, 3);
    const auto [least, most] = std::ranges::minmax(tokens.value.span<float>());
    const float range = most - least;
    const std::vector<float> keys = AsKept(c, tokens.key, true);
    const std::vector<float> values = AsKept(c, tokens.value, false);
    for (const Isa isa : SupportedIsas()) {
      SCOPED_TRACE(std::string(Name(isa)) + ", elements " + std::to_string(head_dim));
      const LowBitRun run(c, isa, tokens, {20, 1, 7, 1, 16});
      for (int64_t t = 0; t < 45; ++t) {
        for (int64_t i = 0; i < width; ++i) {
          const size_t at = static_cast<size_t>(t * width + i);
          const int64_t head = i / head_dim, d = i % head_dim;
          ASSERT_FLOAT_EQ(KeyInCache(run, c, t, head, d), keys[at]) << t << ' ' << i;
          ASSERT_FLOAT_EQ(ValueInCache(run, c, t, head, d), values[at]) << t << ' ' << i;
          // The large elements of keys, of 25 and 40, cost nothing.
          ASSERT_NEAR(keys[at], tokens.key.data<float>()[at], (2 * range + 1) / 63);
          ASSERT_NEAR(values[at], tokens.value.data<float>()[at], 1.01f * range / 30);
        }
      }
      ExpectAttention(c, run, tokens, keys, values, 5e-5);
    }
  }
}

/// Long pieces of a prompt: a step of tiles sees 128 tokens. Tiles round all factors to bf16, which
/// for the large elements of keys is so much that the reference rounds keys, too.
TEST(KeysOf6BitsValuesOf4, AreSeenByLongPieces) {
  constexpr int64_t kTokens = 190;
  for (const int64_t head_dim : {32, 64, 128}) {
    LowBitCase c;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_dim = head_dim;
    const LowBitTokens tokens(c, kTokens, 11);
    const std::vector<float> values = AsKept(c, tokens.value, false);
    const std::vector<float> keys = AsKept(c, tokens.key, true);
    std::vector<float> rounded = keys;
    for (float& key : rounded) key = static_cast<float>(BFloat16(key));
    for (const Isa isa : SupportedIsas()) {
      for (const bool fast : {false, true}) {
        SCOPED_TRACE(std::string(Name(isa)) + ", elements " + std::to_string(head_dim) +
                     (fast ? ", fast" : ""));
        c.fast = fast;
        const LowBitRun run(c, isa, tokens, {150, 40});
        const bool tiled = fast && KvTileKernelsFor(isa) != nullptr;
        ExpectAttention(c, run, tokens, tiled ? rounded : keys, values, tiled ? 3e-2 : 5e-5);
      }
    }
  }
}

/// Where a prompt is cut changes no byte of its cache; nor does what was guessed and taken back.
TEST(KeysOf6BitsValuesOf4, DependOnTheirTokensAlone) {
  const LowBitCase c;
  const LowBitTokens tokens(c, 64, 9);
  const size_t bytes = KvCache::BlockBytes(c.shape());
  for (const Isa isa : SupportedIsas()) {
    const LowBitRun whole(c, isa, tokens, {64});
    for (const std::vector<int64_t>& counts :
         {std::vector<int64_t>(64, 1), {15, 1, 1, 47}, {33, 30, 1}}) {
      const LowBitRun parts(c, isa, tokens, counts);
      for (int32_t block = 12; block < 16; ++block) {
        EXPECT_EQ(std::memcmp(whole.cache.Keys(0, block, 0), parts.cache.Keys(0, block, 0), bytes),
                  0)
            << Name(isa) << " block " << block;
      }
      EXPECT_EQ(whole.out, parts.out) << Name(isa);
    }
  }
}

/// Nothing that a model may compute makes numbers that are none out of those that are.
TEST(KeysOf6BitsValuesOf4, TakeNumbersOfAnySize) {
  const LowBitCase c;
  LowBitTokens tokens(c, 20, 5);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  float* const keys = tokens.key.data<float>();
  float* const values = tokens.value.data<float>();
  std::fill_n(keys, 64, 0.0f);
  std::fill_n(values, 64, 0.0f);
  keys[64] = values[64] = 3e38f;
  keys[130] = values[130] = -3e38f;
  keys[200] = values[200] = nan;
  keys[300] = values[300] = infinity;
  std::fill_n(values + 384, 64, 1e-30f);
  for (const Isa isa : SupportedIsas()) {
    const LowBitRun run(c, isa, tokens, {20});
    for (int64_t t = 0; t < 20; ++t) {
      for (int64_t d = 0; d < 64; ++d) {
        EXPECT_TRUE(std::isfinite(KeyInCache(run, c, t, 0, d))) << Name(isa) << ' ' << t;
        EXPECT_TRUE(std::isfinite(ValueInCache(run, c, t, 0, d))) << Name(isa) << ' ' << t;
      }
    }
    EXPECT_EQ(KeyInCache(run, c, 0, 0, 5), 0);
    EXPECT_EQ(ValueInCache(run, c, 0, 0, 5), 0);
    // NaN is 0, and those beside it stay what they are: the key there is one of the large ones.
    constexpr int64_t kBeside = 14;
    EXPECT_NEAR(KeyInCache(run, c, 3, 0, 8), 0, 0.7) << Name(isa);
    EXPECT_NEAR(ValueInCache(run, c, 3, 0, 8), 0, 0.15) << Name(isa);
    EXPECT_NEAR(KeyInCache(run, c, 3, 0, kBeside), keys[192 + kBeside], 0.7) << Name(isa);
    EXPECT_NEAR(ValueInCache(run, c, 3, 0, kBeside), values[192 + kBeside], 0.15) << Name(isa);
  }
}

/// Tokens whose caches are compared byte for byte: whatever a model may compute, and keys halfway
/// between two of the numbers that there are.
LowBitTokens HardTokens(const LowBitCase& c) {
  constexpr int64_t kTokens = 64;
  LowBitTokens tokens(c, kTokens, 7);
  const float infinity = std::numeric_limits<float>::infinity();
  const float hard[] = {std::numeric_limits<float>::quiet_NaN(),
                        infinity,
                        -infinity,
                        3.4e38f,
                        -3.4e38f,
                        1e-40f,
                        -1e-37f,
                        0,
                        -0.0f,
                        65520};
  int64_t next = 0;
  for (Tensor* const side : {&tokens.key, &tokens.value}) {
    for (int64_t i = 0; i < side->elements() / 2; i += 37) {
      side->data<float>()[i] = hard[static_cast<size_t>(next++) % std::size(hard)];
    }
  }
  const int64_t width = tokens.key.dim(1);
  for (int64_t i = 0; i < width; ++i) tokens.value.data<float>()[i] = i % 3 == 0 ? -0.0f : 0;
  for (int64_t t = kTokens / 2; t < kTokens; ++t) {
    const float step = Halved(0.1f + 0.01f * static_cast<float>(t));
    for (int64_t i = 0; i < width; ++i) {
      const float steps = i % kGroup == 0 ? 31.5f : static_cast<float>(i % kGroup - kGroup);
      tokens.key.data<float>()[t * width + i] = t % kTokensEach == 0 ? 0 : steps * step;
    }
  }
  return tokens;
}

TEST(KeysOf6BitsValuesOf4, HaveTheSameBytesOnAllInstructionSets) {
  for (const int64_t head_dim : {32, 72}) {
    LowBitCase c;
    c.head_dim = head_dim;
    const LowBitTokens tokens = HardTokens(c);
    const LowBitRun first(c, SupportedIsas().front(), tokens, {64});
    const size_t bytes = KvCache::Bytes(c.shape(), first.cache.blocks());
    const std::vector<float> keys = AsKept(c, tokens.key, true);
    for (int64_t i = 32 * head_dim; i < 64 * head_dim; ++i) {  // those halfway
      ASSERT_EQ(KeyInCache(first, c, i / head_dim, 0, i % head_dim), keys[static_cast<size_t>(i)])
          << i;
    }
    for (const Isa isa : SupportedIsas()) {
      const LowBitRun run(c, isa, tokens, {64});
      EXPECT_EQ(std::memcmp(first.cache.Keys(0, 0, 0), run.cache.Keys(0, 0, 0), bytes), 0)
          << Name(isa) << ", elements " << head_dim;
    }
  }
}

/// The scale of a group that 8 bits are of.
float ScaleOf8Bits(const std::byte* side, int64_t at) {
  float scale;
  std::memcpy(&scale, side + at, sizeof(scale));
  return scale;
}

/// 127 over the largest of a group is no number where that is tiny; small ones are kept.
TEST(KeysOf6BitsValuesOf4, CentresMayBeSmall) {
  LowBitCase c, bytes;
  bytes.type = KvType::kInt8;
  for (const float size : {1e-40f, 1e-38f, 3e-37f, 1e-31f, 1e-29f, 1e-20f}) {
    LowBitTokens tokens(c, 1, 3);
    for (int64_t d = 0; d < c.head_dim; ++d) {
      tokens.key.data<float>()[d] = d % 2 == 0 ? size : -size / 2;
      tokens.value.data<float>()[d] = tokens.key.data<float>()[d];
    }
    const bool kept = size > 1e-30f;
    for (const Isa isa : SupportedIsas()) {
      SCOPED_TRACE(std::string(Name(isa)) + ", keys of " + std::to_string(std::log10(size)));
      const LowBitRun run(c, isa, tokens, {1}), of_bytes(bytes, isa, tokens, {1});
      const float scale = kept ? size / 127 : 0;
      EXPECT_EQ(
          ScaleOf8Bits(run.cache.Keys(0, run.blocks[0], 0), K6V4Layout(c.head_dim).CentreScales()),
          scale);
      EXPECT_EQ(
          ScaleOf8Bits(of_bytes.cache.Values(0, of_bytes.blocks[0], 0), c.head_dim * kTokensEach),
          scale);
      const float tolerance = kept ? size / 200 : 0;
      for (int64_t d = 0; d < c.head_dim; ++d) {
        const float want = kept ? tokens.key.data<float>()[d] : 0;
        EXPECT_NEAR(KeyInCache(run, c, 0, 0, d), want, tolerance) << d;
      }
    }
  }
}

/// Keys of which one element is fifty times the others, with the same sign or not.
LowBitTokens TokensWithAnOutlier(const LowBitCase& c, bool is_constant) {
  LowBitTokens tokens(c, 60, 3);
  tokens.key = testing::RandomTensor(DType::kF32, tokens.key.shape(), 4);
  for (int64_t at = 5, i = 0; at < tokens.key.elements(); at += c.head_dim, ++i) {
    tokens.key.data<float>()[at] += is_constant || i % 5 < 2 ? 100.0f : -100.0f;
  }
  return tokens;
}

/// The root of the mean square of how far all rows are from attention in f64.
double ErrorOf(const LowBitCase& c, const LowBitRun& run, const LowBitTokens& tokens) {
  const std::span<const float> keys = tokens.key.span<float>(), values = tokens.value.span<float>();
  const std::vector<float> all_keys(keys.begin(), keys.end());
  const std::vector<float> all_values(values.begin(), values.end());
  double sum = 0;
  for (int64_t t = 0; t < tokens.query.dim(0); ++t) {
    for (int64_t head = 0; head < c.heads; ++head) {
      const auto want = AttendOver(c, tokens, all_keys, all_values, t, head);
      for (size_t d = 0; d < want.size(); ++d) {
        const size_t at = static_cast<size_t>((t * c.heads + head) * c.head_dim) + d;
        sum += (run.out[at] - want[d]) * (run.out[at] - want[d]);
      }
    }
  }
  return std::sqrt(sum / static_cast<double>(run.out.size()));
}

LowBitCase BytesOfHeads(int64_t head_dim) {
  LowBitCase c;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = head_dim;
  c.type = KvType::kInt8;
  return c;
}

/// Where one element takes most of the scale of its head, errors are 0.15 and 0.21. One by one, a
/// few and many at once.
TEST(KeysOf8Bits, MayHaveALargeElement) {
  for (const int64_t head_dim : {64, 128}) {
    const LowBitCase c = BytesOfHeads(head_dim);
    const LowBitTokens tokens = TokensWithAnOutlier(c, false);
    for (const Isa isa : SupportedIsas()) {
      for (const std::vector<int64_t>& counts : {std::vector<int64_t>(60, 1), {7, 3, 50}, {60}}) {
        EXPECT_LT(ErrorOf(c, LowBitRun(c, isa, tokens, counts), tokens), 0.05)
            << Name(isa) << ", elements " << head_dim;
      }
    }
  }
}

/// What all keys have in common costs nothing where the model says it, whatever the head.
TEST(KeysOf8Bits, AreKeptWithoutTheirCentre) {
  for (const int64_t head_dim : {7, 64, 80, 128}) {
    LowBitCase c = BytesOfHeads(head_dim);
    const LowBitTokens tokens = TokensWithAnOutlier(c, true);
    Tensor centre = Tensor(DType::kF32, {c.kv_heads * head_dim});
    std::fill_n(centre.data<float>(), centre.elements(), 0.0f);
    for (int64_t at = 5; at < centre.elements(); at += head_dim) centre.data<float>()[at] = 98;
    for (const Isa isa : SupportedIsas()) {
      SCOPED_TRACE(std::string(Name(isa)) + ", elements " + std::to_string(head_dim));
      c.key_centre = centre;
      for (const std::vector<int64_t>& counts : {std::vector<int64_t>(60, 1), {7, 3, 50}, {60}}) {
        EXPECT_LT(ErrorOf(c, LowBitRun(c, isa, tokens, counts), tokens), 0.012);
      }
      // Caches of more bits are what they are without.
      c.type = KvType::kF16;
      const LowBitRun with(c, isa, tokens, {60});
      c.key_centre = {};
      EXPECT_EQ(LowBitRun(c, isa, tokens, {60}).out, with.out);
      c.type = KvType::kInt8;
    }
  }
}

/// A soft cap and sinks see scores as they are, not by how far apart they are.
TEST(KeysOf8Bits, HaveACentreThatFits) {
  const auto refuses = [](const LowBitCase& c, bool capped) {
    Graph graph = c.Build();
    for (Operator& op : graph.operators) {
      if (capped && op.type == "oort.PagedAttention") op.params["softcap"] = Parameter("2.0");
    }
    testing::ExpectThrows([&] { RuntimeGraph::Build(std::move(graph)); }, ErrorCode::kInvalidModel,
                          "expected a centre of 2 heads of keys of 64 elements");
  };
  LowBitCase c = BytesOfHeads(64);
  c.key_centre = Tensor(DType::kF32, {127});
  refuses(c, false);
  c.key_centre = testing::RandomTensor(DType::kF32, {128}, 1);
  EXPECT_NO_THROW(RuntimeGraph::Build(c.Build()));
  refuses(c, true);
}

/// What kernels fetch ahead is what the cache has, but for what fills up whole lines.
TEST(KvSideBytes, AreThoseOfTheCache) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kInt8, KvType::kK6V4}) {
    for (const int64_t head_dim : {32, 64, 80, 128}) {
      SCOPED_TRACE(std::string(Name(type)) + ", elements " + std::to_string(head_dim));
      const KvCache cache({1, 1, head_dim, type}, 1);
      const int64_t line = type == KvType::kK6V4 ? 16 : 64;
      const auto whole = [&](bool values) {
        return (KvSideBytes(type, head_dim, values) + line - 1) / line * line;
      };
      EXPECT_EQ(cache.Values(0, 0, 0) - cache.Keys(0, 0, 0), whole(false));
      EXPECT_EQ(static_cast<int64_t>(KvCache::BlockBytes(cache.shape())),
                whole(false) + whole(true));
    }
  }
}

TEST(KeysOf6BitsValuesOf4, TakeThreeEighthsOfF16) {
  const KvShape small{2, 3, 64, KvType::kK6V4}, large{1, 1, 128, KvType::kK6V4};
  EXPECT_EQ(KvCache::BlockBytes(small), size_t{2 * 3 * (912 + 640)});
  EXPECT_EQ(KvCache::BlockBytes(large), size_t{1808 + 1280});
  EXPECT_LT(KvCache::BlockBytes(large) * 8,
            KvCache::BlockBytes({1, 1, 128, KvType::kF16}) * 31 / 10);
  EXPECT_THROW(KvCache::BlockBytes({1, 1, INT64_MAX / 8, KvType::kK6V4}), Error);
  EXPECT_EQ(KvTypeOf("k6v4"), KvType::kK6V4);
  EXPECT_EQ(Name(KvType::kK6V4), "k6v4");
}

}  // namespace
}  // namespace oort
