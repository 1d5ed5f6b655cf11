// SPDX-License-Identifier: MIT
// Probabilities and how they are drawn. Also used by the demos.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace oort::cli {

std::vector<double> Softmax(std::span<const double> scores);
/// `share` of `width` cells, in eighths of a cell.
std::string Bar(double share, int width);

}  // namespace oort::cli
