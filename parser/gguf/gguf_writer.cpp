// SPDX-License-Identifier: MIT
#include "parser/gguf/gguf_writer.h"

#include <algorithm>
#include <array>

#include "core/checked.h"
#include "core/problems.h"

namespace oort::gguf {
namespace {

constexpr uint64_t kWrittenAlignment = 32;
constexpr uint32_t kWrittenVersion = 3;

}  // namespace

void Writer::Put(std::string& to, const void* bytes, size_t count) {
  to.append(static_cast<const char*>(bytes), count);
}

void Writer::PutText(std::string& to, std::string_view text) {
  const uint64_t length = text.size();
  Put(to, &length, sizeof(length));
  to += text;
}

void Writer::PutKey(std::string_view key, ValueType type) {
  PutText(pairs_, key);
  const auto number = static_cast<int32_t>(type);
  Put(pairs_, &number, sizeof(number));
  ++pair_count_;
}

void Writer::AddPair(const RawPair& pair) {
  PutText(pairs_, pair.key);
  Put(pairs_, pair.bytes.data(), pair.bytes.size());
  ++pair_count_;
}

void Writer::AddInteger(std::string_view key, uint32_t value) {
  PutKey(key, ValueType::kU32);
  Put(pairs_, &value, sizeof(value));
}

void Writer::AddText(std::string_view key, std::string_view value) {
  PutKey(key, ValueType::kString);
  PutText(pairs_, value);
}

void Writer::AddFloat(std::string_view key, float value) {
  PutKey(key, ValueType::kF32);
  Put(pairs_, &value, sizeof(value));
}

void Writer::AddBool(std::string_view key, bool value) {
  PutKey(key, ValueType::kBool);
  const char byte = value ? 1 : 0;
  Put(pairs_, &byte, 1);
}

void Writer::PutArray(std::string_view key, ValueType type, size_t count) {
  PutKey(key, ValueType::kArray);
  const auto number = static_cast<int32_t>(type);
  const uint64_t elements = count;
  Put(pairs_, &number, sizeof(number));
  Put(pairs_, &elements, sizeof(elements));
}

void Writer::AddTexts(std::string_view key, std::span<const std::string> values) {
  PutArray(key, ValueType::kString, values.size());
  for (const std::string& value : values) PutText(pairs_, value);
}

void Writer::AddIntegers(std::string_view key, std::span<const int32_t> values) {
  PutArray(key, ValueType::kI32, values.size());
  Put(pairs_, values.data(), values.size_bytes());
}

void Writer::AddFloats(std::string_view key, std::span<const float> values) {
  PutArray(key, ValueType::kF32, values.size());
  Put(pairs_, values.data(), values.size_bytes());
}

void Writer::PutEntry(std::string_view name, std::span<const int64_t> dims, int32_t type,
                      uint64_t bytes) {
  const uint64_t begin =
      AlignUp(places_.empty() ? 0 : static_cast<size_t>(places_.back().end), kWrittenAlignment);
  places_.push_back({begin, begin + bytes});
  PutText(entries_, name);
  const auto rank = static_cast<uint32_t>(dims.size());
  Put(entries_, &rank, sizeof(rank));
  for (const int64_t dim : dims) Put(entries_, &dim, sizeof(dim));
  Put(entries_, &type, sizeof(type));
  Put(entries_, &begin, sizeof(begin));
}

void Writer::AddTensor(std::string_view name, std::span<const int64_t> dims, WeightFormat format) {
  const TensorType* type = TensorTypeOf(format);
  if (type == nullptr || dims.empty() || dims.size() > 4) {
    throw Error(ErrorCode::kUnsupported, "a GGUF cannot hold " + Quote(name) + " as " +
                                             std::string(Name(format)) + ": give one of its types");
  }
  auto bytes = static_cast<uint64_t>(RowBytes(format, dims[0]));
  for (const int64_t dim : dims.subspan(1)) {
    bytes = CheckedMultiply(bytes, static_cast<uint64_t>(dim));
  }
  PutEntry(name, dims, type->id, bytes);
}

void Writer::AddTensor(const TensorEntry& entry) {
  PutEntry(entry.name, std::span(entry.dims).first(static_cast<size_t>(entry.rank)), entry.type->id,
           entry.bytes);
}

void Writer::Begin(const std::filesystem::path& path) {
  file_ = std::make_unique<FileWriter>(path);
  std::string header = "GGUF";
  const uint64_t tensors = places_.size();
  Put(header, &kWrittenVersion, sizeof(kWrittenVersion));
  Put(header, &tensors, sizeof(tensors));
  Put(header, &pair_count_, sizeof(pair_count_));
  file_->Write(header);
  file_->Write(pairs_);
  file_->Write(entries_);
  data_begin_ = AlignUp(static_cast<size_t>(file_->offset()), kWrittenAlignment);
  // Those without elements are done.
  while (current_ < places_.size() && places_[current_].begin == places_[current_].end) ++current_;
}

void Writer::PadTo(uint64_t offset) {
  static constexpr std::array<std::byte, kWrittenAlignment> kZeros{};
  if (file_->offset() >= offset) return;
  file_->Write(std::span(kZeros).first(static_cast<size_t>(offset - file_->offset())));
}

void Writer::Write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (current_ >= places_.size()) throw Error(ErrorCode::kInternal, "a GGUF has no place for more");
  const Place& place = places_[current_];
  PadTo(data_begin_ + place.begin);
  const uint64_t end = data_begin_ + place.end;
  if (bytes.size() > end - file_->offset()) {
    throw Error(ErrorCode::kInternal, "a tensor of a GGUF has more elements than it should");
  }
  file_->Write(bytes);
  while (current_ < places_.size() && file_->offset() >= data_begin_ + places_[current_].end) {
    ++current_;
  }
}

void Writer::Finish() {
  if (current_ != places_.size()) {
    throw Error(ErrorCode::kInternal, "a tensor of a GGUF has no elements");
  }
  PadTo(AlignUp(static_cast<size_t>(file_->offset()), kWrittenAlignment));
  file_->Finish();
  file_->Publish();
}

}  // namespace oort::gguf
