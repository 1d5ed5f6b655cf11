// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat_template/value.h"

namespace oort::jinja {

bool IsStringMethod(std::string_view name);
Value CallStringMethod(Interpreter& self, const std::string& name, const Value& text,
                       Arguments& arguments);

/// Python's str.replace on two strings; a negative count replaces all.
MarkedText ReplaceText(Budget& budget, const Value& text, const std::string& from, const Value& to,
                       int64_t count);
/// Lines as str.splitlines cuts them.
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);

}  // namespace oort::jinja
