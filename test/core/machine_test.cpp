// SPDX-License-Identifier: MIT
#include "core/machine.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/system_folder.h"
#include "kit/errors.h"
#include "oort/error.h"

namespace oort {
namespace {

/// A folder as the system's of devices.
class Sysfs : public testing::SystemFolder {
 protected:
  void WriteCache(int index, const char* level, const char* type, const char* size) {
    const std::string folder = "cpu/cpu0/cache/index" + std::to_string(index) + "/";
    Write(folder + "level", level);
    Write(folder + "type", type);
    Write(folder + "size", size);
  }
};

TEST_F(Sysfs, NothingIsAsUsual) {
  const Machine machine = ProbeMachine(root_, "", std::vector{0, 1, 2});
  EXPECT_EQ(machine.kind, "");
  EXPECT_FALSE(machine.known);
  EXPECT_EQ(machine.processors, 3);
  EXPECT_EQ(machine.cores, 3);
  EXPECT_EQ(machine.nodes, 1);
  EXPECT_GT(machine.l1, 0);
  EXPECT_GT(machine.l2, machine.l1);
  EXPECT_EQ(machine.l3, 0);
}

TEST_F(Sysfs, CachesCoresAndNodes) {
  WriteCache(0, "1", "Data", "48K");
  WriteCache(1, "1", "Instruction", "32K");
  WriteCache(2, "2", "Unified", "2M");
  WriteCache(3, "3", "Unified", "99999999999999999999K");
  for (const char* name : {"node0", "node1", "node10", "nodes"})
    Write("node/" + std::string(name) + "/x", "");
  for (const char* cpu : {"cpu0", "cpu1"})
    Write("cpu/" + std::string(cpu) + "/topology/thread_siblings_list", "0-1");
  const Machine machine =
      ProbeMachine(root_, "processor\t: 0\nmodel name\t: A Processor @ 1 GHz\n", std::vector{0, 1});
  EXPECT_EQ(machine.l1, 48 << 10);
  EXPECT_EQ(machine.l2, 2 << 20);
  EXPECT_EQ(machine.l3, 0) << "no cache is so large";
  EXPECT_EQ(machine.nodes, 3);
  EXPECT_EQ(machine.processors, 2);
  EXPECT_EQ(machine.cores, 1);
  EXPECT_EQ(machine.kind, "A Processor @ 1 GHz");
}

TEST_F(Sysfs, KindsHaveRows) {
  Write("cpu/cpu0/regs/identification/midr_el1", "0x00000000414fd0c1");
  const Machine n1 =
      ProbeMachine(root_, "CPU implementer\t: 0x41\nCPU part\t: 0xd40\n", std::vector{0});
  EXPECT_EQ(n1.kind, "Neoverse-N1") << "the register counts more";
  EXPECT_TRUE(n1.known);
  EXPECT_EQ(n1.pipes, 2);
  const Machine v1 =
      ProbeMachine(root_ / "none", "CPU implementer\t: 0x41\nCPU part\t: 0xd40\n", std::vector{0});
  EXPECT_EQ(v1.kind, "Neoverse-V1");
  EXPECT_EQ(v1.pipes, 4);
  const Machine other =
      ProbeMachine(root_ / "none", "CPU implementer\t: 0x41\nCPU part\t: 0xfff\n", std::vector{0});
  EXPECT_EQ(other.kind, "implementer 0x41, part 0xfff");
  EXPECT_FALSE(other.known);
}

TEST(ChangeMachine, SetsWhatIsNamed) {
  Machine machine;
  ChangeMachine("", machine);
  EXPECT_EQ(machine.l1, Machine().l1);
  ChangeMachine("l1=1K,l2=2.5M,cores=256,join=0.5", machine);
  EXPECT_EQ(machine.l1, 1024);
  EXPECT_EQ(machine.l2, 2621440);
  EXPECT_EQ(machine.cores, 256);
  EXPECT_EQ(machine.join, 0.5);
  EXPECT_EQ(machine.clock, Machine().clock);
}

TEST(ChangeMachine, SaysWhatIsWrong) {
  using Case = std::pair<const char*, const char*>;
  for (const Case& wrong :
       {Case{"l4=1", "'l4'"}, Case{"l2", "no value"}, Case{"l2=", "'' is no number"},
        Case{"l2=0", "'0'"}, Case{"cores=1e9", "1e9"}, Case{"clock=nan", "nan"},
        Case{"l1=5X", "5X"}, Case{"l1=1,,", "no value"}}) {
    Machine machine;
    testing::ExpectThrows([&] { ChangeMachine(wrong.first, machine); }, ErrorCode::kInvalidArgument,
                          wrong.second);
  }
}

TEST(ThisMachine, IsComplete) {
  for (const MachineField& field : FieldsOf(ThisMachine())) {
    EXPECT_GE(field.value, field.name == "l3" ? 0 : 1e-3) << field.name;
  }
  EXPECT_GT(GrainProducts(), 0);
}

TEST(CacheBlock, IsNeverMoreThanUsual) {
  EXPECT_EQ(CacheBlock(1000, 0, 0.5), 1000) << "nothing is known";
  EXPECT_EQ(CacheBlock(1000, 1 << 30, 0.5), 1000);
  EXPECT_EQ(CacheBlock(1000, 1024, 0.5), 512);
}

}  // namespace
}  // namespace oort
