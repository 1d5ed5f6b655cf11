// SPDX-License-Identifier: MIT
// Models in several files: name-00001-of-00003.gguf and so on.
#include <cctype>
#include <unordered_set>

#include "core/guard.h"
#include "core/problems.h"
#include "parser/gguf/gguf.h"

namespace oort::gguf {
namespace {

constexpr int64_t kMostParts = 99999;

std::string FiveDigits(int64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(5 - digits.size(), '0') + digits;
}

std::string PartSuffix(int64_t index, int64_t count) {
  return "-" + FiveDigits(index + 1) + "-of-" + FiveDigits(count) + ".gguf";
}

[[noreturn]] void FailPart(const std::string& name, const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, "'" + name + "': " + message);
}

/// Checks what a part says of itself.
void CheckPart(const File& part, int64_t index, int64_t count) {
  const int64_t no = part.metadata.Integer("split.no").value_or(-1);
  const int64_t of = part.metadata.Integer("split.count").value_or(-1);
  if (no == index && of == count) return;
  FailPart(part.source->name(), "it should be part " + std::to_string(index) + " of " +
                                    std::to_string(count) + " (counted from 0), but says that it " +
                                    "is " + std::to_string(no) + " of " + std::to_string(of));
}

void CheckTogether(const std::vector<File>& parts) {
  std::unordered_set<std::string_view> names;
  for (const File& part : parts) {
    for (const TensorEntry& entry : part.tensors) {
      if (names.insert(entry.name).second) continue;
      FailPart(part.source->name(), "another part has the tensor " + Quote(entry.name) + " too");
    }
  }
  const File& first = parts.front();
  const auto total = first.metadata.Integer("split.tensors.count");
  if (total.has_value() && *total != static_cast<int64_t>(names.size())) {
    FailPart(first.source->name(), "its parts have " + std::to_string(names.size()) +
                                       " tensors, but should have " + std::to_string(*total));
  }
}

std::vector<File> ReadParts(const std::filesystem::path& path) {
  std::vector<File> parts;
  parts.push_back(ReadFile(ByteSource::File(path)));
  const Metadata& metadata = parts.front().metadata;
  const int64_t count = metadata.Integer("split.count").value_or(1);
  if (count == 0 || (count == 1 && metadata.Integer("split.no").value_or(0) == 0)) return parts;
  const std::string name = path.filename().string();
  if (count < 1 || count > kMostParts) {
    FailPart(name, "it claims to be one of " + std::to_string(count) + " parts");
  }
  if (metadata.Integer("split.no").value_or(0) != 0) {
    FailPart(name,
             "this is a later part of a model: open the first one, ..." + PartSuffix(0, count));
  }
  const std::string suffix = PartSuffix(0, count);
  if (!name.ends_with(suffix)) {
    FailPart(name,
             "the first of " + std::to_string(count) + " parts has a name that ends in " + suffix);
  }
  const std::string stem = name.substr(0, name.size() - suffix.size());
  for (int64_t i = 1; i < count; ++i) {
    const auto part = path.parent_path() / (stem + PartSuffix(i, count));
    parts.push_back(ReadFile(ByteSource::File(part)));
    CheckPart(parts.back(), i, count);
  }
  CheckTogether(parts);
  return parts;
}

}  // namespace

std::vector<File> ReadFiles(const std::filesystem::path& path) {
  return Guarded([&] { return ReadParts(path); });
}

}  // namespace oort::gguf
