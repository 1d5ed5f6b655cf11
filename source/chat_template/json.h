// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "chat_template/value.h"

namespace oort::jinja {

/// The value of a JSON text, keys in their order; `what` names the text in errors. `user`: its
/// strings came from a request.
Value ParseJson(Budget* budget, std::string_view json, std::string_view what, bool user);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

/// What Python's json.dumps writes.
std::string DumpJson(Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace oort::jinja
