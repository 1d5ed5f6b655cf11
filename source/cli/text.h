// SPDX-License-Identifier: MIT
// Text for people: tables, bars, sizes, errors in one line.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "oort/error.h"
#include "oort/tensor.h"

namespace oort::cli {

using Json = nlohmann::ordered_json;

/// Control characters escaped and line breaks turned into "; ", so that one message is one line.
std::string SingleLine(std::string_view text);
/// What went wrong in one line: the first problems of a model and how many more there are.
std::string Summary(const Error& error);

std::string FormatBytes(double bytes);                   ///< "1.5 MiB"
std::string FormatCount(double count);                   ///< "11.7 M"
std::string FormatNumber(double value, int digits = 4);  ///< shortest with so many digits
std::string FormatFixed(double value, int decimals);     ///< "12.345"
/// A power of ten at an axis: "0.001", "100", "1 k", "10 k", "1 M".
std::string FormatTick(double value);
std::string Join(const std::vector<std::string>& parts, std::string_view separator);

/// Columns that line up; widths count characters, not bytes.
class Table {
 public:
  enum Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = kLeft;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void Row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Without titles if all of them are empty. `indent` goes before every line.
  void Print(std::ostream& out, std::string_view indent = "") const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

Json ToJson(const Shape& shape);  ///< null for an unknown extent
/// A whole file; throws kNotFound or kIo with the reason.
std::string ReadTextFile(const std::string& path);
/// Writes a whole file, or none: throws kIo with the reason and leaves nothing behind.
void WriteTextFile(const std::string& path, std::string_view text);

/// Two spaces a level, a line break at the end; text that is no UTF-8 is repaired.
void Print(std::ostream& out, const Json& json);

}  // namespace oort::cli
