// SPDX-License-Identifier: MIT
// One page with everything: no scripts or pictures from elsewhere, so that it opens anywhere.
#include "cli/markup.h"
#include "cli/profile_report.h"
#include "cli/report_page.h"

namespace oort::cli {
namespace {

constexpr const char* kProfileStyle = R"(
th { cursor: pointer; position: sticky; top: 0; }
.bar { display: inline-block; height: 9px; background: #d9653b; }
.scroll { overflow: auto; max-height: 85vh; border: 1px solid #dddddd; }
svg { max-width: none; })";

// No < and no &, so that the page is also well-formed XML.
constexpr const char* kScript = R"(
document.querySelectorAll('th').forEach(function (head) {
  head.addEventListener('click', function () {
    var body = head.closest('table').tBodies[0], column = head.cellIndex;
    var rows = Array.from(body.rows);
    var value = function (row) { return row.cells[column].dataset.value; };
    var number = rows.every(function (row) { return value(row) !== undefined; });
    var text = function (row) { return row.cells[column].textContent; };
    rows.sort(function (a, b) {
      return number ? value(b) - value(a) : text(a).localeCompare(text(b));
    });
    rows.forEach(function (row) { body.appendChild(row); });
  });
});)";

std::string NumberCell(double value, int decimals, const char* unit = "") {
  const std::string text = value > 0 ? FormatFixed(value, decimals) + unit : "";
  return "<td data-value=\"" + FormatNumber(value, 9) + "\">" + text + "</td>";
}

std::string CostCells(const ProfileCost& cost, double share) {
  return NumberCell(cost.seconds * 1e3, 3) + NumberCell(100 * share, 1, " %") +
         "<td class=\"text\" data-value=\"" + FormatNumber(share, 9) +
         "\"><span class=\"bar\" style=\"width:" + FormatFixed(120 * share, 1) +
         "px\"></span></td>" + NumberCell(cost.gflops(), 2) + NumberCell(cost.gbytes(), 2) +
         NumberCell(100 * cost.roof(), 1, " %");
}

std::string TableOf(const std::vector<std::string>& texts, const std::string& rows,
                    const char* after = "") {
  std::string html = "<div class=\"scroll\"><table><thead><tr>";
  for (const std::string& title : texts) html += "<th class=\"text\">" + title + "</th>";
  for (const char* title : {"ms", "share", "", "GFLOP/s", "GB/s", "roof"}) {
    html += "<th>" + std::string(title) + "</th>";
  }
  return html + after + "</tr></thead>\n<tbody>\n" + rows + "</tbody></table></div>\n";
}

std::string OperatorTable(const ProfileReport& report) {
  std::string rows;
  for (const ProfileOperator& op : report.operators) {
    rows += "<tr>" + TextCell(op.name) + TextCell(op.type) + TextCell(op.algorithm) +
            TextCell(op.module) + TextCell(Join(op.outputs, " ")) + CostCells(op.cost, op.share) +
            TextCell(op.bound) + TextCell(op.sharing) + "</tr>\n";
  }
  return TableOf({"operator", "type", "algorithm", "module", "output"}, rows,
                 "<th class=\"text\">bound</th><th class=\"text\">memory</th>");
}

std::string GroupTable(const char* title, const std::vector<ProfileGroup>& groups) {
  std::string rows;
  for (const ProfileGroup& group : groups) {
    rows += "<tr><td class=\"text\" style=\"padding-left:" + std::to_string(8 + 16 * group.depth) +
            "px\">" + EscapeMarkup(group.name) + "</td>" + TextCell(std::to_string(group.count)) +
            CostCells(group.cost, group.share) + "</tr>\n";
  }
  return TableOf({title, "operators"}, rows);
}

std::string RunSummary(const ProfileReport& report) {
  const auto ms = [](double seconds) { return FormatFixed(seconds * 1e3, 3) + " ms"; };
  return "<p>inputs " + EscapeMarkup(Join(report.inputs, " ")) + ", " +
         EscapeMarkup(report.Place()) + ", " + std::to_string(report.runs) +
         " runs, the fastest counts</p>\n<p>wall time " + ms(report.wall) + " (median " +
         ms(report.median_wall) + "); profiled " + ms(report.profiled_wall) + ", operators take " +
         FormatFixed(100 * report.explained, 1) + " % of a run and go at " +
         FormatFixed(100 * report.total.roof(), 1) + " % of the roofs</p>\n";
}

}  // namespace

std::string ProfileHtml(const ProfileReport& report) {
  std::string html = RunSummary(report);
  html +=
      "<h2>Roofline</h2>\n<p>Each circle is an operator, its area its share of the time. The "
      "lines are the roofs of this machine, measured just before.</p>\n" +
      RooflineSvg(report);
  html += "<h2>Operators</h2>\n<p>In the order they run; a click on a title sorts.</p>\n" +
          OperatorTable(report);
  html += "<h2>Types</h2>\n" + GroupTable("type", GroupByType(report));
  html += "<h2>Modules</h2>\n" + GroupTable("module", GroupByModule(report));
  html +=
      "<h2>Memory plan</h2>\n<p>Where activations lie, and from which operator to which.</p>\n" +
      MemorySvg(report);
  html +=
      "<h2>The graph as it runs</h2>\n<p>Redder takes longer; hover for shapes.</p>\n"
      "<div class=\"scroll\">" +
      GraphSvg(report) + "</div>\n";
  html += std::string("<script>") + kScript + "</script>\n";
  return ReportPage("profile", report.model, html, kProfileStyle);
}

}  // namespace oort::cli
