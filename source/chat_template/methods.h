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

/// Python's str.replace; a negative count replaces all.
std::string ReplaceText(Budget& budget, const std::string& text, const std::string& from,
                        const std::string& to, int64_t count);
/// Lines as str.splitlines cuts them.
std::vector<std::string> SplitLines(std::string_view text, bool keep_ends);

}  // namespace oort::jinja
