// SPDX-License-Identifier: MIT
// Which rank computes where, told without a GPU.
#include <gtest/gtest.h>

#include <thread>

#include "collectives/local_collective.h"
#include "collectives/lone_collective.h"
#include "llm/rank_device.h"

namespace oort {
namespace {

/// What two processes that ask for these devices are told: a device, or why not.
std::vector<std::string> DevicesOfProcesses(Device first, Device second) {
  auto places = MakeLocalGroup(2, 0.5);
  std::vector<std::string> told(2);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      RankGroup group(std::move(places[rank]), 0.5, true);
      LanguageModelOptions options;
      options.device = rank == 0 ? first : second;
      options.ranks.spread = false;
      options.ranks.deadline = 0.2;  // nobody follows rank 0 when it leaves
      try {
        told[rank] = DeviceOfRank(options, group).ToString();
      } catch (const Error& error) {
        told[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return told;
}

TEST(RankDevice, WhoNamesAGpuGetsThatOne) {
  EXPECT_EQ(DevicesOfProcesses(Device::Cuda(3), Device::Cuda(1)),
            (std::vector<std::string>{"cuda:3", "cuda:1"}));
  EXPECT_EQ(DevicesOfProcesses(Device::Cpu(), Device::Cpu()),
            (std::vector<std::string>{"cpu", "cpu"}));
}

TEST(RankDevice, AllRanksAreOnGpusOrNoneIs) {
  for (const std::string& told : DevicesOfProcesses(Device::Cuda(0), Device::Cpu())) {
    EXPECT_NE(told.find("give all ranks GPUs, or none"), std::string::npos) << told;
  }
}

TEST(RankDevice, OneAloneStaysWhereItIs) {
  RankGroup group(MakeLoneRank(5, 8), 1, false, true);
  LanguageModelOptions options;
  options.device = Device::Cuda(2);
  EXPECT_EQ(DeviceOfRank(options, group), Device::Cuda(2));
}

}  // namespace
}  // namespace oort
