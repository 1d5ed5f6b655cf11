// SPDX-License-Identifier: MIT
#include "cli/file_watch.h"

#include <system_error>

namespace oort::cli {

FileWatch::FileWatch(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name.empty()) continue;
    State state;
    Look(name, state);
    files_.emplace_back(name, state);
  }
}

bool FileWatch::Look(const std::filesystem::path& path, State& state) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return false;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return false;
  state = {time, size};
  return true;
}

bool FileWatch::Changed() {
  bool changed = false;
  for (auto& [path, state] : files_) {
    State now = state;
    if (Look(path, now) && now != state) {
      changed = true;
      state = now;
    }
  }
  return changed;
}

}  // namespace oort::cli
