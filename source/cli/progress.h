// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "oort/pnnx.h"

namespace oort::cli {

/// A line on stderr that is redrawn; only on a terminal, and only when a load takes long.
class ProgressLine {
 public:
  ~ProgressLine();
  void Update(const Progress& progress);
  /// Updates this line, or nothing where stderr is no terminal.
  ProgressFunction Function();

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), last_;
  bool shown_ = false;
};

}  // namespace oort::cli
