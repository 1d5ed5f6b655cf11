// SPDX-License-Identifier: MIT
#include "cli/quantize_language_html.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "cli/markup.h"
#include "cli/report_page.h"
#include "cli/text.h"

namespace oort::cli {
namespace {

using llm_quantize::LanguageQuantizeResult;
using llm_quantize::MatrixReport;

constexpr std::string_view kLayerPrefix = "model.layers.";

/// "model.layers.7.mlp.up_proj.weight" is layer 7 and "up_proj".
struct MatrixPlace {
  size_t layer = 0;
  std::string part;
};

std::optional<MatrixPlace> PlaceOf(std::string_view name) {
  if (!name.starts_with(kLayerPrefix) || !name.ends_with(".weight")) return std::nullopt;
  MatrixPlace place;
  std::from_chars(name.data() + kLayerPrefix.size(), name.data() + name.size(), place.layer);
  name.remove_suffix(std::string_view(".weight").size());
  place.part = name.substr(name.rfind('.') + 1);
  return place;
}

std::string TypeText(const MatrixReport& matrix) {
  std::string text(Name(matrix.format));
  if (matrix.group != 0) text += " in groups of " + std::to_string(matrix.group);
  return matrix.kept ? text + " (kept)" : text;
}

std::string PercentText(double share) { return FormatNumber(100 * share, 3) + " %"; }

/// A row for each kind of matrix, a column for each layer; the redder, the more is lost.
std::string ErrorMap(const LanguageQuantizeResult& result) {
  constexpr double kSide = 22, kLabels = 90;
  std::vector<std::string> parts;
  size_t layers = 0;
  double most = 0;
  for (const MatrixReport& matrix : result.matrices) {
    const auto place = PlaceOf(matrix.name);
    if (!place) continue;
    if (std::ranges::find(parts, place->part) == parts.end()) parts.push_back(place->part);
    layers = std::max(layers, place->layer + 1);
    most = std::max(most, matrix.relative_error);
  }
  SvgWriter svg(kLabels + kSide * static_cast<double>(layers) + 4,
                kSide * static_cast<double>(parts.size() + 1));
  for (size_t row = 0; row < parts.size(); ++row) {
    svg.Text(0, kSide * (static_cast<double>(row) + 0.7), parts[row], "font-size=\"12\"");
  }
  for (const MatrixReport& matrix : result.matrices) {
    const auto place = PlaceOf(matrix.name);
    if (!place) continue;
    const auto row = std::ranges::find(parts, place->part) - parts.begin();
    const double share = most > 0 ? matrix.relative_error / most / 2 : 0;
    svg.Rect(
        kLabels + kSide * static_cast<double>(place->layer), kSide * static_cast<double>(row),
        kSide - 2, kSide - 2, "stroke=\"#cccccc\" fill=\"" + ShareColor(share) + "\"",
        matrix.name + ": " + TypeText(matrix) + ", error " + PercentText(matrix.relative_error));
  }
  for (size_t layer = 0; layer < layers; layer += 5) {
    svg.Text(kLabels + kSide * static_cast<double>(layer),
             kSide * (static_cast<double>(parts.size()) + 0.7), std::to_string(layer),
             "font-size=\"12\"");
  }
  return svg.Finish();
}

std::string MatrixTable(const LanguageQuantizeResult& result) {
  std::string html = ReportTableHead({"matrix", "type", "weights", "bits a weight", "error"}, 2);
  for (const MatrixReport* matrix : RankedMatrices(result)) {
    const double weights = static_cast<double>(matrix->weights);
    html += "<tr>" + TextCell(matrix->name) + TextCell(TypeText(*matrix)) +
            FigureCell(FormatCount(weights)) +
            FigureCell(
                FormatFixed(8 * static_cast<double>(matrix->bytes) / std::max(1.0, weights), 2)) +
            FigureCell(PercentText(matrix->relative_error)) + "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

}  // namespace

std::vector<const MatrixReport*> RankedMatrices(const LanguageQuantizeResult& result) {
  std::vector<const MatrixReport*> ranked;
  for (const MatrixReport& matrix : result.matrices) ranked.push_back(&matrix);
  std::ranges::stable_sort(ranked, [](const MatrixReport* a, const MatrixReport* b) {
    return a->relative_error > b->relative_error;
  });
  return ranked;
}

std::string LanguageQuantizeHtml(const std::string& model, const std::string& summary,
                                 const LanguageQuantizeResult& result) {
  return ReportPage(
      "quantize", model,
      "<pre>" + EscapeMarkup(summary) +
          "</pre>\n<h2>Where it loses</h2>\n<p>A column for each layer. The error is that "
          "of what a matrix gives, squared, by the squares of what it should give; the "
          "reddest loses most.</p>\n" +
          ErrorMap(result) + "\n<h2>Matrices</h2>\n" + MatrixTable(result));
}

}  // namespace oort::cli
