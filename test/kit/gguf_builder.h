// SPDX-License-Identifier: MIT
// Makes GGUF files for tests, good ones and broken ones; shares no code with the reader it tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kit/zip_builder.h"

namespace oort::testing {

inline std::string GgufString(const std::string& text) { return Little(text.size(), 8) + text; }

/// A key with the bytes of its value, after the number of its type.
struct GgufPair {
  std::string key;
  int type = 4;
  std::string value;
};

inline GgufPair GgufU32(const std::string& key, uint32_t value) {
  return {key, 4, Little(value, 4)};
}
inline GgufPair GgufF32(const std::string& key, float value) {
  return {key, 6, {reinterpret_cast<const char*>(&value), sizeof(value)}};
}
inline GgufPair GgufBool(const std::string& key, bool value) { return {key, 7, Little(value, 1)}; }
inline GgufPair GgufText(const std::string& key, const std::string& text) {
  return {key, 8, GgufString(text)};
}
inline GgufPair GgufArray(const std::string& key, int type,
                          const std::vector<std::string>& elements) {
  std::string value = Little(static_cast<uint64_t>(type), 4) + Little(elements.size(), 8);
  for (const std::string& element : elements) value += element;
  return {key, 9, value};
}
inline GgufPair GgufTexts(const std::string& key, const std::vector<std::string>& texts) {
  std::vector<std::string> elements;
  for (const std::string& text : texts) elements.push_back(GgufString(text));
  return GgufArray(key, 8, elements);
}

struct GgufTensor {
  std::string name;
  std::vector<int64_t> dims;  // innermost first
  int type = 0;
  std::string data;
  std::optional<uint64_t> offset = {};  // instead of the right one
};

/// What is set here stands in the file instead of the truth.
struct GgufSpec {
  std::vector<GgufPair> pairs;
  std::vector<GgufTensor> tensors;
  uint32_t version = 3;
  size_t alignment = 32;
  std::optional<uint64_t> pair_count = {}, tensor_count = {};
};

/// The header alone: where its length matters.
inline std::string GgufHeader(const GgufSpec& spec) {
  std::string bytes = "GGUF" + Little(spec.version, 4) +
                      Little(spec.tensor_count.value_or(spec.tensors.size()), 8) +
                      Little(spec.pair_count.value_or(spec.pairs.size()), 8);
  for (const GgufPair& pair : spec.pairs) {
    bytes += GgufString(pair.key) + Little(static_cast<uint64_t>(pair.type), 4) + pair.value;
  }
  uint64_t offset = 0;
  for (const GgufTensor& tensor : spec.tensors) {
    bytes += GgufString(tensor.name) + Little(tensor.dims.size(), 4);
    for (const int64_t dim : tensor.dims) bytes += Little(static_cast<uint64_t>(dim), 8);
    bytes +=
        Little(static_cast<uint64_t>(tensor.type), 4) + Little(tensor.offset.value_or(offset), 8);
    offset = (offset + tensor.data.size() + spec.alignment - 1) / spec.alignment * spec.alignment;
  }
  return bytes;
}

inline std::string BuildGguf(const GgufSpec& spec) {
  std::string bytes = GgufHeader(spec);
  const auto pad = [&] {
    bytes.resize((bytes.size() + spec.alignment - 1) / spec.alignment * spec.alignment);
  };
  for (const GgufTensor& tensor : spec.tensors) {
    pad();
    bytes += tensor.data;
  }
  return bytes;
}

}  // namespace oort::testing
