// SPDX-License-Identifier: MIT
#include "oort/source.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "core/checked.h"
#include "core/guard.h"

namespace oort {
namespace {

/// Bytes that belong to `owner`, kept alive by it.
class SharedBuffer final : public Buffer {
 public:
  SharedBuffer(std::shared_ptr<const void> owner, const std::byte* data, size_t size)
      : Buffer(const_cast<std::byte*>(data), size, Device::Cpu()), owner_(std::move(owner)) {}

 private:
  std::shared_ptr<const void> owner_;
};

/// Bytes in memory, the caller's or a string's; `owner` keeps them.
class MemorySource final : public ByteSource {
 public:
  MemorySource(std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
               std::string name)
      : ByteSource(bytes.size(), std::move(name)), owner_(std::move(owner)), bytes_(bytes) {}

  void ReadAt(uint64_t offset, std::span<std::byte> destination) const override {
    CheckRange(offset, destination.size());
    if (destination.empty()) return;
    std::memcpy(destination.data(), bytes_.data() + offset, destination.size());
  }

  std::shared_ptr<Buffer> Map(uint64_t offset, uint64_t size) const override {
    CheckRange(offset, size);
    const std::byte* data = bytes_.empty() ? nullptr : bytes_.data() + offset;
    return std::make_shared<SharedBuffer>(owner_, data, static_cast<size_t>(size));
  }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

class ReaderSource final : public ByteSource {
 public:
  ReaderSource(uint64_t size, ReadFunction read, std::string name)
      : ByteSource(size, std::move(name)), read_(std::move(read)) {}

  void ReadAt(uint64_t offset, std::span<std::byte> destination) const override {
    CheckRange(offset, destination.size());
    if (destination.empty()) return;
    try {
      read_(offset, destination);
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw Error::OutOfMemory();
    } catch (const std::exception& error) {
      throw Error(ErrorCode::kIo, "cannot read " + name() + ": " + error.what());
    }
  }

  std::shared_ptr<Buffer> Map(uint64_t, uint64_t) const override { return nullptr; }

 private:
  ReadFunction read_;
};

[[noreturn]] void ThrowSystem(const std::string& name, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  throw Error(missing ? ErrorCode::kNotFound : ErrorCode::kIo,
              "cannot open '" + name + "': " + std::generic_category().message(error));
}

class FileDescriptor {
 public:
  explicit FileDescriptor(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) ThrowSystem(path, errno);
  }
  ~FileDescriptor() { ::close(fd_); }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

void ReadDescriptor(const FileDescriptor& file, const std::string& name, uint64_t offset,
                    std::span<std::byte> destination) {
  while (!destination.empty()) {
    const ssize_t got =
        ::pread(file.get(), destination.data(), destination.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const std::string why =
          got == 0 ? "the file became shorter" : std::generic_category().message(errno);
      throw Error(ErrorCode::kIo, "cannot read '" + name + "': " + why);
    }
    offset += static_cast<uint64_t>(got);
    destination = destination.subspan(static_cast<size_t>(got));
  }
}

/// A regular file. Each part is mapped for itself, so that its pages can go when it is let go of.
class FileSource final : public ByteSource {
 public:
  FileSource(std::shared_ptr<const FileDescriptor> file, uint64_t size, std::string name)
      : ByteSource(size, std::move(name)), file_(std::move(file)) {}

  void ReadAt(uint64_t offset, std::span<std::byte> destination) const override {
    CheckRange(offset, destination.size());
    ReadDescriptor(*file_, name(), offset, destination);
  }

  std::shared_ptr<Buffer> Map(uint64_t offset, uint64_t size) const override {
    CheckRange(offset, size);
    if (size == 0 || size > SIZE_MAX / 2) return nullptr;
    const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)), skip = offset % page;
    const size_t bytes = static_cast<size_t>(size + skip);
    // Private and writable: who writes to a weight gets his own copy of the page, not a crash.
    void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                           file_->get(), static_cast<off_t>(offset - skip));
    if (address == MAP_FAILED) return nullptr;
    const std::shared_ptr<const void> owner(
        address, [bytes](const void* p) { ::munmap(const_cast<void*>(p), bytes); });
    return std::make_shared<SharedBuffer>(owner, static_cast<const std::byte*>(address) + skip,
                                          static_cast<size_t>(size));
  }

 private:
  std::shared_ptr<const FileDescriptor> file_;
};

std::shared_ptr<const ByteSource> OpenFile(const std::string& name) {
  // O_NONBLOCK above: opening a pipe that nobody writes to must not hang.
  auto file = std::make_shared<FileDescriptor>(name);
  struct stat status = {};
  if (::fstat(file->get(), &status) != 0) ThrowSystem(name, errno);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::kIo, "'" + name + "' is " +
                                    (S_ISDIR(status.st_mode) ? "a directory" : "no regular file"));
  }
  const uint64_t size = static_cast<uint64_t>(status.st_size);
  return std::make_shared<FileSource>(std::move(file), size, name);
}

}  // namespace

std::shared_ptr<const ByteSource> ByteSource::File(const std::filesystem::path& path) {
  return Guarded([&] { return OpenFile(path.string()); });
}

std::shared_ptr<const ByteSource> ByteSource::Memory(std::span<const std::byte> bytes) {
  return Guarded([&] { return std::make_shared<MemorySource>(nullptr, bytes, "memory"); });
}

std::shared_ptr<const ByteSource> ByteSource::Owned(std::string bytes) {
  return Guarded([&] {
    auto owner = std::make_shared<const std::string>(std::move(bytes));
    const auto view = std::as_bytes(std::span(*owner));
    return std::make_shared<MemorySource>(std::move(owner), view, "memory");
  });
}

std::shared_ptr<const ByteSource> ByteSource::Reader(uint64_t size, ReadFunction read,
                                                     std::string name) {
  if (!read) throw Error(ErrorCode::kInvalidArgument, "ByteSource::Reader: the function is empty");
  return Guarded(
      [&] { return std::make_shared<ReaderSource>(size, std::move(read), std::move(name)); });
}

std::shared_ptr<Buffer> ByteSource::MapOrRead(uint64_t offset, uint64_t size) const {
  if (auto mapped = Map(offset, size)) return mapped;
  CheckRange(offset, size);
  if (size > SIZE_MAX) throw Error::OutOfMemory();
  auto buffer = AllocateHost(static_cast<size_t>(size));
  ReadAt(offset, {buffer->data(), buffer->size()});
  return buffer;
}

void ByteSource::CheckRange(uint64_t offset, uint64_t size) const {
  if (!InRange(offset, size, size_)) {
    throw Error(ErrorCode::kIo, name_ + ": the bytes [" + std::to_string(offset) + ", +" +
                                    std::to_string(size) + ") lie past the end at " +
                                    std::to_string(size_));
  }
}

}  // namespace oort
