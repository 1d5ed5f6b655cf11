// SPDX-License-Identifier: MIT
#include "cli/markup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "cli/text.h"

namespace oort::cli {
namespace {

/// Length of the UTF-8 character at the front, 0 if there is none.
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t length = 1;
  if (byte(0) >= 0xf0) {
    length = 4;
  } else if (byte(0) >= 0xe0) {
    length = 3;
  } else if (byte(0) >= 0xc2) {
    length = 2;
  } else if (byte(0) >= 0x80) {
    return 0;
  }
  // What encodes nothing that a page may hold: surrogates, overlong and too large ones.
  if (byte(0) > 0xf4 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool odd =
      length > 1 && ((byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) >= 0xa0) ||
                     (byte(0) == 0xef && byte(1) == 0xbf && byte(2) >= 0xbe) ||
                     (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) >= 0x90));
  return odd ? 0 : length;
}

/// `text` character by character, those in `from` replaced by those in `to`.
template <size_t count>
std::string Replaced(std::string_view text, const std::array<char, count>& from,
                     const std::array<const char*, count>& to) {
  std::string result;
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const auto code = static_cast<unsigned char>(text.front());
    const auto found = std::find(from.begin(), from.end(), text.front());
    if (found != from.end()) {
      result += to[static_cast<size_t>(found - from.begin())];
    } else if (length == 0 || code < 0x20 || code == 0x7f) {
      result += '?';
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return result;
}

}  // namespace

std::string CleanText(std::string_view text) { return Replaced<0>(text, {}, {}); }

std::string ShortenedEnd(std::string_view text, size_t length) {
  const std::string line = CleanText(text);
  if (line.size() <= length) return line;
  size_t start = line.size() - length + 1;
  while (start < line.size() && (line[start] & 0xc0) == 0x80) ++start;  // inside a character
  return "…" + line.substr(start);
}

std::string EscapeMarkup(std::string_view text) {
  static constexpr std::array<char, 5> kFrom = {'&', '<', '>', '"', '\n'};
  static constexpr std::array<const char*, 5> kTo = {"&amp;", "&lt;", "&gt;", "&quot;", "\n"};
  return Replaced(text, kFrom, kTo);
}

std::string EscapeDot(std::string_view text) {
  static constexpr std::array<char, 3> kFrom = {'\\', '"', '\n'};
  static constexpr std::array<const char*, 3> kTo = {"\\\\", "\\\"", "\\n"};
  return Replaced(text, kFrom, kTo);
}

std::string ShareColor(double share) {
  const double heat = std::sqrt(std::clamp(2 * share, 0.0, 1.0));
  const auto channel = [&](double hot) { return static_cast<int>(255 - heat * (255 - hot)); };
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string color = "#";
  for (const int value : {channel(255), channel(90), channel(60)}) {
    color += kDigits[value / 16];
    color += kDigits[value % 16];
  }
  return color;
}

std::string PaletteColor(size_t index) {
  static constexpr std::array<const char*, kPaletteColors> kColors = {
      "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b",
      "#e377c2", "#17becf", "#bcbd22", "#7f7f7f", "#1b3a6b", "#b8860b"};
  return kColors[index % kColors.size()];
}

std::string Coordinate(double value) { return FormatNumber(std::round(10 * value) / 10, 8); }

SvgWriter::SvgWriter(double width, double height) {
  const std::string w = Coordinate(width), h = Coordinate(height);
  svg_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + w + " " + h + "\" width=\"" +
         w + "\" height=\"" + h +
         "\" font-family=\"sans-serif\" font-size=\"12\">\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
}

void SvgWriter::Line(double x1, double y1, double x2, double y2, std::string_view style) {
  svg_ += "<line x1=\"" + Coordinate(x1) + "\" y1=\"" + Coordinate(y1) + "\" x2=\"" +
          Coordinate(x2) + "\" y2=\"" + Coordinate(y2) + "\" " + std::string(style) + "/>\n";
}

void SvgWriter::Rect(double x, double y, double width, double height, std::string_view style,
                     std::string_view title) {
  svg_ += "<rect x=\"" + Coordinate(x) + "\" y=\"" + Coordinate(y) + "\" width=\"" +
          Coordinate(width) + "\" height=\"" + Coordinate(height) + "\" " + std::string(style);
  Close("rect", title);
}

void SvgWriter::Circle(double x, double y, double radius, std::string_view style,
                       std::string_view title) {
  svg_ += "<circle cx=\"" + Coordinate(x) + "\" cy=\"" + Coordinate(y) + "\" r=\"" +
          Coordinate(radius) + "\" " + std::string(style);
  Close("circle", title);
}

void SvgWriter::Path(std::string_view data, std::string_view style) {
  svg_ += "<path d=\"" + std::string(data) + "\" " + std::string(style) + "/>\n";
}

void SvgWriter::Text(double x, double y, std::string_view text, std::string_view style) {
  svg_ += "<text x=\"" + Coordinate(x) + "\" y=\"" + Coordinate(y) + "\" " + std::string(style) +
          ">" + EscapeMarkup(text) + "</text>\n";
}

std::string SvgWriter::Finish() { return std::move(svg_) + "</svg>\n"; }

void SvgWriter::Close(std::string_view tag, std::string_view title) {
  if (title.empty()) {
    svg_ += "/>\n";
    return;
  }
  svg_ += "><title>" + EscapeMarkup(title) + "</title></" + std::string(tag) + ">\n";
}

}  // namespace oort::cli
