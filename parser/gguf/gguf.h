// SPDX-License-Identifier: MIT
// The container: what a GGUF says of itself, and where its tensors lie.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "oort/source.h"
#include "parser/gguf/types.h"

namespace oort::gguf {

enum class ValueType : int32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// Elements of an array as they lie in the file, checked to be all there.
struct ArrayView {
  ValueType type = ValueType::kU8;
  uint64_t count = 0;
  std::span<const std::byte> bytes;
};
/// Integers are int64_t where they fit.
using MetaValue = std::variant<bool, int64_t, uint64_t, double, std::string_view, ArrayView>;

/// A key with its value as it lies in the file, from the type on.
struct RawPair {
  std::string_view key;
  std::span<const std::byte> bytes;
};

/// Keys and values. A key that is missing gives nothing; one of another type throws.
class Metadata {
 public:
  bool Has(std::string_view key) const { return values_.contains(key); }
  std::optional<int64_t> Integer(std::string_view key) const;
  std::optional<double> Number(std::string_view key) const;
  std::optional<bool> Bool(std::string_view key) const;
  std::optional<std::string_view> Text(std::string_view key) const;
  /// Arrays; empty where missing. One number stands for an array of it alone.
  std::vector<int64_t> Integers(std::string_view key) const;
  std::vector<float> Floats(std::string_view key) const;
  /// Empty also where the key has no array.
  std::vector<bool> Bools(std::string_view key) const;
  std::vector<std::string_view> Texts(std::string_view key) const;
  /// The bytes of an array of u8 or i8.
  std::string_view Bytes(std::string_view key) const;
  /// All keys that begin so, in their order.
  std::vector<std::string_view> KeysFrom(std::string_view prefix) const;
  /// All of them, in the order of the file.
  const std::vector<RawPair>& pairs() const { return pairs_; }

 private:
  friend class HeaderReader;
  const MetaValue* Find(std::string_view key) const;
  const ArrayView* FindArray(std::string_view key) const;
  std::map<std::string_view, MetaValue> values_;
  std::vector<RawPair> pairs_;
  std::shared_ptr<Buffer> bytes_;  ///< of the file, which the strings are part of
};

struct TensorEntry {
  std::string name;
  std::array<int64_t, 4> dims{1, 1, 1, 1};  ///< innermost first
  int rank = 0;
  const TensorType* type = nullptr;
  uint64_t offset = 0;  ///< from the start of the file
  uint64_t bytes = 0;
};

struct File {
  std::shared_ptr<const ByteSource> source;
  Metadata metadata;
  std::vector<TensorEntry> tensors;
};

/// One file; throws kInvalidModel for what is damaged, kUnsupported for other versions.
File ReadFile(std::shared_ptr<const ByteSource> source);
/// A file and, where it is the first of several, all others beside it.
std::vector<File> ReadFiles(const std::filesystem::path& path);

}  // namespace oort::gguf
