// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "chat_template/interpreter.h"

namespace oort::jinja {

using Filter = Value (*)(Interpreter&, Arguments&);

/// Each null where the name is another's.
Filter FindTextFilter(std::string_view name);
Filter FindSequenceFilter(std::string_view name);

}  // namespace oort::jinja
