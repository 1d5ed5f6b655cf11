// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oort {

/// Writes a file under another name beside its place and renames it when it is whole, so that
/// nobody ever sees half of it. Without Publish() nothing is left behind.
class FileWriter {
 public:
  explicit FileWriter(const std::filesystem::path& path);  ///< throws kIo
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void Write(std::span<const std::byte> bytes);
  void Write(std::string_view text) { Write(std::as_bytes(std::span(text))); }
  uint64_t offset() const { return offset_; }  ///< bytes written so far
  /// Closes the file, by default only when all bytes are on the disk. Nothing may follow.
  void Finish(bool sync = true);
  /// After Finish(): the file appears under its name.
  void Publish();

 private:
  void Flush();
  [[noreturn]] void Throw(int error) const;
  std::string path_;
  std::string temporary_;  // empty once there is none
  int fd_ = -1;
  uint64_t offset_ = 0;
  std::vector<std::byte> pending_;
};

}  // namespace oort
