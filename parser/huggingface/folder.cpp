// SPDX-License-Identifier: MIT
#include "parser/huggingface/folder.h"

#include <algorithm>

#include "core/problems.h"
#include "oort/error.h"

namespace oort::huggingface {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestText = uint64_t{1} << 28;

bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\:\0", 4)) == name.npos;
}

bool LiesIn(const fs::path& file, const fs::path& folder) {
  if (folder.empty()) return false;
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first ==
         folder.end();
}

}  // namespace

Folder::Folder(fs::path path) : path_(std::move(path)) {
  std::error_code error;
  real_ = fs::canonical(path_, error);
  if (error) {
    throw Error(ErrorCode::kNotFound,
                "cannot open " + Quote(path_.string()) + ": " + error.message());
  }
  // models--owner--name/snapshots/REVISION/file -> ../../blobs/HASH
  if (real_.parent_path().filename() == "snapshots") {
    blobs_ = real_.parent_path().parent_path() / "blobs";
  }
}

fs::path Folder::Checked(std::string_view name) const {
  if (!IsPlainName(name)) {
    throw Error(ErrorCode::kInvalidModel,
                Quote(name) + " is not the name of a file in the model's folder");
  }
  const fs::path file = path_ / name;
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error) {
    throw Error(ErrorCode::kNotFound,
                "cannot open " + Quote(file.string()) + ": " + error.message());
  }
  if (!LiesIn(real, real_) && !LiesIn(real, blobs_)) {
    throw Error(ErrorCode::kInvalidModel,
                Quote(file.string()) + " is a link out of the model's folder");
  }
  return real;
}

bool Folder::Has(std::string_view name) const {
  std::error_code ignored;
  return IsPlainName(name) && fs::exists(path_ / name, ignored);
}

std::shared_ptr<const ByteSource> Folder::Open(std::string_view name) const {
  return ByteSource::File(Checked(name));
}

std::optional<std::string> Folder::Text(std::string_view name) const {
  if (!Has(name)) return std::nullopt;
  const auto source = Open(name);
  if (source->size() > kLargestText) {
    throw Error(ErrorCode::kInvalidModel, Quote(name) + " has " + std::to_string(source->size()) +
                                              " bytes, more than such a file can have");
  }
  std::string text(static_cast<size_t>(source->size()), '\0');
  source->ReadAt(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::optional<Folder> Folder::Inner(std::string_view name) const {
  std::error_code ignored;
  if (!fs::is_directory(path_ / name, ignored)) return std::nullopt;
  Folder inner(Checked(name));
  inner.blobs_ = blobs_;
  return inner;
}

std::vector<std::string> Folder::Names(std::string_view ending) const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    const std::string name = entry.path().filename().string();
    if (name.size() > ending.size() && name.ends_with(ending)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace oort::huggingface
