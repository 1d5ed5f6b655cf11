// SPDX-License-Identifier: MIT
// A GGUF, written front to back: all sizes are known before the first element.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/file_writer.h"
#include "parser/gguf/gguf.h"
#include "weights/weight_format.h"

namespace oort::gguf {

class Writer {
 public:
  /// A pair of another file, as it is there.
  void AddPair(const RawPair& pair);
  void AddInteger(std::string_view key, uint32_t value);
  void AddFloat(std::string_view key, float value);
  void AddBool(std::string_view key, bool value);
  void AddText(std::string_view key, std::string_view value);
  void AddTexts(std::string_view key, std::span<const std::string> values);
  void AddIntegers(std::string_view key, std::span<const int32_t> values);
  void AddFloats(std::string_view key, std::span<const float> values);
  /// `dims` innermost first, four at most. Throws kUnsupported for formats that GGUF does not have.
  void AddTensor(std::string_view name, std::span<const int64_t> dims, WeightFormat format);
  /// One of another file, whatever its type is.
  void AddTensor(const TensorEntry& entry);

  /// Opens the file; from now on elements come, tensor by tensor in the order in which they were
  /// added, each in one or several parts.
  void Begin(const std::filesystem::path& path);
  void Write(std::span<const std::byte> bytes);
  /// Throws kInternal unless all elements are there. The file appears now, and only now.
  void Finish();

 private:
  struct Place {
    uint64_t begin = 0, end = 0;  ///< in the data
  };
  void PadTo(uint64_t offset);
  void Put(std::string& to, const void* bytes, size_t count);
  void PutText(std::string& to, std::string_view text);
  void PutKey(std::string_view key, ValueType type);
  void PutArray(std::string_view key, ValueType type, size_t count);
  void PutEntry(std::string_view name, std::span<const int64_t> dims, int32_t type, uint64_t bytes);

  std::string pairs_, entries_;
  uint64_t pair_count_ = 0;
  std::vector<Place> places_;
  std::unique_ptr<FileWriter> file_;
  uint64_t data_begin_ = 0;
  size_t current_ = 0;  ///< the tensor that is being written
};

}  // namespace oort::gguf
