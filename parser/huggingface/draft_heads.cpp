// SPDX-License-Identifier: MIT
#include "parser/huggingface/draft_heads.h"

#include <string>
#include <string_view>
#include <system_error>

#include "core/problems.h"
#include "oort/error.h"
#include "parser/huggingface/folder.h"
#include "parser/huggingface/plain_folder.h"
#include "text/json.h"

namespace oort {
namespace {

using huggingface::Folder;
using huggingface::SizeIn;

constexpr std::string_view kConfig = "config.json", kHeads = "medusa_num_heads";
constexpr std::string_view kWeights = "medusa_lm_head.safetensors";
constexpr int64_t kMostHeadLayers = 8;

}  // namespace

bool IsDraftHeads(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return false;
  try {
    const auto text = Folder(folder).Text(kConfig);
    if (!text) return false;
    const json::Json document = json::Parse(*text, std::string(kConfig));
    return json::Object(document, std::string(kConfig)).Find(kHeads) != nullptr;
  } catch (const Error&) {
    return false;  // who opens it tells what is wrong
  }
}

DraftHeadsFiles ReadDraftHeads(const std::filesystem::path& path) {
  const Folder folder(path);
  for (const std::string_view name : {kConfig, kWeights}) {
    if (folder.Has(name)) continue;
    throw Error(ErrorCode::kNotFound, Quote(path.string()) + " has no " + std::string(name) +
                                          ": heads are that and " +
                                          std::string(name == kConfig ? kWeights : kConfig));
  }
  return ReadDraftHeads(folder.Text(kConfig).value_or(""), folder.Open(kWeights));
}

DraftHeadsFiles ReadDraftHeads(std::string_view text,
                               const std::shared_ptr<const ByteSource>& weights) {
  const json::Json document = json::Parse(text, std::string(kConfig));
  const json::Object config(document, std::string(kConfig));
  DraftHeadsFiles files{.heads = SizeIn(config, kHeads, {}, DraftHeadsFiles::kMostHeads),
                        .layers = SizeIn(config, "medusa_num_layers", 1, kMostHeadLayers)};
  huggingface::ReadPlainFile(weights, files.tensors);
  return files;
}

}  // namespace oort
