// SPDX-License-Identifier: MIT
// Limits of the Qwen1.5 family as its published tables have them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "limits/limits.h"

namespace oort::limits {
namespace {

constexpr double kBinaryMega = 1024.0 * 1024;
constexpr double kBinaryGiga = kBinaryMega * 1024;

/// The units of the published tables of the Qwen1.5 family, which take 1 G as 2^30 and 1 T as 2^40.
Machine TableMachine() {
  return {"table", "", 1008 * kBinaryGiga, 82.58 * 1024 * kBinaryGiga, 24 * kBinaryGiga};
}

struct TableTurn {
  double first = 0, second = 0;  ///< 0: none
};

/// One row of each table: sizes, parameters in 2^30, cache of a position in 2^20, contexts that fit
/// 24 G (w16kv16, w8kv16, w4kv16, w6kv16, w4kv8; -1: too large), turning points (w16, w8, w4, each
/// with the head for all positions and once), positions a millisecond, milliseconds at 16, 8, 4
/// bits.
struct TableRow {
  const char* name;
  int64_t vocabulary, hidden, layers, intermediate, groups;
  double layer_parameters, head, active, total, cache;
  double contexts[5];
  TableTurn turns[6];
  double positions, first[3];
};

constexpr TableRow kQwenTable[] = {
    {"0.5B",
     151936,
     1024,
     24,
     2816,
     1,
     0.29,
     0.14,
     0.43,
     0.58,
     0.046875,
     {252705, 257424, 259784, 258604, 519568},
     {{}, {}, {55, 170}, {}, {23, 203}, {44, 106}},
     11010,
     {0.86, 0.43, 0.21}},
    {"1.8B",
     151936,
     2048,
     24,
     5504,
     1,
     1.13,
     0.29,
     1.42,
     1.71,
     0.09375,
     {115553, 123312, 127192, 125252, 254384},
     {{127, 245}, {}, {48, 325}, {68, 228}, {22, 351}, {29, 268}},
     5505,
     {2.82, 1.41, 0.70}},
    {"4B",
     151936,
     2560,
     40,
     6912,
     1,
     2.95,
     0.36,
     3.32,
     3.68,
     0.1953125,
     {45525, 54220, 58567, 56393, 117134},
     {{116, 302}, {}, {47, 371}, {55, 317}, {22, 396}, {25, 347}},
     2642,
     {6.58, 3.29, 1.65}},
    {"7B",
     151936,
     4096,
     32,
     11008,
     1,
     6.03,
     0.58,
     6.61,
     7.19,
     0.25,
     {22072, 35612, 42382, 38997, 84764},
     {{99, 553}, {113, 481}, {45, 607}, {50, 544}, {21, 630}, {23, 571}},
     2064,
     {13.12, 6.56, 3.28}},
    {"14B",
     152064,
     5120,
     40,
     13696,
     1,
     11.74,
     0.73,
     12.47,
     13.19,
     0.390625,
     {-1, 15114, 23285, 19199, 46571},
     {{95, 692}, {103, 638}, {44, 743}, {47, 694}, {21, 766}, {22, 718}},
     1321,
     {24.74, 12.37, 6.19}},
    {"32B without groups",
     152064,
     5120,
     64,
     27392,
     1,
     31.33,
     0.73,
     32.05,
     32.78,
     0.625,
     {-1, -1, 6531, -1, 13062},
     {{90, 1175}, {92, 1144}, {43, 1222}, {44, 1192}, {21, 1244}, {21, 1215}},
     826,
     {63.60, 31.80, 15.90}},
    {"32B",
     152064,
     5120,
     64,
     27392,
     5,
     28.83,
     0.73,
     29.55,
     30.28,
     0.125,
     {-1, -1, 37778, 7515, 75556},
     {{85, 6051}, {87, 5898}, {42, 6094}, {43, 5942}, {21, 6115}, {21, 5964}},
     4129,
     {58.64, 29.32, 14.66}},
    {"72B",
     152064,
     8192,
     80,
     24576,
     1,
     65.00,
     1.16,
     66.16,
     67.32,
     1.25,
     {-1, -1, -1, -1, -1},
     {{90, 1216}, {92, 1191}, {43, 1263}, {44, 1239}, {21, 1285}, {21, 1262}},
     413,
     {131.28, 65.64, 32.82}},
    {"110B without groups",
     152064,
     8192,
     80,
     49152,
     1,
     110.00,
     1.16,
     111.16,
     112.32,
     1.25,
     {-1, -1, -1, -1, -1},
     {{87, 2108}, {88, 2084}, {42, 2153}, {43, 2130}, {21, 2175}, {21, 2151}},
     413,
     {220.56, 110.28, 55.14}},
    // Its cache is printed as 0.125 there; the other columns follow from 0.15625, which is right.
    {"110B",
     152064,
     8192,
     80,
     49152,
     8,
     101.25,
     1.16,
     102.41,
     103.57,
     0.15625,
     {-1, -1, -1, -1, -1},
     {{84, 17602}, {85, 17400}, {42, 17644}, {42, 17443}, {20, 17665}, {21, 17464}},
     3303,
     {203.20, 101.60, 50.80}},
};

ModelShape QwenShape(const TableRow& row) {
  const int64_t heads = row.hidden / 128;
  return ReadModelShape(nlohmann::json{
      {"model_type", "qwen2"},
      {"vocab_size", row.vocabulary},
      {"hidden_size", row.hidden},
      {"num_hidden_layers", row.layers},
      {"num_attention_heads", heads},
      {"num_key_value_heads", heads / row.groups},
      {"intermediate_size", row.intermediate},
      {"use_sliding_window", false},
      {"sliding_window",
       32768}}.dump());
}

void ExpectTurns(const std::vector<double>& turns, const TableTurn& expected) {
  if (expected.first == 0) {
    EXPECT_TRUE(turns.empty());
    return;
  }
  ASSERT_EQ(turns.size(), 2u);
  EXPECT_EQ(std::floor(turns[0]), expected.first);
  EXPECT_EQ(std::floor(turns[1]), expected.second);
}

TEST(Limits, ReproduceThePublishedTablesOfQwen) {
  const Machine machine = TableMachine();
  constexpr BitWidths kPrecisions[] = {{16, 16}, {8, 16}, {4, 16}, {6, 16}, {4, 8}};
  for (const TableRow& row : kQwenTable) {
    SCOPED_TRACE(row.name);
    const ModelShape shape = QwenShape(row);
    const ParameterCounts counts = CountParameters(shape);
    EXPECT_NEAR(counts.layers() / kBinaryGiga, row.layer_parameters, 0.0051);
    EXPECT_NEAR(counts.head / kBinaryGiga, row.head, 0.0051);
    EXPECT_NEAR(counts.active() / kBinaryGiga, row.active, 0.0051);
    EXPECT_NEAR((counts.active() + counts.embedding) / kBinaryGiga, row.total, 0.0051);
    EXPECT_EQ(CacheOfPosition(shape) / kBinaryMega, row.cache);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(LongestContext(shape, kPrecisions[i], machine.memory, false), row.contexts[i]) << i;
    }
    for (size_t i = 0; i < 6; ++i) {
      SCOPED_TRACE(i);
      ExpectTurns(PrefillTurns(shape, kPrecisions[i / 2], machine,
                               i % 2 == 0 ? Head::kAll : Head::kOnce, CacheReads::kEachPosition),
                  row.turns[i]);
    }
    EXPECT_EQ(std::round(PositionsPerMillisecond(shape, {16, 16}, machine)), row.positions);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(DecodeLimit(shape, kPrecisions[i], machine, 1).seconds() * 1000, row.first[i],
                  0.0051)
          << i;
    }
  }
}

TEST(Limits, ReproduceThePublishedPrefillTimes) {
  constexpr double kLengths[] = {25, 100, 200, 300, 400, 500};
  constexpr double kTimes[4][6] = {{0.26, 1.03, 2.07, 3.11, 4.17, 5.25},
                                   {0.84, 3.37, 6.76, 10.18, 13.62, 17.07},
                                   {1.96, 7.87, 15.78, 23.74, 31.74, 39.79},
                                   {3.91, 15.67, 31.39, 47.17, 63.01, 78.91}};
  for (size_t model = 0; model < 4; ++model) {
    for (size_t i = 0; i < 6; ++i) {
      const TimeLimit limit = PrefillLimit(QwenShape(kQwenTable[model]), {16, 16}, TableMachine(),
                                           kLengths[i], Head::kAll);
      EXPECT_NEAR(limit.compute * 1000, kTimes[model][i], 0.0071)
          << kQwenTable[model].name << " " << kLengths[i];
    }
  }
}

TEST(Limits, TurningPointsAreWhereTheLimitsMeet) {
  const ModelShape shape = QwenShape(kQwenTable[3]);
  const auto turns =
      PrefillTurns(shape, {8, 16}, TableMachine(), Head::kOnce, CacheReads::kEachPosition);
  ASSERT_EQ(turns.size(), 2u);
  const auto bound = [&](double n) {
    return PrefillLimit(shape, {8, 16}, TableMachine(), n, Head::kOnce, CacheReads::kEachPosition)
        .compute_bound();
  };
  EXPECT_FALSE(bound(std::floor(turns[0])));
  EXPECT_TRUE(bound(std::ceil(turns[0])));
  EXPECT_TRUE(bound(std::floor(turns[1])));
  EXPECT_FALSE(bound(std::ceil(turns[1])));
}

TEST(Limits, BatchesAndMemory) {
  const ModelShape shape = QwenShape(kQwenTable[3]);
  const Machine machine = TableMachine();
  const double batch = LargestBatch(shape, {4, 8}, machine.memory, 4096);
  const double weights = CountParameters(shape).stored() / 2;
  EXPECT_LE(weights + batch * CacheOf(shape, 4096), machine.memory);
  EXPECT_GT(weights + (batch + 1) * CacheOf(shape, 4096), machine.memory);
  EXPECT_EQ(LargestBatch(shape, {16, 16}, 1e9, 1), -1);
  const double balanced = BalancedBatch(shape, {16, 16}, machine, 1);
  EXPECT_TRUE(DecodeLimit(shape, {16, 16}, machine, 1, balanced).compute_bound());
  EXPECT_FALSE(DecodeLimit(shape, {16, 16}, machine, 1, balanced - 1).compute_bound());
  EXPECT_TRUE(std::isinf(BalancedBatch(shape, {16, 16}, machine, 100000)));
  EXPECT_NEAR(DecodeLimitOfBytes(shape, 5e9, 8, machine, 100).read,
              (5e9 + CacheOf(shape, 100)) / machine.bandwidth, 1e-12);
}

}  // namespace
}  // namespace oort::limits
