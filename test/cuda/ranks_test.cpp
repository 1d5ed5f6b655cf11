// SPDX-License-Identifier: MIT
// Exchanges between ranks whose numbers are on a GPU have the bits of those on the host: by way of
// it, by NCCL (of one rank, where there is one GPU), and of one rank alone.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "collectives/lone_collective.h"
#include "collectives/nccl_group.h"
#include "cuda/device_case.h"
#include "layers/collective/on_ranks.h"
#include "llm/rank_device.h"
#include "oort/testing.h"

namespace oort {
namespace {

using testing::RankCase;
using testing::RanksRun;
using testing::RunOnRanks;

RankCase SumCase(int ranks, int rank, const Shape& shape, bool ends) {
  RankCase made;
  made.op.type = "oort.AllReduce";
  made.twice = true;  // one alone would not be recorded
  made.op.params["ranks"] = Parameter::FromValue(Value(int64_t{ranks}));
  made.inputs = {
      testing::RandomTensor(DType::kF32, shape, 10U + static_cast<uint64_t>(rank), -1e3, 1e3)};
  if (!ends) return made;
  made.inputs.push_back(testing::RandomTensor(DType::kF32, shape, 90));
  made.op.attributes["bias"] = testing::RandomTensor(DType::kF32, {shape[shape.rank() - 1]}, 91);
  return made;
}

RankCase PartCase(const std::vector<int64_t>& parts, size_t rank, int64_t rows, bool addend) {
  RankCase made;
  made.op.type = "oort.AllGather";
  made.op.params["parts"] = Parameter::FromValue(Value::Ints(parts));
  made.inputs = {testing::RandomTensor(DType::kF32, {rows, parts[rank]}, 10U + rank)};
  int64_t width = 0;
  for (const int64_t part : parts) width += part;
  if (addend) made.inputs.push_back(testing::RandomTensor(DType::kF32, {rows, width}, 90));
  return made;
}

/// What the host makes of it is what the GPU has to make of it.
void ExpectTheHosts(const std::vector<RankCase>& cases, const RanksRun& run) {
  const auto want = RunOnRanks(cases);
  const auto got = RunOnRanks(cases, run);
  for (size_t rank = 0; rank < cases.size(); ++rank) {
    ASSERT_EQ(want[rank].error, "");
    ASSERT_EQ(got[rank].error, "");
    const auto a = want[rank].output.span<float>(), b = got[rank].output.span<float>();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << "rank " << rank;
  }
}

/// Sums and gathers of all kinds: few numbers and many, odd numbers of them and none.
void ExpectAllExchanges(int ranks, const RanksRun& run) {
  for (const auto& shape :
       {Shape{1, 7}, Shape{3, 4096}, Shape{97, 1531}, Shape{512, 1680}, Shape{0, 8}}) {
    for (const bool ends : {false, true}) {
      SCOPED_TRACE(shape.ToString() + (ends ? " with ends" : ""));
      std::vector<RankCase> cases;
      for (int rank = 0; rank < ranks; ++rank) cases.push_back(SumCase(ranks, rank, shape, ends));
      ExpectTheHosts(cases, run);
    }
  }
  std::vector<int64_t> even(static_cast<size_t>(ranks), 48), uneven = even;
  uneven[0] = 5;
  for (const auto& parts : {even, uneven}) {
    for (const int64_t rows : {1, 3, 2000}) {
      for (const bool addend : {false, true}) {
        SCOPED_TRACE(std::to_string(rows) + " rows" + (addend ? " and an addend" : ""));
        std::vector<RankCase> cases;
        for (size_t rank = 0; rank < parts.size(); ++rank) {
          cases.push_back(PartCase(parts, rank, rows, addend));
        }
        ExpectTheHosts(cases, run);
      }
    }
  }
}

TEST(CudaRanks, ExchangeByWayOfTheHost) {
  OORT_SKIP_WITHOUT_GPU();
  for (const int ranks : {1, 2, 3, 7}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    ExpectAllExchanges(ranks, {.deadline = 60, .device = Device::Cuda(0)});
  }
}

TEST(CudaRanks, ExchangeByNccl) {
  OORT_SKIP_WITHOUT_GPU();
  NcclPlace found;
  FindNccl(found);
  if (found.transport == nullptr) GTEST_SKIP() << found.problem;
  const auto connect = [](Collective& group) {
    LanguageModelOptions options;
    options.device = Device::Cuda(0);
    options.ranks.exchange = RankOptions::Exchange::kNccl;
    ConnectGpus(group, options);
    ASSERT_NE(group.on_device(), nullptr);
    EXPECT_FALSE(group.on_device()->alone());
  };
  // Two ranks on one GPU are for who tells NCCL to allow them.
  const char* told = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  const bool shared = told != nullptr && std::string(told) == "1" && found.release >= 23000;
  for (int ranks = 1; ranks <= (shared ? 2 : 1); ++ranks) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    ExpectAllExchanges(ranks, {.deadline = 60, .device = Device::Cuda(0), .connect = connect});
  }
}

/// What the others would have is taken to be what this rank has.
TEST(CudaRanks, OneAloneTakesItsOwnNumbersForThoseOfAll) {
  OORT_SKIP_WITHOUT_GPU();
  const auto run = [](const RankCase& one, int ranks, Device device) {
    const auto group = MakeLoneRank(0, ranks);
    const GroupScope scope(*group);
    Session session(testing::GraphOf(one, device), {.threads = 1});
    Tensor output;
    for (int i = 0; i < 3; ++i) output = session.Forward(one.inputs)[0];
    const auto values = output.span<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  const RankCase sum = SumCase(8, 0, {3, 4096}, true);
  EXPECT_EQ(run(sum, 8, Device::Cuda(0)), run(sum, 8, Device::Cpu()));
  const RankCase part = PartCase({16, 16, 16}, 0, 1, true);
  EXPECT_EQ(run(part, 3, Device::Cuda(0)), run(part, 3, Device::Cpu()));
}

}  // namespace
}  // namespace oort
