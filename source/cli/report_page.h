// SPDX-License-Identifier: MIT
// Pages with a report: no scripts or pictures from elsewhere, so that they open anywhere.
#pragma once

#include <initializer_list>
#include <string>

namespace oort::cli {

/// A whole page of one command; `title` is text, `body` is HTML, `style` is CSS that only it has.
std::string ReportPage(const std::string& command, const std::string& title,
                       const std::string& body, const char* style = "");
/// A table up to its first row; the first `texts` columns hold text, the others figures.
std::string ReportTableHead(std::initializer_list<const char*> titles, size_t texts);
std::string TextCell(const std::string& text);
std::string FigureCell(const std::string& figure);

}  // namespace oort::cli
