// SPDX-License-Identifier: MIT
// Where the bytes of a model come from: a file, memory, or the user's own reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "oort/tensor.h"

namespace oort {

/// Random-access bytes of a known size. Thread contract: all methods may be called concurrently,
/// provided the user's own reader allows it.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Memory-maps a regular file; throws kNotFound or kIo.
  static std::shared_ptr<const ByteSource> File(const std::filesystem::path& path);
  /// Borrows the bytes, which must outlive everything loaded from them …
  static std::shared_ptr<const ByteSource> Memory(std::span<const std::byte> bytes);
  /// … or takes them over.
  static std::shared_ptr<const ByteSource> Owned(std::string bytes);
  /// Calls `read(offset, destination)`, which fills the whole destination or throws.
  using ReadFunction = std::function<void(uint64_t offset, std::span<std::byte> destination)>;
  static std::shared_ptr<const ByteSource> Reader(uint64_t size, ReadFunction read,
                                                  std::string name = "reader");

  uint64_t size() const { return size_; }
  const std::string& name() const { return name_; }  ///< for messages
  /// Fills `destination` from `offset`; throws kIo past the end.
  virtual void ReadAt(uint64_t offset, std::span<std::byte> destination) const = 0;
  /// The bytes [offset, offset+size) without a copy, or null where only copies can be had.
  virtual std::shared_ptr<Buffer> Map(uint64_t offset, uint64_t size) const = 0;
  /// The same bytes, copied if they cannot be mapped.
  std::shared_ptr<Buffer> MapOrRead(uint64_t offset, uint64_t size) const;

 protected:
  ByteSource(uint64_t size, std::string name) : size_(size), name_(std::move(name)) {}
  void CheckRange(uint64_t offset, uint64_t size) const;
  uint64_t size_;
  std::string name_;
};

}  // namespace oort
