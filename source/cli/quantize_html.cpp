// SPDX-License-Identifier: MIT
// One page with everything that `oort quantize` found of a network.
#include <algorithm>
#include <cmath>
#include <sstream>

#include "cli/markup.h"
#include "cli/quantize_report.h"
#include "cli/report_page.h"

namespace oort::cli {
namespace {

using quantize::ErrorMeter;
using quantize::LayerReport;
using quantize::PointReport;
using quantize::QuantizeReport;

/// Answers with less signal over noise than this begin to lose (see docs/quantization.md).
constexpr double kPoorDecibels = 15;

std::string DecibelCell(const ErrorMeter& meter) {
  if (meter.empty()) return "<td></td>";
  const char* poor = meter.Sqnr() < kPoorDecibels ? " class=\"poor\"" : "";
  return "<td" + std::string(poor) + ">" + FormatFixed(meter.Sqnr(), 1) + "</td>";
}

std::string LayerTable(const QuantizeReport& report) {
  std::string html = ReportTableHead(
      {"layer", "type", "weights dB", "alone dB", "cosine", "max", "here dB", "cosine", "max"}, 2);
  for (const LayerReport* layer : RankedLayers(report)) {
    html += "<tr>" + TextCell(layer->name) + TextCell(layer->type) +
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
    rows += "<tr>" + TextCell(layer.name) + TextCell(layer.type) + TextCell(layer.why_float) +
            "</tr>\n";
  }
  if (rows.empty()) return "<p>None.</p>\n";
  return ReportTableHead({"layer", "type", "why"}, 3) + rows + "</tbody></table>\n";
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
  QuantizeReport summary = report;
  for (LayerReport& layer : summary.layers) layer.alone = {};  // they have a table of their own
  std::ostringstream text;
  PrintQuantizeReport(text, summary);
  return ReportPage(
      "quantize", model,
      "<pre>" + EscapeMarkup(text.str()) +
          "</pre>\n<h2>Layers</h2>\n<p>Those first whose rounding alone changes the answers most. "
          "<i>Alone</i>: the network's answers with this layer alone in 8 bits. <i>Here</i>: what "
          "the layer gives with all layers in 8 bits. Below 15 dB expect other answers.</p>\n" +
          LayerTable(report) + "<h2>Layers that stay float</h2>\n" + FloatTable(report) +
          "<h2>Ranges</h2>\n<p>How often values occur, in logarithms; what lies outside of the red "
          "lines is clipped.</p>\n" +
          PointList(report));
}

}  // namespace oort::cli
