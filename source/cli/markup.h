// SPDX-License-Identifier: MIT
// Small parts of SVG, HTML and DOT files.
#pragma once

#include <string>
#include <string_view>

namespace oort::cli {

/// Text alone: what is no UTF-8 and what would move the cursor is replaced.
std::string CleanText(std::string_view text);
/// Clean, and at most about `length` bytes: the end of a name says more than its beginning.
std::string ShortenedEnd(std::string_view text, size_t length);
/// For text and attributes of HTML and SVG: markup escaped, what is no text replaced.
std::string EscapeMarkup(std::string_view text);
/// For a string between double quotes in DOT.
std::string EscapeDot(std::string_view text);

/// White for nothing, red for half of the time and more.
std::string ShareColor(double share);
inline constexpr size_t kPaletteColors = 12;
/// The i-th of colours that can be told apart; behind kPaletteColors they begin anew.
std::string PaletteColor(size_t index);

/// Collects the elements of a picture.
class SvgWriter {
 public:
  SvgWriter(double width, double height);
  /// `style` is further attributes, as they are written: fill="red". `title` is shown on hovering.
  void Line(double x1, double y1, double x2, double y2, std::string_view style);
  void Rect(double x, double y, double width, double height, std::string_view style,
            std::string_view title = "");
  void Circle(double x, double y, double radius, std::string_view style,
              std::string_view title = "");
  void Path(std::string_view data, std::string_view style);
  void Text(double x, double y, std::string_view text, std::string_view style = "");
  std::string Finish();

 private:
  void Close(std::string_view tag, std::string_view title);
  std::string svg_;
};

/// A coordinate in few digits.
std::string Coordinate(double value);

}  // namespace oort::cli
