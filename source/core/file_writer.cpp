// SPDX-License-Identifier: MIT
#include "core/file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "oort/error.h"

namespace oort {
namespace {

constexpr size_t kPending = size_t{1} << 20;

/// Unique in this process and, by its id, among all.
std::string TemporaryName(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return path + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
}

}  // namespace

FileWriter::FileWriter(const std::filesystem::path& path) : path_(path.string()) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) Throw(EISDIR);
  pending_.reserve(kPending);
  std::string temporary = TemporaryName(path_);
  fd_ = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) Throw(errno);
  temporary_ = std::move(temporary);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void FileWriter::Write(std::span<const std::byte> bytes) {
  offset_ += bytes.size();
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.size(), kPending - pending_.size());
    pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    bytes = bytes.subspan(size);
    if (pending_.size() == kPending) Flush();
  }
}

void FileWriter::Flush() {
  for (size_t done = 0; done < pending_.size();) {
    const ssize_t written = ::write(fd_, pending_.data() + done, pending_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) Throw(errno);
    done += static_cast<size_t>(written);
  }
  pending_.clear();
}

void FileWriter::Finish(bool sync) {
  Flush();
  if (sync && ::fsync(fd_) != 0) Throw(errno);
  if (::close(std::exchange(fd_, -1)) != 0) Throw(errno);
}

void FileWriter::Publish() {
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) Throw(errno);
  temporary_.clear();
}

void FileWriter::Throw(int error) const {
  throw Error(ErrorCode::kIo,
              "cannot write '" + path_ + "': " + std::generic_category().message(error));
}

}  // namespace oort
