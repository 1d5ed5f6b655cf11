// SPDX-License-Identifier: MIT
// Files of a folder that was downloaded from somewhere: names in them are not trusted.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oort/source.h"

namespace oort::huggingface {

class Folder {
 public:
  explicit Folder(std::filesystem::path path);

  bool Has(std::string_view name) const;
  /// Throws kInvalidModel for a name with separators, and for a link that leads out of the folder.
  /// (Links into the blobs of the Hub's own cache, of which this is a snapshot, are allowed.)
  std::shared_ptr<const ByteSource> Open(std::string_view name) const;
  /// A whole file of reasonable size; nothing where it is not there.
  std::optional<std::string> Text(std::string_view name) const;
  /// The names that end so, sorted.
  std::vector<std::string> Names(std::string_view ending) const;
  std::optional<Folder> Inner(std::string_view name) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path Checked(std::string_view name) const;
  std::filesystem::path path_;
  std::filesystem::path real_, blobs_;  ///< where files may really lie
};

}  // namespace oort::huggingface
