// SPDX-License-Identifier: MIT
#include "parser/huggingface/plain_folder.h"

#include "parser/huggingface/config.h"

#include <set>
#include <system_error>
#include <utility>

#include "core/problems.h"
#include "oort/error.h"
#include "parser/safetensors/safetensors.h"

namespace oort::huggingface {

std::string ModelTypeOf(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return {};
  try {
    const auto text = Folder(folder).Text("config.json");
    if (!text) return {};
    const json::Json document = json::Parse(*text, "config.json");
    return std::string(json::Object(document, "config.json").Text("model_type").value_or(""));
  } catch (const Error&) {
    return {};  // who opens it tells what is wrong
  }
}

int64_t SizeIn(const json::Object& file, std::string_view key, std::optional<int64_t> otherwise,
               int64_t most) {
  const auto given = file.Integer(key);
  const int64_t size = given ? *given : otherwise ? *otherwise : file.RequireInteger(key);
  if (size < 1 || size > most)
    file.ThrowWrongType(key, "a number from 1 to " + std::to_string(most));
  return size;
}

Activation ActivationOf(const json::Object& file, std::string_view name) {
  try {
    return ActivationNamed(name);
  } catch (const Error& error) {
    throw error.WithContext(file.what() + ": ");
  }
}

namespace {

/// The files that hold weights.
std::set<std::string> WeightFiles(const Folder& folder) {
  constexpr std::string_view kSingle = "model.safetensors", kIndex = "model.safetensors.index.json";
  if (folder.Has(kSingle)) return {std::string(kSingle)};
  const auto text = folder.Text(kIndex);
  if (!text) {
    throw Error(ErrorCode::kNotFound, Quote(folder.path().string()) + " has neither " +
                                          std::string(kSingle) + " nor " + std::string(kIndex));
  }
  const json::Json index = json::Parse(*text, std::string(kIndex));
  const json::Object object(index, std::string(kIndex));
  const json::Json* map = object.Find("weight_map");
  if (map == nullptr || !map->is_object()) object.ThrowWrongType("weight_map", "an object");
  std::set<std::string> files;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) object.ThrowWrongType("weight_map", "names of files for all tensors");
    files.insert(file.get<std::string>());
  }
  return files;
}

}  // namespace

void ReadPlainFile(const std::shared_ptr<const ByteSource>& source, TensorTable& table,
                   std::string_view without) {
  for (const safetensors::Entry& entry : safetensors::ReadHeader(*source)) {
    if (!without.empty() && entry.name.ends_with(without)) continue;
    if (!entry.format || entry.shape.empty() || entry.shape.size() > 2) {
      throw Error(ErrorCode::kUnsupported,
                  Quote(entry.name) + " is stored as " + entry.dtype +
                      "; matrices and vectors of F32, F16 and BF16 can be read");
    }
    PlacedTensor placed;
    placed.source = source;
    placed.offset = entry.offset;
    placed.format = *entry.format;
    placed.rank = static_cast<int>(entry.shape.size());
    placed.columns = entry.shape.back();
    if (placed.rank == 2) placed.rows = entry.shape.front();
    table.Add(entry.name, std::move(placed));
  }
}

void ReadPlainTensors(const Folder& folder, TensorTable& table, std::string_view without) {
  for (const std::string& file : WeightFiles(folder)) {
    ReadPlainFile(folder.Open(file), table, without);
  }
}

}  // namespace oort::huggingface
