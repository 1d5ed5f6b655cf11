// SPDX-License-Identifier: MIT
#include "cli/quantize_report.h"

#include <algorithm>

namespace oort::cli {
namespace {

using quantize::ErrorMeter;
using quantize::LayerReport;
using quantize::PointReport;
using quantize::QuantizeReport;

std::string ShareText(uint64_t part, uint64_t whole) {
  return FormatFixed(100 * static_cast<double>(part) / static_cast<double>(whole), 2) + " %";
}

std::string Decibels(const ErrorMeter& meter) {
  return meter.empty() ? "" : FormatFixed(meter.Sqnr(), 1);
}

void PrintLayers(std::ostream& out, const QuantizeReport& report) {
  constexpr size_t kMostRows = 20;
  const std::vector<const LayerReport*> layers = RankedLayers(report);
  Table table({{"layer"},
               {"type"},
               {"weights dB", Table::kRight},
               {"alone dB", Table::kRight},
               {"cosine", Table::kRight},
               {"here dB", Table::kRight},
               {"max", Table::kRight}});
  for (size_t i = 0; i < std::min(kMostRows, layers.size()); ++i) {
    const LayerReport& layer = *layers[i];
    table.Row({layer.name, layer.type, FormatFixed(layer.weight_sqnr, 1), Decibels(layer.alone),
               FormatFixed(layer.alone.Cosine(), 5), Decibels(layer.accumulated),
               FormatNumber(layer.accumulated.Max())});
  }
  out << "\nlayers, those first that alone change the answers most:\n";
  table.Print(out);
  if (layers.size() > kMostRows) out << "… and " << layers.size() - kMostRows << " more\n";
}

Json MeterJson(const ErrorMeter& meter) {
  return {{"sqnr_db", meter.Sqnr()}, {"cosine", meter.Cosine()}, {"max", meter.Max()}};
}

Json PointJson(const PointReport& point) {
  return {{"operands", point.operands},
          {"min", point.min},
          {"max", point.max},
          {"low", point.range.low},
          {"high", point.range.high},
          {"scale", point.grid.scale},
          {"zero_point", point.grid.zero_point},
          {"clipped", point.clipped},
          {"constant", point.constant}};
}

}  // namespace

std::vector<const LayerReport*> RankedLayers(const QuantizeReport& report) {
  std::vector<const LayerReport*> layers;
  for (const LayerReport& layer : report.layers) {
    if (layer.quantized) layers.push_back(&layer);
  }
  std::stable_sort(layers.begin(), layers.end(), [](const LayerReport* a, const LayerReport* b) {
    return a->alone.Sqnr() < b->alone.Sqnr();
  });
  return layers;
}

void PrintQuantizeReport(std::ostream& out, const QuantizeReport& report) {
  const auto quantized = RankedLayers(report).size();
  out << quantized << " of " << report.layers.size() << " layers in 8 bits; weights "
      << FormatBytes(static_cast<double>(report.weights)) << ", before "
      << FormatBytes(static_cast<double>(report.float_weights)) << '\n'
      << (report.dynamic
              ? "ranges of each row while it runs"
              : "ranges by " + report.method + " of " + std::to_string(report.samples) + " samples")
      << ", biases " << (report.corrected ? "corrected" : "as they were") << '\n';
  if (report.judged > 0) {
    const ErrorMeter& error = report.result.error;
    const quantize::Agreement& agreement = report.result.agreement;
    out << "beside the float network on " << report.judged
        << (report.judged == 1 ? " sample: " : " samples: ") << "signal over noise "
        << FormatFixed(error.Sqnr(), 2) << " dB, cosine " << FormatFixed(error.Cosine(), 6)
        << ", largest difference " << FormatNumber(error.Max()) << '\n';
    if (agreement.rows > 0) {
      out << "same class " << ShareText(agreement.same, agreement.rows) << " of " << agreement.rows;
      if (agreement.labelled > 0) {
        out << "; right " << ShareText(agreement.right, agreement.labelled) << ", float "
            << ShareText(agreement.float_right, agreement.labelled);
      }
      out << '\n';
    }
  }
  const quantize::Speed& speed = report.speed;
  if (speed.measured()) {
    out << "one forward " << FormatFixed(1e3 * speed.seconds, 2) << " ms, before "
        << FormatFixed(1e3 * speed.float_seconds, 2) << " ms in " << speed.float_name << ": "
        << FormatFixed(speed.Ratio(), 2) << " times as fast\n";
  }
  const bool analysed = std::any_of(report.layers.begin(), report.layers.end(),
                                    [](const LayerReport& layer) { return !layer.alone.empty(); });
  if (analysed) PrintLayers(out, report);
  if (quantized < report.layers.size()) out << "\nstay float:\n";
  for (const LayerReport& layer : report.layers) {
    if (!layer.quantized) out << "  " << layer.name << ": " << layer.why_float << '\n';
  }
  for (const std::string& warning : report.warnings) out << "warning: " << warning << '\n';
}

Json QuantizeJson(const QuantizeReport& report) {
  const quantize::Agreement& agreement = report.result.agreement;
  Json json = {{"method", report.method},        {"bias_corrected", report.corrected},
               {"samples", report.samples},      {"judged", report.judged},
               {"weight_bytes", report.weights}, {"float_weight_bytes", report.float_weights}};
  if (report.judged > 0) {
    json["error"] = MeterJson(report.result.error);
    json["agreement"] = {{"rows", agreement.rows}, {"same", agreement.same}};
    if (agreement.labelled > 0) {
      json["accuracy"] = {{"labelled", agreement.labelled},
                          {"float_right", agreement.float_right},
                          {"right", agreement.right}};
    }
  }
  if (report.speed.measured()) {
    json["speed"] = {{"seconds", report.speed.seconds},
                     {"float_seconds", report.speed.float_seconds},
                     {"float", report.speed.float_name},
                     {"ratio", report.speed.Ratio()},
                     {"slower_layers", report.speed.Slower()}};
  }
  json["layers"] = Json::array();
  for (const LayerReport& layer : report.layers) {
    Json one = {{"name", layer.name}, {"type", layer.type}, {"quantized", layer.quantized}};
    if (!layer.quantized) one["why_float"] = layer.why_float;
    if (layer.quantized) one["weight_sqnr_db"] = layer.weight_sqnr;
    if (!layer.alone.empty()) one["alone"] = MeterJson(layer.alone);
    if (!layer.accumulated.empty()) one["accumulated"] = MeterJson(layer.accumulated);
    json["layers"].push_back(std::move(one));
  }
  json["points"] = Json::array();
  for (const PointReport& point : report.points) json["points"].push_back(PointJson(point));
  json["warnings"] = report.warnings;
  return json;
}

}  // namespace oort::cli
