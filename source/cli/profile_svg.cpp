// SPDX-License-Identifier: MIT
// The roofline plot and the memory plan.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "cli/markup.h"
#include "cli/profile_report.h"

namespace oort::cli {
namespace {

constexpr double kWidth = 930, kHeight = 480, kLeft = 70, kRight = 180, kTop = 30, kBottom = 50;
constexpr double kLabelRow = 15;
constexpr size_t kLegendLength = 28;
constexpr std::string_view kGrid = "stroke=\"#dddddd\"", kAxis = "stroke=\"#444444\"";
constexpr std::string_view kEnd = "text-anchor=\"end\"", kMiddle = "text-anchor=\"middle\"";

std::string Milliseconds(double seconds) { return FormatFixed(seconds * 1e3, 3) + " ms"; }

/// Both axes are logarithmic: powers of ten from `low` to `high`.
struct LogAxis {
  double low, high;    ///< exponents of ten
  double first, last;  ///< where they lie in the picture
  double At(double value) const {
    const double exponent = std::clamp(std::log10(std::max(value, 1e-30)), low, high);
    return first + (exponent - low) / (high - low) * (last - first);
  }
};

double HighestRoof(const ProfileReport& report) {
  double highest = 1;
  for (const MachineRoofs::Compute& compute : report.roofs.compute) {
    highest = std::max(highest, report.Flops(compute));
  }
  return highest;
}

/// A roof of arithmetic with its label beside the plot, or one of memory with its label below the
/// line's left end.
struct RoofLabel {
  std::string label;
  double line = 0, text = 0;  ///< y of both
  bool used = false;
};

/// Labels from the top down, so far apart that each can be read.
void SpreadLabels(std::vector<RoofLabel>& roofs, double below) {
  std::ranges::sort(roofs, {}, &RoofLabel::line);
  double free = 0;
  for (RoofLabel& roof : roofs) {
    roof.text = std::max(roof.line + below, free);
    free = roof.text + kLabelRow;
  }
}

class Roofline {
 public:
  explicit Roofline(const ProfileReport& report) : report_(report) {
    double least_x = 0.1, most_x = 100, least_y = 1;
    for (const ProfileOperator& op : report.operators) {
      if (!Shown(op)) continue;
      const double x = op.cost.flops / op.cost.bytes;
      least_x = std::min(least_x, x);
      most_x = std::max(most_x, x);
      least_y = std::min(least_y, op.cost.gflops());
    }
    x_ = {std::floor(std::log10(least_x)), std::ceil(std::log10(most_x)), kLeft, kWidth - kRight};
    const double top = std::ceil(std::log10(HighestRoof(report) / 1e9) + 0.1);
    y_ = {std::max(std::floor(std::log10(least_y)), top - 6), top, kHeight - kBottom, kTop};
    for (const MachineRoofs::Compute& compute : report.roofs.compute) {
      const double flops = report.Flops(compute) / 1e9;
      roofs_.push_back({RoofName(report, compute) + " " + FormatNumber(flops, 4) + " GFLOP/s",
                        y_.At(flops), 0,
                        compute.isa == report.isa && compute.dtype == DType::kF32});
    }
    SpreadLabels(roofs_, 4);
    for (const ProfileGroup& group : GroupByType(report)) {
      if (group.cost.flops > 0) types_.emplace(group.name, types_.size());
    }
    legend_ = (roofs_.empty() ? kTop : roofs_.back().text) + 2 * kLabelRow;
    svg_.emplace(kWidth,
                 std::max(kHeight, legend_ + kLabelRow * static_cast<double>(types_.size())));
  }

  std::string Draw() {
    DrawGrid();
    DrawRoofs();
    DrawOperators();
    DrawLegend();
    return svg_->Finish();
  }

 private:
  static bool Shown(const ProfileOperator& op) {
    return op.cost.flops > 0 && op.cost.bytes > 0 && op.cost.seconds > 0;
  }

  void DrawGrid() {
    for (double e = x_.low; e <= x_.high; ++e) {
      const double x = x_.At(std::pow(10, e));
      svg_->Line(x, kTop, x, kHeight - kBottom, kGrid);
      svg_->Text(x, kHeight - kBottom + 16, FormatTick(std::pow(10, e)), kMiddle);
    }
    for (double e = y_.low; e <= y_.high; ++e) {
      const double y = y_.At(std::pow(10, e));
      svg_->Line(kLeft, y, kWidth - kRight, y, kGrid);
      svg_->Text(kLeft - 6, y + 4, FormatTick(std::pow(10, e)), kEnd);
    }
    svg_->Line(kLeft, kTop, kLeft, kHeight - kBottom, kAxis);
    svg_->Line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, kAxis);
    svg_->Text((kLeft + kWidth - kRight) / 2, kHeight - 12, "FLOPs for each byte", kMiddle);
    svg_->Text(kLeft, kTop - 12, "GFLOP/s", kMiddle);
  }

  void DrawRoofs() {
    const double peak = report_.Peak() / 1e9, right = std::pow(10, x_.high);
    std::vector<RoofLabel> labels;
    for (const MachineRoofs::Memory& level : report_.roofs.memory) {
      const double rate = report_.Read(level) / 1e9;
      if (rate <= 0) continue;
      // From the left or bottom edge to where the roof of arithmetic begins.
      const double start = std::max(std::pow(10, x_.low), std::pow(10, y_.low) / rate);
      const double knee = std::min(peak / rate, right);
      svg_->Line(x_.At(start), y_.At(start * rate), x_.At(knee), y_.At(knee * rate),
                 "stroke=\"#4a7ab5\" stroke-width=\"1.5\"");
      labels.push_back({level.name + " " + FormatNumber(rate, 3) + " GB/s", y_.At(start * rate)});
    }
    SpreadLabels(labels, 13);
    for (const RoofLabel& label : labels) {
      svg_->Text(kLeft + 8, label.text, label.label, "fill=\"#4a7ab5\" font-size=\"10\"");
    }
    for (const RoofLabel& roof : roofs_) {
      svg_->Line(kLeft, roof.line, kWidth - kRight, roof.line,
                 roof.used ? "stroke=\"#b5504a\" stroke-width=\"1.5\""
                           : "stroke=\"#b5504a\" stroke-dasharray=\"4 4\" opacity=\"0.6\"");
      svg_->Text(kWidth - kRight + 6, roof.text, roof.label, "fill=\"#b5504a\" font-size=\"10\"");
    }
  }

  void DrawOperators() {
    for (const ProfileOperator& op : report_.operators) {
      if (!Shown(op)) continue;
      const std::string title =
          op.name + "\n" + op.type + "\n" + Milliseconds(op.cost.seconds) + ", " +
          FormatFixed(100 * op.share, 1) + " %\n" + FormatNumber(op.cost.gflops()) + " GFLOP/s, " +
          FormatFixed(100 * op.cost.roof(), 1) + " % of its roof (" + op.bound + ")";
      svg_->Circle(x_.At(op.cost.flops / op.cost.bytes), y_.At(op.cost.gflops()),
                   3 + 30 * std::sqrt(op.share),
                   "fill=\"" + PaletteColor(types_.at(op.type)) +
                       "\" fill-opacity=\"0.55\" stroke=\"white\"",
                   title);
    }
  }

  /// Below the labels of the roofs, the slowest type first.
  void DrawLegend() {
    for (const auto& [type, rank] : types_) {
      const double y = legend_ + kLabelRow * static_cast<double>(rank);
      svg_->Circle(kWidth - kRight + 14, y - 4, 5, "fill=\"" + PaletteColor(rank) + "\"");
      svg_->Text(kWidth - kRight + 24, y, ShortenedEnd(type, kLegendLength), "font-size=\"10\"");
    }
  }

  const ProfileReport& report_;
  LogAxis x_{}, y_{};
  std::vector<RoofLabel> roofs_;         ///< of arithmetic
  std::map<std::string, size_t> types_;  ///< and their places in the legend
  double legend_ = 0;                    ///< y of its first row
  std::optional<SvgWriter> svg_;
};

/// The name of a block where there is room for it in the picture, upright if that is better.
void LabelBlock(SvgWriter& svg, const std::string& name, double x, double y, double width,
                double height) {
  constexpr double kCharacter = 6, kLine = 12;
  constexpr size_t kLeast = 6;  // characters of a name that still say something
  const bool upright = height > width;
  const auto room = static_cast<size_t>((upright ? height : width) / kCharacter);
  if (std::min(width, height) < kLine || room < std::min(kLeast, name.size())) return;
  const double middle_x = x + width / 2 + (upright ? 4 : 0);
  const double middle_y = y + height / 2 + (upright ? 0 : 4);
  std::string style = "text-anchor=\"middle\" font-size=\"10\" pointer-events=\"none\"";
  if (upright) {
    style += " transform=\"rotate(-90 " + Coordinate(middle_x) + " " + Coordinate(middle_y) + ")\"";
  }
  svg.Text(middle_x, middle_y, ShortenedEnd(name, room), style);
}

/// Who made each operand: its own name is often a number.
std::map<std::string, std::string> MakersOf(const Graph& graph) {
  std::map<std::string, std::string> makers;
  for (const Operand& operand : graph.operands) {
    if (operand.producer < 0) continue;
    makers[operand.name] = graph.operators[static_cast<size_t>(operand.producer)].name;
  }
  return makers;
}

}  // namespace

std::string RooflineSvg(const ProfileReport& report) { return Roofline(report).Draw(); }

std::string MemorySvg(const ProfileReport& report) {
  SvgWriter svg(kWidth, kHeight);
  const double steps = static_cast<double>(std::max<size_t>(1, report.operators.size()));
  const double bytes = static_cast<double>(std::max<size_t>(1, report.plan.memory.arena));
  const double width = kWidth - kLeft - 20, height = kHeight - kTop - kBottom;
  const auto x = [&](double step) { return kLeft + step / steps * width; };
  const auto y = [&](double offset) { return kHeight - kBottom - offset / bytes * height; };
  for (int i = 0; i <= 4; ++i) {
    svg.Line(kLeft, y(bytes * i / 4), kLeft + width, y(bytes * i / 4), kGrid);
    svg.Text(kLeft - 6, y(bytes * i / 4) + 4, FormatBytes(bytes * i / 4), kEnd);
  }
  std::map<std::string, size_t> colors;
  const std::map<std::string, std::string> makers = MakersOf(report.graph);
  for (const MemoryBlock& block : report.plan.blocks) {
    const double top = static_cast<double>(block.offset) + static_cast<double>(block.bytes);
    const std::string color =
        block.scratch ? "#bbbbbb"
                      : PaletteColor(colors.emplace(block.name, colors.size()).first->second);
    const auto maker = makers.find(block.name);
    const double wide = x(block.last + 1) - x(block.first);
    const double high = static_cast<double>(block.bytes) / bytes * height;
    svg.Rect(x(block.first), y(top), wide, high,
             "fill=\"" + color + "\" fill-opacity=\"0.7\" stroke=\"white\" stroke-width=\"0.5\"",
             (block.scratch ? "scratch of " : "operand ") + block.name +
                 (block.scratch || maker == makers.end() ? "" : " of " + maker->second) + "\n" +
                 FormatBytes(static_cast<double>(block.bytes)) + " at " +
                 std::to_string(block.offset) + "\nsteps " + std::to_string(block.first) + " to " +
                 std::to_string(block.last));
    LabelBlock(svg, block.scratch || maker == makers.end() ? block.name : maker->second,
               x(block.first), y(top), wide, high);
  }
  svg.Line(kLeft, kTop, kLeft, kHeight - kBottom, kAxis);
  svg.Line(kLeft, kHeight - kBottom, kLeft + width, kHeight - kBottom, kAxis);
  svg.Text(kLeft + width / 2, kHeight - 16,
           "operators in the order they run, 0 to " + std::to_string(report.operators.size() - 1),
           kMiddle);
  svg.Text(kLeft, kTop - 12,
           FormatBytes(bytes) + " planned, " +
               FormatBytes(static_cast<double>(report.plan.memory.without_reuse)) +
               " without reuse; grey is scratch");
  return svg.Finish();
}

}  // namespace oort::cli
