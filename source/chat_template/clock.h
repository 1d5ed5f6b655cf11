// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

#include "chat_template/interpreter.h"

namespace oort::jinja {

/// The local time of this machine.
Clock SystemClock();
/// What Python's strftime writes, in English whatever the locale; throws for a letter it does not
/// know.
std::string FormatTime(std::string_view format, const Clock& time);

}  // namespace oort::jinja
