// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace oort::cli {

/// Notices that files were written anew. It looks when it is asked, and does nothing else.
class FileWatch {
 public:
  /// Empty names are passed over.
  explicit FileWatch(const std::vector<std::string>& names);
  bool empty() const { return files_.empty(); }
  /// Whether one of them differs in time or size from the last call. A file that is missing, as in
  /// the moment when it is replaced, has not changed.
  bool Changed();

 private:
  struct State {
    std::filesystem::file_time_type time;
    uintmax_t size = 0;
    bool operator==(const State&) const = default;
  };
  static bool Look(const std::filesystem::path& path, State& state);
  std::vector<std::pair<std::filesystem::path, State>> files_;
};

}  // namespace oort::cli
