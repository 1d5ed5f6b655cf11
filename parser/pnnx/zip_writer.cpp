// SPDX-License-Identifier: MIT
#include "parser/pnnx/zip_writer.h"

#include <algorithm>
#include <concepts>

#include "core/crc32.h"
#include "core/problems.h"
#include "parser/pnnx/zip_format.h"

namespace oort::pnnx {
namespace {

constexpr uint16_t kVersion = 10, kVersion64 = 45;
constexpr uint16_t kDate = 0x21;  // 1 January 1980: the same model gives the same file
constexpr uint16_t kFlagUtf8 = 0x0800;
constexpr uint16_t kExtraPadding = 0xd935;  // the field that zipalign uses; readers skip it
constexpr size_t kPaddingHeader = 6;
constexpr uint16_t kZip64Length = 28;  // two sizes, offset, disk: what pnnx expects to read

/// Collects little-endian fields.
class Record {
 public:
  template <std::integral T>
  Record& Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Record& PutText(const std::string& text) {
    bytes_ += text;
    return *this;
  }
  size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

struct Entry {
  const ZipItem* item = nullptr;
  uint64_t offset = 0;  // of the local header
  uint32_t crc = 0;
};

uint16_t FlagsOf(const std::string& name) {
  const bool ascii = std::all_of(name.begin(), name.end(),
                                 [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  return ascii ? 0 : kFlagUtf8;
}

/// Bytes of a padding field that moves `offset` to the next multiple; 0 where it is on one.
size_t PaddingFor(uint64_t offset) {
  const size_t short_of = (kPayloadAlignment - offset % kPayloadAlignment) % kPayloadAlignment;
  if (short_of == 0 || short_of >= kPaddingHeader) return short_of;
  return short_of + kPayloadAlignment;
}

class Writer {
 public:
  Writer(bool zip64, const ZipSink& sink) : zip64_(zip64), sink_(sink) {}

  void Write(std::span<const ZipItem> items) {
    std::vector<Entry> entries;
    entries.reserve(items.size());
    for (const ZipItem& item : items) entries.push_back(WriteEntry(item));
    const uint64_t directory = offset_;
    for (const Entry& entry : entries) WriteCentral(entry);
    WriteEnd(directory, entries.size());
  }

 private:
  Entry WriteEntry(const ZipItem& item) {
    if (item.name.size() > kSaturated16) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the name " + Quote(item.name) + " is too long for a zip");
    }
    const Tensor made = item.make ? item.make() : Tensor();
    const auto bytes = item.make ? std::span(made.raw(), made.bytes()) : item.bytes;
    if (bytes.size() != item.size()) {
      throw Error(ErrorCode::kInternal, "more or fewer bytes than promised: " + Quote(item.name));
    }
    const Entry entry{&item, offset_, Crc32(bytes)};
    Record extra = Zip64Field(bytes.size(), 0);
    const size_t padding = PaddingFor(offset_ + kLocalSize + item.name.size() + extra.size());
    if (padding != 0) {
      extra.Put(kExtraPadding).Put(static_cast<uint16_t>(padding - 4));
      extra.Put(static_cast<uint16_t>(kPayloadAlignment));
      extra.PutText(std::string(padding - kPaddingHeader, '\0'));
    }
    Record local;
    local.Put(kLocalSignature);
    PutCommon(local, entry, extra.size());
    local.PutText(item.name).PutText(extra.bytes());
    Emit(local);
    Emit(bytes);
    return entry;
  }

  /// The fields that local header and directory share.
  void PutCommon(Record& record, const Entry& entry, size_t extra_size) const {
    const auto size = zip64_ ? kSaturated32 : static_cast<uint32_t>(entry.item->size());
    record.Put(zip64_ ? kVersion64 : kVersion).Put(FlagsOf(entry.item->name));
    record.Put(uint16_t{0}).Put(uint16_t{0}).Put(kDate);  // stored, midnight
    record.Put(entry.crc).Put(size).Put(size);
    record.Put(static_cast<uint16_t>(entry.item->name.size()));
    record.Put(static_cast<uint16_t>(extra_size));
  }

  Record Zip64Field(uint64_t size, uint64_t offset) const {
    Record field;
    if (!zip64_) return field;
    field.Put(kExtraZip64).Put(kZip64Length).Put(size).Put(size).Put(offset).Put(uint32_t{0});
    return field;
  }

  void WriteCentral(const Entry& entry) {
    const Record extra = Zip64Field(entry.item->size(), entry.offset);
    Record central;
    central.Put(kCentralSignature).Put(zip64_ ? kVersion64 : kVersion);
    PutCommon(central, entry, extra.size());
    central.Put(uint16_t{0}).Put(zip64_ ? kSaturated16 : uint16_t{0});  // no comment; disk
    central.Put(uint16_t{0}).Put(uint32_t{0});                          // attributes
    central.Put(zip64_ ? kSaturated32 : static_cast<uint32_t>(entry.offset));
    central.PutText(entry.item->name).PutText(extra.bytes());
    Emit(central);
  }

  void WriteEnd(uint64_t directory, uint64_t count) {
    const uint64_t end = offset_;
    Record record;
    if (zip64_) {
      record.Put(kEnd64Signature).Put(uint64_t{kEnd64Size - 12}).Put(kVersion64).Put(kVersion64);
      record.Put(uint32_t{0}).Put(uint32_t{0}).Put(count).Put(count);
      record.Put(end - directory).Put(directory);
      record.Put(kLocator64Signature).Put(uint32_t{0}).Put(end).Put(uint32_t{1});
    }
    const uint16_t disk = zip64_ ? kSaturated16 : 0;
    const auto entries = zip64_ ? kSaturated16 : static_cast<uint16_t>(count);
    record.Put(kEndSignature).Put(disk).Put(disk).Put(entries).Put(entries);
    record.Put(zip64_ ? kSaturated32 : static_cast<uint32_t>(end - directory));
    record.Put(zip64_ ? kSaturated32 : static_cast<uint32_t>(directory));
    record.Put(uint16_t{0});
    Emit(record);
  }

  void Emit(std::span<const std::byte> bytes) {
    sink_(bytes);
    offset_ += bytes.size();
  }
  void Emit(const Record& record) { Emit(std::as_bytes(std::span(record.bytes()))); }

  bool zip64_;
  const ZipSink& sink_;
  uint64_t offset_ = 0;
};

}  // namespace

bool NeedsZip64(std::span<const ZipItem> items) {
  if (items.size() >= kSaturated16) return true;
  uint64_t total = kEndSize;
  for (const ZipItem& item : items) {
    total += kLocalSize + kCentralSize + 2 * item.name.size() + 2 * kPayloadAlignment;
    total += item.size();
  }
  return total >= kSaturated32;
}

void WriteZip(std::span<const ZipItem> items, bool zip64, const ZipSink& sink) {
  Writer(zip64, sink).Write(items);
}

}  // namespace oort::pnnx
