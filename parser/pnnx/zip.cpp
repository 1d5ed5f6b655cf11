// SPDX-License-Identifier: MIT
#include "parser/pnnx/zip.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "core/checked.h"
#include "parser/pnnx/zip_format.h"

namespace oort::pnnx {
namespace {

using Bytes = std::span<const std::byte>;

struct Directory {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t entries = 0;
};

/// What a local header and its entry in the directory have in common.
struct Header {
  uint16_t flags = 0, method = 0;
  uint32_t crc = 0;
  uint64_t compressed = 0, size = 0;
};

/// An entry of the directory, before its local header has been seen.
struct Found {
  Header header;
  std::string_view name;
  uint64_t local_offset = 0;
};

/// An entry with all bytes that it takes, for the search for overlaps.
struct Placed {
  ZipEntry entry;
  uint64_t begin = 0;
};

std::string_view Text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Reader {
 public:
  Reader(const ByteSource& source, ProblemList& problems) : source_(source), problems_(problems) {}

  std::vector<ZipEntry> Read() {
    directory_ = FindDirectory();
    const auto buffer = source_.MapOrRead(directory_.offset, directory_.size);
    ReadEntries({buffer->data(), buffer->size()});
    return WithoutOverlaps();
  }

 private:
  [[noreturn]] void Throw(const std::string& message) const {
    throw Error(ErrorCode::kInvalidModel, source_.name() + ": " + message);
  }
  void Fail(std::string_view name, const std::string& message) {
    problems_.Add(ErrorCode::kInvalidModel, "zip entry " + Quote(name) + ": " + message);
  }

  /// The end record stands at the very end, but for a comment of at most 64 KiB.
  uint64_t FindEnd(Bytes tail, uint64_t tail_offset) const {
    if (tail.size() < kEndSize) Throw("too short for a zip: is it cut off?");
    bool seen = false;
    for (size_t at = tail.size() - kEndSize + 1; at-- > 0;) {
      if (Load<uint32_t>(&tail[at]) != kEndSignature) continue;
      seen = true;
      const size_t comment = Load<uint16_t>(&tail[at + 20]);
      if (at + kEndSize + comment == tail.size()) return tail_offset + at;
    }
    Throw(seen ? "the zip's end record is not at the end: are there bytes too many or too few?"
               : "the zip has no end record: is it cut off?");
  }

  Directory FindDirectory() const {
    const uint64_t tail_size =
        std::min<uint64_t>(source_.size(), kEndSize + kSaturated16 + kLocator64Size);
    const uint64_t tail_offset = source_.size() - tail_size;
    const auto buffer = source_.MapOrRead(tail_offset, tail_size);
    const Bytes tail(buffer->data(), buffer->size());
    const uint64_t end = FindEnd(tail, tail_offset);
    const std::byte* record = &tail[static_cast<size_t>(end - tail_offset)];

    Directory directory{Load<uint32_t>(record + 16), Load<uint32_t>(record + 12),
                        Load<uint16_t>(record + 10)};
    uint64_t limit = end;
    const bool saturated = directory.offset == kSaturated32 || directory.size == kSaturated32 ||
                           directory.entries == kSaturated16;
    const bool located = end - tail_offset >= kLocator64Size &&
                         Load<uint32_t>(record - kLocator64Size) == kLocator64Signature;
    if (saturated && located) {
      limit = Load<uint64_t>(record - kLocator64Size + 8);
      directory = ReadEnd64(limit, end - kLocator64Size);
    } else if (Load<uint16_t>(record + 4) != 0 || Load<uint16_t>(record + 6) != 0) {
      Throw("the zip is split over several files");
    }
    if (!InRange(directory.offset, directory.size, limit)) {
      Throw("the zip's directory lies out of range");
    }
    if (directory.entries > directory.size / kCentralSize) {
      Throw("the zip claims " + std::to_string(directory.entries) +
            " entries, more than its directory has room for");
    }
    return directory;
  }

  Directory ReadEnd64(uint64_t offset, uint64_t limit) const {
    if (!InRange(offset, kEnd64Size, limit)) Throw("the zip's ZIP64 end record is out of range");
    std::byte record[kEnd64Size];
    source_.ReadAt(offset, record);
    if (Load<uint32_t>(record) != kEnd64Signature) Throw("the zip's ZIP64 end record is damaged");
    if (Load<uint32_t>(record + 16) != 0 || Load<uint32_t>(record + 20) != 0) {
      Throw("the zip is split over several files");
    }
    return {Load<uint64_t>(record + 48), Load<uint64_t>(record + 40), Load<uint64_t>(record + 32)};
  }

  void ReadEntries(Bytes bytes) {
    std::unordered_set<std::string_view> names;
    for (uint64_t i = 0; i < directory_.entries; ++i) {
      if (bytes.size() < kCentralSize || Load<uint32_t>(bytes.data()) != kCentralSignature) {
        Throw("the zip's directory is damaged at entry " + std::to_string(i));
      }
      const std::byte* record = bytes.data();
      const size_t name_size = Load<uint16_t>(record + 28);
      const size_t extra_size = Load<uint16_t>(record + 30);
      const size_t length = kCentralSize + name_size + extra_size + Load<uint16_t>(record + 32);
      if (length > bytes.size()) {
        Throw("the zip's directory is damaged at entry " + std::to_string(i));
      }
      Found found;
      found.name = Text(bytes.subspan(kCentralSize, name_size));
      found.local_offset = Load<uint32_t>(record + 42);
      found.header = ReadHeader(record + 8);
      const Bytes extra = bytes.subspan(kCentralSize + name_size, extra_size);
      if (!names.insert(found.name).second) {
        Fail(found.name, "stands in the zip twice");
      } else if (ReadZip64(extra, &found.header, &found.local_offset)) {
        ReadEntry(found);
      } else {
        Fail(found.name, "its ZIP64 field is missing or too short");
      }
      bytes = bytes.subspan(length);
    }
    if (!bytes.empty()) Throw("the zip's directory holds more than the entries it counts");
  }

  static Header ReadHeader(const std::byte* flags) {
    return {Load<uint16_t>(flags), Load<uint16_t>(flags + 2), Load<uint32_t>(flags + 8),
            Load<uint32_t>(flags + 12), Load<uint32_t>(flags + 16)};
  }

  /// Replaces saturated numbers by those of the ZIP64 field; surplus bytes are legal, pnnx
  /// writes some. False if a number is missing.
  static bool ReadZip64(Bytes extra, Header* header, uint64_t* offset) {
    std::vector<uint64_t*> wanted;
    if (header->size == kSaturated32) wanted.push_back(&header->size);
    if (header->compressed == kSaturated32) wanted.push_back(&header->compressed);
    if (offset != nullptr && *offset == kSaturated32) wanted.push_back(offset);
    if (wanted.empty()) return true;
    while (extra.size() >= 4) {
      const auto id = Load<uint16_t>(extra.data());
      const size_t length = Load<uint16_t>(extra.data() + 2);
      extra = extra.subspan(4);
      if (length > extra.size()) return false;
      if (id != kExtraZip64) {
        extra = extra.subspan(length);
        continue;
      }
      if (length < 8 * wanted.size()) return false;
      for (size_t i = 0; i < wanted.size(); ++i) *wanted[i] = Load<uint64_t>(&extra[8 * i]);
      return true;
    }
    return false;
  }

  void ReadEntry(const Found& found) {
    const Header& header = found.header;
    if (found.name.ends_with('/') && header.size == 0) return;  // a folder
    if (header.flags & kFlagsEncrypted) return Fail(found.name, "is encrypted");
    if (header.method != 0) {
      return Fail(found.name, "is compressed (method " + std::to_string(header.method) +
                                  "); a .bin must be stored");
    }
    if (header.compressed != header.size) {
      return Fail(found.name,
                  "is stored, but its two sizes differ: " + std::to_string(header.compressed) +
                      " and " + std::to_string(header.size));
    }
    const auto payload = CheckLocal(found);
    if (!payload) return;
    placed_.push_back(
        {{std::string(found.name), *payload, header.size, header.crc}, found.local_offset});
  }

  /// The entry's own header must agree with the directory. Returns where the payload begins.
  std::optional<uint64_t> CheckLocal(const Found& found) {
    const auto fail = [&](const std::string& message) {
      Fail(found.name, message);
      return std::nullopt;
    };
    if (!InRange(found.local_offset, kLocalSize, directory_.offset)) {
      return fail("lies out of range at " + std::to_string(found.local_offset));
    }
    std::byte record[kLocalSize];
    source_.ReadAt(found.local_offset, record);
    if (Load<uint32_t>(record) != kLocalSignature) {
      return fail("has no header at " + std::to_string(found.local_offset));
    }
    const uint64_t name_size = Load<uint16_t>(record + 26);
    const uint64_t extra_size = Load<uint16_t>(record + 28);
    const uint64_t payload = found.local_offset + kLocalSize + name_size + extra_size;
    if (payload > directory_.offset || found.header.size > directory_.offset - payload) {
      return fail("its " + std::to_string(found.header.size) + " bytes lie out of range");
    }
    const auto buffer = source_.MapOrRead(found.local_offset + kLocalSize, name_size + extra_size);
    const Bytes bytes(buffer->data(), buffer->size());
    if (Text(bytes.first(static_cast<size_t>(name_size))) != found.name) {
      return fail("has another name in its own header");
    }
    Header local = ReadHeader(record + 6);
    if (!ReadZip64(bytes.subspan(static_cast<size_t>(name_size)), &local, nullptr)) {
      return fail("its ZIP64 field is missing or too short");
    }
    if (local.flags & kFlagsEncrypted) return fail("is encrypted");
    if (!Agree(local, found.header)) return fail("its own header contradicts the directory");
    return payload;
  }

  static bool Agree(const Header& local, const Header& central) {
    if (local.method != central.method) return false;
    // With a data descriptor the numbers follow the payload, and zeros may stand here.
    const bool later = local.flags & kFlagDescriptor;
    const auto same = [later](uint64_t a, uint64_t b) { return a == b || (later && a == 0); };
    return same(local.crc, central.crc) && same(local.size, central.size) &&
           same(local.compressed, central.compressed);
  }

  std::vector<ZipEntry> WithoutOverlaps() {
    std::sort(placed_.begin(), placed_.end(),
              [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
    std::vector<ZipEntry> entries;
    entries.reserve(placed_.size());
    uint64_t end = 0;
    for (Placed& placed : placed_) {
      if (placed.begin < end) {
        Fail(placed.entry.name, "overlaps " + Quote(entries.back().name));
        continue;
      }
      end = placed.entry.offset + placed.entry.size;
      entries.push_back(std::move(placed.entry));
    }
    return entries;
  }

  const ByteSource& source_;
  ProblemList& problems_;
  Directory directory_;
  std::vector<Placed> placed_;
};

}  // namespace

std::vector<ZipEntry> ReadZipDirectory(const ByteSource& source, ProblemList& problems) {
  return Reader(source, problems).Read();
}

}  // namespace oort::pnnx
