// SPDX-License-Identifier: MIT
#include "cli/results.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <sstream>

#include "cli/chart.h"
#include "cli/text.h"
#include "oort/error.h"

namespace oort::cli {
namespace {

std::vector<double> Magnitudes(const Tensor& tensor) {
  if (!IsComplex(tensor.dtype())) {
    const Tensor wide = tensor.To(DType::kF64);
    return {wide.span<double>().begin(), wide.span<double>().end()};
  }
  const Tensor wide = tensor.To(DType::kC128);
  std::vector<double> values;
  for (const std::complex<double>& value : wide.span<std::complex<double>>()) {
    values.push_back(std::abs(value));
  }
  return values;
}

bool AreProbabilities(std::span<const double> row) {
  const bool in_range =
      std::all_of(row.begin(), row.end(), [](double x) { return x >= 0 && x <= 1; });
  return in_range && std::abs(std::accumulate(row.begin(), row.end(), 0.0) - 1) < 1e-3;
}

std::vector<Guess> TopOfRow(std::span<const double> row, int count) {
  const std::vector<double> probabilities =
      AreProbabilities(row) ? std::vector<double>(row.begin(), row.end()) : Softmax(row);
  std::vector<Guess> guesses;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    guesses.push_back({static_cast<int64_t>(i), probabilities[i]});
  }
  std::stable_sort(guesses.begin(), guesses.end(),
                   [](const Guess& a, const Guess& b) { return a.probability > b.probability; });
  guesses.resize(std::min(guesses.size(), static_cast<size_t>(count)));
  return guesses;
}

}  // namespace

Statistics Measure(const Tensor& tensor) {
  Statistics result;
  double sum = 0, squares = 0;
  int64_t finite = 0;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const std::vector<double> values = Magnitudes(tensor);
  for (const double value : values) {
    if (std::isnan(value)) {
      ++result.nan;
    } else if (std::isinf(value)) {
      ++result.infinite;
    } else {
      ++finite;
      sum += value;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (finite == 0) return result;
  result.min = low;
  result.max = high;
  result.mean = sum / static_cast<double>(finite);
  for (const double value : values) {
    if (std::isfinite(value)) squares += (value - result.mean) * (value - result.mean);
  }
  result.deviation = std::sqrt(squares / static_cast<double>(finite));
  return result;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

Json ToJson(const Statistics& statistics) {
  return {{"min", statistics.min},   {"max", statistics.max},
          {"mean", statistics.mean}, {"std", statistics.deviation},
          {"nan", statistics.nan},   {"infinite", statistics.infinite}};
}

std::vector<std::vector<Guess>> TopClasses(const Tensor& scores, int count) {
  const Shape& shape = scores.shape();
  const bool fits = shape.rank() == 1 || (shape.rank() >= 2 && shape.Product(2, shape.rank()) == 1);
  if (!fits || !IsFloat(scores.dtype()) || scores.elements() == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected class scores of shape (N,K) for the labels, got " + scores.ToString());
  }
  const Tensor wide = scores.To(DType::kF64);
  const auto classes = static_cast<size_t>(shape[shape.rank() == 1 ? 0 : 1]);
  std::vector<std::vector<Guess>> rows;
  for (std::span<const double> rest = wide.span<double>(); !rest.empty();
       rest = rest.subspan(classes)) {
    rows.push_back(TopOfRow(rest.first(classes), count));
  }
  return rows;
}

std::vector<std::string> ReadLabels(const std::filesystem::path& path) {
  std::istringstream file(ReadTextFile(path.string()));
  std::vector<std::string> labels;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    labels.push_back(std::move(line));
  }
  return labels;
}

std::string LabelOf(const std::vector<std::string>& labels, int64_t index) {
  const auto i = static_cast<size_t>(index);
  return i < labels.size() ? SingleLine(labels[i]) : "class " + std::to_string(index);
}

}  // namespace oort::cli
