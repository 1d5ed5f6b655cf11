// SPDX-License-Identifier: MIT
#include "core/number_text.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace oort {

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan.0";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  // Values that are exact in f32 are written with f32's shortest digits, as pnnx does.
  const float narrow = static_cast<float>(value);
  const auto end = static_cast<double>(narrow) == value
                       ? std::to_chars(buffer, buffer + sizeof(buffer), narrow).ptr
                       : std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";  // keep it a float
  return text;
}

std::string FormatComplex(std::complex<double> value) {
  const std::string imaginary = FormatFloat(value.imag());
  const std::string sign = imaginary.front() == '-' ? "" : "+";
  return FormatFloat(value.real()) + sign + imaginary + "j";
}

std::optional<int64_t> ParseInt(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::optional<double> ParseFloat(std::string_view text) {
  if (text == "nan" || text == "nan.0" || text == "-nan" || text == "-nan.0") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  // from_chars knows "infinity", "nan(…)"; only digits are numbers here.
  const size_t digit = !text.empty() && text.front() == '-' ? 1 : 0;
  if (digit >= text.size()) return {};
  if (text[digit] != '.' && (text[digit] < '0' || text[digit] > '9')) return {};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return {};
  if (error == std::errc::result_out_of_range) {
    // Too small is zero, too large infinite, as strtod has it.
    const bool tiny =
        text.find("e-") != std::string_view::npos || text.find("E-") != std::string_view::npos;
    const double magnitude = tiny ? 0.0 : std::numeric_limits<double>::infinity();
    return digit ? -magnitude : magnitude;
  }
  if (error != std::errc()) return {};
  return value;
}

std::optional<std::complex<double>> ParseComplex(std::string_view text) {
  if (text.size() < 2 || text.back() != 'j') return {};
  text.remove_suffix(1);
  // The imaginary part begins at the last sign that is not an exponent's; "+-" is one sign.
  for (size_t i = text.size(); i-- > 1;) {
    if (text[i] != '+' && text[i] != '-') continue;
    if (text[i - 1] == 'e' || text[i - 1] == 'E') continue;
    size_t split = i;
    if (text[i] == '-' && text[i - 1] == '+') --split;
    const std::string_view imaginary = text.substr(text[split] == '+' ? split + 1 : split);
    const auto real = ParseFloat(text.substr(0, split));
    const auto imag = ParseFloat(imaginary);
    if (!real || !imag) return {};
    return std::complex<double>(*real, *imag);
  }
  const auto imag = ParseFloat(text);
  if (!imag) return {};
  return std::complex<double>(0, *imag);
}

}  // namespace oort
