// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <functional>

#include "cli/limits_report.h"
#include "cli/markup.h"
#include "cli/text.h"

namespace oort::cli {
namespace {

constexpr double kPlotWidth = 440, kPlotHeight = 300, kPlotLeft = 70, kPlotTop = 60, kPlotGap = 110;
constexpr const char* kGridStyle = "stroke=\"#dddddd\"";

/// A plane with two logarithmic axes.
struct LogPlane {
  double left, top;
  double x_low, x_high, y_low, y_high;
  double X(double value) const {
    return left + kPlotWidth * std::log(value / x_low) / std::log(x_high / x_low);
  }
  double Y(double value) const {
    return top + kPlotHeight * (1 - std::log(value / y_low) / std::log(y_high / y_low));
  }
};

void DrawAxes(SvgWriter& svg, const LogPlane& plane, const std::string& title,
              const std::string& x_title, const std::string& y_title) {
  for (double x = plane.x_low; x <= plane.x_high * 1.001; x *= 10) {
    svg.Line(plane.X(x), plane.top, plane.X(x), plane.top + kPlotHeight, kGridStyle);
    svg.Text(plane.X(x), plane.top + kPlotHeight + 16, FormatTick(x), "text-anchor=\"middle\"");
  }
  for (double y = plane.y_low; y <= plane.y_high * 1.001; y *= 10) {
    svg.Line(plane.left, plane.Y(y), plane.left + kPlotWidth, plane.Y(y), kGridStyle);
    svg.Text(plane.left - 6, plane.Y(y) + 4, FormatTick(y), "text-anchor=\"end\"");
  }
  svg.Text(plane.left, plane.top - 12, title + ", " + y_title, "font-weight=\"bold\"");
  svg.Text(plane.left + kPlotWidth / 2, plane.top + kPlotHeight + 34, x_title,
           "text-anchor=\"middle\"");
}

using Curve = std::function<double(double)>;

void DrawCurve(SvgWriter& svg, const LogPlane& plane, const Curve& curve,
               const std::string& style) {
  std::string path;
  constexpr int kPoints = 160;
  for (int i = 0; i <= kPoints; ++i) {
    const double x =
        plane.x_low * std::pow(plane.x_high / plane.x_low, static_cast<double>(i) / kPoints);
    const double y = std::clamp(curve(x), plane.y_low, plane.y_high);
    path += (i == 0 ? "M" : " L") + Coordinate(plane.X(x)) + "," + Coordinate(plane.Y(y));
  }
  svg.Path(path, "fill=\"none\" stroke-width=\"2\" " + style);
}

/// Curves that share a colour differ by their dashes.
std::string LineStyle(size_t curve) {
  static constexpr const char* kDashes[] = {"", " stroke-dasharray=\"7 4\"",
                                            " stroke-dasharray=\"2 3\""};
  return "stroke=\"" + PaletteColor(curve) + "\"" +
         kDashes[curve / kPaletteColors % std::size(kDashes)];
}

/// Powers of ten around what the curves reach.
void FitRange(LogPlane& plane, const std::vector<Curve>& curves) {
  double low = 1e300, high = 0;
  for (const Curve& curve : curves) {
    for (const double x : {plane.x_low, std::sqrt(plane.x_low * plane.x_high), plane.x_high}) {
      low = std::min(low, curve(x));
      high = std::max(high, curve(x));
    }
  }
  plane.y_low = std::pow(10, std::floor(std::log10(std::max(low, 1e-12))));
  plane.y_high =
      std::max(std::pow(10, std::ceil(std::log10(std::max(high, 1e-12)))), plane.y_low * 10);
}

}  // namespace

std::string LimitsSvg(const LimitsReport& report) {
  const size_t curves_count = report.machines.size() * report.precisions.size();
  const double legend = 24 * static_cast<double>((curves_count + 1) / 2) + 20;
  SvgWriter svg(kPlotLeft * 2 + kPlotWidth * 2 + kPlotGap - 40,
                kPlotTop + kPlotHeight + 50 + legend);
  svg.Text(kPlotLeft, 24, "Limits of " + report.name, "font-size=\"16\"");
  LogPlane prefill{kPlotLeft, kPlotTop, 1, 1e5, 0, 0};
  LogPlane decode{kPlotLeft + kPlotWidth + kPlotGap, kPlotTop, 1, 1e6, 0, 0};
  std::vector<Curve> prefills, decodes;
  std::vector<std::vector<double>> turns;
  std::vector<std::string> names;
  for (const limits::Machine& machine : report.machines) {
    for (const limits::BitWidths& precision : report.precisions) {
      prefills.push_back(
          [&](double n) { return 1e3 * report.Prefill(precision, machine, n).seconds(); });
      decodes.push_back([&](double n) {
        return 1 / limits::DecodeLimit(report.shape, precision, machine, n).seconds();
      });
      turns.push_back(report.Turns(precision, machine));
      names.push_back(machine.name + " " + PrecisionName(precision));
    }
  }
  FitRange(prefill, prefills);
  FitRange(decode, decodes);
  DrawAxes(svg, prefill, "Prompt", "tokens of the prompt", "milliseconds");
  DrawAxes(svg, decode, "Answer", "position", "tokens a second");
  for (size_t i = 0; i < prefills.size(); ++i) {
    const std::string color = PaletteColor(i);
    const std::string style = LineStyle(i);
    DrawCurve(svg, prefill, prefills[i], style);
    DrawCurve(svg, decode, decodes[i], style);
    for (const double turn : turns[i]) {
      if (turn < prefill.x_low || turn > prefill.x_high) continue;
      svg.Circle(prefill.X(turn),
                 prefill.Y(std::clamp(prefills[i](turn), prefill.y_low, prefill.y_high)), 4,
                 "fill=\"" + color + "\"",
                 names[i] + ": memory and compute meet at " + FormatNumber(std::floor(turn), 7));
    }
    const double x = i % 2 == 0 ? prefill.left : decode.left;
    const double y = kPlotTop + kPlotHeight + 60 + 24 * static_cast<double>(i / 2);
    svg.Line(x, y - 4, x + 24, y - 4, "stroke-width=\"3\" " + style);
    svg.Text(x + 32, y, names[i]);
  }
  return svg.Finish();
}

std::string LimitsHtml(const LimitsReport& report) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>Limits of " +
         EscapeMarkup(report.name) + "</title></head>\n<body>\n" + LimitsSvg(report) +
         "<p>Dots: where a prompt turns from waiting for memory to computing, and "
         "back.</p>\n</body></html>\n";
}

}  // namespace oort::cli
