// SPDX-License-Identifier: MIT
#include <algorithm>
#include <numeric>

#include "cli/chart.h"
#include "cli/markup.h"
#include "cli/profile_report.h"

namespace oort::cli {
namespace {

constexpr int kBarWidth = 12;
constexpr size_t kNameWidth = 48;

std::string MillisecondsCell(double seconds) { return FormatFixed(seconds * 1e3, 3); }
std::string Percent(double share) { return FormatFixed(100 * share, 1) + " %"; }
std::string Rate(double giga) { return giga > 0 ? FormatFixed(giga, giga < 10 ? 2 : 1) : ""; }

std::string Shortened(const std::string& text) { return ShortenedEnd(text, kNameWidth); }

/// Cells that every kind of row ends with.
std::vector<std::string> CostCells(const ProfileReport& report, const ProfileCost& cost,
                                   double share) {
  std::vector<std::string> cells = {MillisecondsCell(cost.seconds),
                                    Percent(share),
                                    Bar(share, kBarWidth),
                                    Rate(cost.gflops()),
                                    Rate(cost.gbytes()),
                                    ""};
  if (cost.ideal > 0) cells.back() = Percent(cost.roof());
  if (!report.on_gpu()) return cells;
  cells.push_back(cost.bytes > 0 ? Percent(report.ShareOfMemory(cost)) : "");
  cells.push_back(cost.flops > 0 ? Percent(report.ShareOfPeak(cost)) : "");
  return cells;
}

std::vector<Table::Column> Columns(const ProfileReport& report, std::vector<Table::Column> first) {
  for (const char* title : {"ms", "share"}) first.push_back({title, Table::kRight});
  first.push_back({""});
  for (const char* title : {"GFLOP/s", "GB/s", "roof"}) first.push_back({title, Table::kRight});
  if (report.on_gpu()) {
    first.push_back({"of memory", Table::kRight});
    first.push_back({"of tensor cores", Table::kRight});
  }
  return first;
}

void Append(std::vector<std::string>& row, std::vector<std::string> cells) {
  row.insert(row.end(), cells.begin(), cells.end());
}

/// Indices of the slowest of `seconds`, slowest first.
std::vector<size_t> Slowest(const std::vector<double>& seconds, int top) {
  std::vector<size_t> order(seconds.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return seconds[a] > seconds[b]; });
  if (top > 0 && order.size() > static_cast<size_t>(top)) order.resize(static_cast<size_t>(top));
  return order;
}

void PrintRest(std::ostream& out, size_t all, size_t shown) {
  if (all > shown) out << "… and " << all - shown << " more (--top 0 shows all)\n";
}

void PrintOperators(std::ostream& out, const ProfileReport& report, int top) {
  std::vector<double> seconds;
  for (const ProfileOperator& op : report.operators) seconds.push_back(op.cost.seconds);
  const std::vector<size_t> order = Slowest(seconds, top);
  const bool has_algorithms =
      std::ranges::any_of(order, [&](size_t i) { return !report.operators[i].algorithm.empty(); });
  std::vector<Table::Column> titles = {{"operator"}, {"type"}, {"output"}};
  if (has_algorithms) titles.push_back({"algorithm"});
  auto columns = Columns(report, std::move(titles));
  columns.push_back({"bound"});
  Table table(std::move(columns));
  for (const size_t i : order) {
    const ProfileOperator& op = report.operators[i];
    std::vector<std::string> row = {Shortened(op.name), op.type,
                                    op.outputs.empty() ? "" : op.outputs.front()};
    if (has_algorithms) row.push_back(op.algorithm);
    Append(row, CostCells(report, op.cost, op.share));
    row.push_back(op.bound);
    table.Row(std::move(row));
  }
  table.Print(out);
  PrintRest(out, report.operators.size(), order.size());
}

void PrintTypes(std::ostream& out, const ProfileReport& report, int top) {
  std::vector<ProfileGroup> groups = GroupByType(report);
  const size_t all = groups.size();
  if (top > 0 && all > static_cast<size_t>(top)) groups.resize(static_cast<size_t>(top));
  Table table(Columns(report, {{"type"}, {"count", Table::kRight}}));
  for (const ProfileGroup& group : groups) {
    std::vector<std::string> row = {group.name, std::to_string(group.count)};
    Append(row, CostCells(report, group.cost, group.share));
    table.Row(std::move(row));
  }
  table.Print(out);
  PrintRest(out, all, groups.size());
}

void PrintModules(std::ostream& out, const ProfileReport& report, int top) {
  const std::vector<ProfileGroup> groups = GroupByModule(report);
  std::vector<double> seconds;
  for (const ProfileGroup& group : groups) seconds.push_back(group.cost.seconds);
  std::vector<size_t> order = Slowest(seconds, top);
  std::sort(order.begin(), order.end());
  Table table(Columns(report, {{"module"}, {"operators", Table::kRight}}));
  for (const size_t i : order) {
    std::vector<std::string> row = {
        std::string(static_cast<size_t>(2 * groups[i].depth), ' ') + Shortened(groups[i].name),
        std::to_string(groups[i].count)};
    Append(row, CostCells(report, groups[i].cost, groups[i].share));
    table.Row(std::move(row));
  }
  table.Print(out);
  PrintRest(out, groups.size(), order.size());
}

void PrintRoofs(std::ostream& out, const ProfileReport& report) {
  out << "roofs of ";
  if (report.on_gpu()) {
    out << report.gpu << ":";
  } else {
    out << report.threads << (report.threads == 1 ? " thread:" : " threads:");
  }
  for (const MachineRoofs::Compute& compute : report.roofs.compute) {
    out << "  " << RoofName(report, compute) << " " << FormatFixed(report.Flops(compute) / 1e9, 1);
  }
  out << " GFLOP/s; read";
  for (const MachineRoofs::Memory& level : report.roofs.memory) {
    out << "  " << level.name << " " << FormatFixed(report.Read(level) / 1e9, 1);
  }
  out << " GB/s; " << (report.on_gpu() ? "a kernel" : "empty parallel loop") << "  "
      << FormatFixed(report.roofs.loop_seconds * 1e6, 1) << " µs\n\n";
}

void PrintSums(std::ostream& out, const ProfileReport& report) {
  Table table({{""}, {"", Table::kRight}, {""}});
  table.Row({"operators", MillisecondsCell(report.total.seconds),
             "ms, each in its fastest run: " + FormatNumber(report.total.gflops()) + " GFLOP/s, " +
                 FormatNumber(report.total.gbytes()) + " GB/s, " + Percent(report.total.roof()) +
                 " of the roofs"});
  // A GPU is waited for after each operator: that wall says nothing.
  if (!report.on_gpu()) {
    table.Row({"profiled", MillisecondsCell(report.profiled_wall),
               "ms, the fastest whole run with the profiler; operators take " +
                   Percent(report.explained) + " of a run"});
  }
  table.Row({"wall", MillisecondsCell(report.wall),
             "ms, the fastest whole run without it (median " +
                 MillisecondsCell(report.median_wall) + ")"});
  out << "\nsums, of " << report.runs << " runs\n";
  table.Print(out);
}

}  // namespace

void PrintProfile(std::ostream& out, const ProfileReport& report, const std::string& by, int top) {
  out << report.model << "  inputs " << (report.inputs.empty() ? "none" : Join(report.inputs, " "))
      << "  " << report.Place() << "  runs " << report.runs << '\n';
  PrintRoofs(out, report);
  if (by == "type") {
    PrintTypes(out, report, top);
  } else if (by == "module") {
    PrintModules(out, report, top);
  } else {
    PrintOperators(out, report, top);
  }
  PrintSums(out, report);
}

}  // namespace oort::cli
