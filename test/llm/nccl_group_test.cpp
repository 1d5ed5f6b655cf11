// SPDX-License-Identifier: MIT
// How ranks agree on NCCL, and what ends an exchange between GPUs; with a plug-in that connects
// threads by the host's memory.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <latch>
#include <mutex>
#include <thread>

#include "collectives/local_collective.h"
#include "collectives/nccl_group.h"
#include "oort/error.h"

namespace oort {
namespace {

/// What became of it, over all ranks.
struct NcclLog {
  std::atomic<int> opened = 0, aborted = 0, closed = 0;
  std::atomic<bool> refuse_open = false, hang_in_open = false, failed = false;
};
NcclLog nccl_log;

struct FakeMember {
  int rank = 0, ranks = 1;
};

/// Ranks meet in it; each exchange is done when all have come.
struct FakeMeeting {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<const void*> mine;
  int come = 0, left = 0;

  template <typename Use>
  void Meet(const FakeMember& member, const void* data, const Use& use) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return left == 0; });
    mine.resize(static_cast<size_t>(member.ranks));
    mine[static_cast<size_t>(member.rank)] = data;
    if (++come == member.ranks) changed.notify_all();
    changed.wait(lock, [&] { return come == member.ranks; });
    use(mine);
    if (++left < member.ranks) {
      changed.wait(lock, [&] { return left == 0 || left == member.ranks; });
    }
    if (left == member.ranks) {
      come = left = 0;
      changed.notify_all();
    }
  }
};
FakeMeeting fake_meeting;

int FakeSay(const char* text, char* error, size_t bytes) {
  std::strncpy(error, text, bytes - 1);
  return 1;
}

const OortDeviceTransport kFakeNccl = {
    .version = OORT_DEVICE_TRANSPORT_VERSION,
    .name = "NCCL",
    .load = [](const char*, int*, char*, size_t) { return 0; },
    .make_id =
        [](void* id, char*, size_t) {
          std::memset(id, 7, OORT_DEVICE_ID_BYTES);
          return 0;
        },
    .open = [](const void* id, int rank, int ranks, char* error, size_t bytes) -> void* {
      if (nccl_log.refuse_open && rank == 1) {
        FakeSay("no peer", error, bytes);
        return nullptr;
      }
      while (nccl_log.hang_in_open) std::this_thread::yield();
      EXPECT_EQ(static_cast<const char*>(id)[5], 7) << "that of rank 0";
      ++nccl_log.opened;
      return new FakeMember{rank, ranks};
    },
    .gather =
        [](void* group, const void* mine, void* all, const size_t* sizes, void*, char*, size_t) {
          const FakeMember& member = *static_cast<FakeMember*>(group);
          fake_meeting.Meet(member, mine, [&](const std::vector<const void*>& of) {
            char* to = static_cast<char*>(all);
            for (size_t rank = 0; rank < of.size(); to += sizes[rank], ++rank) {
              std::memcpy(to, of[rank], sizes[rank]);
            }
          });
          return 0;
        },
    .trade =
        [](void* group, const void* mine, void* all, size_t size, void*, char*, size_t) {
          const FakeMember& member = *static_cast<FakeMember*>(group);
          fake_meeting.Meet(member, mine, [&](const std::vector<const void*>& of) {
            for (size_t rank = 0; rank < of.size(); ++rank) {
              std::memcpy(
                  static_cast<char*>(all) + rank * size,
                  static_cast<const char*>(of[rank]) + static_cast<size_t>(member.rank) * size,
                  size);
            }
          });
          return 0;
        },
    .check =
        [](void*, char* error, size_t bytes) {
          return nccl_log.failed ? FakeSay("remote peer exited", error, bytes) : 0;
        },
    .break_off =
        [](void* group) {
          ++nccl_log.aborted;
          delete static_cast<FakeMember*>(group);
        },
    .close =
        [](void* group) {
          ++nccl_log.closed;
          delete static_cast<FakeMember*>(group);
        },
};

NcclPlace PlaceOn(int rank, const std::string& gpu = {}) {
  NcclPlace place;
  place.transport = &kFakeNccl;
  place.release = 22809;
  place.gpu = gpu.empty() ? "gpu " + std::to_string(rank) : gpu;
  place.on_gpu = [](const std::function<void()>& body) { body(); };
  return place;
}

/// What other threads do may take them a moment.
bool Becomes(const std::function<bool()>& wanted) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!wanted() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  return wanted();
}

class NcclRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    nccl_log.opened = nccl_log.aborted = nccl_log.closed = 0;
    nccl_log.refuse_open = nccl_log.hang_in_open = nccl_log.failed = false;
  }
  void TearDown() override {
    nccl_log.hang_in_open = false;
    // Groups are let go of on threads of their own.
    EXPECT_TRUE(Becomes([] { return nccl_log.aborted + nccl_log.closed == nccl_log.opened; }));
  }

  using Body = std::function<void(Collective&, std::unique_ptr<DeviceGroup>)>;
  using Places = std::function<NcclPlace(int)>;
  /// What each rank throws.
  static std::vector<std::string> Join(int ranks, const Places& place, bool required,
                                       const Body& body, double deadline = 20) {
    auto groups = MakeLocalGroup(ranks, 20);
    std::vector<std::string> errors(static_cast<size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        Collective& group = *groups[static_cast<size_t>(rank)];
        try {
          body(group, JoinNccl(group, place(rank), required, deadline, deadline));
        } catch (const Error& error) {
          errors[static_cast<size_t>(rank)] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }
};

TEST_F(NcclRanks, HandOverPartsOfAnySize) {
  const auto errors = Join(
      3, [](int rank) { return PlaceOn(rank); }, true,
      [](Collective& group, std::unique_ptr<DeviceGroup> gpus) {
        ASSERT_NE(gpus, nullptr);
        EXPECT_FALSE(gpus->alone());
        const std::string mine(static_cast<size_t>(group.rank() + 1),
                               static_cast<char>('a' + group.rank()));
        const std::vector<size_t> sizes = {1, 2, 3};
        std::string all(6, ' ');
        gpus->Gather("a trial", mine.data(), sizes, all.data(), nullptr);
        EXPECT_EQ(all, "abbccc");
        std::string parts = "abcdef", own(6, ' ');
        gpus->Trade("a trial", parts.data(), 2, own.data(), nullptr);
        EXPECT_EQ(own, std::vector<std::string>(
                           {"ababab", "cdcdcd", "efefef"})[static_cast<size_t>(group.rank())]);
        group.Barrier("the end");
      });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  EXPECT_EQ(nccl_log.opened, 3);
  EXPECT_EQ(nccl_log.closed, 3);
  EXPECT_EQ(nccl_log.aborted, 0);
}

TEST_F(NcclRanks, OnOneGpuGoByWayOfTheHost) {
  const auto place = [](int rank) { return PlaceOn(rank, rank == 1 ? "one" : "two"); };
  const auto expect_none = [](Collective&, std::unique_ptr<DeviceGroup> gpus) {
    EXPECT_EQ(gpus, nullptr);
  };
  for (const std::string& error : Join(3, place, false, expect_none)) EXPECT_EQ(error, "");
  for (const std::string& error : Join(3, place, true, expect_none)) {
    EXPECT_NE(error.find("ranks 0 and 2 are on one GPU"), std::string::npos) << error;
    EXPECT_NE(error.find("by way of the host"), std::string::npos) << error;
  }
  EXPECT_EQ(nccl_log.opened, 0);
}

TEST_F(NcclRanks, WithoutAPlugInSayWhoLacksIt) {
  const auto place = [](int rank) {
    NcclPlace made = PlaceOn(rank);
    if (rank == 1) {
      made.transport = nullptr;
      made.problem = "there is no libnccl.so.2";
    }
    return made;
  };
  for (const std::string& error : Join(2, place, true, [](auto&, auto) {})) {
    EXPECT_TRUE(error.starts_with("rank 1 (")) << error;
    EXPECT_NE(error.find("cannot use NCCL: there is no libnccl.so.2"), std::string::npos) << error;
  }
}

TEST_F(NcclRanks, OneThatCannotConnectEndsAll) {
  nccl_log.refuse_open = true;
  const auto errors = Join(
      2, [](int rank) { return PlaceOn(rank); }, false,
      [](Collective& group, const std::unique_ptr<DeviceGroup>&) { group.Barrier("the end"); });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("NCCL does not connect the GPUs: no peer"), std::string::npos) << error;
  }
}

TEST_F(NcclRanks, WaitForTheOthersNoLongerThanToldTo) {
  nccl_log.hang_in_open = true;
  const auto errors = Join(
      2, [](int rank) { return PlaceOn(rank); }, true, [](auto&, auto) {}, 0.2);
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("waited 0.2 s for NCCL"), std::string::npos) << error;
  }
  // Who comes late finds nobody, and leaves again.
  nccl_log.hang_in_open = false;
  EXPECT_TRUE(Becomes([] { return nccl_log.closed == 2; }));
}

/// Waits for a GPU that never comes to an end, as a session does.
std::string WaitForever(Collective& group) {
  const GroupScope scope(group);
  EXPECT_NE(cuda::WatchScope::Current(), nullptr);
  try {
    cuda::WaitWatched(*cuda::WatchScope::Current(), [] { return false; });
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
    return error.what();
  }
  return {};
}

TEST_F(NcclRanks, ARankThatFailsEndsTheWaitOfOthers) {
  std::latch waits(1);  // who is still in the barrier may hear there already that the other failed
  const auto errors = Join(
      2, [](int rank) { return PlaceOn(rank); }, true,
      [&waits](Collective& group, std::unique_ptr<DeviceGroup> gpus) {
        group.SetOnDevice(std::move(gpus));
        group.Barrier("the start");
        if (group.rank() == 1) {
          waits.wait();
          return group.Fail("it has no memory left");
        }
        waits.count_down();
        const std::string error = WaitForever(group);
        EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
        EXPECT_NE(error.find("no memory left"), std::string::npos) << error;
        // What is ended is not used again.
        std::array<size_t, 2> sizes = {1, 1};
        EXPECT_THROW(group.on_device()->Gather("more", nullptr, sizes, nullptr, nullptr), Error);
      });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  EXPECT_TRUE(Becomes([] { return nccl_log.aborted == 1; }));
}

TEST_F(NcclRanks, WhatNcclReportsEndsAllRanks) {
  const auto errors = Join(
      2, [](int rank) { return PlaceOn(rank); }, true,
      [](Collective& group, std::unique_ptr<DeviceGroup> gpus) {
        group.SetOnDevice(std::move(gpus));
        group.Barrier("the start");
        nccl_log.failed = true;
        const std::string error = WaitForever(group);
        EXPECT_NE(error.find("remote peer exited"), std::string::npos) << error;
      });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST_F(NcclRanks, AGpuThatDoesNotFinishEndsAllRanksWithinTheDeadline) {
  const auto errors = Join(
      2, [](int rank) { return PlaceOn(rank); }, true,
      [](Collective& group, std::unique_ptr<DeviceGroup> gpus) {
        group.SetOnDevice(std::move(gpus));
        const std::string error = WaitForever(group);
        EXPECT_NE(error.find("waited 0.2 s for its GPU"), std::string::npos) << error;
        EXPECT_NE(error.find("longer deadline"), std::string::npos) << error;
      },
      0.2);
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(NcclPlugIn, IsNotNeededByABuild) {
  NcclPlace place;
  FindNccl(place);
  // Either there is one, or somebody can read why not.
  EXPECT_NE(place.transport == nullptr, place.problem.empty());
}

}  // namespace
}  // namespace oort
