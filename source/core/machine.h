// SPDX-License-Identifier: MIT
// What loops and kernels assume about the processor when they choose tiles, algorithms and numbers
// of threads. Answers do not depend on it but for the last digits, where another algorithm sums in
// another order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oort {

struct Machine {
  std::string kind;    ///< "Neoverse-V1"; what the system calls it where there is no row for it
  bool known = false;  ///< whether its rates are of a row for its kind, else of its architecture
  int processors = 1;  ///< that this process may use, hyperthreads of one core apart
  int cores = 1;       ///< of these
  int nodes = 1;       ///< of memory (NUMA) that the system has
  // Bytes of data caches: of a core, or of all that share one. An l3 of 0 is not there, or unknown.
  int64_t l1 = 32 << 10, l2 = 512 << 10, l3 = 0;
  double clock = 2.6;  ///< GHz
  double pipes = 2;    ///< vector multiply-adds that begin in a cycle
  double memory = 12;  ///< bytes a nanosecond that one core reads from memory
  double moves = 32;   ///< bytes a nanosecond that plain loops move, mostly within caches
  double flops = 16;   ///< operations a nanosecond of plain vector code
  // Nanoseconds to start a loop on several threads and to end it, and of each thread more: while
  // they are awake, and when they sleep.
  double join = 500, join_thread = 100;
  double wake = 10000, wake_thread = 500;
};

/// Asked of the system once: the row of its kind, with caches and cores as sysfs tells them,
/// changed by the environment variable OORT_MACHINE. Throws where that cannot be read.
const Machine& ThisMachine();

/// What the system tells: `sysfs` is its folder of devices, `cpuinfo` the text of /proc/cpuinfo.
/// Only these processors count.
Machine ProbeMachine(const std::filesystem::path& sysfs, std::string_view cpuinfo,
                     std::span<const int> processors);

/// Sets fields by their names, "l2=256K,cores=256,join=1000"; sizes may end with K, M or G.
void ChangeMachine(std::string_view text, Machine& machine);

/// Every field with a number, by the name that ChangeMachine knows.
struct MachineField {
  std::string_view name;
  double value;
};
std::vector<MachineField> FieldsOf(const Machine& machine);

/// Multiplications of a product of matrices that take about a grain (parallel.h) on one thread.
double GrainProducts();
/// Of `usual` bytes, which kernels were measured with, those that fit in that part of a cache.
int64_t CacheBlock(int64_t usual, int64_t cache, double part);

}  // namespace oort
