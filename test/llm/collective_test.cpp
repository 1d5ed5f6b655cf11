// SPDX-License-Identifier: MIT
// Exchanges between ranks that are threads, and what happens where one does not come.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "collectives/local_collective.h"
#include "collectives/transport_collective.h"
#include "kit/errors.h"
#include "llm/each_rank.h"
#include "oort/error.h"

namespace oort {
namespace {

/// What each rank threw; empty where it came to its end.
std::vector<std::string> OnEachRank(int ranks, double deadline,
                                    const std::function<void(Collective&)>& body) {
  auto group = MakeLocalGroup(ranks, deadline);
  return ErrorsOfRanks(ranks, [&](int rank) { body(*group[static_cast<size_t>(rank)]); });
}

TEST(LocalCollective, ManyExchangesOfAllSizesStayApart) {
  const auto errors =
      OnEachRank(4, 60, [](Collective& group) { ExchangeManyTimes(group, 300, 50, 1); });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(LocalCollective, ARankThatFailsEndsAllWithItsWords) {
  const auto errors = OnEachRank(3, 60, [](Collective& group) {
    if (group.rank() == 1) {
      group.Fail("there is no such file");
      return;
    }
    group.Barrier("the start");
  });
  EXPECT_EQ(errors[0], "rank 1 (a thread of this process): there is no such file");
  EXPECT_EQ(errors[2], errors[0]);
}

TEST(LocalCollective, ARankThatDoesNotComeEndsAllWithinTheDeadline) {
  const auto errors = OnEachRank(3, 0.2, [](Collective& group) {
    if (group.rank() != 2) group.Barrier("the start");
  });
  EXPECT_NE(errors[0].find("rank 2"), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find("did not come to the start within 0.2"), std::string::npos) << errors[0];
  EXPECT_EQ(errors[1], errors[0]);
  EXPECT_EQ(errors[2], "");
}

TEST(LocalCollective, RanksAtDifferentPlacesEndAll) {
  const auto errors = OnEachRank(2, 60, [](Collective& group) {
    group.Barrier(group.rank() == 0 ? "one place" : "another place");
  });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("do not compute the same model"), std::string::npos) << error;
  }
}

/// Processes of which one was stopped before it had come.
std::atomic<bool> all_came = false, has_returned = false;
int OpenWaiting(int* rank, int* ranks, char*, size_t) {
  *rank = 0;
  *ranks = 2;
  while (!all_came) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  has_returned = true;
  return 0;
}

TEST(TransportCollective, ARankThatNeverComesIsNotWaitedForForever) {
  OortTransport transport{};
  transport.version = OORT_TRANSPORT_VERSION;
  transport.name = "a transport";
  transport.open = OpenWaiting;
  testing::ExpectThrows([&] { MakeTransportGroup(transport, nullptr, 10, 0.05); },
                        ErrorCode::kDevice, "a transport: not all ranks came within 0.05 s");
  all_came = true;
  while (!has_returned) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace
}  // namespace oort
