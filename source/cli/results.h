// SPDX-License-Identifier: MIT
// What to say about the outputs of a model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/text.h"
#include "oort/tensor.h"

namespace oort::cli {

/// Of the finite elements; of complex numbers, the magnitudes count.
struct Statistics {
  double min = 0, max = 0, mean = 0, deviation = 0;
  int64_t nan = 0, infinite = 0;
};
Statistics Measure(const Tensor& tensor);
Json ToJson(const Statistics& statistics);

/// The mean of the two in the middle of an even number of values; 0 of none.
double Median(std::vector<double> values);

struct Guess {
  int64_t index = 0;
  double probability = 0;
};
/// The `count` most probable classes of every row of an output (K), (N,K) or (N,K,1,1). Scores
/// that are no probabilities yet go through softmax. Throws where the output is no such thing.
std::vector<std::vector<Guess>> TopClasses(const Tensor& scores, int count);

/// One label a line; a trailing carriage return is dropped.
std::vector<std::string> ReadLabels(const std::filesystem::path& path);
/// The label of a class, or "class 7" where there is none.
std::string LabelOf(const std::vector<std::string>& labels, int64_t index);

}  // namespace oort::cli
