// SPDX-License-Identifier: MIT
#pragma once

#include "chat_template/value.h"

namespace oort::jinja {

Value Negate(const Value& value, bool minus);
bool CompareBy(Budget& budget, std::string_view op, const Value& left, const Value& right);
/// Python's object[start:stop:step], where none stands for a bound that is left out.
Value Slice(Budget& budget, const Value& object, const Value& start, const Value& stop,
            const Value& step);
/// Of a string or a sequence; 0 <= index < length.
Value ItemAt(Budget& budget, const Value& object, int64_t index);
/// Text with & < > " ' as HTML writes them.
std::string Escape(std::string_view text);
/// What text % arguments gives, and text.format(…).
std::string FormatPercent(Budget& budget, const std::string& format, const Value& values);
std::string FormatBraces(Interpreter& interpreter, const std::string& format, Arguments& arguments);

}  // namespace oort::jinja
