// SPDX-License-Identifier: MIT
// Folders of language models with something wrong in them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "kit/errors.h"
#include "kit/files.h"
#include "parser/checkpoint/checkpoint.h"

namespace oort::testing {

/// A copy of a folder some of whose text is other.
class ChangedFolder {
 public:
  explicit ChangedFolder(const std::filesystem::path& from) {
    for (const char* file : {"config.json", "model.safetensors"}) {
      std::ifstream in(from / file, std::ios::binary);
      texts_[file] = {std::istreambuf_iterator<char>(in), {}};
    }
  }
  ChangedFolder& Replace(const std::string& file, const std::string& from, const std::string& to) {
    const size_t at = texts_[file].find(from);
    EXPECT_NE(at, std::string::npos) << from;
    texts_[file].replace(at, from.size(), to);
    return *this;
  }
  std::string& text(const std::string& file) { return texts_[file]; }
  void ExpectRefused(ErrorCode code, std::string_view says) {
    for (const auto& [file, text] : texts_) {
      std::ofstream(folder_ / file, std::ios::binary) << text;
    }
    ExpectThrows([&] { Checkpoint::Open(folder_ / "."); }, code, says);
  }

 private:
  std::map<std::string, std::string> texts_;
  TemporaryFolder folder_;
};

}  // namespace oort::testing
