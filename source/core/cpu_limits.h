// SPDX-License-Identifier: MIT
// What the machine, the container and the environment say about how many threads to use.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace oort {

/// No limit that anybody has set.
inline constexpr int kNoThreadLimit = 1 << 20;
/// That anything here runs on at most, whatever it is told: each has a stack, and OpenMP ends the
/// program where it cannot have them.
inline constexpr int kMostThreads = 1024;

/// Processors in this thread's affinity mask, by their numbers; at least one.
std::vector<int> AffinityProcessors();
/// How many cores these are: two hyperthreads of one core count once. `sysfs` is the system's
/// folder of processors; those that it says nothing about count as one each.
int CountCores(std::span<const int> processors, const std::filesystem::path& sysfs);
/// Whole processors that the control groups of this process grant, rounded up: version 2
/// (cpu.max) and version 1 (cpu.cfs_quota_us), in its own group and all those around it.
/// `membership` is the text of /proc/self/cgroup, `mount` where the groups are mounted.
int CgroupThreads(const std::filesystem::path& mount, std::string_view membership);
/// The first number of an OMP_NUM_THREADS ("8" or "8,2"); 0 where it says nothing usable.
int ParseOmpThreads(const char* text);

/// Threads that one Forward takes by default: OMP_NUM_THREADS if it is set, else one for each core
/// of the affinity mask within the container's quota. Determined once.
int AvailableThreads();

}  // namespace oort
