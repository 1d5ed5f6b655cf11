// SPDX-License-Identifier: MIT
// Numbers as pnnx writes them; independent of the locale.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace oort {

/// "0.5", "1.000000e-5", "inf", "nan.0": what pnnx writes and reads back to the same f32 or f64.
std::string FormatFloat(double value);
std::string FormatComplex(std::complex<double> value);

/// The whole text as an integer, a float ("1.", ".5", "1e5", "inf", "-inf", "nan", "nan.0") or a
/// complex number ("1.0e+00+-2.0e+00j", "3j"); nothing if it is none.
std::optional<int64_t> ParseInt(std::string_view text);
std::optional<double> ParseFloat(std::string_view text);
std::optional<std::complex<double>> ParseComplex(std::string_view text);

}  // namespace oort
