// SPDX-License-Identifier: MIT
#include "quantize/describe.h"

#include <algorithm>

namespace oort::quantize {
namespace {

constexpr int kOutlineBins = 96;

void AddMatrix(std::span<const float> exact, const QuantizedWeights& weights, ErrorMeter& meter) {
  const size_t columns = exact.size() / weights.scales.size();
  for (size_t i = 0; i < exact.size(); ++i) {
    const float rough = weights.scales[i / columns] * static_cast<float>(weights.values[i]);
    meter.Add(exact.subspan(i, 1), {&rough, 1});
  }
}

}  // namespace

size_t WeightBytes(const Graph& graph) {
  size_t bytes = 0;
  for (const Operator& op : graph.operators) {
    for (const auto& [name, tensor] : op.attributes) bytes += tensor.bytes();
  }
  return bytes;
}

ErrorMeter WeightError(const Operator& op, const LayerForm& form) {
  ErrorMeter meter;
  for (const auto& [name, matrix] : form.matrices) {
    AddMatrix(op.attributes.at(name).span<float>(), matrix, meter);
  }
  if (form.matrices.empty()) {
    AddMatrix(op.attributes.at("weight").span<float>(), form.weights, meter);
  }
  return meter;
}

void DescribeValues(const Observer& observer, PointReport& point, QuantizeReport& report) {
  const Histogram& histogram = observer.histogram();
  point.min = observer.min();
  point.max = observer.max();
  point.clipped = ClippedShare(histogram, point.range);
  point.constant = histogram.reach() == 0;
  const std::string& name = point.operands.front();
  if (point.constant) {
    report.warnings.push_back("operand '" + name + "' is 0 in all samples: its scale is 1");
    return;
  }
  if (point.clipped > 0.01) {
    report.warnings.push_back("of operand '" + name + "', " +
                              std::to_string(static_cast<int>(100 * point.clipped)) +
                              " % of the values are clipped");
  }
  point.outline.assign(kOutlineBins, 0);
  const double width = std::max((point.max - point.min) / kOutlineBins, histogram.width());
  for (int bin = 0; bin < Histogram::kBins; ++bin) {
    const auto count = static_cast<double>(histogram.counts()[static_cast<size_t>(bin)]);
    if (count == 0) continue;
    const double at = (histogram.Center(bin) - point.min) / width;
    const int place = std::clamp(static_cast<int>(at), 0, kOutlineBins - 1);
    point.outline[static_cast<size_t>(place)] += count / static_cast<double>(histogram.total());
  }
}

std::string SlowerWarning(const Speed& speed) {
  constexpr size_t kMostNames = 8;
  const std::vector<std::string> slower = speed.Slower();
  std::string advice;
  for (size_t i = 0; i < std::min(slower.size(), kMostNames); ++i) {
    advice += (advice.empty() ? "'" : ", '") + slower[i] + "'";
  }
  if (slower.size() > kMostNames) {
    advice += " and " + std::to_string(slower.size() - kMostNames) + " more";
  }
  return "in 8 bits the network is slower here than in " + speed.float_name + ": " +
         (advice.empty() ? "keep it float on such a machine"
                         : "keep float by a recipe what loses by itself: " + advice);
}

}  // namespace oort::quantize
