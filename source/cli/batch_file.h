// SPDX-License-Identifier: MIT
// The output of `oort batch`: a file that can be continued whenever its writer was ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace oort::cli {

/// Answers, one a line. Each is appended by a single write, so that a writer that is killed leaves
/// whole lines and perhaps one torn one, which the next writer cuts off.
class AnswerFile {
 public:
  /// Opens or makes the file, reads which lines it answers already, and keeps others from writing
  /// to it. Throws kIo, and kInvalidArgument for a file that holds something else.
  explicit AnswerFile(const std::string& path);
  ~AnswerFile();
  AnswerFile(const AnswerFile&) = delete;
  AnswerFile& operator=(const AnswerFile&) = delete;

  enum class Kept : unsigned char { kNothing, kAnswer, kError };
  /// What an earlier run has written of this line of the input. Throws kInvalidArgument where that
  /// is for another custom_id: the input has changed.
  Kept Find(int64_t number, std::string_view custom_id) const;

  /// Appends a line; on the disk at the latest a second after the next call, or after Sync.
  void Append(std::string_view line);
  void Sync();

 private:
  struct Line {
    uint64_t id = 0;  // a hash of the custom_id
    Kept kept = Kept::kNothing;
  };

  void ReadAnswers();
  void Keep(std::string_view line);
  [[noreturn]] void ThrowErrno(const char* doing) const;

  int fd_ = -1;
  std::string path_;
  int64_t answered_ = 0;
  std::unordered_map<int64_t, Line> lines_;  // by number
  bool dirty_ = false;
  std::chrono::steady_clock::time_point synced_ = std::chrono::steady_clock::now();
};

/// Of a custom_id, the same in every run.
uint64_t HashOfId(std::string_view custom_id);

}  // namespace oort::cli
