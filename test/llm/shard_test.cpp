// SPDX-License-Identifier: MIT
// Which part of a model each rank has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "decoder/decoder.h"
#include "decoder/decoder_graph.h"
#include "decoder/random_checkpoint.h"
#include "decoder/shard.h"
#include "decoder/shard_plan.h"
#include "kit/count_operators.h"
#include "kit/paths.h"
#include "parser/checkpoint/checkpoint.h"
#include "parser/pnnx/promised.h"

namespace oort {
namespace {

const std::filesystem::path kShardModels = TestData() / "checkpoints";

TEST(ShardPlan, SharesHeadsOutUnevenly) {
  // SmolLM2 has 9 heads of queries, and 3 of keys: both ranks look at the one in the middle.
  const auto two = CutHeads({.heads = 9, .kv_heads = 3, .ranks = 2});
  ASSERT_TRUE(two);
  EXPECT_EQ(two->queries, (AxisRanges{{0, 4}, {4, 9}}));
  EXPECT_EQ(two->keys, (AxisRanges{{0, 2}, {1, 3}}));
  // Where every head of keys has to have all of its queries, one rank has twice as many.
  const auto even = CutHeads({.heads = 9, .kv_heads = 3, .ranks = 2, .even_groups = true});
  ASSERT_TRUE(even);
  EXPECT_EQ(even->queries, (AxisRanges{{0, 3}, {3, 9}}));
  EXPECT_EQ(even->keys, (AxisRanges{{0, 1}, {1, 3}}));
  // More ranks than heads of keys: two have the same one.
  const auto four = CutHeads({.heads = 9, .kv_heads = 3, .ranks = 4});
  ASSERT_TRUE(four);
  EXPECT_EQ(four->queries, (AxisRanges{{0, 3}, {3, 6}, {6, 7}, {7, 9}}));
  EXPECT_EQ(four->keys, (AxisRanges{{0, 1}, {1, 2}, {2, 3}, {2, 3}}));
  EXPECT_TRUE(CutHeads({.heads = 9, .kv_heads = 3, .ranks = 9}));
  EXPECT_FALSE(CutHeads({.heads = 9, .kv_heads = 3, .ranks = 10}));
}

TEST(ShardPlan, HeadsThatShareOutEvenlyStandOnOneRank) {
  const auto two = CutHeads({.heads = 32, .kv_heads = 8, .ranks = 2});
  ASSERT_TRUE(two);
  EXPECT_EQ(two->keys, (AxisRanges{{0, 4}, {4, 8}}));
  // 11, 11 and 10 heads of queries want four heads of keys where 12, 12 and 8 want three.
  const auto three = CutHeads({.heads = 32, .kv_heads = 8, .ranks = 3});
  ASSERT_TRUE(three);
  EXPECT_EQ(three->queries, (AxisRanges{{0, 8}, {8, 20}, {20, 32}}));
  // Two heads of queries are a block of the columns behind them.
  const auto blocks = CutHeads({.heads = 20, .kv_heads = 4, .ranks = 3, .unit = 2});
  ASSERT_TRUE(blocks);
  EXPECT_EQ(blocks->queries, (AxisRanges{{0, 6}, {6, 12}, {12, 20}}));
}

TEST(ShardPlan, CutsInWholeUnits) {
  EXPECT_EQ(CutEvenly(100, 16, 3), (AxisRanges{{0, 32}, {32, 64}, {64, 100}}));
  EXPECT_FALSE(CutEvenly(100, 64, 3));
  EXPECT_TRUE(IsPartition(*CutEvenly(11008, 256, 2), 11008));
}

Graph ShardedGraph(const char* model, const ShardOptions& options, ShardReport& report) {
  const auto checkpoint = Checkpoint::Open(kShardModels / model);
  DecoderGraph decoder = BuildDecoder(*checkpoint);
  AddArgmax(decoder.graph, false);
  report = Shard(decoder.graph, options);
  EXPECT_TRUE(decoder.graph.Check().empty());
  return std::move(decoder.graph);
}

TEST(Shard, TwoSumsALayerOrOnlyGathers) {
  ShardReport report;
  const Graph fast = ShardedGraph("llama", {.rank = 1, .ranks = 2}, report);
  const int64_t layers = testing::CountOperators(fast, "oort.PagedAttention");
  EXPECT_EQ(testing::CountOperators(fast, "oort.AllReduce"), 2 * layers + 1);  // and the embeddings
  EXPECT_EQ(testing::CountOperators(fast, "oort.AllGather"), 1);               // the logits
  EXPECT_TRUE(report.whole.empty());
  const Graph exact = ShardedGraph("llama", {.rank = 1, .ranks = 2, .exact = true}, report);
  EXPECT_EQ(testing::CountOperators(exact, "oort.AllReduce"), 1);
  EXPECT_EQ(testing::CountOperators(exact, "oort.AllGather"), 4 * layers + 1);
  EXPECT_EQ(testing::CountOperators(exact, "oort.RankArgmax"), 1);
}

TEST(Shard, RanksTogetherHaveEachWeightOnce) {
  ShardReport report;
  const Graph whole = ShardedGraph("llama", {}, report);
  const auto bytes = [](const Graph& graph) {
    int64_t sum = 0;
    for (const Operator& op : graph.operators) {
      if (op.type != "oort.QuantizedLinear" && op.type != "oort.QuantizedEmbedding") continue;
      for (const auto& [name, tensor] : op.attributes) {
        if (name.starts_with("weight")) sum += static_cast<int64_t>(tensor.bytes());
      }
    }
    return sum;
  };
  for (const bool exact : {false, true}) {
    int64_t sum = 0;
    for (int rank = 0; rank < 2; ++rank) {
      sum += bytes(ShardedGraph("llama", {.rank = rank, .ranks = 2, .exact = exact}, report));
    }
    EXPECT_EQ(sum, bytes(whole)) << exact;
  }
}

size_t ExpertBytes(const Graph& graph) {
  size_t bytes = 0;
  for (const Operator& op : graph.operators) {
    if (op.type != "oort.ExpertMixture") continue;
    for (const auto& [name, tensor] : op.attributes) bytes += tensor.bytes();
  }
  return bytes;
}

TEST(Shard, ExpertsAreSharedOut) {
  for (const char* model : {"mixtral", "mixtral.gguf", "qwen2_moe", "olmoe"}) {
    ShardReport report;
    const size_t all = ExpertBytes(ShardedGraph(model, {}, report));
    for (const bool exact : {false, true}) {
      size_t sum = 0;
      for (int rank = 0; rank < 3; ++rank) {
        const Graph part = ShardedGraph(model, {rank, 3, exact}, report);
        const int64_t layers = testing::CountOperators(part, "oort.ExpertMixture");
        EXPECT_EQ(testing::CountOperators(part, "oort.GatherExperts"), exact ? layers : 0) << model;
        EXPECT_LE(ExpertBytes(part), all / 2) << model;  // 6, 5 or 4 experts on three ranks
        sum += ExpertBytes(part);
      }
      EXPECT_EQ(sum, all) << model;
    }
  }
}

TEST(Shard, OfExpertsInAFolderARankReadsItsOwn) {
  ShardReport report;
  const Graph part = ShardedGraph("mixtral", {.rank = 1, .ranks = 2}, report);
  const int index = part.FindOperator("model.layers.1.mlp.experts");
  ASSERT_GE(index, 0);
  const Tensor& promise = part.operators[static_cast<size_t>(index)].attributes.at("weight_2");
  ASSERT_NE(PromisedBuffer::Of(promise), nullptr);
  const Tensor made = PromisedBuffer::Of(promise)->Take();
  const auto checkpoint = Checkpoint::Open(kShardModels / "mixtral");
  const Tensor all = checkpoint->Matrix("model.layers.1.mlp.experts.down_proj.weight").data;
  const Tensor want = all.Rows(all.dim(0) / 2, all.dim(0));
  EXPECT_EQ(made.shape(), want.shape());
  EXPECT_EQ(promise.shape(), want.shape());
  EXPECT_EQ(std::memcmp(made.raw(), want.raw(), want.bytes()), 0);
  EXPECT_LT(made.buffer()->size(), all.bytes());  // nothing of the other rank's
}

TEST(Shard, ExpertsNeedNoExchangeMoreThanOtherLayers) {
  ShardReport report;
  const Graph fast = ShardedGraph("mixtral", {.rank = 0, .ranks = 2}, report);
  const int64_t layers = testing::CountOperators(fast, "oort.PagedAttention");
  EXPECT_EQ(testing::CountOperators(fast, "oort.AllReduce"), 2 * layers + 1);
  EXPECT_EQ(testing::CountOperators(fast, "oort.AllGather"), 1);  // the logits; routers are whole
  const Graph many = ShardedGraph("mixtral", {.rank = 4, .ranks = 5}, report);
  EXPECT_EQ(std::ranges::count(report.whole, "model.layers.0.mlp.experts"), 1);
}

const Operator& AttentionOf(const Graph& graph) {
  const auto found = std::ranges::find(graph.operators, "oort.PagedAttention", &Operator::type);
  EXPECT_NE(found, graph.operators.end());
  return *found;
}

TEST(Shard, SinksGoWithTheirHeads) {
  int64_t heads = 0;
  for (int rank = 0; rank < 3; ++rank) {
    ShardReport report;
    const Graph graph = ShardedGraph("gpt_oss", {.rank = rank, .ranks = 3}, report);
    const Operator& op = AttentionOf(graph);
    const Tensor& sinks = op.attributes.at("sinks");
    EXPECT_EQ(std::to_string(sinks.dim(0)), op.params.at("heads").text());
    EXPECT_LT(sinks.dim(0), 4);
    heads += sinks.dim(0);
  }
  EXPECT_EQ(heads, 4);
}

TEST(Shard, CentresOfKeysGoWithTheirHeads) {
  for (const bool exact : {false, true}) {
    ShardReport report;
    const Graph whole = ShardedGraph("qwen2", {}, report);
    const std::span<const float> all = AttentionOf(whole).attributes.at("key_centre").span<float>();
    std::vector<float> parts;
    for (int rank = 0; rank < 2; ++rank) {
      const Graph graph = ShardedGraph("qwen2", {.rank = rank, .ranks = 2, .exact = exact}, report);
      const Tensor part = AttentionOf(graph).attributes.at("key_centre");
      EXPECT_LT(part.elements(), static_cast<int64_t>(all.size()));
      parts.insert(parts.end(), part.span<float>().begin(), part.span<float>().end());
    }
    EXPECT_EQ(parts, std::vector<float>(all.begin(), all.end())) << exact;
  }
}

/// Queries of every fourth layer grow with their position on the way to attention.
TEST(Shard, HeadsWhoseQueriesGrowAreSharedOut) {
  for (const int ranks : {2, 3}) {
    std::map<std::string, int64_t> heads;  // of all ranks, by the layer
    for (int rank = 0; rank < ranks; ++rank) {
      ShardReport report;
      const Graph graph = ShardedGraph("llama4_text", {.rank = rank, .ranks = ranks}, report);
      for (const Operator& op : graph.operators) {
        if (op.type != "oort.PagedAttention") continue;
        const int64_t own = std::stoll(op.params.at("heads").text());
        EXPECT_LT(own, 4) << op.name;
        heads[op.name] += own;
      }
    }
    EXPECT_EQ(heads.size(), 4U);
    for (const auto& [layer, sum] : heads) EXPECT_EQ(sum, 4) << layer << ", ranks " << ranks;
  }
}

/// 9 heads of queries and 3 of keys.
Graph SmolShaped(int rank, bool even_groups) {
  DecoderGraph decoder = BuildDecoder(*MakeRandomCheckpoint("smollm2-135m", "int4", 32));
  Shard(decoder.graph, {.rank = rank, .ranks = 2, .even_groups = even_groups});
  EXPECT_TRUE(decoder.graph.Check().empty());
  return std::move(decoder.graph);
}

TEST(Shard, RanksShareTheQueriesOfAKey) {
  const auto param = [](const Graph& graph, const char* name) {
    const auto& params = AttentionOf(graph).params;
    return params.contains(name) ? params.at(name).text() : "none";
  };
  const Graph second = SmolShaped(1, false);
  EXPECT_EQ(param(second, "heads"), "5");
  EXPECT_EQ(param(second, "kv_heads"), "2");
  EXPECT_EQ(param(second, "group"), "3");
  EXPECT_EQ(param(second, "first_query"), "1");
  const Graph on_gpu = SmolShaped(1, true);
  EXPECT_EQ(param(on_gpu, "heads"), "6");
  EXPECT_EQ(param(on_gpu, "group"), "none");
}

const Operator& ScanOf(const Graph& graph) {
  const auto found = std::ranges::find_if(graph.operators, IsScan);
  EXPECT_NE(found, graph.operators.end());
  return *found;
}

/// 8 heads of 8 elements in 2 groups, of which states have 12 numbers for an element.
TEST(Shard, RanksKeepStatesOfTheirOwnHeads) {
  for (const bool exact : {false, true}) {
    for (int rank = 0; rank < 2; ++rank) {
      ShardReport report;
      const Graph graph =
          ShardedGraph("mamba2", {.rank = rank, .ranks = 2, .exact = exact}, report);
      EXPECT_EQ(StateOf(graph), (StateShape{2, 3 * (32 + 2 * 12), 32 * 12}));
      EXPECT_EQ(ScanOf(graph).attributes.at("rate").dim(0), 4);
      // Of a layer what goes into the product behind it, and what comes out of it; and the logits.
      EXPECT_EQ(testing::CountOperators(graph, "oort.AllGather"), exact ? 2 * 2 + 1 : 1);
      EXPECT_EQ(testing::CountOperators(graph, "oort.AllReduce"), exact ? 1 : 2 + 1);
      EXPECT_TRUE(report.whole.empty());
    }
  }
}

/// Steps of falcon_h1 have a multiplier, behind the product that a rank has its heads of.
TEST(Shard, StatesBesideAttentionAreShared) {
  for (const char* const name : {"falcon_h1", "falcon_h1_norm"}) {
    SCOPED_TRACE(name);
    ShardReport report;
    const Graph graph = ShardedGraph(name, {.rank = 1, .ranks = 2}, report);
    const Graph whole = ShardedGraph(name, {}, report);
    EXPECT_EQ(StateOf(graph).recurrence * 2, StateOf(whole).recurrence);
    EXPECT_EQ(ScanOf(graph).attributes.at("rate").dim(0),
              ScanOf(whole).attributes.at("rate").dim(0) / 2);
  }
}

/// 4 heads of 8 values in 2 groups of keys and queries of 12; gates go with what they let through.
TEST(Shard, RanksShareDeltaRulesAndGates) {
  for (const bool exact : {false, true}) {
    SCOPED_TRACE(exact);
    ShardReport report;
    const Graph graph = ShardedGraph("qwen3_next", {.rank = 1, .ranks = 2, .exact = exact}, report);
    EXPECT_EQ(StateOf(graph), (StateShape{3, 3 * (16 + 2 * 12), 16 * 12}));
    EXPECT_EQ(ScanOf(graph).attributes.at("rate").dim(0), 2);
    EXPECT_TRUE(std::ranges::all_of(report.whole, [](const std::string& name) {
      return name.ends_with(".mlp.shared_expert_gate");  // of one row
    }));
    // Of each layer what goes into the product behind attention or scan, into the last one of the
    // shared expert, and out of both; or what comes out of these and of the experts.
    EXPECT_EQ(testing::CountOperators(graph, "oort.AllGather"), exact ? 4 * 4 + 1 : 1);
    EXPECT_EQ(testing::CountOperators(graph, "oort.AllReduce"), exact ? 1 : 3 * 4 + 1);
  }
}

TEST(Shard, MoreRanksThanGroupsShareThem) {
  int64_t heads = 0;
  for (int rank = 0; rank < 3; ++rank) {
    ShardReport report;
    const Graph graph = ShardedGraph("mamba2", {.rank = rank, .ranks = 3}, report);
    const Tensor& rates = ScanOf(graph).attributes.at("rate");
    EXPECT_EQ(ScanOf(graph).params.at("groups").text(), "1");
    EXPECT_EQ(StateOf(graph).recurrence, rates.dim(0) * 8 * 12);
    EXPECT_EQ(StateOf(graph).inputs, 3 * (rates.dim(0) * 8 + 2 * 12));
    heads += rates.dim(0);
  }
  EXPECT_EQ(heads, 8);
}

/// Rows of the channels of a rank are those of its heads, then those of its groups.
TEST(Shard, ChannelsOfConvolutionsAreCutInThreeParts) {
  const auto weight = [](const ShardOptions& options) {
    ShardReport report;
    const Graph graph = ShardedGraph("mamba2", options, report);
    const int index = graph.FindOperator("model.layers.1.mixer.conv");
    return graph.operators[static_cast<size_t>(index)].attributes.at("weight");
  };
  const Tensor all = weight({}), part = weight({.rank = 1, .ranks = 2});
  ASSERT_EQ(part.shape(), (Shape{32 + 2 * 12, 4}));
  int64_t row = 0;
  for (const AxisRange range : {AxisRange{32, 64}, {76, 88}, {100, 112}}) {
    const Tensor want = all.Rows(range.begin, range.end), got = part.Rows(row, row + range.size());
    EXPECT_EQ(std::memcmp(got.raw(), want.raw(), want.bytes()), 0) << row;
    row += range.size();
  }
}

TEST(Shard, MoreRanksThanHeadsKeepWholeStates) {
  ShardReport report;
  const Graph graph = ShardedGraph("mamba2", {.rank = 3, .ranks = 9}, report);
  EXPECT_EQ(StateOf(graph), (StateShape{2, 3 * (64 + 2 * 2 * 12), 64 * 12}));
  EXPECT_EQ(std::ranges::count(report.whole, "model.layers.0.mixer.scan"), 1);
}

TEST(Shard, ThePlanIsThatOfAllRanks) {
  ShardReport first, second, exact;
  ShardedGraph("llama", {.rank = 0, .ranks = 2}, first);
  ShardedGraph("llama", {.rank = 1, .ranks = 2}, second);
  ShardedGraph("llama", {.rank = 1, .ranks = 2, .exact = true}, exact);
  EXPECT_EQ(first.plan, second.plan);
  EXPECT_NE(first.plan, exact.plan);
  EXPECT_NE(first.plan, 0U);
}

TEST(Shard, WhatCannotBeSharedOutIsComputedByAll) {
  ShardReport report;
  const Graph graph = ShardedGraph("llama", {.rank = 40, .ranks = 64}, report);
  EXPECT_FALSE(report.whole.empty());
  EXPECT_GT(report.kv_heads, 0);
}

}  // namespace
}  // namespace oort
