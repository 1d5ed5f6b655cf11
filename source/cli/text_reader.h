// SPDX-License-Identifier: MIT
// Texts of a file, one a line.
#pragma once

#include <string>
#include <vector>

#include "cli/batch_lines.h"

namespace oort::cli {

/// Texts of a file, some at a time; a line is a text, or, of a .jsonl, a string or an object with
/// "text" or "input".
class TextReader {
 public:
  /// "-" reads the standard input.
  explicit TextReader(const std::string& path);

  /// Empty behind the last.
  std::vector<std::string> Next();

 private:
  std::string path_;
  LineReader lines_;
  bool json_;
};

}  // namespace oort::cli
