// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/collective.h"
#include "oort/error.h"

namespace oort {

/// Runs `body` as each rank on a thread of its own. Gives what each threw; empty where it came to
/// its end.
inline std::vector<std::string> ErrorsOfRanks(int ranks, const std::function<void(int)>& body) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kDevice);
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// Exchanges of all kinds between four ranks: sums of up to 6 * `floats` numbers, and news that
/// grow by `bytes` every turn.
inline void ExchangeManyTimes(Collective& group, size_t turns, size_t floats, size_t bytes) {
  for (size_t turn = 0; turn < turns; ++turn) {
    std::vector<float> values(turn % 7 * floats, static_cast<float>(group.rank() + 1));
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
    if (group.rank() == 2) told.assign(turn * bytes, std::byte{7});
    group.Broadcast("news", told, 2);
    ASSERT_EQ(told.size(), turn * bytes);
  }
  group.Barrier("the end");
}

}  // namespace oort
