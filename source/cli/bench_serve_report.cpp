// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "cli/bench_serve.h"
#include "cli/markup.h"

namespace oort::cli {
namespace {

constexpr std::array kPercentiles = {50.0, 90.0, 99.0};

double MeanOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

std::string InMilliseconds(double seconds) {
  const double value = 1e3 * seconds;
  return FormatFixed(value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

Json TimesToJson(std::vector<double>& seconds) {
  Json json = {{"count", seconds.size()}, {"mean", 1e3 * MeanOf(seconds)}};
  for (const double p : kPercentiles) {
    json["p" + FormatFixed(p, 0)] = 1e3 * Percentile(seconds, p);
  }
  json["max"] = 1e3 * Percentile(seconds, 100);
  return json;
}

// The picture: four planes, a line of its own colour for each load.
constexpr double kPanelWidth = 420, kPanelHeight = 220, kPanelLeft = 64, kPanelTop = 70,
                 kPanelGapX = 90, kPanelGapY = 84;

struct Panel {
  double left, top, x_low, x_high, y_high;
  bool log_x;
  double X(double value) const {
    const double share = log_x ? std::log(value / x_low) / std::log(x_high / x_low)
                               : (value - x_low) / (x_high - x_low);
    return left + kPanelWidth * std::clamp(share, 0.0, 1.0);
  }
  double Y(double value) const {
    return top + kPanelHeight * (1 - std::clamp(value / y_high, 0.0, 1.0));
  }
};

/// The next of 1, 2, 5, 10, 20 … that is not below a value.
double RoundUp(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(std::max(value, 1e-9))));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= value * 0.9999) return step * power;
  }
  return 10 * power;
}

void DrawFrame(SvgWriter& svg, const Panel& plane, const std::string& title,
               const std::string& x_title, const std::function<std::string(double)>& y_text) {
  const char* const grid = "stroke=\"#dddddd\"";
  if (plane.log_x) {
    for (double x = plane.x_low; x <= plane.x_high * 1.001; x *= 10) {
      svg.Line(plane.X(x), plane.top, plane.X(x), plane.top + kPanelHeight, grid);
      svg.Text(plane.X(x), plane.top + kPanelHeight + 16, FormatTick(x), "text-anchor=\"middle\"");
    }
  } else {
    for (int i = 0; i <= 4; ++i) {
      const double x = plane.x_low + (plane.x_high - plane.x_low) * i / 4;
      svg.Line(plane.X(x), plane.top, plane.X(x), plane.top + kPanelHeight, grid);
      svg.Text(plane.X(x), plane.top + kPanelHeight + 16, FormatNumber(x, 3),
               "text-anchor=\"middle\"");
    }
  }
  for (int i = 0; i <= 4; ++i) {
    const double y = plane.y_high * i / 4;
    svg.Line(plane.left, plane.Y(y), plane.left + kPanelWidth, plane.Y(y), grid);
    svg.Text(plane.left - 6, plane.Y(y) + 4, y_text(y), "text-anchor=\"end\"");
  }
  svg.Text(plane.left, plane.top - 10, title, "font-weight=\"bold\"");
  svg.Text(plane.left + kPanelWidth / 2, plane.top + kPanelHeight + 34, x_title,
           "text-anchor=\"middle\"");
}

void DrawLine(SvgWriter& svg, const std::vector<std::pair<double, double>>& points, size_t color) {
  std::string path;
  for (const auto& [x, y] : points) {
    path += (path.empty() ? "M" : " L") + Coordinate(x) + "," + Coordinate(y);
  }
  if (path.empty()) return;
  svg.Path(path, "fill=\"none\" stroke-width=\"2\" stroke=\"" + PaletteColor(color) + "\"");
}

using TimesOfReport = std::vector<double> LoadReport::*;

void DrawShares(SvgWriter& svg, std::vector<LoadReport>& reports, TimesOfReport times, double left,
                double top, const std::string& title) {
  double low = 1e9, high = 1e-9;
  for (LoadReport& report : reports) {
    if ((report.*times).empty()) continue;
    low = std::min(low, std::max(1e-2, 1e3 * Percentile(report.*times, 0)));
    high = std::max(high, 1e3 * Percentile(report.*times, 100));
  }
  if (low > high) low = high = 1;
  const Panel plane{.left = left,
                    .top = top,
                    .x_low = std::pow(10.0, std::floor(std::log10(low))),
                    .x_high = std::pow(10.0, std::floor(std::log10(high)) + 1),
                    .y_high = 100,
                    .log_x = true};
  DrawFrame(svg, plane, title, "milliseconds", [](double y) { return FormatFixed(y, 0) + " %"; });
  for (size_t i = 0; i < reports.size(); ++i) {
    std::vector<double>& values = reports[i].*times;
    std::vector<std::pair<double, double>> points;
    for (int p = 0; p <= 100 && !values.empty(); ++p) {
      const double value = std::max(plane.x_low, 1e3 * Percentile(values, p));
      points.emplace_back(plane.X(value), plane.Y(p));
    }
    DrawLine(svg, points, i);
  }
}

void DrawRates(SvgWriter& svg, const std::vector<LoadReport>& reports, double left, double top) {
  double most = 1, seconds = 1;
  for (const LoadReport& report : reports) {
    for (const double tokens : report.tokens_at) most = std::max(most, tokens);
    seconds = std::max(seconds, static_cast<double>(report.tokens_at.size()));
  }
  const Panel plane{.left = left,
                    .top = top,
                    .x_low = 0,
                    .x_high = RoundUp(seconds),
                    .y_high = RoundUp(most),
                    .log_x = false};
  DrawFrame(svg, plane, "New tokens in each second", "seconds",
            [](double y) { return FormatNumber(y, 4); });
  for (size_t i = 0; i < reports.size(); ++i) {
    std::vector<std::pair<double, double>> points;
    for (size_t s = 0; s < reports[i].tokens_at.size(); ++s) {
      points.emplace_back(plane.X(static_cast<double>(s) + 0.5), plane.Y(reports[i].tokens_at[s]));
    }
    DrawLine(svg, points, i);
  }
}

}  // namespace

double Percentile(std::vector<double>& values, double p) {
  if (values.empty()) return 0;
  if (!std::ranges::is_sorted(values)) std::ranges::sort(values);
  const double at = p / 100 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  const double share = at - static_cast<double>(below);
  return values[below] * (1 - share) + values[above] * share;
}

size_t LoadReport::Failed() const {
  size_t count = 0;
  for (const auto& [text, times] : errors) count += times;
  return count;
}

LoadReport Summarize(std::vector<LoadResult> results, const LatencyLimits& limits) {
  LoadReport report;
  for (const LoadResult& result : results) {
    report.seconds = std::max(report.seconds, result.end);
    if (!result.ok()) {
      ++report.errors[result.error];
      continue;
    }
    ++report.requests;
    report.prompt_tokens += result.prompt_tokens;
    report.cached_tokens += result.cached_tokens;
    // A server that does not count is counted by its events.
    const auto events = static_cast<int64_t>(result.gaps.size() + (result.first >= 0 ? 1 : 0));
    const int64_t tokens = result.new_tokens > 0 ? result.new_tokens : events;
    report.new_tokens += tokens;
    const double whole = result.end - result.due;
    report.whole.push_back(whole);
    if (result.first < 0) continue;  // an answer without text
    const double first = result.first - result.due;
    report.first_token.push_back(first);
    double last = result.first;
    const double each = static_cast<double>(tokens) / static_cast<double>(events);
    const auto add = [&](double at) {
      const auto second = static_cast<size_t>(at);
      if (report.tokens_at.size() <= second) report.tokens_at.resize(second + 1);
      report.tokens_at[second] += each;
    };
    add(last);
    for (const double gap : result.gaps) {
      report.between_tokens.push_back(gap);
      add(last += gap);
    }
    const double per_token =
        tokens > 1 ? (last - result.first) / static_cast<double>(tokens - 1) : 0;
    if (tokens > 1) report.per_token.push_back(per_token);
    const auto within = [](double value, double limit) { return limit <= 0 || value <= limit; };
    report.good += within(first, limits.first_token) && within(per_token, limits.per_token) &&
                   within(whole, limits.whole);
  }
  return report;
}

Json ToJson(LoadReport& report, const LatencyLimits& limits) {
  Json json = {{"load", report.name},
               {"seconds", report.seconds},
               {"requests", report.requests},
               {"failed", report.Failed()},
               {"prompt_tokens", report.prompt_tokens},
               {"cached_tokens", report.cached_tokens},
               {"new_tokens", report.new_tokens},
               {"tokens_per_second", report.TokenRate()},
               {"requests_per_second", report.RequestRate()},
               {"ttft_ms", TimesToJson(report.first_token)},
               {"itl_ms", TimesToJson(report.between_tokens)},
               {"tpot_ms", TimesToJson(report.per_token)},
               {"e2e_ms", TimesToJson(report.whole)}};
  if (limits.any()) {
    json["good_requests"] = report.good;
    json["goodput"] = report.Goodput();
  }
  json["tokens_in_each_second"] = report.tokens_at;
  json["errors"] = Json::object();
  for (const auto& [text, times] : report.errors) json["errors"][text] = times;
  return json;
}

void PrintReport(std::ostream& out, LoadReport& report, const LatencyLimits& limits) {
  out << report.name << ": " << report.requests << " requests in " << FormatFixed(report.seconds, 1)
      << " s, " << report.prompt_tokens << " tokens read (" << report.cached_tokens
      << " from the cache), " << report.new_tokens << " written\n";
  Table table({{"milliseconds"},
               {"p50", Table::kRight},
               {"p90", Table::kRight},
               {"p99", Table::kRight},
               {"max", Table::kRight}});
  const auto row = [&](const char* name, std::vector<double>& values) {
    std::vector<std::string> cells = {name};
    for (const double p : {50.0, 90.0, 99.0, 100.0}) {
      cells.push_back(values.empty() ? "-" : InMilliseconds(Percentile(values, p)));
    }
    table.Row(std::move(cells));
  };
  row("to the first token (TTFT)", report.first_token);
  row("between tokens (ITL)", report.between_tokens);
  row("for each token (TPOT)", report.per_token);
  row("whole request (E2E)", report.whole);
  table.Print(out, "  ");
  if (limits.any()) {
    out << "  goodput " << FormatFixed(report.Goodput(), 2) << " requests/s: " << report.good
        << " of " << report.requests << " were within the limits\n";
  }
  for (const auto& [text, times] : report.errors) {
    out << "  failed " << times << " times: " << SingleLine(text) << '\n';
  }
}

std::string DrawReports(std::vector<LoadReport>& reports, const std::string& title) {
  const double right = kPanelLeft + kPanelWidth + kPanelGapX,
               bottom = kPanelTop + kPanelHeight + kPanelGapY;
  const double legend = bottom + kPanelHeight + 60;
  SvgWriter svg(right + kPanelWidth + 30, legend + 18 * static_cast<double>(reports.size()) + 8);
  svg.Text(kPanelLeft, 28, title, "font-size=\"16\" font-weight=\"bold\"");
  DrawShares(svg, reports, &LoadReport::first_token, kPanelLeft, kPanelTop,
             "To the first token (TTFT)");
  DrawShares(svg, reports, &LoadReport::between_tokens, right, kPanelTop, "Between tokens (ITL)");
  DrawShares(svg, reports, &LoadReport::whole, kPanelLeft, bottom, "Whole requests (E2E)");
  DrawRates(svg, reports, right, bottom);
  for (size_t i = 0; i < reports.size(); ++i) {
    const double y = legend + 18 * static_cast<double>(i);
    svg.Rect(kPanelLeft, y - 9, 12, 10, "fill=\"" + PaletteColor(i) + "\"");
    svg.Text(kPanelLeft + 20, y,
             reports[i].name + ": " + FormatFixed(reports[i].TokenRate(), 1) + " tokens/s, " +
                 FormatFixed(reports[i].RequestRate(), 2) + " requests/s, " +
                 std::to_string(reports[i].Failed()) + " failed");
  }
  return svg.Finish();
}

}  // namespace oort::cli
