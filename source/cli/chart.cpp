// SPDX-License-Identifier: MIT
#include "cli/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace oort::cli {

std::vector<double> Softmax(std::span<const double> scores) {
  if (scores.empty()) return {};
  std::vector<double> result(scores.begin(), scores.end());
  const double top = *std::max_element(scores.begin(), scores.end());
  for (double& value : result) value = std::exp(value - top);
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& value : result) value /= sum;
  return result;
}

std::string Bar(double share, int width) {
  static constexpr std::array<const char*, 8> kParts = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(share > 0)) return "";
  const auto eighths = static_cast<size_t>(std::lround(std::min(share, 1.0) * width * 8));
  std::string bar;
  for (size_t i = 0; i < eighths / 8; ++i) bar += "█";
  return bar + kParts[eighths % 8];
}

}  // namespace oort::cli
