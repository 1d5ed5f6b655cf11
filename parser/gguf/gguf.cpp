// SPDX-License-Identifier: MIT
#include "parser/gguf/gguf.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "core/checked.h"
#include "core/problems.h"

namespace oort::gguf {
namespace {

constexpr uint64_t kLongest = uint64_t{1} << 30;  // of strings and arrays
constexpr size_t kLongestName = 63;
constexpr uint64_t kSmallestPair = 8 + 1 + 4 + 1;       // a key of one byte, a u8
constexpr uint64_t kSmallestEntry = 8 + 1 + 4 + 4 + 8;  // a name of one byte, no dimensions

/// 0 for strings and arrays.
size_t SizeOf(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool: return 1;
    case ValueType::kU16:
    case ValueType::kI16: return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32: return 4;
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64: return 8;
    case ValueType::kString:
    case ValueType::kArray: return 0;
  }
  return 0;
}

template <typename T>
T LoadAt(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

/// A number of any type, as it is stored.
MetaValue LoadNumber(ValueType type, const std::byte* at) {
  switch (type) {
    case ValueType::kU8: return int64_t{LoadAt<uint8_t>(at)};
    case ValueType::kI8: return int64_t{LoadAt<int8_t>(at)};
    case ValueType::kU16: return int64_t{LoadAt<uint16_t>(at)};
    case ValueType::kI16: return int64_t{LoadAt<int16_t>(at)};
    case ValueType::kU32: return int64_t{LoadAt<uint32_t>(at)};
    case ValueType::kI32: return int64_t{LoadAt<int32_t>(at)};
    case ValueType::kF32: return double{LoadAt<float>(at)};
    case ValueType::kBool: return LoadAt<uint8_t>(at) != 0;
    case ValueType::kI64: return LoadAt<int64_t>(at);
    case ValueType::kF64: return LoadAt<double>(at);
    default: break;
  }
  const auto wide = LoadAt<uint64_t>(at);
  if (wide > INT64_MAX) return wide;
  return static_cast<int64_t>(wide);
}

}  // namespace

/// Reads the header from front to back.
class HeaderReader {
 public:
  explicit HeaderReader(std::shared_ptr<const ByteSource> source) : source_(std::move(source)) {
    buffer_ = source_->MapOrRead(0, source_->size());
    left_ = {buffer_->data(), buffer_->size()};
  }

  File Read() {
    File file;
    file.source = source_;
    if (left_.size() < 8 || std::memcmp(left_.data(), "GGUF", 4) != 0) {
      Fail("it does not begin as a GGUF does");
    }
    left_ = left_.subspan(4);
    CheckVersion(Take<uint32_t>("version"));
    const auto tensors = Take<uint64_t>("number of tensors");
    const auto pairs = Take<uint64_t>("number of keys");
    ReadPairs(pairs, file.metadata);
    ReadEntries(tensors, file.tensors);
    Place(Alignment(file.metadata), file.tensors);
    file.metadata.bytes_ = buffer_;
    return file;
  }

 private:
  [[noreturn]] void Fail(const std::string& message,
                         ErrorCode code = ErrorCode::kInvalidModel) const {
    throw Error(code, source_->name() + ": " + message);
  }

  void CheckVersion(uint32_t version) const {
    if (version == 2 || version == 3) return;
    if ((version & 0xffff) == 0 && version != 0) {
      Fail("this GGUF was written for big-endian machines", ErrorCode::kUnsupported);
    }
    Fail("GGUF of version " + std::to_string(version) + "; versions 2 and 3 can be read",
         ErrorCode::kUnsupported);
  }

  std::span<const std::byte> TakeBytes(uint64_t size, std::string_view what) {
    if (size > left_.size()) {
      Fail("the header ends within the " + std::string(what) + ": is the file cut off?");
    }
    const auto bytes = left_.first(static_cast<size_t>(size));
    left_ = left_.subspan(static_cast<size_t>(size));
    return bytes;
  }

  template <typename T>
  T Take(std::string_view what) {
    return LoadAt<T>(TakeBytes(sizeof(T), what).data());
  }

  uint64_t TakeLength(std::string_view what) {
    const auto length = Take<uint64_t>(what);
    if (length > kLongest) {
      Fail("the " + std::string(what) + " claims to be " + std::to_string(length) + " long");
    }
    return length;
  }

  std::string_view TakeString(std::string_view what) {
    const auto bytes = TakeBytes(TakeLength(what), what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  void CheckCount(uint64_t count, uint64_t smallest, std::string_view what) const {
    if (count <= left_.size() / smallest) return;
    Fail("it claims " + std::to_string(count) + " " + std::string(what) + ", but only " +
         std::to_string(left_.size()) + " bytes follow");
  }

  ValueType TakeType(std::string_view what) {
    const auto type = Take<int32_t>(what);
    if (type < 0 || type > static_cast<int32_t>(ValueType::kF64)) {
      Fail("there is no type " + std::to_string(type) + " for the " + std::string(what));
    }
    return static_cast<ValueType>(type);
  }

  void ReadPairs(uint64_t count, Metadata& metadata) {
    CheckCount(count, kSmallestPair, "keys");
    for (uint64_t i = 0; i < count; ++i) {
      const std::string_view key = TakeString("key");
      if (key.empty()) Fail("key " + std::to_string(i) + " is empty");
      const std::string what = "value of " + Quote(key);
      const auto behind_key = left_;
      const MetaValue value = TakeValue(TakeType(what), what);
      metadata.pairs_.push_back({key, behind_key.first(behind_key.size() - left_.size())});
      if (!metadata.values_.emplace(key, value).second) {
        Fail("the key " + Quote(key) + " stands there twice");
      }
    }
  }

  MetaValue TakeValue(ValueType type, std::string_view what) {
    if (type == ValueType::kString) return TakeString(what);
    if (type == ValueType::kArray) return TakeArray(what);
    return LoadNumber(type, TakeBytes(SizeOf(type), what).data());
  }

  ArrayView TakeArray(std::string_view what) {
    ArrayView array;
    array.type = TakeType(what);
    if (array.type == ValueType::kArray) Fail("the " + std::string(what) + " is nested");
    array.count = TakeLength(what);
    const auto all = left_;
    if (array.type == ValueType::kString) {
      CheckCount(array.count, sizeof(uint64_t), "strings");
      for (uint64_t i = 0; i < array.count; ++i) TakeString(what);
    } else {
      TakeBytes(array.count * SizeOf(array.type), what);
    }
    array.bytes = all.first(all.size() - left_.size());
    return array;
  }

  void ReadEntries(uint64_t count, std::vector<TensorEntry>& tensors) {
    CheckCount(count, kSmallestEntry, "tensors");
    tensors.reserve(static_cast<size_t>(count));
    std::unordered_set<std::string_view> names;
    for (uint64_t i = 0; i < count; ++i) {
      const std::string_view name = TakeString("name of a tensor");
      if (name.empty() || name.size() > kLongestName) {
        Fail("the name of tensor " + std::to_string(i) + " has " + std::to_string(name.size()) +
             " bytes; 1 to " + std::to_string(kLongestName) + " are allowed");
      }
      if (!names.insert(name).second) Fail("the tensor " + Quote(name) + " stands there twice");
      tensors.push_back(TakeEntry(name));
    }
  }

  TensorEntry TakeEntry(std::string_view name) {
    const std::string what = "description of tensor " + Quote(name);
    TensorEntry entry;
    entry.name = name;
    const auto rank = Take<uint32_t>(what);
    if (rank > entry.dims.size()) {
      Fail("the tensor " + Quote(name) + " claims " + std::to_string(rank) + " dimensions");
    }
    entry.rank = static_cast<int>(rank);
    for (uint32_t i = 0; i < rank; ++i) entry.dims[i] = Take<int64_t>(what);
    const auto type = Take<int32_t>(what);
    entry.type = FindTensorType(type);
    if (entry.type == nullptr) {
      Fail("the tensor " + Quote(name) + " is of type " + std::to_string(type) +
               ", which is not known",
           ErrorCode::kUnsupported);
    }
    entry.offset = Take<uint64_t>(what);
    entry.bytes = SizeOfTensor(entry);
    return entry;
  }

  uint64_t SizeOfTensor(const TensorEntry& entry) const {
    const TensorType& type = *entry.type;
    if (entry.dims[0] % type.elements != 0) {
      Fail("rows of the tensor " + Quote(entry.name) + " have " + std::to_string(entry.dims[0]) +
           " elements, no whole blocks of " + std::string(type.name));
    }
    int64_t bytes = type.bytes, elements = 1;
    bool too_large = false;
    for (size_t i = 0; i < entry.dims.size(); ++i) {
      const int64_t dim = entry.dims[i];
      if (dim < 0) Fail("the tensor " + Quote(entry.name) + " has a negative dimension");
      // A dimension of 0 must not hide that the others are too large to be multiplied.
      too_large = MultiplyOverflows(elements, std::max<int64_t>(1, dim), &elements) || too_large;
      too_large = MultiplyOverflows(bytes, i == 0 ? dim / type.elements : dim, &bytes) || too_large;
    }
    if (too_large) Fail("the size of the tensor " + Quote(entry.name) + " overflows");
    return static_cast<uint64_t>(bytes);
  }

  uint64_t Alignment(const Metadata& metadata) const {
    const int64_t alignment = metadata.Integer("general.alignment").value_or(32);
    if (alignment < 1 || alignment > (int64_t{1} << 30) || (alignment & (alignment - 1)) != 0) {
      Fail("general.alignment is " + std::to_string(alignment) + ", no power of two");
    }
    return static_cast<uint64_t>(alignment);
  }

  /// Offsets count from where the data begins, and every tensor follows the one before.
  void Place(uint64_t alignment, std::vector<TensorEntry>& tensors) const {
    const uint64_t begin = AlignUp(source_->size() - left_.size(), alignment);
    uint64_t next = 0;
    for (TensorEntry& entry : tensors) {
      if (entry.offset != next) {
        Fail("the tensor " + Quote(entry.name) + " begins at " + std::to_string(entry.offset) +
             " of the data, but the one before it ends so that it should begin at " +
             std::to_string(next));
      }
      if (!InRange(begin, 0, source_->size()) ||
          !InRange(entry.offset, entry.bytes, source_->size() - begin)) {
        Fail("the tensor " + Quote(entry.name) +
             " ends behind the end of the file: is it cut off?");
      }
      next = AlignUp(entry.offset + entry.bytes, alignment);
      entry.offset += begin;
    }
  }

  std::shared_ptr<const ByteSource> source_;
  std::shared_ptr<Buffer> buffer_;
  std::span<const std::byte> left_;
};

namespace {

[[noreturn]] void ThrowWrongType(std::string_view key, std::string_view wanted) {
  throw Error(ErrorCode::kInvalidModel,
              "the value of " + Quote(key) + " is no " + std::string(wanted));
}

}  // namespace

const MetaValue* Metadata::Find(std::string_view key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

const ArrayView* Metadata::FindArray(std::string_view key) const {
  const MetaValue* value = Find(key);
  return value == nullptr ? nullptr : std::get_if<ArrayView>(value);
}

std::optional<int64_t> Metadata::Integer(std::string_view key) const {
  const MetaValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<int64_t>(value)) return *number;
  ThrowWrongType(key, "integer of 63 bits");
}

std::optional<double> Metadata::Number(std::string_view key) const {
  const MetaValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  ThrowWrongType(key, "number");
}

std::optional<bool> Metadata::Bool(std::string_view key) const {
  const MetaValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(value)) return *flag;
  ThrowWrongType(key, "boolean");
}

std::optional<std::string_view> Metadata::Text(std::string_view key) const {
  const MetaValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* text = std::get_if<std::string_view>(value)) return *text;
  ThrowWrongType(key, "string");
}

std::vector<bool> Metadata::Bools(std::string_view key) const {
  const MetaValue* const value = Find(key);
  const auto* const array = value == nullptr ? nullptr : std::get_if<ArrayView>(value);
  if (array == nullptr) return {};
  if (array->type != ValueType::kBool) ThrowWrongType(key, "array of true and false");
  std::vector<bool> flags;
  for (const std::byte byte : array->bytes) flags.push_back(byte != std::byte{0});
  return flags;
}

std::vector<int64_t> Metadata::Integers(std::string_view key) const {
  if (Find(key) == nullptr) return {};
  const ArrayView* array = FindArray(key);
  if (array == nullptr) return {*Integer(key)};
  const size_t size = SizeOf(array->type);
  std::vector<int64_t> numbers(size == 0 ? 0 : static_cast<size_t>(array->count));
  if (size == 0 && array->count != 0) ThrowWrongType(key, "array of integers");
  for (size_t i = 0; i < numbers.size(); ++i) {
    const MetaValue value = LoadNumber(array->type, array->bytes.data() + i * size);
    const auto* number = std::get_if<int64_t>(&value);
    if (number == nullptr) ThrowWrongType(key, "array of integers");
    numbers[i] = *number;
  }
  return numbers;
}

std::vector<float> Metadata::Floats(std::string_view key) const {
  if (Find(key) == nullptr) return {};
  const ArrayView* array = FindArray(key);
  if (array == nullptr || (array->type != ValueType::kF32 && array->count != 0)) {
    ThrowWrongType(key, "array of f32");
  }
  std::vector<float> numbers(static_cast<size_t>(array->count));
  if (!numbers.empty()) std::memcpy(numbers.data(), array->bytes.data(), array->bytes.size());
  return numbers;
}

std::vector<std::string_view> Metadata::Texts(std::string_view key) const {
  if (Find(key) == nullptr) return {};
  const ArrayView* array = FindArray(key);
  if (array == nullptr || (array->type != ValueType::kString && array->count != 0)) {
    ThrowWrongType(key, "array of strings");
  }
  std::vector<std::string_view> texts(static_cast<size_t>(array->count));
  const std::byte* at = array->bytes.data();
  for (std::string_view& text : texts) {
    const auto length = static_cast<size_t>(LoadAt<uint64_t>(at));
    text = {reinterpret_cast<const char*>(at + sizeof(uint64_t)), length};
    at += sizeof(uint64_t) + length;
  }
  return texts;
}

std::string_view Metadata::Bytes(std::string_view key) const {
  if (Find(key) == nullptr) return {};
  const ArrayView* array = FindArray(key);
  if (array == nullptr || SizeOf(array->type) != 1) ThrowWrongType(key, "array of bytes");
  return {reinterpret_cast<const char*>(array->bytes.data()), array->bytes.size()};
}

std::vector<std::string_view> Metadata::KeysFrom(std::string_view prefix) const {
  std::vector<std::string_view> keys;
  for (auto at = values_.lower_bound(prefix); at != values_.end() && at->first.starts_with(prefix);
       ++at) {
    keys.push_back(at->first);
  }
  return keys;
}

File ReadFile(std::shared_ptr<const ByteSource> source) {
  return HeaderReader(std::move(source)).Read();
}

}  // namespace oort::gguf
