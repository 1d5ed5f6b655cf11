// SPDX-License-Identifier: MIT
// One rank's part of a graph on a pretended device: what of it is recorded, and what is left out.
#include "collectives/local_collective.h"
#include "collectives/lone_collective.h"
#include "runtime/fake_device.h"

namespace oort {
namespace {

class RankPlacementTest : public PlacementTest {
 protected:
  RankPlacementTest() {
    for (const char* type : {"oort.AllReduce", "oort.AllGather"}) {
      if (!registry_.Has(type, DeviceType::kCuda)) {
        registry_.AddDevice({type}, DeviceType::kCuda);
      }
    }
  }
  std::vector<float> Run(Session& session, Collective& group, uint64_t unread = 0) {
    const GroupScope scope(group);
    RunOptions options;
    options.unread_outputs = unread;
    return Floats(session.Forward({Tensor::From<float>({1, 2}, {1, 2})}, options)[0]);
  }
};

constexpr const char* kSumInTheMiddle =
    "pnnx.Input pnnx_input_0 0 1 x\n"
    "test.add_one a 1 1 x 1\n"
    "test.add_one b 1 1 1 2\n"
    "oort.AllReduce c 1 1 2 3 ranks=1\n"
    "oort.AllGather d 1 1 3 4 parts=(2)\n"
    "test.add_one e 1 1 4 5\n"
    "test.add_one f 1 1 5 6\n"
    "pnnx.Output pnnx_output_0 1 0 6\n";

TEST_F(RankPlacementTest, ExchangesRunWhereTheirNumbersAre) {
  const auto graph = Build(kSumInTheMiddle);
  EXPECT_EQ(graph->DeviceOf("c"), Device::Cuda(0));
  EXPECT_EQ(graph->DeviceOf("d"), Device::Cuda(0));
}

TEST_F(RankPlacementTest, AnExchangeByWayOfTheHostIsInNoRecording) {
  Session session(Build(kSumInTheMiddle));
  const auto group = MakeLocalGroup(1, 20);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Run(session, *group[0]), (std::vector<float>{5, 6}));
  EXPECT_EQ(log_.recordings, 2) << "in front of it and behind it";
  EXPECT_EQ(log_.launches, 4);
}

TEST_F(RankPlacementTest, AnExchangeBetweenDevicesIsRecordedWithTheRest) {
  Session session(Build(kSumInTheMiddle));
  const auto group = MakeLoneRank(0, 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Run(session, *group), (std::vector<float>{5, 6}));
  EXPECT_EQ(log_.recordings, 1);
  EXPECT_EQ(log_.launches, 2);
}

TEST_F(RankPlacementTest, ASumThatDoesNotKnowHowManyRanksThereAreStaysOnTheHost) {
  const auto graph = Build(
      "pnnx.Input pnnx_input_0 0 1 x\n"
      "oort.AllReduce a 1 1 x 1\n"
      "pnnx.Output pnnx_output_0 1 0 1\n");
  EXPECT_EQ(graph->DeviceOf("a"), Device::Cpu());
  EXPECT_NE(graph->Plan({Tensor::Meta(DType::kF32, {1, 2})}).nodes.back().fallback.find("how many"),
            std::string::npos);
}

/// Counts how often ranks came together.
class CountingGroup final : public Collective {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  void Exchange(std::string_view, std::span<const std::byte> mine, std::span<const size_t>,
                Visit visit) override {
    ++exchanges;
    visit(0, mine);
  }
  void Broadcast(std::string_view, std::vector<std::byte>&, int) override {}
  void Pass(std::string_view, std::span<std::byte>, int, int) override {}
  void Fail(std::string_view) noexcept override {}
  void SetDeadline(double) override {}
  int exchanges = 0;
};

TEST_F(RankPlacementTest, NobodyExchangesWhatNobodyReads) {
  Session session(
      Build("pnnx.Input pnnx_input_0 0 1 x\n"
            "test.add_one a 1 1 x 1\n"
            "test.add_one b 1 1 1 2\n"
            "oort.AllGather c 1 1 2 3 parts=(2)\n"
            "pnnx.Output pnnx_output_0 2 0 2 3\n"));
  CountingGroup group;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Run(session, group, 2), (std::vector<float>{3, 4}));
    EXPECT_EQ(group.exchanges, i);
    EXPECT_EQ(Run(session, group), (std::vector<float>{3, 4}));
    EXPECT_EQ(group.exchanges, i + 1);
  }
}

TEST_F(RankPlacementTest, RanksMustBeAsManyAsTheSumKnows) {
  Session session(Build(kSumInTheMiddle));
  const auto group = MakeLoneRank(0, 2);
  try {
    Run(session, *group);
    FAIL() << "it ran";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("1 ranks have, and there are 2"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace oort
