// SPDX-License-Identifier: MIT
#include "cli/progress.h"

#include <unistd.h>

#include <iostream>

#include "cli/chart.h"
#include "cli/text.h"

namespace oort::cli {

ProgressLine::~ProgressLine() {
  if (shown_) std::cerr << "\r\x1b[K" << std::flush;
}

void ProgressLine::Update(const Progress& progress) {
  const auto now = std::chrono::steady_clock::now();
  if (now - start_ < std::chrono::milliseconds(500)) return;
  if (shown_ && now - last_ < std::chrono::milliseconds(50)) return;
  const double share = progress.total == 0 ? 0
                                           : static_cast<double>(progress.done) /
                                                 static_cast<double>(progress.total);
  std::cerr << "\r\x1b[K" << progress.phase << "  " << FormatFixed(100 * share, 0) << " %  "
            << Bar(share, 40) << TimeLeft(progress.phase, share, now) << std::flush;
  shown_ = true;
  last_ = now;
}

/// If the phase goes on as it went so far; nothing before a few seconds of it have passed.
std::string ProgressLine::TimeLeft(std::string_view phase, double share,
                                   std::chrono::steady_clock::time_point now) {
  constexpr double kLeastSeconds = 2;
  if (phase != phase_) {
    phase_ = phase;
    phase_start_ = now;
    phase_share_ = share;
  }
  const double passed = std::chrono::duration<double>(now - phase_start_).count();
  if (passed < kLeastSeconds || share <= phase_share_) return "";
  const double left = passed * (1 - share) / (share - phase_share_);
  if (left < 100) return "  " + FormatFixed(left, 0) + " s left";
  return "  " + FormatFixed(left / 60, 0) + " min left";
}

ProgressFunction ProgressLine::Function() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [this](const Progress& progress) { Update(progress); };
}

}  // namespace oort::cli
