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
            << Bar(share, 40) << std::flush;
  shown_ = true;
  last_ = now;
}

ProgressFunction ProgressLine::Function() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [this](const Progress& progress) { Update(progress); };
}

}  // namespace oort::cli
