// SPDX-License-Identifier: MIT
#include "cli/text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "core/file_writer.h"

namespace oort::cli {
namespace {

constexpr size_t kProblemsShown = 2;

int Width(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string Printf(const char* format, int digits, double value) {
  std::array<char, 512> buffer;
  const int length = std::snprintf(buffer.data(), buffer.size(), format, digits, value);
  return {buffer.data(), static_cast<size_t>(std::clamp(length, 0, 511))};
}

std::string Scaled(double value, double step, const std::vector<std::string>& units) {
  size_t unit = 0;
  while (std::abs(value) >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  const std::string number = unit == 0 ? FormatNumber(value, 6) : Printf("%.*f", 1, value);
  return units[unit].empty() ? number : number + " " + units[unit];
}

}  // namespace

std::string SingleLine(std::string_view text) {
  std::string line;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '\n') {
      while (i + 1 < text.size() && (text[i + 1] == ' ' || text[i + 1] == '\n')) ++i;
      if (i + 1 < text.size()) line += line.empty() || line.back() == ':' ? " " : "; ";
    } else if (c < 0x20 || c == 0x7f) {
      std::array<char, 8> escaped;
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", c);
      line += escaped.data();
    } else {
      line += text[i];
    }
  }
  return line;
}

std::string Summary(const Error& error) {
  const std::vector<Problem>& problems = error.problems();
  if (problems.size() <= 1) return error.what();
  const std::string_view what = error.what();
  std::string text(what.substr(0, what.find('\n')));
  const size_t shown = std::min(problems.size(), kProblemsShown);
  for (size_t i = 0; i < shown; ++i) text += (i == 0 ? ": " : "; ") + problems[i].message;
  if (const size_t more = problems.size() - shown; more > 0) {
    text += " (+" + std::to_string(more) + " more; see oort doctor)";
  }
  return text;
}

std::string FormatBytes(double bytes) {
  return Scaled(bytes, 1024, {"B", "KiB", "MiB", "GiB", "TiB"});
}

std::string FormatCount(double count) { return Scaled(count, 1000, {"", "k", "M", "G", "T", "P"}); }

std::string FormatTick(double value) {
  constexpr std::array<std::pair<double, const char*>, 4> kUnits = {
      {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}};
  for (const auto& [size, name] : kUnits) {
    if (value >= size) return FormatFixed(value / size, 0) + name;
  }
  const int decimals = value >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(value) - 1e-9));
  return FormatFixed(value, std::clamp(decimals, 0, 12));
}

std::string FormatNumber(double value, int digits) { return Printf("%.*g", digits, value); }

std::string FormatFixed(double value, int decimals) { return Printf("%.*f", decimals, value); }

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

void Table::Print(std::ostream& out, std::string_view indent) const {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  const bool has_titles = !std::all_of(titles.begin(), titles.end(),
                                       [](const std::string& title) { return title.empty(); });
  std::vector<int> widths(columns_.size());
  const auto widen = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], Width(cells[i]));
  };
  widen(titles);
  for (const auto& row : rows_) widen(row);

  const auto print = [&](const std::vector<std::string>& cells) {
    std::string line(indent);
    for (size_t i = 0; i < cells.size(); ++i) {
      const auto padding = static_cast<size_t>(widths[i] - Width(cells[i]));
      if (i > 0) line += "  ";
      if (columns_[i].align == kRight) line.append(padding, ' ');
      line += cells[i];
      if (columns_[i].align == kLeft) line.append(padding, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  };
  if (has_titles) print(titles);
  for (const auto& row : rows_) print(row);
}

Json ToJson(const Shape& shape) {
  Json dims = Json::array();
  for (const int64_t extent : shape) {
    dims.push_back(extent == Shape::kUnknown ? Json(nullptr) : Json(extent));
  }
  return dims;
}

std::string ReadTextFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::error_code ignored;
  const int error = std::filesystem::is_directory(path, ignored) ? EISDIR : file ? 0 : errno;
  if (error != 0) {
    throw Error(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                "cannot read '" + path + "': " + std::generic_category().message(error));
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteTextFile(const std::string& path, std::string_view text) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  if (kind == std::filesystem::file_type::character || kind == std::filesystem::file_type::fifo) {
    errno = 0;
    std::ofstream file(path, std::ios::binary);  // /dev/stdout cannot be replaced by a new file
    file << text;
    file.close();
    if (!file) {
      throw Error(ErrorCode::kIo,
                  "cannot write '" + path + "': " + std::generic_category().message(errno));
    }
    return;
  }
  FileWriter writer(path);
  writer.Write(text);
  writer.Finish();
  writer.Publish();
}

void Print(std::ostream& out, const Json& json) {
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace oort::cli
