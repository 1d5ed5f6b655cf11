// SPDX-License-Identifier: MIT
#include "core/cpu_limits.h"

#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/machine.h"

namespace oort {
namespace {

namespace fs = std::filesystem;

int WholeProcessors(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return kNoThreadLimit;
  return static_cast<int>(std::clamp(std::ceil(quota / period), 1.0, double{kNoThreadLimit}));
}

/// cpu.max: "200000 100000" or "max 100000".
int QuotaOfVersion2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max") return kNoThreadLimit;
  return WholeProcessors(std::strtod(quota.c_str(), nullptr), period);
}

int QuotaOfVersion1(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us"), period_file(group / "cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period)) return kNoThreadLimit;
  return WholeProcessors(quota, period);  // -1: no limit
}

/// The smallest quota of `path` below `root` and of every group that holds it. Inside a container
/// the path may be that of the host, of which only the root is to be seen.
template <typename Quota>
int SmallestQuota(const fs::path& root, std::string_view path, Quota quota) {
  int threads = quota(root);
  fs::path group = root;
  for (const fs::path& part : fs::path(path).relative_path()) {
    if (part == "..") break;
    group /= part;
    threads = std::min(threads, quota(group));
  }
  return threads;
}

bool HasController(std::string_view controllers, std::string_view wanted) {
  std::istringstream list{std::string(controllers)};
  for (std::string name; std::getline(list, name, ',');) {
    if (name == wanted) return true;
  }
  return false;
}

int CountThreads() {
  if (const int threads = ParseOmpThreads(std::getenv("OMP_NUM_THREADS"))) return threads;
  std::ifstream file("/proc/self/cgroup");
  const std::string membership{std::istreambuf_iterator<char>(file), {}};
  return std::max(1, std::min(ThisMachine().cores, CgroupThreads("/sys/fs/cgroup", membership)));
}

}  // namespace

std::vector<int> AffinityProcessors() {
  std::vector<int> processors;
#ifdef __linux__
  // The kernel refuses a set that is smaller than its own.
  for (int most = 1024; most <= 1 << 16 && processors.empty(); most *= 2) {
    std::vector<cpu_set_t> set(static_cast<size_t>(most) / (8 * sizeof(cpu_set_t)));
    const size_t bytes = set.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, set.data()) != 0) continue;
    for (int i = 0; i < most; ++i) {
      if (CPU_ISSET_S(static_cast<size_t>(i), bytes, set.data())) processors.push_back(i);
    }
  }
#endif
  if (processors.empty()) {
    processors.resize(std::max<size_t>(1, std::thread::hardware_concurrency()));
    std::iota(processors.begin(), processors.end(), 0);
  }
  return processors;
}

int CountCores(std::span<const int> processors, const fs::path& sysfs) {
  std::set<std::string> cores;
  int unknown = 0;
  for (const int processor : processors) {
    std::ifstream file(sysfs / ("cpu" + std::to_string(processor)) /
                       "topology/thread_siblings_list");
    std::string siblings;
    if (file >> siblings) {
      cores.insert(siblings);
    } else {
      ++unknown;
    }
  }
  return static_cast<int>(cores.size()) + unknown;
}

int CgroupThreads(const fs::path& mount, std::string_view membership) {
  int threads = kNoThreadLimit;
  std::istringstream lines{std::string(membership)};
  // "0::/path" of version 2; "4:cpu,cpuacct:/path" of version 1.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      threads = std::min(threads, SmallestQuota(mount, path, QuotaOfVersion2));
    } else if (HasController(controllers, "cpu")) {
      threads = std::min(threads, SmallestQuota(mount / "cpu", path, QuotaOfVersion1));
      threads = std::min(threads, SmallestQuota(mount / controllers, path, QuotaOfVersion1));
    }
  }
  return threads;
}

int ParseOmpThreads(const char* text) {
  if (text == nullptr) return 0;
  std::string_view view(text);
  while (!view.empty() && view.front() == ' ') view.remove_prefix(1);
  int threads = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), threads);
  if (error != std::errc() || threads < 1 || threads > kNoThreadLimit) return 0;
  const std::string_view rest(end, static_cast<size_t>(view.data() + view.size() - end));
  return rest.empty() || rest.front() == ',' || rest.front() == ' ' ? threads : 0;
}

int AvailableThreads() {
  static const int threads = std::min(CountThreads(), kMostThreads);
  return threads;
}

}  // namespace oort
