// SPDX-License-Identifier: MIT
// The graph as a picture: operators in rows below what they read, edges around the rows between.
#include <algorithm>

#include "cli/markup.h"
#include "cli/profile_report.h"

namespace oort::cli {
namespace {

constexpr double kBoxWidth = 190, kBoxHeight = 46, kGapX = 24, kGapY = 34, kMargin = 20;
constexpr double kBendWidth = 16;  // of an edge that passes a row
constexpr size_t kLabelLength = 30;

/// An operator, or a place where a long edge passes a row.
struct LayoutNode {
  int op = -1;
  int row = 0;
  double x = 0;  ///< of its middle
  std::vector<int> above, below;
  double width() const { return op >= 0 ? kBoxWidth : kBendWidth; }
};

class Layout {
 public:
  explicit Layout(const Graph& graph) : graph_(graph) {
    AssignRows();
    AddEdges();
    for (int sweep = 0; sweep < 6; ++sweep) Sweep(sweep % 2 == 0);
    double left = 0;
    for (const LayoutNode& node : nodes_) left = std::min(left, node.x - node.width() / 2);
    for (LayoutNode& node : nodes_) {
      node.x += kMargin - left;
      width_ = std::max(width_, node.x + node.width() / 2 + kMargin);
    }
  }

  const std::vector<LayoutNode>& nodes() const { return nodes_; }
  double width() const { return width_; }
  double height() const {
    return 2 * kMargin + static_cast<double>(rows_.size()) * (kBoxHeight + kGapY);
  }
  static double Top(const LayoutNode& node) { return kMargin + node.row * (kBoxHeight + kGapY); }

 private:
  void AssignRows() {
    nodes_.resize(graph_.operators.size());
    for (const int op : graph_.TopologicalOrder()) {
      LayoutNode& node = nodes_[static_cast<size_t>(op)];
      node.op = op;
      for (const int input : graph_.operators[static_cast<size_t>(op)].inputs) {
        const int producer = graph_.operands[static_cast<size_t>(input)].producer;
        if (producer >= 0) {
          node.row = std::max(node.row, nodes_[static_cast<size_t>(producer)].row + 1);
        }
      }
      Place(op);
    }
  }

  void Place(int index) {
    const auto row = static_cast<size_t>(nodes_[static_cast<size_t>(index)].row);
    if (rows_.size() <= row) rows_.resize(row + 1);
    rows_[row].push_back(index);
  }

  void Join(int upper, int lower) {
    nodes_[static_cast<size_t>(upper)].below.push_back(lower);
    nodes_[static_cast<size_t>(lower)].above.push_back(upper);
  }

  void AddEdges() {
    for (const Operand& operand : graph_.operands) {
      if (operand.producer < 0) continue;
      int last = operand.producer;
      std::vector<int> readers = operand.consumers;
      std::sort(readers.begin(), readers.end(), [&](int a, int b) {
        return nodes_[static_cast<size_t>(a)].row < nodes_[static_cast<size_t>(b)].row;
      });
      // All readers of an operand share one chain of bends.
      for (const int reader : readers) {
        const int target = nodes_[static_cast<size_t>(reader)].row;
        for (int row = nodes_[static_cast<size_t>(last)].row + 1; row < target; ++row) {
          const int bend = static_cast<int>(nodes_.size());
          nodes_.push_back({-1, row, 0, {}, {}});
          Place(bend);
          Join(last, bend);
          last = bend;
        }
        Join(last, reader);
      }
    }
  }

  /// Orders each row by the middle of its neighbours in the row before, and puts it there.
  void Sweep(bool down) {
    const int rows = static_cast<int>(rows_.size());
    for (int i = 0; i < rows; ++i) {
      std::vector<int>& row = rows_[static_cast<size_t>(down ? i : rows - 1 - i)];
      std::vector<std::pair<double, int>> wanted;
      for (const int index : row) wanted.emplace_back(Middle(index, down), index);
      std::stable_sort(wanted.begin(), wanted.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      PlaceRow(wanted);
      for (size_t k = 0; k < row.size(); ++k) row[k] = wanted[k].second;
    }
  }

  double Middle(int index, bool down) const {
    const LayoutNode& node = nodes_[static_cast<size_t>(index)];
    const std::vector<int>& neighbours = down ? node.above : node.below;
    if (neighbours.empty()) return node.x;
    double sum = 0;
    for (const int other : neighbours) sum += nodes_[static_cast<size_t>(other)].x;
    return sum / static_cast<double>(neighbours.size());
  }

  /// As near to the wanted places as the widths allow, centred on them.
  void PlaceRow(const std::vector<std::pair<double, int>>& wanted) {
    double right = -1e300, shift = 0;
    for (const auto& [x, index] : wanted) {
      LayoutNode& node = nodes_[static_cast<size_t>(index)];
      node.x = std::max(x, right + kGapX + node.width() / 2);
      right = node.x + node.width() / 2;
      shift += x - node.x;
    }
    if (wanted.empty()) return;
    shift /= static_cast<double>(wanted.size());
    for (const auto& [x, index] : wanted) nodes_[static_cast<size_t>(index)].x += shift;
  }

  const Graph& graph_;
  std::vector<LayoutNode> nodes_;  ///< operators first, in the order of the graph
  std::vector<std::vector<int>> rows_;
  double width_ = 0;
};

std::string LayoutLabel(const std::string& text) { return ShortenedEnd(text, kLabelLength); }

void DrawBox(SvgWriter& svg, const ProfileReport& report, const LayoutNode& node,
             const ProfileOperator* timed) {
  const Operator& op = report.graph.operators[static_cast<size_t>(node.op)];
  const double left = node.x - kBoxWidth / 2, top = Layout::Top(node);
  std::string title = op.name + "\n" + op.type, third;
  std::string color = op.IsPort() ? "#e8eef7" : "#ffffff";
  if (timed != nullptr) {
    color = ShareColor(timed->share);
    third = FormatFixed(timed->cost.seconds * 1e3, 3) + " ms  " +
            FormatFixed(100 * timed->share, 1) + " %";
    title += "\nin " + Join(timed->inputs, " ") + "\nout " + Join(timed->outputs, " ") + "\n" +
             third + "\n" + FormatFixed(100 * timed->cost.roof(), 1) + " % of its roof (" +
             timed->bound + ")\n" + timed->sharing;
  }
  svg.Rect(left, top, kBoxWidth, kBoxHeight, "rx=\"6\" fill=\"" + color + "\" stroke=\"#666666\"",
           title);
  const std::string_view style = "text-anchor=\"middle\" font-size=\"11\" pointer-events=\"none\"";
  svg.Text(node.x, top + 14, LayoutLabel(op.name), style);
  svg.Text(node.x, top + 27, LayoutLabel(op.type), style);
  const bool shaped = !op.outputs.empty();
  if (third.empty() && shaped) {
    const Operand& operand = report.graph.operands[static_cast<size_t>(op.outputs.front())];
    if (operand.has_shape) third = operand.shape.ToString();
  }
  svg.Text(node.x, top + 40, third, style);
}

}  // namespace

std::string GraphSvg(const ProfileReport& report) {
  const Layout layout(report.graph);
  SvgWriter svg(layout.width(), layout.height());
  for (const LayoutNode& node : layout.nodes()) {
    const double bottom = Layout::Top(node) + kBoxHeight;
    if (node.op < 0) {
      svg.Line(node.x, Layout::Top(node), node.x, bottom, "stroke=\"#888888\"");
    }
    for (const int below : node.below) {
      const LayoutNode& to = layout.nodes()[static_cast<size_t>(below)];
      const double middle = (bottom + Layout::Top(to)) / 2;
      svg.Path("M" + Coordinate(node.x) + " " + Coordinate(bottom) + " C" + Coordinate(node.x) +
                   " " + Coordinate(middle) + " " + Coordinate(to.x) + " " + Coordinate(middle) +
                   " " + Coordinate(to.x) + " " + Coordinate(Layout::Top(to)),
               "fill=\"none\" stroke=\"#888888\"");
    }
  }
  std::map<std::string, const ProfileOperator*> timed;
  for (const ProfileOperator& op : report.operators) timed[op.name] = &op;
  for (const LayoutNode& node : layout.nodes()) {
    if (node.op < 0) continue;
    const auto found = timed.find(report.graph.operators[static_cast<size_t>(node.op)].name);
    DrawBox(svg, report, node, found == timed.end() ? nullptr : found->second);
  }
  return svg.Finish();
}

}  // namespace oort::cli
