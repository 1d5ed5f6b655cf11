// SPDX-License-Identifier: MIT
// Exchanges between ranks that are threads, and what happens where one does not come.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "collectives/local_collective.h"
#include "oort/error.h"

namespace oort {
namespace {

/// What each rank threw; empty where it came to its end.
std::vector<std::string> OnEachRank(int ranks, double deadline,
                                    const std::function<void(Collective&)>& body) {
  auto group = MakeLocalGroup(ranks, deadline);
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(*group[rank]);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kDevice);
        errors[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(LocalCollective, ManyExchangesOfAllSizesStayApart) {
  const auto errors = OnEachRank(4, 60, [](Collective& group) {
    for (size_t turn = 0; turn < 300; ++turn) {
      std::vector<float> values(turn % 7 * 50, static_cast<float>(group.rank() + 1));
      group.AllReduce("a sum", values);
      for (const float value : values) ASSERT_EQ(value, 10);
      const std::vector<size_t> counts = {0, 1, turn % 3, 5};
      const std::vector<float> mine(counts[static_cast<size_t>(group.rank())],
                                    static_cast<float>(group.rank()));
      std::vector<float> all(counts[1] + counts[2] + counts[3]);
      group.AllGather("parts", mine, counts, all);
      ASSERT_EQ(all.front(), 1);
      ASSERT_EQ(all.back(), 3);
      std::vector<std::byte> told;
      if (group.rank() == 2) told.assign(turn, std::byte{7});
      group.Broadcast("news", told, 2);
      ASSERT_EQ(told.size(), turn);
    }
    group.Barrier("the end");
  });
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

}  // namespace
}  // namespace oort
