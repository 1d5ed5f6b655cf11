// SPDX-License-Identifier: MIT
// Makes zips for tests, good ones and broken ones; shares no code with the reader it tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace oort::testing {

inline uint32_t SlowCrc32(const std::string& bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

/// `size` bytes of a number, lowest first.
inline std::string Little(uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

/// One entry. What is set here stands in the file instead of the truth.
struct ZipSpec {
  std::string name;
  std::string bytes;
  uint16_t flags = 0;
  uint16_t method = 0;
  std::optional<uint32_t> crc = {};
  std::optional<uint32_t> local_crc = {};
  std::optional<uint64_t> size = {};             // in the directory
  std::optional<uint64_t> compressed_size = {};  // in the directory
  std::optional<uint64_t> local_size = {};
  std::optional<uint64_t> offset = {};  // of the local header
  std::optional<std::string> local_name = {};
  std::optional<uint16_t> local_flags = {};
  std::string local_extra = {};  // before the payload, after the ZIP64 field
  std::string central_extra = {};
  std::string before = {};  // bytes before the local header
};

/// The zip as a whole; again, what is set replaces the truth.
struct ZipOptions {
  bool zip64 = false;
  std::string comment = {};
  std::string after = {};
  std::optional<uint64_t> entries = {};
  std::optional<uint64_t> directory_offset = {};
  std::optional<uint64_t> directory_size = {};
  std::optional<uint64_t> end64_offset = {};
  uint16_t disk = 0;
  int zip64_length = 28;  // of the field of an entry; pnnx writes 28
};

inline std::string Zip64Field(const ZipOptions& options, uint64_t size, uint64_t compressed,
                              uint64_t offset) {
  std::string field = Little(size, 8) + Little(compressed, 8) + Little(offset, 8) + Little(0, 4);
  field.resize(static_cast<size_t>(options.zip64_length));
  return Little(1, 2) + Little(field.size(), 2) + field;
}

inline std::string BuildZip(const std::vector<ZipSpec>& specs, const ZipOptions& options = {}) {
  std::string file, directory;
  constexpr uint64_t kFull = 0xffffffff;
  for (const ZipSpec& spec : specs) {
    file += spec.before;
    const uint64_t offset = spec.offset.value_or(file.size());
    const uint32_t crc = spec.crc.value_or(SlowCrc32(spec.bytes));
    const uint64_t size = spec.size.value_or(spec.bytes.size());
    const uint64_t compressed = spec.compressed_size.value_or(size);
    const uint64_t local_size = spec.local_size.value_or(size);
    const std::string local_name = spec.local_name.value_or(spec.name);
    const bool z = options.zip64;
    const std::string local_extra =
        (z ? Zip64Field(options, local_size, local_size, 0) : "") + spec.local_extra;
    file += "PK\3\4" + Little(0, 2) + Little(spec.local_flags.value_or(spec.flags), 2) +
            Little(spec.method, 2) + Little(0, 4) + Little(spec.local_crc.value_or(crc), 4) +
            Little(z ? kFull : local_size, 4) + Little(z ? kFull : local_size, 4) +
            Little(local_name.size(), 2) + Little(local_extra.size(), 2) + local_name +
            local_extra + spec.bytes;
    const std::string extra =
        (z ? Zip64Field(options, size, compressed, offset) : "") + spec.central_extra;
    directory += "PK\1\2" + Little(0, 4) + Little(spec.flags, 2) + Little(spec.method, 2) +
                 Little(0, 4) + Little(crc, 4) + Little(z ? kFull : compressed, 4) +
                 Little(z ? kFull : size, 4) + Little(spec.name.size(), 2) +
                 Little(extra.size(), 2) + Little(0, 2) + Little(z ? 0xffff : 0, 2) + Little(0, 6) +
                 Little(z ? kFull : offset, 4) + spec.name + extra;
  }
  const uint64_t entries = options.entries.value_or(specs.size());
  const uint64_t directory_offset = options.directory_offset.value_or(file.size());
  const uint64_t directory_size = options.directory_size.value_or(directory.size());
  file += directory;
  if (options.zip64) {
    const uint64_t end64 = options.end64_offset.value_or(file.size());
    file += "PK\6\6" + Little(44, 8) + Little(0, 4) + Little(options.disk, 4) + Little(0, 4) +
            Little(entries, 8) + Little(entries, 8) + Little(directory_size, 8) +
            Little(directory_offset, 8);
    file += "PK\6\7" + Little(0, 4) + Little(end64, 8) + Little(1, 4);
    file += "PK\5\6" + std::string(16, '\xff');
  } else {
    file += "PK\5\6" + Little(options.disk, 2) + Little(0, 2) + Little(entries, 2) +
            Little(entries, 2) + Little(directory_size, 4) + Little(directory_offset, 4);
  }
  return file + Little(options.comment.size(), 2) + options.comment + options.after;
}

}  // namespace oort::testing
