// SPDX-License-Identifier: MIT
#include "cli/memory_growth.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace oort::cli {
namespace {

/// A line of /proc/self/status, in bytes; 0 where there is none.
size_t StatusBytes(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, name.size(), name) == 0) {
      return static_cast<size_t>(std::stoull(line.substr(name.size()))) * 1024;
    }
  }
  return 0;
}

/// Reads a byte of each page of the program and its libraries.
void TouchProgram() {
  constexpr uintptr_t kSmallestPage = 4096;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    // "from-to r-xp offset device inode /path"
    std::istringstream words(line);
    uintptr_t from = 0, to = 0;
    char dash = 0;
    std::string rights;
    words >> std::hex >> from >> dash >> to >> rights;
    if (rights.compare(0, 2, "r-") != 0 || line.find('/') == std::string::npos) continue;
    for (; from < to; from += kSmallestPage) {
      [[maybe_unused]] const char byte = *reinterpret_cast<volatile const char*>(from);
    }
  }
}

}  // namespace

MemoryGrowth::MemoryGrowth() {
  TouchProgram();
  std::ofstream("/proc/self/clear_refs") << "5";  // the most begins anew, where that is allowed
  before_ = StatusBytes("VmRSS:");
}

void MemoryGrowth::Measure() {
  resident_ = StatusBytes("VmRSS:");
  peak_ = std::max(resident_, StatusBytes("VmHWM:"));
  resident_ -= std::min(resident_, before_);
  peak_ -= std::min(peak_, before_);
}

}  // namespace oort::cli
