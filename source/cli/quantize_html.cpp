// SPDX-License-Identifier: MIT
// One page with everything: no scripts or pictures from elsewhere, so that it opens anywhere.
#include <algorithm>
#include <cmath>
#include <sstream>

#include "cli/markup.h"
#include "cli/quantize_report.h"

namespace oort::cli {
namespace {

using quantize::ErrorMeter;
using quantize::LayerReport;
using quantize::PointReport;
using quantize::QuantizeReport;

constexpr const char* kReportStyle = R"(
body { font-family: sans-serif; margin: 2em auto; max-width: 1100px; color: #222222; }
h1 { font-size: 1.4em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 2px 8px; text-align: right; white-space: nowrap; }
th { background: #f0f0f0; } td.text, th.text { text-align: left; }
tr:nth-child(even) { background: #fafafa; } pre { background: #f7f7f7; padding: 1em; }
.poor { color: #b03010; font-weight: bold; })";

/// Answers with less signal over noise than this begin to lose (see docs/quantization.md).
constexpr double kPoorDecibels = 15;

std::string WordCell(const std::string& text) {
  return "<td class=\"text\">" + EscapeMarkup(text) + "</td>";
}

std::string DecibelCell(const ErrorMeter& meter) {
  if (meter.empty()) return "<td></td>";
  const char* poor = meter.Sqnr() < kPoorDecibels ? " class=\"poor\"" : "";
  return "<td" + std::string(poor) + ">" + FormatFixed(meter.Sqnr(), 1) + "</td>";
}

std::string FigureCell(const std::string& text) { return "<td>" + text + "</td>"; }

std::string TableHead(std::initializer_list<const char*> titles, size_t texts) {
  std::string html = "<table><thead><tr>";
  for (const char* title : titles) {
    html += texts > 0 ? "<th class=\"text\">" : "<th>";
    html += std::string(title) + "</th>";
    if (texts > 0) --texts;
  }
  return html + "</tr></thead>\n<tbody>\n";
}

std::string LayerTable(const QuantizeReport& report) {
  std::string html = TableHead(
      {"layer", "type", "weights dB", "alone dB", "cosine", "max", "here dB", "cosine", "max"}, 2);
  for (const LayerReport* layer : RankedLayers(report)) {
    html += "<tr>" + WordCell(layer->name) + WordCell(layer->type) +
            FigureCell(FormatFixed(layer->weight_sqnr, 1)) + DecibelCell(layer->alone) +
            FigureCell(FormatFixed(layer->alone.Cosine(), 5)) +
            FigureCell(FormatNumber(layer->alone.Max())) + DecibelCell(layer->accumulated) +
            FigureCell(FormatFixed(layer->accumulated.Cosine(), 5)) +
            FigureCell(FormatNumber(layer->accumulated.Max())) + "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

std::string FloatTable(const QuantizeReport& report) {
  std::string rows;
  for (const LayerReport& layer : report.layers) {
    if (layer.quantized) continue;
    rows += "<tr>" + WordCell(layer.name) + WordCell(layer.type) + WordCell(layer.why_float) +
            "</tr>\n";
  }
  if (rows.empty()) return "<p>None.</p>\n";
  return TableHead({"layer", "type", "why"}, 3) + rows + "</tbody></table>\n";
}

/// Bars of logarithms of counts, and lines where values are clipped.
std::string HistogramSvg(const PointReport& point) {
  constexpr double kBarsWidth = 480, kBarsHeight = 60;
  SvgWriter svg(kBarsWidth, kBarsHeight);
  const double bars = static_cast<double>(point.outline.size());
  constexpr double kDecades = 7;
  for (size_t i = 0; i < point.outline.size(); ++i) {
    if (point.outline[i] <= 0) continue;
    const double share = std::max(0.03, 1 + std::log10(point.outline[i]) / kDecades);
    const double height = std::min(1.0, share) * (kBarsHeight - 2);
    svg.Rect(static_cast<double>(i) * kBarsWidth / bars, kBarsHeight - height,
             kBarsWidth / bars - 0.5, height, "fill=\"#7a9cc6\"");
  }
  const double span = point.max - point.min;
  for (const double end : {point.range.low, point.range.high}) {
    if (span <= 0 || end < point.min || end > point.max) continue;
    const double x = (end - point.min) / span * kBarsWidth;
    svg.Line(x, 0, x, kBarsHeight, "stroke=\"#d9653b\" stroke-width=\"2\"");
  }
  return svg.Finish();
}

std::string PointList(const QuantizeReport& report) {
  std::string html;
  for (const PointReport& point : report.points) {
    html += "<h3>" + EscapeMarkup(Join(point.operands, ", ")) + "</h3>\n<p>observed " +
            FormatNumber(point.min) + " to " + FormatNumber(point.max) + ", range " +
            FormatNumber(point.range.low) + " to " + FormatNumber(point.range.high) + ", scale " +
            FormatNumber(static_cast<double>(point.grid.scale), 6) + ", zero point " +
            std::to_string(point.grid.zero_point) + ", clipped " +
            FormatFixed(100 * point.clipped, 3) + " %</p>\n";
    if (!point.outline.empty()) html += HistogramSvg(point) + "\n";
  }
  return html;
}

}  // namespace

std::string QuantizeHtml(const std::string& model, const QuantizeReport& report) {
  const std::string name = EscapeMarkup(model);
  QuantizeReport summary = report;
  for (LayerReport& layer : summary.layers) layer.alone = {};  // they have a table of their own
  std::ostringstream text;
  PrintQuantizeReport(text, summary);
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n<title>oort "
         "quantize " +
         name + "</title>\n<style>" + kReportStyle + "</style></head>\n<body>\n<h1>" + name +
         "</h1>\n<pre>" + EscapeMarkup(text.str()) +
         "</pre>\n<h2>Layers</h2>\n<p>Those first whose rounding alone changes the answers most. "
         "<i>Alone</i>: the network's answers with this layer alone in 8 bits. <i>Here</i>: what "
         "the layer gives with all layers in 8 bits. Below 15 dB expect other answers.</p>\n" +
         LayerTable(report) + "<h2>Layers that stay float</h2>\n" + FloatTable(report) +
         "<h2>Ranges</h2>\n<p>How often values occur, in logarithms; what lies outside of the red "
         "lines is clipped.</p>\n" +
         PointList(report) + "</body></html>\n";
}

}  // namespace oort::cli
