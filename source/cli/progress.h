// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>
#include <string_view>

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
  std::string TimeLeft(std::string_view phase, double share,
                       std::chrono::steady_clock::time_point now);

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), last_;
  std::string phase_;
  std::chrono::steady_clock::time_point phase_start_;
  double phase_share_ = 0;
  bool shown_ = false;
};

}  // namespace oort::cli
