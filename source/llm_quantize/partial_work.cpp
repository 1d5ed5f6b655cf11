// SPDX-License-Identifier: MIT
#include "llm_quantize/partial_work.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "core/problems.h"

namespace oort::llm_quantize {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKeyFile = "options.txt";

std::string ReadWhole(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Under another name first: what has its name is whole.
void WriteWhole(const fs::path& path, const std::string& bytes) {
  const fs::path unfinished = path.string() + ".new";
  std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw Error(ErrorCode::kIo, "cannot write " + Quote(unfinished.string()));
  fs::rename(unfinished, path);
}

std::vector<Tensor*> PartsOf(StoredMatrix& matrix) {
  std::vector<Tensor*> parts;
  for (Tensor* part : {&matrix.data, &matrix.scale, &matrix.minimum}) {
    if (part->defined()) parts.push_back(part);
  }
  return parts;
}

}  // namespace

uint64_t Fingerprint(const void* bytes, size_t count) {
  uint64_t hash = 14695981039346656037U;  // FNV-1a
  const auto* byte = static_cast<const unsigned char*>(bytes);
  for (size_t i = 0; i < count; ++i) hash = (hash ^ byte[i]) * 1099511628211U;
  return hash;
}

PartialWork::PartialWork(fs::path folder, const std::string& key) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    throw Error(ErrorCode::kIo,
                "cannot make the folder " + Quote(folder_.string()) + ": " + error.message());
  }
  const fs::path path = folder_ / kKeyFile;
  if (!fs::exists(path)) WriteWhole(path, key);
  if (ReadWhole(path) == key) return;
  throw Error(ErrorCode::kInvalidArgument,
              Quote(folder_.string()) +
                  " was begun with another model, text or options: remove "
                  "it, or do as before to go on");
}

std::optional<RoundedMatrix> PartialWork::Load(const std::string& name,
                                               const QuantizeOptions& target, int64_t rows,
                                               int64_t columns) const {
  const fs::path path = folder_ / name;
  if (!fs::exists(path)) return std::nullopt;
  const std::string bytes = ReadWhole(path);
  RoundedMatrix rounded{AllocateStored(target, rows, columns), 0};
  size_t wanted = sizeof(rounded.relative_error);
  for (const Tensor* part : PartsOf(rounded.matrix)) wanted += part->bytes();
  if (bytes.size() != wanted) return std::nullopt;
  std::memcpy(&rounded.relative_error, bytes.data(), sizeof(rounded.relative_error));
  size_t at = sizeof(rounded.relative_error);
  for (Tensor* part : PartsOf(rounded.matrix)) {
    std::memcpy(part->raw(), bytes.data() + at, part->bytes());
    at += part->bytes();
  }
  return rounded;
}

void PartialWork::Save(const std::string& name, const RoundedMatrix& rounded) const {
  std::string bytes(sizeof(rounded.relative_error), '\0');
  std::memcpy(bytes.data(), &rounded.relative_error, bytes.size());
  StoredMatrix matrix = rounded.matrix;
  for (const Tensor* part : PartsOf(matrix)) {
    bytes.append(reinterpret_cast<const char*>(part->raw()), part->bytes());
  }
  WriteWhole(folder_ / name, bytes);
}

void PartialWork::Remove() const {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace oort::llm_quantize
