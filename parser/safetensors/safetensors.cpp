// SPDX-License-Identifier: MIT
#include "parser/safetensors/safetensors.h"

#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/problems.h"
#include "text/json.h"

namespace oort::safetensors {
namespace {

constexpr uint64_t kLargestHeader = 100'000'000;

struct ElementType {
  std::string_view name;
  int64_t bits;
  std::optional<WeightFormat> format = {};
};
constexpr ElementType kElementTypes[] = {
    {"F32", 32, WeightFormat::kF32},
    {"F16", 16, WeightFormat::kF16},
    {"BF16", 16, WeightFormat::kBf16},
    {"F64", 64},
    {"C64", 64},
    {"I64", 64},
    {"U64", 64},
    {"I32", 32},
    {"U32", 32},
    {"I16", 16},
    {"U16", 16},
    {"I8", 8},
    {"U8", 8},
    {"BOOL", 8},
    {"F8_E5M2", 8},
    {"F8_E4M3", 8},
    {"F8_E8M0", 8},
    {"F8_E5M2FNUZ", 8},
    {"F8_E4M3FNUZ", 8},
    {"F6_E2M3", 6},
    {"F6_E3M2", 6},
    {"F4", 4},
};

class HeaderParser {
 public:
  explicit HeaderParser(const ByteSource& source) : source_(source) {}

  std::vector<Entry> Read() {
    const json::Json header = ReadJson();
    if (!header.is_object()) Fail("the header is no JSON object");
    std::vector<Entry> entries;
    entries.reserve(header.size());
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        CheckMetadata(value);
      } else {
        entries.push_back(ReadEntry(name, value));
      }
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
    });
    CheckTiling(entries);
    return entries;
  }

 private:
  [[noreturn]] void Fail(const std::string& message) const {
    throw Error(ErrorCode::kInvalidModel, source_.name() + ": " + message);
  }

  json::Json ReadJson() {
    uint64_t size = 0;
    if (source_.size() < sizeof(size)) Fail("too short for a safetensors file");
    source_.ReadAt(0, std::as_writable_bytes(std::span(&size, 1)));
    if (size > kLargestHeader || size > source_.size() - sizeof(size)) {
      Fail("the header claims " + std::to_string(size) + " bytes: no safetensors file, or cut off");
    }
    begin_ = sizeof(size) + size;
    const auto buffer = source_.MapOrRead(sizeof(size), size);
    const std::string_view text(reinterpret_cast<const char*>(buffer->data()), buffer->size());
    return json::Parse(text, source_.name());
  }

  void CheckMetadata(const json::Json& value) const {
    if (!value.is_object()) Fail("__metadata__ is no JSON object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) Fail("__metadata__ has " + Quote(key) + ", which is no string");
    }
  }

  Entry ReadEntry(const std::string& name, const json::Json& value) const {
    const json::Object object(value, source_.name() + ": the tensor " + Quote(name));
    Entry entry;
    entry.name = name;
    entry.dtype = object.Text("dtype").value_or("");
    entry.shape = ReadIntegers(object, "shape");
    const std::vector<int64_t> offsets = ReadIntegers(object, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1] ||
        static_cast<uint64_t>(offsets[1]) > source_.size() - begin_) {
      Fail("the tensor " + Quote(name) + " lies outside of the file: is it cut off?");
    }
    entry.offset = begin_ + static_cast<uint64_t>(offsets[0]);
    entry.bytes = static_cast<uint64_t>(offsets[1] - offsets[0]);
    const ElementType& type = TypeOf(entry);
    entry.format = type.format;
    const uint64_t expected = BytesOf(entry, type);
    if (entry.bytes != expected) {
      Fail("the tensor " + Quote(name) + " needs " + std::to_string(expected) + " bytes, but has " +
           std::to_string(entry.bytes));
    }
    return entry;
  }

  std::vector<int64_t> ReadIntegers(const json::Object& object, std::string_view key) const {
    const json::Json* value = object.Find(key);
    const std::string_view wanted = "a list of integers from 0 on";
    if (value == nullptr || !value->is_array()) object.ThrowWrongType(key, wanted);
    std::vector<int64_t> numbers;
    for (const json::Json& number : *value) {
      if (!number.is_number_unsigned() || number.get<uint64_t>() > INT64_MAX) {
        object.ThrowWrongType(key, wanted);
      }
      numbers.push_back(number.get<int64_t>());
    }
    return numbers;
  }

  const ElementType& TypeOf(const Entry& entry) const {
    for (const ElementType& type : kElementTypes) {
      if (type.name == entry.dtype) return type;
    }
    Fail("the tensor " + Quote(entry.name) + " has the unknown dtype " + Quote(entry.dtype));
  }

  uint64_t BytesOf(const Entry& entry, const ElementType& type) const {
    int64_t bits = type.bits, elements = 1;
    bool too_large = false;
    for (const int64_t extent : entry.shape) {
      too_large = MultiplyOverflows(bits, extent, &bits) || too_large;
      too_large = MultiplyOverflows(elements, std::max<int64_t>(1, extent), &elements) || too_large;
    }
    if (too_large) Fail("the size of the tensor " + Quote(entry.name) + " overflows");
    if (bits % 8 != 0) Fail("the tensor " + Quote(entry.name) + " ends within a byte");
    return static_cast<uint64_t>(bits / 8);
  }

  void CheckTiling(const std::vector<Entry>& entries) const {
    uint64_t next = begin_;
    for (const Entry& entry : entries) {
      if (entry.offset != next) {
        Fail("the tensor " + Quote(entry.name) + " begins at byte " +
             std::to_string(entry.offset - begin_) + ", but the one before it ends at " +
             std::to_string(next - begin_));
      }
      next += entry.bytes;
    }
    if (next != source_.size()) {
      Fail(std::to_string(source_.size() - next) + " bytes at the end belong to no tensor");
    }
  }

  const ByteSource& source_;
  uint64_t begin_ = 0;  // of the data
};

}  // namespace

std::vector<Entry> ReadHeader(const ByteSource& source) { return HeaderParser(source).Read(); }

}  // namespace oort::safetensors
