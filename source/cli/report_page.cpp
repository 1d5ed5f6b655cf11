// SPDX-License-Identifier: MIT
#include "cli/report_page.h"

#include "cli/markup.h"

namespace oort::cli {
namespace {

constexpr const char* kReportStyle = R"(
body { font-family: sans-serif; margin: 2em auto; max-width: 1100px; color: #222222; }
h1 { font-size: 1.4em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 2px 8px; text-align: right; white-space: nowrap; }
th { background: #f0f0f0; } td.text, th.text { text-align: left; }
tr:nth-child(even) { background: #fafafa; } pre { background: #f7f7f7; padding: 1em; }
.poor { color: #b03010; font-weight: bold; })";

}  // namespace

std::string ReportPage(const std::string& command, const std::string& title,
                       const std::string& body, const char* style) {
  const std::string name = EscapeMarkup(title);
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n<title>oort " +
         command + " " + name + "</title>\n<style>" + kReportStyle + style +
         "</style></head>\n<body>\n<h1>" + name + "</h1>\n" + body + "</body></html>\n";
}

std::string ReportTableHead(std::initializer_list<const char*> titles, size_t texts) {
  std::string html = "<table><thead><tr>";
  for (const char* title : titles) {
    html += texts > 0 ? "<th class=\"text\">" : "<th>";
    html += std::string(title) + "</th>";
    if (texts > 0) --texts;
  }
  return html + "</tr></thead>\n<tbody>\n";
}

std::string TextCell(const std::string& text) {
  return "<td class=\"text\">" + EscapeMarkup(text) + "</td>";
}

std::string FigureCell(const std::string& figure) { return "<td>" + figure + "</td>"; }

}  // namespace oort::cli
