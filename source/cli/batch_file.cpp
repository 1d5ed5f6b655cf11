// SPDX-License-Identifier: MIT
#include "cli/batch_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/problems.h"
#include "text/json.h"

namespace oort::cli {
namespace {

constexpr int64_t kMostLines = int64_t{1} << 60;
constexpr auto kSyncEvery = std::chrono::seconds(1);

/// Refusals of the API's are responses; what never became a request, or failed, has an error.
bool IsError(const json::Object& answer) {
  if (answer.Find("error") != nullptr) return true;
  const auto response = answer.Member("response");
  return response && response->Integer("status_code").value_or(200) >= 400;
}

}  // namespace

uint64_t HashOfId(std::string_view custom_id) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : custom_id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

AnswerFile::AnswerFile(const std::string& path) : path_(path) {
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) ThrowErrno("open");
  try {
    if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) ThrowErrno("lock");
      throw Error(ErrorCode::kIo, "another run writes to " + Quote(path_) +
                                      ": wait for it, or name another --output");
    }
    ReadAnswers();
  } catch (...) {
    close(fd_);
    throw;
  }
}

AnswerFile::~AnswerFile() { close(fd_); }

void AnswerFile::ThrowErrno(const char* doing) const {
  throw Error(ErrorCode::kIo,
              std::string("cannot ") + doing + " " + Quote(path_) + ": " + std::strerror(errno));
}

/// Lines that are whole; what stands behind the last of them is cut off.
void AnswerFile::ReadAnswers() {
  struct stat about = {};
  if (fstat(fd_, &about) != 0) ThrowErrno("read");
  if (!S_ISREG(about.st_mode)) return;  // a pipe or /dev/null: nothing to continue
  std::string line;
  std::array<char, 1 << 16> part;
  off_t whole = 0;
  for (off_t at = 0;;) {
    const ssize_t got = pread(fd_, part.data(), part.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) ThrowErrno("read");
    if (got == 0) break;
    for (std::string_view rest(part.data(), static_cast<size_t>(got)); !rest.empty();) {
      const size_t end = rest.find('\n');
      line += rest.substr(0, end);
      if (end == std::string_view::npos) break;
      whole = at + (rest.data() - part.data()) + static_cast<off_t>(end) + 1;
      Keep(line);
      line.clear();
      rest.remove_prefix(end + 1);
    }
    at += got;
  }
  if (whole < about.st_size && ftruncate(fd_, whole) != 0) ThrowErrno("shorten");
}

void AnswerFile::Keep(std::string_view line) {
  int64_t number = 0;
  Line kept;
  try {
    const json::Json parsed = json::Parse(line, "an answer");
    const json::Object answer(parsed, "an answer");
    number = answer.RequireInteger("line", kMostLines);
    kept.id = HashOfId(answer.Text("custom_id").value_or(""));
    kept.kept = IsError(answer) ? Kept::kError : Kept::kAnswer;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    throw Error(ErrorCode::kInvalidArgument,
                Quote(path_) + " holds something else than answers of `oort batch`, in line " +
                    std::to_string(answered_ + 1) + ": name another --output");
  }
  lines_[number] = kept;
  ++answered_;
}

AnswerFile::Kept AnswerFile::Find(int64_t number, std::string_view custom_id) const {
  const auto found = lines_.find(number);
  if (found == lines_.end()) return Kept::kNothing;
  if (found->second.id == HashOfId(custom_id)) return found->second.kept;
  throw Error(ErrorCode::kInvalidArgument, "line " + std::to_string(number) +
                                               " of the input has another custom_id than its " +
                                               "answer in " + Quote(path_) +
                                               ": the input has changed, so name another --output");
}

void AnswerFile::Append(std::string_view line) {
  std::string whole(line);
  whole += '\n';
  for (std::string_view rest = whole; !rest.empty();) {
    const ssize_t put = write(fd_, rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) ThrowErrno("write");
    rest.remove_prefix(static_cast<size_t>(put));
  }
  dirty_ = true;
  if (std::chrono::steady_clock::now() - synced_ >= kSyncEvery) Sync();
}

void AnswerFile::Sync() {
  if (!dirty_) return;
  // What is no file on a disk cannot be synced, and need not.
  if (fdatasync(fd_) != 0 && errno != EINVAL && errno != EROFS) ThrowErrno("write");
  dirty_ = false;
  synced_ = std::chrono::steady_clock::now();
}

}  // namespace oort::cli
